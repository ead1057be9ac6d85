package run_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/explain"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// extend extends a run by settings, to its end.
func extend(t *testing.T, r *rundir.Run, settings ...string) *rundir.Run {
	t.Helper()
	changed, err := r.Change(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	extended, err := r.Extend(t.Context(), changed, seal.AttemptFromEnv(), "test")
	if err != nil {
		t.Fatal(err)
	}
	runtest.Drive(t, extended)
	return extended
}

// A run that is extended is, to the byte, the run that was made in one go, whatever is said
// of the end of its learning rates.
func TestExtendedIsMadeInOneGo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ settings, more []string }{
		"constant rate":   {[]string{"optimizer.decay=constant", "evaluation.every=1"}, nil},
		"all are kept":    {[]string{"optimizer.decay=constant", "evaluation.every=1"}, []string{"schedule.keep_every=0"}},
		"the rate stays":  {[]string{"optimizer.decay=cosine", "optimizer.min_ratio=0.1", "evaluation.every=1"}, []string{"schedule.decay_ends=[2]"}},
		"the decay moves": {[]string{"optimizer.decay=linear", "evaluation.every=1"}, []string{"schedule.decay_ends=[2,4]"}},
		"stale":           {[]string{"optimizer.decay=constant", "schedule.staleness=1", "evaluation.every=1", "schedule.gradient_shards=2"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			longer := append([]string{"schedule.iterations=4"}, c.more...)
			whole := runtest.Finish(t, runtest.Smoke(), append(slices.Clone(c.settings), longer...)...)
			short := runtest.Finish(t, runtest.Smoke(), append(slices.Clone(c.settings), "schedule.iterations=2")...)
			extended := extend(t, short, longer...)
			runtest.Verified(t, extended)
			if diff := cmp.Diff(sealed(t, whole), sealed(t, extended)); diff != "" {
				t.Errorf("digests (-in one go +extended):\n%s", diff)
			}
			if got := extended.Lineage(); len(got) != 1 || got[0] != "extended from 2 to 4 iterations" {
				t.Errorf("lineage %q", got)
			}
			if again, err := extended.Change(t.Context(), longer); again != nil || err != nil {
				t.Errorf("the same settings again: %v, %v", again, err)
			}
		})
	}
}

// What would change the past is refused, with what to do instead.
func TestWhatDoesNotExtendARun(t *testing.T) {
	t.Parallel()
	r := runtest.Finish(t, runtest.Smoke(), "schedule.iterations=2", "optimizer.decay=cosine", "optimizer.learning_rate=1e-3", "optimizer.warmup_steps=0")
	for setting, want := range map[string][2]string{
		"rollout.group=2":                             {"cannot be extended by rollout.group: was ", "--from "},
		"schedule.iterations=1":                       {"schedule.iterations: got 1, and run ", ""},
		"schedule.iterations=4":                       {"schedule.decay_ends: got [], with which iteration 1 would have learned at rate 0.000854, and it learned at 0.0005", "--set schedule.decay_ends=[2] leaves it where it ended, at 0; --set schedule.decay_ends=[2,4] gives the rest the rates of a run of 4 iterations, from 0.000146 on"},
		"schedule={iterations: 4, decay_ends: [3,4]}": {"schedule.decay_ends: got [3,4], with which iteration 1 ", ""},
		"schedule.iterations=x":                       {"schedule.iterations", ""},
	} {
		_, err := r.Change(t.Context(), []string{setting})
		if exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), want[0]) || !strings.Contains(strings.Join(exitcode.Hints(err), " "), want[1]) {
			t.Errorf("%s: %v with hints %q, want %q", setting, err, exitcode.Hints(err), want)
		}
	}
}

