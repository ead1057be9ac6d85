package flipts

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

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
		all[i] = drawn{c.question, b.of(c.question).draw(&bits{stream: stream})}
	}
	slices.SortStableFunc(all, func(x, y drawn) int { return cmp.Compare(f.miss(x.xi), f.miss(y.xi)) })
	return all
}

// draw samples the distribution. A parameter that discounting has brought to 0 is
// the limit: all mass at one end.
func (b beta) draw(s *bits) float64 {
	switch {
	case b.alpha <= 0:
		return 0
	case b.beta <= 0:
		return 1
	}
	x := distuv.Beta{Alpha: b.alpha, Beta: b.beta, Src: s}.Rand()
	if math.IsNaN(x) { // both gamma variates were too small for a float64
		x = 0
		if s.stream.Bool(s.next(), b.mean()) {
			x = 1
		}
	}
	return x
}

// bits gives a stream's numbers one after the other.
type bits struct {
	stream   rng.Stream
	position uint64
}

func (b *bits) next() uint64 {
	b.position++
	return b.position - 1
}

// Uint64 implements [math/rand/v2.Source].
func (b *bits) Uint64() uint64 { return b.stream.Uint64(b.next()) }
