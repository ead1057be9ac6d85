package run_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/run/explain"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

func rowsOf[T shard.Row](t *testing.T, path string) []T {
	t.Helper()
	rows, _, err := shard.Read[T](t.Context(), path, seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// Every instance of a run is explained: its probability is that of the plan, and
// its ancestors lead in as many steps as it is deep to a base task. The first of
// them said what the prompt holds.
func TestExplainARun(t *testing.T) {
	opened := runtest.Finished(t, runtest.Iterating...)
	depths, carried := map[int32]int{}, 0
	for k := 1; k <= 4; k++ {
		manifest, err := seal.Read(t.Context(), opened.Dir.Plan(k), seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rowsOf[shard.Instance](t, opened.Dir.Plan(k)) {
			x, err := explain.Explain(t.Context(), opened, k, row.InstanceID)
			if err != nil {
				t.Fatal(err)
			}
			if last := x.Terms[len(x.Terms)-1]; x.Probability != row.Probability || last.Name != "probability" || last.Value != row.Probability {
				t.Errorf("%s: probability %v, terms %v, the plan has %v", row.InstanceID, x.Probability, x.Terms, row.Probability)
			}
			depths[row.Depth]++
			if len(x.Ancestors) != int(row.Depth) || (x.Entry != nil) != (row.Depth > 0) {
				t.Fatalf("%s of depth %d has the ancestors %+v, entry %v", row.InstanceID, row.Depth, x.Ancestors, x.Entry)
			}
			if row.Depth == 0 {
				continue
			}
			if base := x.Ancestors[row.Depth-1]; base.Kind != string(shard.KindInitial) || base.Depth != 0 {
				t.Errorf("%s comes from %+v, want a response to a base task", row.InstanceID, base)
			}
			first := x.Ancestors[0]
			said := first.Said[len(first.Said)-1]
			in := func(m shard.Message) bool { return strings.Contains(m.Content, said) }
			if !slices.ContainsFunc(row.Messages, in) || first.BaseScore != row.BaseScore {
				t.Errorf("%s goes on from %q of quality %v, its prompt is %+v of %v", row.InstanceID, said, first.BaseScore, row.Messages, row.BaseScore)
			}
			cited := func(i seal.Input) bool {
				return strings.HasPrefix(i.Path, opened.Dir.Rel(opened.Dir.Iteration(first.Iteration))+"/rollout/")
			}
			if !slices.ContainsFunc(manifest.Inputs, cited) {
				t.Errorf("plan %d cites no rollout of iteration %d: %+v", k, first.Iteration, manifest.Inputs)
			}
			if first.Iteration < k-1 {
				carried++
			}
		}
	}
	if depths[0] == 0 || depths[2] == 0 || carried == 0 {
		t.Errorf("instances by depth %v, %d go on from earlier iterations: the test shows little", depths, carried)
	}
}
