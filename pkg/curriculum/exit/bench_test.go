package exit

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// full is a full buffer of n entries, as a run leaves it: eight of each group.
func full(n int) curriculum.State {
	random := rand.New(rand.NewPCG(1, 2))
	state := curriculum.State{Iteration: 1000, Entries: make([]shard.Entry, n)}
	for i := range state.Entries {
		group := i / 8
		parent := fmt.Sprintf("i%06d-%06d", 1+group/256, group%256)
		ref := shard.Ref{Iteration: int32(1 + group/256), Row: int32(group % 256), Sample: int32(i % 8), Messages: 2}
		state.Entries[i] = shard.Entry{
			EntryID: childID(parent, ref), TaskID: fmt.Sprintf("train-%06d", random.IntN(12000)), Kind: "improve", ParentID: parent,
			Depth: 1, Turn: 1, Ref: ref, BaseScore: random.Float64(), Potential: random.Float64() / 4,
		}
	}
	return state
}

// BenchmarkBuffer is the curriculum's part of an iteration: an update by 256
// groups of 8 responses that all enter a full buffer, and the selection of 256
// prompts.
func BenchmarkBuffer(b *testing.B) {
	taskIDs := make([]string, 12000)
	for i := range taskIDs {
		taskIDs[i] = fmt.Sprintf("train-%06d", i)
	}
	for _, n := range []int{1e4, 1e5, 1e6, 1e7} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			state := full(n)
			e := New(Settings{
				BufferSize: n, MinBufferSize: 1, SelectProbability: .5, InverseTemperature: 8, DivergeProbability: .2, Improve: true, Expand: ExpandAll, Learnability: OfReward, BaseTasks: uniform.Epochs,
			}, 11)
			groups := make([]curriculum.Group, 256)
			for i := range groups {
				groups[i] = baseGroup(fmt.Sprintf("i001001-%06d", i), 0, 1, 0, 1, 0, 1, 0, 1)
				groups[i].Instance.ParentID = state.Entries[i*(n/256)].EntryID
			}
			b.ReportAllocs()
			for b.Loop() {
				next := mustUpdate(b, e, state, 1001, groups...)
				if _, err := e.Next(next, 1002, 256, taskIDs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
