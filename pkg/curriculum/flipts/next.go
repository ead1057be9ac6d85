package flipts

import (
	"cmp"
	"slices"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// SelectedBy names the rule of a selection after the warm-up.
const SelectedBy = "thompson"

// Next selects the n questions of the pool whose draws from their beliefs are
// nearest to the target (FlipTS Eq. 4, lines 6 and 7 of FlipTS Alg. 1), nearest first. A
// state without a pool, which is one of the warm-up, samples uniformly from all
// training tasks, each once an epoch (line 3).
func (f *FlipTS) Next(state curriculum.State, iteration, n int, taskIDs []string) ([]curriculum.Selection, error) {
	b, err := read(state.Stats)
	if err != nil {
		return nil, err
	}
	if len(b.pool) == 0 {
		return uniform.New(uniform.Settings{BaseTasks: uniform.Epochs}, f.seed).Next(state, iteration, n, taskIDs)
	}
	if n > len(b.pool) {
		return nil, exitcode.Usagef("the candidate pool has all %d training tasks, fewer than the rollout.prompts %d that an iteration samples", len(b.pool), n)
	}
	selections := make([]curriculum.Selection, n)
	for i, d := range f.draws(b, iteration)[:n] {
		selections[i] = curriculum.Selection{
			TaskID: d.question, Kind: shard.KindInitial, Origin: shard.OriginBase, Potential: d.xi, SelectedBy: SelectedBy,
		}
	}
	return selections, nil
}

// drawn is a question of the pool with its ξ̃.
type drawn struct {
	question string
	xi       float64
}

// draws makes a draw from the belief of each question of the pool, and lists
// those nearest to the target first; ties in pool order.
func (f *FlipTS) draws(b belief, iteration int) []drawn {
	all := make([]drawn, len(b.pool))
	for i, c := range b.pool {
		stream := rng.New(f.seed, rng.PurposeSelect, iteration, "thompson "+c.question, 0)
		all[i] = drawn{c.question, b.of(c.question).shared().Draw(stream)}
	}
	slices.SortStableFunc(all, func(x, y drawn) int { return cmp.Compare(f.miss(x.xi), f.miss(y.xi)) })
	return all
}
