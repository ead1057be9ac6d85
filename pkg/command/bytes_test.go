package command_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// thorough are settings that make the smoke recipe use everything whose order
// could matter: several optimizer steps, a reference policy that is
// refreshed, rollouts of an older policy.
var thorough = []string{
	"schedule.iterations=3", "schedule.staleness=1", "loss.mini_batches=2", "loss.epochs=2",
	"loss.kl.coef=0.05", "loss.kl.ref_every=2", "loss.kl.ref_alpha=0.5", "evaluation.every=1",
}

// How the work is cut, how many cores do it, what interrupts it and which
// instruction set computes it must not change what comes out.
func TestSameBytes(t *testing.T) {
	settings := slices.Concat(thorough, []string{"rollout.shards=1", "schedule.gradient_shards=1", "resources.threads=1"})
	reference := filepath.Join(t.TempDir(), "reference")
	lathe(t, exitcode.OK, runArgs(reference, smoke, settings...)...)
	clean(t, reference)
	want := essence(t, reference)
	t.Logf("%d digests, policy %s", len(want), want["policy/v000003"])

	type variant struct {
		name     string
		settings []string
		env      []string
		flags    []string
	}
	cases := []variant{
		{name: "GOMAXPROCS 1 with 2 threads", settings: []string{"resources.threads=2"}, env: []string{"GOMAXPROCS=1"}},
		{name: "one core", flags: []string{"--cores", "1"}},
		{name: "3 rollout shards, 4 gradient shards, one warm start chunk", settings: []string{"rollout.shards=3", "schedule.gradient_shards=4", "warm_start.chunk=100"}},
		{name: "8 rollout shards, 3 gradient shards, 5 evaluation shards, other warm start chunks", settings: []string{
			"rollout.shards=8", "schedule.gradient_shards=3", "evaluation.shards=5", "warm_start.chunk=30",
		}},
	}
	// Each of the instruction sets computes one of them; the pure Go kernels are too
	// slow for that, and have a test of their own below.
	sets := slices.DeleteFunc(vec.AvailableISAs(), func(isa string) bool { return isa == "go" })
	for i, isa := range sets {
		if i == len(cases) {
			cases = append(cases, variant{})
		}
		cases[i].name += ", instruction set " + isa
		cases[i].env = append(cases[i].env, "LATHE_ISA="+isa)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "run")
			args := append(runArgs(dir, smoke, slices.Concat(settings, c.settings)...), c.flags...)
			if e := execute(t, c.env, "lathe", args...); e.code != exitcode.OK {
				t.Fatalf("exit code %d\n%s", e.code, e.stderr)
			}
			if diff := cmp.Diff(want, essence(t, dir)); diff != "" {
				t.Errorf("digests (-reference +now):\n%s", diff)
			}
		})
	}
	t.Run("stopped and continued", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "run")
		stopped := 0
		for wait := 100 * time.Millisecond; ; wait += wait / 4 {
			code, stderr := stopAfter(t, wait, runArgs(dir, smoke, settings...)...)
			if code == exitcode.OK {
				break
			}
			if code < 0 && stderr == "" {
				continue // on a busy machine it had not begun to listen for signals
			}
			if code != exitcode.Stopped {
				t.Fatalf("exit code %d of a run that was stopped\n%s", code, stderr)
			}
			stopped++
		}
		t.Logf("stopped %d times", stopped)
		if stopped == 0 {
			t.Error("the run ended before it could be stopped")
		}
		clean(t, dir)
		if diff := cmp.Diff(want, essence(t, dir)); diff != "" {
			t.Errorf("digests (-reference +now):\n%s", diff)
		}
	})
	t.Run("tasks by hand in random order", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "run")
		byHand(t, dir, slices.Concat(settings, []string{"rollout.shards=5", "schedule.gradient_shards=2"}))
		clean(t, dir)
		if diff := cmp.Diff(want, essence(t, dir)); diff != "" {
			t.Errorf("digests (-reference +now):\n%s", diff)
		}
	})
}

// The pure Go kernels are slow, so they get a shorter run; so do products in bfloat16,
// on every instruction set, with other shards and threads.
func TestSameBytesShort(t *testing.T) {
	t.Parallel()
	short := slices.Concat(thorough, []string{
		"warm_start.steps=4", "warm_start.chunk=2", "schedule.iterations=2", "loss.epochs=1", "evaluation.every=2", "evaluation.problems=4", "evaluation.samples=1",
	})
	digests := func(isa string, settings ...string) map[string]string {
		dir := filepath.Join(t.TempDir(), "run")
		if e := execute(t, []string{"LATHE_ISA=" + isa}, "lathe", runArgs(dir, smoke, slices.Concat(short, settings)...)...); e.code != exitcode.OK {
			t.Fatalf("exit code %d\n%s", e.code, e.stderr)
		}
		return essence(t, dir)
	}
	widest := vec.Active().String()
	if diff := cmp.Diff(digests(widest), digests("go")); diff != "" {
		t.Errorf("digests (-%s +go):\n%s", widest, diff)
	}
	want := digests(widest, "policy.compute=bfloat16")
	for _, isa := range vec.AvailableISAs() {
		got := digests(isa, "policy.compute=bfloat16", "rollout.shards=3", "schedule.gradient_shards=3", "resources.threads=2")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("digests in bfloat16 (-%s +%s, in other shards):\n%s", widest, isa, diff)
		}
	}
}

// stopAfter starts lathe, sends it SIGTERM after a while and returns how it
// ended.
func stopAfter(t *testing.T, wait time.Duration, args ...string) (code int, stderr string) {
	t.Helper()
	cmd := exec.Command("lathe", args...)
	var text bytes.Buffer
	cmd.Stderr = &text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(wait, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer timer.Stop()
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode(), text.String()
}

// byHand makes a run and carries its tasks out as a person would, each by its
// own command line, in an order of chance.
func byHand(t *testing.T, dir string, settings []string) {
	t.Helper()
	resolved, err := recipe.Load(smoke, settings)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := rundir.Create(t.Context(), graph.Dir(dir), resolved, seal.AttemptFromEnv(), "test")
	if err != nil {
		t.Fatal(err)
	}
	order := rand.New(rand.NewPCG(1, uint64(os.Getpid())))
	surveyor := survey.New(opened.Graph)
	for {
		surveyor.Refresh()
		found, err := drive.CloseAll(t.Context(), opened, surveyor, seal.AttemptFromEnv(), "test")
		if err != nil {
			t.Fatal(err)
		}
		if found.Done {
			return
		}
		task := found.Ready[order.IntN(len(found.Ready))]
		words := append(opened.Graph.Command("", task.Node), "--shard", strconv.Itoa(task.Shard))
		if e := execute(t, nil, words[0], words[1:]...); e.code != exitcode.OK {
			t.Fatalf("%v: exit code %d\n%s", words, e.code, e.stderr)
		}
	}
}
