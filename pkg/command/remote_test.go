package command_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy/remote/remotetest"
	"github.com/lathe-rl/lathe/pkg/run/worker"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// servePolicy is a server of one policy folder: policy-server FOLDER PORT.
func servePolicy() {
	server := &remotetest.Server{Dialect: "vllm", Folders: func() []string { return os.Args[1:2] }}
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:"+os.Args[2], server))
	os.Exit(1)
}

// remoteSettings are those of a run that samples from a server.
var remoteSettings = []string{
	"schedule.iterations=2", "rollout.shards=2", "loss.truncated_is=2",
	"rollout.remote.backoff_seconds=0.01", "rollout.remote.ready_seconds=30", "rollout.remote.timeout_seconds=20",
}

// TestRemoteRun: a run whose responses a server samples, which fails now and
// then, while the run is stopped and killed and goes on, comes to the same
// policies as one whose tasks each start a server that never fails.
func TestRemoteRun(t *testing.T) {
	served := filepath.Join(t.TempDir(), "served")
	lathe(t, exitcode.OK, runArgs(served, smoke, append(remoteSettings, `rollout.remote.serve=[policy-server, "{policy}", "{port}"]`)...)...)
	clean(t, served)
	want := essence(t, served)
	logs, err := filepath.Glob(filepath.Join(served, "logs", "server-v*.log"))
	if err != nil || len(logs) == 0 {
		t.Errorf("no server left a log: %v", err)
	}

	dir := filepath.Join(t.TempDir(), "run")
	var mutex sync.Mutex
	var interrupt func() // the run that goes on now
	server := &remotetest.Server{Dialect: "vllm", Folders: func() []string {
		versions, err := filepath.Glob(filepath.Join(dir, "policy", "v??????"))
		if err != nil {
			t.Error(err)
		}
		return versions
	}}
	server.Tamper = func(n int, w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
		switch n {
		case 20, 60, 130:
			mutex.Lock()
			defer mutex.Unlock()
			interrupt()
		}
		switch n % 9 {
		case 4:
			http.Error(w, "out of memory", http.StatusInternalServerError)
			return true
		case 7:
			connection, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = connection.Close()
			}
			return true
		}
		return false
	}
	web := httptest.NewServer(server)
	defer web.Close()
	defer server.Close()
	t.Setenv("LATHE_TEST_SERVER_URL", web.URL)
	args := runArgs(dir, smoke, append(remoteSettings, "rollout.remote.url=$LATHE_TEST_SERVER_URL")...)
	interruptions := []os.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM}
	for attempt := 0; ; attempt++ {
		cmd := exec.Command("lathe", args...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		mutex.Lock()
		interrupt = func() {
			if len(interruptions) > 0 {
				_ = cmd.Process.Signal(interruptions[0])
				interruptions = interruptions[1:]
			}
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		mutex.Unlock()
		_ = cmd.Wait()
		code := cmd.ProcessState.ExitCode()
		if code == exitcode.OK {
			break
		}
		if code != exitcode.Stopped && code != -1 || attempt > 5 {
			t.Fatalf("exit code %d at attempt %d\n%s", code, attempt, stderr.String())
		}
	}
	if len(interruptions) > 0 {
		t.Errorf("%d of the interruptions did not happen: the test shows less than it should", len(interruptions))
	}
	clean(t, dir)
	if diff := cmp.Diff(want, essence(t, dir)); diff != "" {
		t.Errorf("digests (-servers of the tasks +server that fails):\n%s", diff)
	}
	checkRemote(t, dir)
}

// checkRemote looks at what a remote run says of itself.
func checkRemote(t *testing.T, dir string) {
	t.Helper()
	r := open(t, dir)
	for k := 1; k <= 2; k++ {
		m, err := seal.Read(t.Context(), r.Dir.Policy(k), seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		// The server is our engine: what it says of its sampling is to the
		// last bit what the learner computes, over JSON and back.
		for name, want := range map[string]float64{
			"sampler_known_share": 1, "sampler_difference_max": 0, "sampler_kl_k1": 0, "sampler_kl_k3": 0, "sampler_beyond_share": 0,
			"correction": 1, "first_step_ratio_deviation_max": 0,
		} {
			if got, ok := m.Metrics[name]; !ok || got != want {
				t.Errorf("iteration %d: %s is %g, want %g", k, name, got, want)
			}
		}
		for n := range 2 {
			rows, m, err := shard.Read[shard.Rollout](t.Context(), r.Dir.Rollout(k, n), seal.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if m.Usage["requests"] < float64(len(rows)) || m.Metrics["infra"] != 0 || m.Metrics["retokenized"] != 0 {
				t.Errorf("rollout %d shard %d: metrics %v", k, n, m.Metrics)
			}
			if slices.ContainsFunc(rows, func(r shard.Rollout) bool { return r.LogProbSource != string(shard.LogProbsServer) }) {
				t.Errorf("rollout %d shard %d does not say that a server sampled it", k, n)
			}
		}
	}
	var replayed []worker.Replayed
	if err := json.Unmarshal([]byte(lathe(t, exitcode.OK, "replay", dir, "--iter", "1", "--stage", "rollout", "--json").stdout), &replayed); err != nil {
		t.Fatal(err)
	}
	for _, output := range replayed {
		if !output.Remote || output.Same || output.Sealed == "" {
			t.Errorf("%+v", output)
		}
	}
	if e := lathe(t, exitcode.OK, "replay", dir, "--iter", "2", "--stage", "learn"); strings.Contains(e.stdout, "remote") || !strings.Contains(e.stdout, "same") {
		t.Errorf("the learner is replayed as %q", e.stdout)
	}
	if e := lathe(t, exitcode.OK, "replay", dir, "--iter", "2", "--stage", "rollout"); !strings.Contains(e.stdout, "remote") || !strings.Contains(e.stderr, "responses of a server") {
		t.Errorf("a rollout is replayed as %q, %q", e.stdout, e.stderr)
	}
}

// TestRemoteServerOfAnotherVersion: a server that was not started anew for the
// iteration is refused with one line.
func TestRemoteServerOfAnotherVersion(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	server := &remotetest.Server{Dialect: "vllm", Folders: func() []string { return []string{filepath.Join(dir, "policy", "v000000")} }}
	web := httptest.NewServer(server)
	defer web.Close()
	defer server.Close()
	settings := append(slices.Clone(remoteSettings), "rollout.remote.url="+web.URL, "rollout.remote.ready_seconds=0.5", "rollout.shards=1")
	e := execute(t, nil, "lathe", runArgs(dir, smoke, append(settings, "warm_start.steps=20")...)...)
	if e.code == exitcode.OK || !strings.Contains(e.stderr, "serves v000000") || !strings.Contains(e.stderr, ", not v00000") {
		t.Errorf("exit code %d\n%s", e.code, e.stderr)
	}
	// A pinned model is sampled from whatever it is, and the learner sees that
	// it is another policy: v000000 where v000001 was to speak.
	pinned := filepath.Join(t.TempDir(), "pinned")
	folders := server.Folders
	server.Folders = func() []string { return []string{filepath.Join(pinned, "policy", "v000000")} }
	defer func() { server.Folders = folders }()
	settings = append(settings, "rollout.remote.model=v000000", "optimizer.learning_rate=1e-2", "evaluation.problems=1", "evaluation.shards=1")
	lathe(t, exitcode.OK, runArgs(pinned, smoke, settings...)...)
	m, err := seal.Read(t.Context(), open(t, pinned).Dir.Policy(2), seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Metrics["sampler_difference"] == 0 || m.Metrics["sampler_known_share"] != 1 {
		t.Errorf("the gap of a stale sampler is %g of %g of the tokens", m.Metrics["sampler_difference"], m.Metrics["sampler_known_share"])
	}
}

// TestEvalOfServedModel: a served model writes programs in a scaffold, and its
// submissions are chosen by validation, as our own policy's are.
func TestEvalOfServedModel(t *testing.T) {
	folder := warmPrograms(t)
	server := &remotetest.Server{Dialect: "openai", Folders: func() []string { return []string{folder} }}
	web := httptest.NewServer(server)
	defer web.Close()
	defer server.Close()
	args := append([]string{"eval", "--recipe", programs, "--policy", folder, "--samples", "2", "--steps", "2"},
		commandtest.Set(append(from(folder), "evaluation.scaffold=greedy_search")...)...)
	text := lathe(t, exitcode.OK, append(args, "--remote", web.URL, "--remote-model", folder)...).stdout
	if server.Requests() < 6 || !strings.Contains(text, "oracle") || !strings.Contains(text, "any medal") {
		t.Errorf("%d requests\n%s", server.Requests(), text)
	}
	lathe(t, exitcode.Usage, append(args, "--remote", web.URL)...) // which model?
}
