package rundir_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

// draw makes a policy of jobs/smoke.yaml in a folder.
func draw(t *testing.T, folder string) string {
	t.Helper()
	resolved := runtest.Load(t)
	environment, err := resolved.Recipe.NewEnv(filepath.Dir(resolved.Path))
	if err == nil {
		err = os.MkdirAll(folder, 0o777)
	}
	if err == nil {
		err = warm.InitPolicy(warm.SettingsOf(resolved.Recipe), environment, folder)
	}
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// sealVersion seals a policy version of a run and its optimizer state, and gives their digests.
func sealVersion(t *testing.T, r *rundir.Run, version int) (policy, optimizer string) {
	t.Helper()
	w, err := seal.CreateFolder(r.Dir.Policy(version), seal.AttemptFromEnv())
	if err != nil {
		t.Fatal(err)
	}
	draw(t, w.Path())
	expected := r.Graph.Expected(graph.Task{Node: r.Graph.LastLearn(version)})
	p, err := w.Commit(expected)
	if err != nil {
		t.Fatal(err)
	}
	o, err := seal.WriteBytes(r.Dir.Optimizer(version), []byte("state"), seal.AttemptFromEnv(), expected)
	if err != nil {
		t.Fatal(err)
	}
	return p.ContentSHA256, o.ContentSHA256
}

// TestVersionOf: RUN/policy/vNNNNNN is a version, and nothing that only looks like one.
func TestVersionOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path    string
		run     graph.Dir
		version int
		ok      bool
	}{
		{"/r/policy/v000012", "/r", 12, true},
		{"/r/policy/v000012/", "/r", 12, true},
		{"/r/policy/v12", "/r", 12, false},
		{"/r/policy/000012", "/r", 12, false},
		{"/r/policies/v000012", "/r", 12, false},
		{"/r/policy/base", "/r", 0, false},
		{"/r/policy/vx", "/r", 0, false},
	} {
		run, version, ok := rundir.VersionOf(c.path)
		if ok != c.ok || ok && (run != c.run || version != c.version) {
			t.Errorf("%s: version %d of %s, %v", c.path, version, run, ok)
		}
	}
}

// TestParseVersion: RUN@VERSION is the policy's folder, if it is there.
func TestParseVersion(t *testing.T) {
	t.Parallel()
	r := runtest.Create(t, runtest.Smoke(), "schedule.iterations=3")
	for _, version := range []int{0, 2, 3} {
		sealVersion(t, r, version)
	}
	if _, err := seal.Prune(t.Context(), r.Dir.Policy(2)); err != nil {
		t.Fatal(err)
	}
	run := string(r.Dir)
	for _, c := range []struct {
		text, want string // the folder
		err        string // in the error and its hints
	}{
		{run, r.Dir.Policy(3), ""},
		{run + "@v000003", r.Dir.Policy(3), ""},
		{run + "@0", r.Dir.Policy(0), ""},
		{run + "@v4", "", `--from: got version "v4", and run ` + fmt.Sprintf("%q", run) + " has versions v000000 to v000003"},
		{run + "@-1", "", `got version "-1"`},
		{run + "@", "", `got version ""`},
		{run + "@vv1", "", `got version "vv1"`},
		{run + "@1", "", "has not made version v000001 yet\nls " + filepath.Dir(r.Dir.Policy(1)) + " shows"},
		{run + "@2", "", fmt.Sprintf("version v000002 of run %q was pruned\nmake it again: lathe prune %s --restore 2", run, run)},
		{t.TempDir() + "@1", "", "--from: "},
	} {
		got, err := rundir.ParseVersion(t.Context(), c.text)
		if got != c.want || (err == nil) != (c.err == "") || !strings.Contains(said(err), c.err) {
			t.Errorf("%s: %q, %s; want %q, %q", c.text, got, said(err), c.want, c.err)
		}
	}
}

// fork are the settings of a run that starts from a policy.
func fork(policy string, more ...string) []string {
	return append([]string{"policy.new=null", "warm_start.steps=0", "policy.path=" + policy}, more...)
}

