package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
)

// Prompts are drawn from the kinds of tasks that the curriculum names, and from
// all without a name.
func TestKindsOfPrompts(t *testing.T) {
	t.Parallel()
	drawn := func(kinds string) ([]string, error) {
		f := stagetest.NewReduction(t, 1, "data.train.generate.kinds=[add, sub]", "curriculum.kinds="+kinds)
		f.In.PlanRows = 60 // as many as there are tasks
		f.Shard("a", f.Rows, stagetest.Scores(0, 1))
		if err := f.Try(); err != nil {
			return nil, err
		}
		var kindsDrawn []string
		for _, instance := range stagetest.Read[shard.Instance](f.Rig, f.In.PlanOutputs[0].Path) {
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
	f := stagetest.NewReduction(t, 1, "curriculum.kinds=[mul]")
	f.In.Iteration, f.In.PlanOutputs = 0, nil
	f.Check(f.Try())
}

// The responses that the policy is asked to improve are those of the iteration
// that has just ended, by the reference that the prompts are made from.
func TestPreviousSolutions(t *testing.T) {
	t.Parallel()
	f := stagetest.Traces(t, "smoke")
	f.Set("previous", "curriculum.name=previous", "curriculum.previous.improve=1")
	f.In.PlanRows = 8
	f.Run()
	entries := stagetest.Read[shard.Entry](f.Rig, f.In.StateOutput)
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.EntryID)
	}
	var want []string
	for _, instance := range f.Rows {
		for _, sample := range []int{0, 2} { // the valid ones, each in one context of an instance's messages and three more
			want = append(want, fmt.Sprintf("%s/%d/0/%d", instance.InstanceID, sample, len(instance.Messages)+3))
		}
	}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("solutions (-want +got):\n%s", diff)
	}
	for i, instance := range stagetest.Read[shard.Instance](f.Rig, f.In.PlanOutputs[0].Path) {
		if instance.Kind != string(shard.KindImprove) || !slices.Contains(ids, instance.ParentID) || instance.Probability != .25 || instance.Depth != 1 {
			t.Errorf("prompt %d: %+v", i, instance)
		}
	}
}
