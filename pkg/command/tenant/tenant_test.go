package tenant

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command"
	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/task"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/sandbox"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
)

// TestMain lets this test's program stand in for the binaries: those of a
// module that imports the tenant, and nothing else of its own.
func TestMain(m *testing.M) {
	sandbox.Enter()
	binary := func(app func() *cli.App) func() {
		return func() { os.Exit(cmdline.Main(app(), os.Args)) }
	}
	testscript.Main(m, map[string]func(){
		"lathe":         binary(command.Lathe),
		"lathe-rollout": binary(task.Rollout),
		"lathe-score":   binary(task.Score),
		"lathe-buffer":  binary(task.Buffer),
		"lathe-learn":   binary(task.Learn),
	})
}

// lathe runs the operator's command and wants an exit code.
func lathe(t *testing.T, code int, args ...string) string {
	t.Helper()
	cmd := exec.Command("lathe", args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("lathe %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, out)
	}
	return string(out)
}

func read[T shard.Row](t *testing.T, path string) []T {
	t.Helper()
	rows, _, err := shard.Read[T](t.Context(), path, seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

const recipe = "testdata/tenant.yaml"

// TestRun: a run of nothing but the tenant's choices goes from its tasks to its
// last policy, replays, and is the same from other shards. Each choice has left
// what it alone leaves.
func TestRun(t *testing.T) {
	t.Parallel()
	one, other := graph.Dir(filepath.Join(t.TempDir(), "one")), graph.Dir(filepath.Join(t.TempDir(), "other"))
	lathe(t, 0, "run", recipe, "--run", string(one))
	lathe(t, 0, "run", recipe, "--run", string(other), "--set", "rollout.shards=3", "--set", "evaluation.shards=2")
	lathe(t, 0, "verify", string(one))

	var digests []string
	for _, dir := range []graph.Dir{one, other} {
		m, err := seal.Read(t.Context(), dir.Policy(2), seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, m.ContentSHA256)
	}
	if digests[0] != digests[1] {
		t.Errorf("policies from 2 and 3 shards: %s and %s", digests[0], digests[1])
	}

	for _, instance := range read[shard.Instance](t, one.Plan(2)) {
		if instance.Env != "tenant-letters" || instance.SelectedBy != "worst" {
			t.Fatalf("plan: environment %q, selected by %q", instance.Env, instance.SelectedBy)
		}
	}
	for _, trace := range shard.Traces(read[shard.Rollout](t, one.Rollout(1, 0))) {
		if last := trace[len(trace)-1]; last.Step != 1 {
			t.Errorf("the scaffold's second attempt is missing: the last is %d", last.Step)
		}
	}
	reasons := map[string]int{}
	for _, row := range read[shard.LedgerRow](t, one.Ledger(1)) {
		reasons[row.Reason]++
		if row.Segment > 1 {
			t.Errorf("ledger: segment %d of two halves", row.Segment)
		}
	}
	if reasons["tenant-odd"] != 4*2 { // of 4 samples the last is odd and from 2 on
		t.Errorf("ledger: %v", reasons)
	}
	stats := map[string]int{}
	for _, s := range read[shard.Stat](t, one.Stats(2)) {
		stats[s.Axis+" "+s.Name]++
	}
	if stats[shard.StatReward+" mean"] != 1 || stats[shard.StatCurriculum+" quality"] == 0 {
		t.Errorf("statistics: %v", stats)
	}
	batch, _, err := arrowfile.ReadBatch(t.Context(), one.Batch(1), seal.Options{})
	if err != nil || len(batch) == 0 {
		t.Fatalf("batch of %d sequences: %v", len(batch), err)
	}
	var weight float64
	for _, s := range batch {
		for i, turn := range s.Turns {
			if s.LossMask[i] {
				weight += s.TurnWeights[turn]
			}
		}
		for _, a := range s.TurnAdvantages {
			if a != .5*.75 && a != .5*-.25 { // rewards of 1 and 0, less 0.25, halved
				t.Errorf("advantage %v", a)
			}
		}
	}
	if math.Abs(weight-.5) > 1e-12 { // of a mean, halved
		t.Errorf("the weights of the step sum to %v", weight)
	}
}

// TestRefused: a tenant's settings are checked like any other.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ setting, want string }{
		{"env.turns=0", "env.turns: must be 1 or more (0)"},
		{"select.tenant-odd.from=-1", "select.tenant-odd.from: must be 0 or more (-1)"},
		{"curriculum.name=tenant-wurst", "curriculum.name"},
		{"env.prompts.initial=x", "env.prompts"},
	} {
		if out := lathe(t, 64, "run", recipe, "--run", filepath.Join(t.TempDir(), "run"), "--set", c.setting); !strings.Contains(out, c.want) {
			t.Errorf("--set %s: %s", c.setting, out)
		}
	}
}