// A run starts from a version of another, with its optimizer and its curriculum's state
// and responses; a third starts from that one. None needs those before it.
func TestForks(t *testing.T) {
	t.Parallel()
	parent := runtest.Finish(t, runtest.Smoke(), append(slices.Clone(runtest.Iterating), "evaluation.every=0")...)
	fork := func(from *rundir.Run, version int, settings ...string) *rundir.Run {
		t.Helper()
		r := runtest.Finish(t, runtest.Smoke(), append(append(slices.Clone(runtest.Iterating), "policy.new=null", "policy.path="+from.Dir.Policy(version),
			"warm_start.steps=0", "start.optimizer=keep", "start.curriculum=keep", "evaluation.every=0", "schedule.iterations=2"), settings...)...)
		runtest.Verified(t, r)
		return r
	}
	child := fork(parent, 3)
	grandchild := fork(child, 1, "optimizer.learning_rate=1e-4")
	for _, c := range []struct {
		r, from *rundir.Run
		version int
		lineage int
	}{{child, parent, 3, 1}, {grandchild, child, 1, 2}} {
		for now, was := range map[string]string{c.r.Dir.Policy(0): c.from.Dir.Policy(c.version), c.r.Dir.Optimizer(0): c.from.Dir.Optimizer(c.version)} {
			if runtest.Digest(t, now) != runtest.Digest(t, was) {
				t.Errorf("%s is not %s", now, was)
			}
		}
		was, now := read[shard.Entry](t, c.from.Dir.State(c.version)), read[shard.Entry](t, c.r.Dir.State(0))
		referring := 0
		for i, e := range now {
			if e.Potential != was[i].Potential || e.TaskID != was[i].TaskID || int(e.LastSampled) != int(was[i].LastSampled)-c.version {
				t.Errorf("entry %+v was %+v", e, was[i])
			}
			if !e.Ref.IsZero() {
				referring++
			}
		}
		if len(was) != len(now) || referring == 0 {
			t.Errorf("%d entries, %d with responses, of %d", len(now), referring, len(was))
		}
		if got := c.r.Lineage(); len(got) != c.lineage || !strings.HasSuffix(got[0], ": policy, optimizer state, curriculum state") {
			t.Errorf("lineage %q", got)
		}
		inherited := 0
		for _, row := range read[shard.Instance](t, c.r.Dir.Plan(1)) {
			x, err := explain.Explain(t.Context(), c.r, 1, row.InstanceID)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(x.Ancestors); n > 0 && x.Ancestors[n-1].Iteration == graph.InheritedIteration && len(x.Ancestors[n-1].Said) > 0 {
				inherited++
			}
		}
		if inherited == 0 {
			t.Error("no prompt continues from a response of the run before")
		}
	}
}

func read[T shard.Row](t *testing.T, path string) []T {
	t.Helper()
	rows, _, err := shard.Read[T](t.Context(), path, seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// What a run cannot start with is one error, before anything is made.
func TestForksThatCannotBe(t *testing.T) {
	t.Parallel()
	parent := runtest.Finish(t, runtest.Smoke(), "schedule.iterations=1", "evaluation.every=0")
	for name, c := range map[string]struct {
		settings   []string
		want, hint string
	}{
		"another curriculum": {[]string{"curriculum.name=uniform", "start.curriculum=keep"}, "the state is of curriculum exit, and this run has uniform", "start.curriculum=fresh"},
		"a warm start's":     {[]string{"policy.path=" + parent.Dir.Policy(0), "start.optimizer=keep"}, "has no optimizer state of version 0", "start.optimizer=fresh"},
		"other states":       {[]string{"optimizer.state=bfloat16", "start.optimizer=keep"}, "optimizer.state float32, and this one has bfloat16", "start.optimizer=fresh"},
		"no run's":           {[]string{"policy.path=" + filepath.Dir(parent.Dir.Policy(0)), "start.optimizer=keep"}, "is not a policy", ""},
		"other tasks":        {[]string{"data.train.generate.kinds=[mul]", "start.curriculum=keep"}, "of tasks that this run does not train on", "start.curriculum=fresh"},
	} {
		resolved := runtest.Load(t, append([]string{"policy.new=null", "policy.path=" + parent.Dir.Policy(1), "warm_start.steps=0"}, c.settings...)...)
		dir := graph.Dir(filepath.Join(t.TempDir(), "run"))
		_, err := rundir.Create(t.Context(), dir, resolved, seal.AttemptFromEnv(), "test")
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(strings.Join(exitcode.Hints(err), " "), c.hint) || len(exitcode.Hints(err)) > 1 {
			t.Errorf("%s: %v with hints %q, want %q", name, err, exitcode.Hints(err), c.want)
		}
	}
}
