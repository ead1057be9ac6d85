package plan

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestInstanceID: rows of plans that are at hand have the ids that stand there, which may be a
// person's own; of others the ids are made, and name their iteration.
func TestInstanceID(t *testing.T) {
	t.Parallel()
	p := &planner{in: Inputs{Plans: map[int][]shard.Instance{2: {{InstanceID: "own"}}}}}
	for ref, want := range map[shard.Ref]string{{Iteration: 2}: "own", {Iteration: 2, Row: 1}: "i000002-000001", {Iteration: 1}: "i000001-000000"} {
		if got := p.instanceID(ref); got != want {
			t.Errorf("%+v: %q, want %q", ref, got, want)
		}
	}
	for id, want := range map[string]int{
		InstanceID(2, 5): 2, InstanceID(1234567, 1234567): 1234567,
		"": 0, "own": 0, "i3": 0, "i2-5": 0, "i000002-000005/1": 0, " i000002-000005": 0, "i-00002-000005": 0,
	} {
		if got := IterationOf(id); got != want {
			t.Errorf("iteration of %q: %d, want %d", id, got, want)
		}
	}
}
