package buffer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
)

// Prompts are drawn from the kinds of tasks that the curriculum names, and from
// all without a name.
func TestKindsOfPrompts(t *testing.T) {
	t.Parallel()
	drawn := func(kinds string) ([]string, error) {
		f := newReduction(t, 1, "data.train.generate.kinds=[add, sub]", "curriculum.kinds="+kinds)
		f.in.PlanRows = 60 // as many as there are tasks
		f.shard("a", f.plan, scores(0, 1))
		if err := f.try(); err != nil {
			return nil, err
		}
		var kindsDrawn []string
		for _, instance := range stagetest.Read[shard.Instance](f.Rig, f.in.PlanOutputs[0].Path) {
			task, _ := f.Env.Set().Task(instance.TaskID)
			kindsDrawn = append(kindsDrawn, task.Kind)
		}
		slices.Sort(kindsDrawn)
		return slices.Compact(kindsDrawn), nil
	}
	for kinds, want := range map[string][]string{
		"[]": {"add", "sub"}, "[sub]": {"sub"}, "[s*]": {"sub"}, "[sub, add]": {"add", "sub"},
	} {
		if got, err := drawn(kinds); err != nil || !slices.Equal(got, want) {
			t.Errorf("curriculum.kinds %s draws %q and %v, want %q", kinds, got, err, want)
		}
	}
	_, err := drawn("[mul]")
	if exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), `no training task of a kind in curriculum.kinds ["mul"]`) {
		t.Errorf("kinds that no task has: %v", err)
	}

	// Where nothing is ever sampled, none are looked for.
	f := newReduction(t, 1, "curriculum.kinds=[mul]")
	f.in.Iteration, f.in.PlanOutputs = 0, nil
	f.Check(f.try())
}
