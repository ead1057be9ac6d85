package ace

import (
	"fmt"
	"testing"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// BenchmarkStep is one step of training: 64 groups of 8 are folded in, and 64 states are
// drawn, of buffers of which one state in eight has been visited.
func BenchmarkStep(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("%d-states", n), func(b *testing.B) {
			tasks := make([]string, 134)
			for i := range tasks {
				tasks[i] = fmt.Sprintf("task-%d", i)
			}
			a := New(*DefaultSettings(), 1)
			state, err := a.Update(curriculum.State{}, 1, nil, tasks)
			if err != nil {
				b.Fatal(err)
			}
			for i := len(state.Entries); i < n; i++ {
				e := shard.Entry{EntryID: fmt.Sprintf("i%06d-%06d/%d", i/64, i%64, i%8), TaskID: tasks[i%134], Kind: []string{"debug", "improve"}[i%2], Potential: float64(i%9973) / 9973}
				if i%8 == 0 {
					e.LastSampled, e.Visits = int32(i/64), 1
					state.Stats = append(state.Stats, shard.Stat{Scope: scopeVisit, Key: e.EntryID, Name: nameVisit, Iteration: e.LastSampled, Value: 1})
				}
				state.Entries = append(state.Entries, e)
			}
			step := n/64 + 2
			state.Iteration = step
			selections, err := a.Next(state, step+1, 64, tasks)
			if err != nil {
				b.Fatal(err)
			}
			var groups []curriculum.Group
			for i, s := range selections {
				groups = append(groups, group(int32(step+1), i, s.TaskID, s.ParentID, rewarded(0, 0, .1, .2, .5, .5, .9, 1)...))
			}
			b.ReportAllocs()
			for b.Loop() {
				next, err := a.Update(state, step+1, groups, tasks)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := a.Next(next, step+2, 64, tasks); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