// TestOrigin: what a run from a version of another pins of that, and what it is refused for.
func TestOrigin(t *testing.T) {
	t.Parallel()
	parent := runtest.Create(t, runtest.Smoke(), "optimizer.state=bfloat16")
	policy, optimizer := sealVersion(t, parent, 1)
	one := parent.Dir.Policy(1)
	fresh := func() graph.Dir { return graph.Dir(filepath.Join(t.TempDir(), "run")) }
	create := func(settings ...string) (*rundir.Run, error) {
		return rundir.Create(t.Context(), fresh(), runtest.Load(t, settings...), seal.AttemptFromEnv(), "test")
	}
	keeps := []string{"start.optimizer=keep", "optimizer.state=bfloat16"}
	child, err := create(fork(one, keeps...)...)
	if err != nil {
		t.Fatal(err)
	}
	want := &rundir.Origin{Run: string(parent.Dir), RunID: parent.Identity.RunID, Version: 1, PolicySHA256: policy, OptimizerSHA256: optimizer}
	if diff := cmp.Diff(want, child.Identity.Origin); diff != "" {
		t.Errorf("origin (-want +got):\n%s", diff)
	}
	// What the optimizer begins without is not pinned; where that run came from is.
	sealVersion(t, child, 2)
	grandchild, err := create(fork(child.Dir.Policy(2))...)
	if err != nil {
		t.Fatal(err)
	}
	if o := grandchild.Identity.Origin; o == nil || o.Version != 2 || o.OptimizerSHA256 != "" || cmp.Diff(want, o.From) != "" {
		t.Errorf("origin %+v", o)
	}
	lora := runtest.Create(t, runtest.Smoke(), "policy.lora={rank: 2, alpha: 4}", "loss.kl.ref_every=0")
	sealVersion(t, lora, 1)
	critic := runtest.Create(t, runtest.Smoke(), "policy.critic=head", "advantage.name=gae", "advantage.baseline=none", "advantage.scale=none", "factors=[]")
	sealVersion(t, critic, 1)
	without := runtest.Create(t, runtest.Smoke())
	sealVersion(t, without, 1)
	if err := seal.Remove(without.Dir.Optimizer(1)); err != nil {
		t.Fatal(err)
	}
	mixed := runtest.Create(t, runtest.Smoke())
	sealVersion(t, mixed, 1)
	err = seal.Remove(mixed.Dir.Optimizer(1))
	if err == nil { // another version's in its place
		_, err = seal.WriteBytes(mixed.Dir.Optimizer(1), []byte("state"), seal.AttemptFromEnv(), mixed.Graph.Expected(graph.Task{Node: mixed.Graph.LastLearn(2)}))
	}
	if err != nil {
		t.Fatal(err)
	}
	moved := graph.Dir(t.TempDir()) // a version outside a run
	draw(t, moved.Policy(1))
	foreign := runtest.Create(t, runtest.Smoke(), "seed=5")
	sealVersion(t, foreign, 2) // in the place of another version
	if err := errors.Join(os.Rename(foreign.Dir.Policy(2), foreign.Dir.Policy(1)), os.Rename(seal.ManifestPath(foreign.Dir.Policy(2)), seal.ManifestPath(foreign.Dir.Policy(1)))); err != nil {
		t.Fatal(err)
	}
	damaged := runtest.Create(t, runtest.Smoke())
	sealVersion(t, damaged, 1)
	if err := os.Truncate(damaged.Dir.Recipe(), 5); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		settings []string
		want     string // in the error and its hints; empty for a run without an origin
	}{
		{fork(moved.Policy(1)), ""},
		{fork(moved.Policy(1), "start.optimizer=keep"), "is not a policy version of a run"},
		{fork(moved.Policy(1), "start.curriculum=keep"), "is not a policy version of a run"},
		{fork(one, "start.optimizer=keep"), "has optimizer.state bfloat16, and this one has float32\nto begin without: --set start.optimizer=fresh"},
		{fork(lora.Dir.Policy(1), "start.optimizer=keep"), "is of an adapter, which a new run does not continue\nto begin without"},
		{fork(critic.Dir.Policy(1), "start.optimizer=keep"), "was trained with policy.critic head, and this one has none\nto begin without"},
		{fork(without.Dir.Policy(1), "start.optimizer=keep"), "has no optimizer state of version 1\n"},
		{fork(mixed.Dir.Policy(1), "start.optimizer=keep"), "start.optimizer: "},
		{fork(foreign.Dir.Policy(1)), "policy.path: "},
		{fork(damaged.Dir.Policy(1)), "opening the run that policy.path is of: "},
		{fork(one, "start.curriculum=keep"), "start.curriculum: "},
	} {
		r, err := create(c.settings...)
		if (err == nil) != (c.want == "") || !strings.Contains(said(err), c.want) || err == nil && r.Identity.Origin != nil {
			t.Errorf("%v: %+v, %s; want %q", c.settings, r, said(err), c.want)
		}
	}
}

// TestInherited: a run that goes on with the curriculum of another has its entries and
// statistics under names of their own, and the responses and scores that they continue
// from; iterations count back from the version's. The instances are two, of iteration 1
// row 2 and of iteration 2 row 5, the second's in a wave.
func TestInherited(t *testing.T) {
	t.Parallel()
	parent := runtest.Create(t, runtest.Smoke(), "rollout.prompts=8", "rollout.shards=2")
	tasks, _, err := shard.Read[shard.TaskRow](t.Context(), parent.Dir.Tasks(), seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var train string
	for _, task := range tasks {
		if task.Split == "train" {
			train = task.TaskID
		}
	}
	sealVersion(t, parent, 2)
	id, p := parent.Identity.RunID, parent.Dir
	buffer := graph.Task{Node: runtest.Node(graph.StageBuffer, 2)}
	early, late := runtest.Node(graph.StageRollout, 1), graph.Node{Stage: graph.StageRollout, Iteration: 2, Wave: 1}
	said1, said2 := p.Sampled(early, 0), p.Sampled(late, 1) // rows 0 to 3 are of shard 0, 4 to 7 of shard 1
	scored1, scored2 := p.Sampled(early.Judging(), 0), p.Sampled(late.Judging(), 1)
	one, two := shard.Ref{Iteration: 1, Row: 2, Sample: 1}, shard.Ref{Iteration: 2, Row: 5, Step: 3, Wave: 1, Messages: 2}
	again := one
	again.Sample = 0
	inputs := []seal.Input{
		{Path: p.State(2), ContentSHA256: sealRows(t, parent, buffer, p.State(2),
			shard.Entry{EntryID: "t", TaskID: train, LastSampled: 2},
			shard.Entry{EntryID: "a", ParentID: "i000001-000002", TaskID: train, Ref: one, LastSampled: 1},
			shard.Entry{EntryID: "b", ParentID: "i000001-000002", TaskID: train, Ref: again},
			shard.Entry{EntryID: "c", ParentID: "i000002-000005", TaskID: train, Ref: two, Potential: 0.25})},
		{Path: p.Stats(2), ContentSHA256: sealRows(t, parent, buffer, p.Stats(2), shard.Stat{Key: "a", Iteration: 1, Value: 3}, shard.Stat{Key: "t", Iteration: 2})},
		{Path: said1, ContentSHA256: sealRows(t, parent, graph.Task{Node: early}, said1,
			shard.Rollout{InstanceID: "i000001-000001", Sample: 1}, shard.Rollout{InstanceID: "i000001-000002", Sample: 0, Turns: 7},
			shard.Rollout{InstanceID: "i000001-000002", Sample: 1}, shard.Rollout{InstanceID: "i000001-000002", Sample: 1, Step: 1}, shard.Rollout{InstanceID: "i000001-000002", Sample: 2})},
		{Path: scored1, ContentSHA256: sealRows(t, parent, graph.Task{Node: early.Judging()}, scored1,
			shard.Score{InstanceID: "i000001-000001", Sample: 1, Turns: []shard.TurnScore{{}}}, shard.Score{InstanceID: "i000001-000002", Sample: 0, Turns: []shard.TurnScore{{Step: 1}}},
			shard.Score{InstanceID: "i000001-000002", Sample: 1, Turns: []shard.TurnScore{{Step: 1}, {}}}, shard.Score{InstanceID: "i000001-000002", Sample: 2, Turns: []shard.TurnScore{{}}})},
		{Path: said2, ContentSHA256: sealRows(t, parent, graph.Task{Node: late, Shard: 1}, said2,
			shard.Rollout{InstanceID: "i000002-000005", Step: 2}, shard.Rollout{InstanceID: "i000002-000005", Step: 3}, shard.Rollout{InstanceID: "i000001-000002", Step: 3})},
		{Path: scored2, ContentSHA256: sealRows(t, parent, graph.Task{Node: late.Judging(), Shard: 1}, scored2, shard.Score{InstanceID: "i000002-000005", Reward: 0.5, Turns: []shard.TurnScore{{Step: 3}}})},
	}
	settings := fork(p.Policy(2), "start.curriculum=keep")
	rehearse := func(more ...string) error {
		_, err := rundir.Rehearse(t.Context(), graph.Dir(filepath.Join(t.TempDir(), "run")), runtest.Load(t, append(settings, more...)...))
		return err
	}
	for _, c := range []struct{ setting, want string }{
		{"curriculum.name=uniform", "the state is of curriculum exit, and this run has uniform\nto begin without: --set start.curriculum=fresh"},
		{"data.train.generate.kinds=[mul]", fmt.Sprintf("4 of 4 entries of the state are of tasks that this run does not train on, such as %s, %[1]s, %[1]s\nto begin", train)},
	} {
		if err := rehearse(c.setting); !strings.Contains(said(err), c.want) {
			t.Errorf("%s: %s; want %q", c.setting, said(err), c.want)
		}
	}
	for _, input := range inputs {
		manifest := seal.ManifestPath(input.Path)
		if err := os.Rename(manifest, manifest+".away"); err != nil {
			t.Fatal(err)
		}
		if err := rehearse(); !errors.Is(err, seal.ErrNotSealed) || !strings.Contains(err.Error(), "start.curriculum: ") || !strings.Contains(err.Error(), input.Path) {
			t.Errorf("without %s: %v", input.Path, err)
		}
		if err := os.Rename(manifest+".away", manifest); err != nil {
			t.Fatal(err)
		}
	}
	child := runtest.Create(t, runtest.Smoke(), settings...)
	if got := child.Identity.Origin.StateSHA256; got != inputs[0].ContentSHA256 || child.Identity.Origin.OptimizerSHA256 != "" {
		t.Errorf("origin %+v", child.Identity.Origin)
	}
	ref := func(row, sample, step, messages int32) shard.Ref {
		return shard.Ref{Iteration: -1, Row: row, Sample: sample, Step: step, Messages: messages}
	}
	same(t, child, inputs, "state",
		shard.Entry{EntryID: "t", TaskID: train},
		shard.Entry{EntryID: id + ":a", ParentID: id + ":i000001-000002", TaskID: train, Ref: ref(0, 1, 0, 0), LastSampled: -1},
		shard.Entry{EntryID: id + ":b", ParentID: id + ":i000001-000002", TaskID: train, Ref: ref(0, 0, 0, 0), LastSampled: -2},
		shard.Entry{EntryID: id + ":c", ParentID: id + ":i000002-000005", TaskID: train, Ref: ref(1, 0, 3, 2), Potential: 0.25, LastSampled: -2})
	same(t, child, inputs, "stats", shard.Stat{Key: id + ":a", Iteration: -1, Value: 3}, shard.Stat{Key: "t"})
	row := func(row int) string { return fmt.Sprintf("i%06d-%06d", -1, row) }
	same(t, child, inputs, "rollout", shard.Rollout{InstanceID: row(0), Turns: 7}, shard.Rollout{InstanceID: row(0), Sample: 1}, shard.Rollout{InstanceID: row(1), Step: 3})
	same(t, child, inputs, "score",
		shard.Score{InstanceID: row(0), Sample: 1, Turns: []shard.TurnScore{{Step: 1}, {}}}, shard.Score{InstanceID: row(1), Reward: 0.5, Turns: []shard.TurnScore{{Step: 3}}})
	rollout, score := child.Responses(ref(0, 0, 0, 0))
	if rollout != child.Dir.Inherited("rollout") || score != child.Dir.Inherited("score") {
		t.Errorf("inherited responses are in %s and %s", rollout, score)
	}
}

// same checks what a run has taken over: the rows of a file, and what it cites.
func same[T shard.Row](t *testing.T, r *rundir.Run, inputs []seal.Input, name string, want ...T) {
	t.Helper()
	got, m, err := shard.Read[T](t.Context(), r.Dir.Inherited(name), seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plain, _, err := shard.Read[T](t.Context(), rows(t, want), seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plain, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
	if diff := cmp.Diff(inputs, m.Inputs); diff != "" || m.Run != r.Identity.RunID {
		t.Errorf("%s is of run %s and cites (-want +got):\n%s", name, m.Run, diff)
	}
}

// rows writes rows into a file of their own: what is read of it has empty lists as the
// format keeps them.
func rows[T shard.Row](t *testing.T, rows []T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.parquet")
	write(t, path, rows)
	return path
}
