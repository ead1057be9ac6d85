package batch_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
)

// TestMaskedStayInTheDenominators: what select masks has no gradient and
// counts. The first group trains on three responses of two tokens and cuts off
// one of six; the second is constant, four responses of two tokens. A token of
// the three then weighs 1/(12+8) of the tokens, or 1/8 of the responses times 1/2
// of its own; where each group is a step of its own 1/12, or 1/4·1/2; and where
// nothing is masked 1/6, or 1/3·1/2.
func TestMaskedStayInTheDenominators(t *testing.T) {
	t.Parallel()
	groups := [][]stagetest.Verdict{{{Score: 1}, {Score: 0, Finish: "length", Tokens: 6}, {Score: 0}, {Score: 0}}, stagetest.Scores(1, 1, 1, 1)}
	for _, c := range []struct {
		aggregation, selected string
		miniBatches           int
		weight                float64
	}{
		{"token_mean", "{overlong: {mask: true}}, {constant_group: {mask: true}}", 1, 1. / 20},
		{"token_mean", "{overlong: {mask: true}}, {constant_group: {mask: true}}", 2, 1. / 12},
		{"token_mean", "{overlong: {mask: true}}, constant_group", 1, 1. / 12},
		{"token_mean", "overlong, constant_group", 1, 1. / 6},
		{"seq_mean_token_mean", "{overlong: {mask: true}}, {constant_group: {mask: true}}", 1, 1. / 16},
		{"seq_mean_token_mean", "{overlong: {mask: true}}, {constant_group: {mask: true}}", 2, 1. / 8},
		{"seq_mean_token_mean", "overlong, constant_group", 1, 1. / 6},
	} {
		f := stagetest.NewReduction(t, 2, append(centred, "weight="+c.aggregation,
			fmt.Sprintf("select=[%s]", c.selected), fmt.Sprintf("loss.mini_batches=%d", c.miniBatches))...)
		f.Shard("a", f.Rows, groups...)
		batch, _ := f.Run()
		if len(batch) != 3 {
			t.Fatalf("%d sequences, want three", len(batch))
		}
		for _, s := range batch {
			if math.Abs(s.TurnWeights[0]-c.weight) > 1e-15 {
				t.Errorf("%s, masked %q, %d mini-batches: a token weighs %v, want %v", c.aggregation, c.selected, c.miniBatches, s.TurnWeights[0], c.weight)
			}
		}
		disposition := func(reason string) string {
			if strings.Contains(c.selected, reason+": {mask") {
				return "masked " + reason
			}
			return "dropped " + reason
		}
		constant := disposition("constant_group")
		want := []string{"trained", disposition("overlong"), "trained", "trained", constant, constant, constant, constant}
		if diff := cmp.Diff(want, f.Reasons()); diff != "" {
			t.Errorf("ledger (-want +got):\n%s", diff)
		}
	}
}

// TestWeightsOfAStepSumToOne: the loss of each optimizer step is a mean, of
// tokens or of sequences, whatever the lengths.
func TestWeightsOfAStepSumToOne(t *testing.T) {
	t.Parallel()
	groups := [][]stagetest.Verdict{
		{{Score: 1, Tokens: 1}, {Tokens: 6}, {Tokens: 3}, {Tokens: 2}},
		{{Score: 1, Tokens: 5}, {Tokens: 1}, {Tokens: 1}, {Tokens: 4}},
		{{Score: 1, Tokens: 2}, {Tokens: 2}, {Tokens: 6}, {Tokens: 6}},
	}
	for aggregation, sum := range map[string]func(s shard.Sequence, tokens float64) float64{
		"token_mean":              func(s shard.Sequence, tokens float64) float64 { return s.TurnWeights[0] * tokens },
		"seq_mean_token_mean":     func(s shard.Sequence, tokens float64) float64 { return s.TurnWeights[0] * tokens },
		"seq_mean_token_sum":      func(s shard.Sequence, _ float64) float64 { return s.TurnWeights[0] },
		"seq_mean_token_sum_norm": func(s shard.Sequence, _ float64) float64 { return s.TurnWeights[0] * 6 }, // max_new_tokens
	} {
		f := stagetest.NewReduction(t, 3, append(centred, "weight="+aggregation, "loss.mini_batches=2")...)
		f.Shard("a", f.Rows, groups...)
		batch, _ := f.Run()
		sums, counts := map[int32]float64{}, map[int32]int{}
		for _, s := range batch {
			tokens := 0
			for _, own := range s.LossMask {
				if own {
					tokens++
				}
			}
			sums[s.OptimizerStep] += sum(s, float64(tokens))
			counts[s.OptimizerStep]++
		}
		for step, got := range sums {
			if math.Abs(got-1) > 1e-12 {
				t.Errorf("%s: the weights of step %d sum to %g", aggregation, step, got)
			}
		}
		if counts[0] != 4 || counts[1] != 8 {
			t.Errorf("%s: the three groups of four are spread %v over two steps", aggregation, counts)
		}
	}
}

// TestMiniBatchesAreWholeGroups, each in one step, in an order of the
// iteration's; with more steps than groups, some have nothing to learn from.
func TestMiniBatchesAreWholeGroups(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ groups, miniBatches int }{{12, 1}, {12, 2}, {12, 3}, {12, 5}, {12, 8}, {5, 8}} {
		miniBatches := c.miniBatches
		var groups [][]stagetest.Verdict
		for i := range c.groups {
			groups = append(groups, []stagetest.Verdict{{Score: 1, Tokens: 2}, {Tokens: 1 + i%6}, {Score: 1, Tokens: 3}})
		}
		f := stagetest.NewReduction(t, c.groups, append(centred, fmt.Sprintf("loss.mini_batches=%d", miniBatches))...)
		f.Shard("a", f.Rows, groups...)
		batch, _ := f.Run()
		if len(batch) != 3*c.groups {
			t.Fatalf("%d mini-batches: %d sequences, want %d", miniBatches, len(batch), 3*c.groups)
		}
		var order []string
		groupsOf := map[int32]int{}
		for i, s := range batch {
			if i > 0 && s.OptimizerStep < batch[i-1].OptimizerStep {
				t.Errorf("%d mini-batches: a sequence of step %d comes after one of step %d", miniBatches, s.OptimizerStep, batch[i-1].OptimizerStep)
			}
			if i%3 == 0 {
				order = append(order, s.GroupID)
				groupsOf[s.OptimizerStep]++
			} else if s.GroupID != batch[i-1].GroupID || s.OptimizerStep != batch[i-1].OptimizerStep {
				t.Errorf("%d mini-batches: group %q is torn apart", miniBatches, batch[i-1].GroupID)
			}
		}
		if sorted := slices.IsSorted(order); sorted != (miniBatches == 1) {
			t.Errorf("%d mini-batches: the groups are in the order %q", miniBatches, order)
		}
		for step, n := range groupsOf {
			if least := c.groups / miniBatches; n < least || n > least+1 {
				t.Errorf("%d mini-batches: step %d has %d of %d groups", miniBatches, step, n, c.groups)
			}
		}
	}
}

// TestUnitsAreBalanced: units are cut in batch order at about equal numbers
// of tokens: none is longer than its share and one sequence.
func TestUnitsAreBalanced(t *testing.T) {
	t.Parallel()
	var groups [][]stagetest.Verdict
	for i := range 12 {
		groups = append(groups, []stagetest.Verdict{{Score: 1, Tokens: 1 + i%6}, {Tokens: 6 - i%6}, {Tokens: 1 + i*i%6}, {Tokens: 6}})
	}
	f := stagetest.NewReduction(t, 12, append(centred, "schedule.gradient_units=5")...)
	f.Shard("a", f.Rows, groups...)
	batch, _ := f.Run()
	total, last := 0, int32(0)
	tokens := map[int32]int{}
	for _, s := range batch {
		total += len(s.TokenIDs)
		tokens[s.Unit] += len(s.TokenIDs)
		if s.Unit < last || s.Unit > 4 {
			t.Errorf("unit %d comes after unit %d", s.Unit, last)
		}
		last = s.Unit
	}
	for unit := range int32(5) {
		if n := tokens[unit]; n == 0 || n > total/5+7 {
			t.Errorf("unit %d has %d of %d tokens", unit, n, total)
		}
	}
}

// TestWhitening: mean 0 and variance 1 over the policy's tokens. One sequence
// of 2 tokens at 0.5 and one of 4 at -0.5 have the mean -1/6 and, with ddof
// 0, the variance (2·(2/3)² + 4·(1/3)²)/6 = 2/9: sqrt(2) and -sqrt(2)/2.
func TestWhitening(t *testing.T) {
	t.Parallel()
	f := stagetest.NewReduction(t, 1, append(centred, "advantage.whitening=true", "advantage.whitening_ddof=0")...)
	f.Shard("a", f.Rows, []stagetest.Verdict{{Score: 1, Tokens: 2}, {Tokens: 4}})
	batch, _ := f.Run()
	if diff := cmp.Diff([]float64{math.Sqrt2, -math.Sqrt2 / 2}, advantages(t, batch), near); diff != "" {
		t.Errorf("advantages (-want +got):\n%s", diff)
	}
}

// With a critic the contexts of a trace are in one gradient unit, where there are
// more units than sequences too: the learner makes their advantages together.
func TestContextsOfATraceShareAUnit(t *testing.T) {
	t.Parallel()
	f := stagetest.Traces(t, "smoke")
	for _, critic := range []bool{false, true} {
		settings := []string{"schedule.gradient_units=64"}
		if critic {
			settings = append(settings, "preset=ppo", "policy.critic=head")
		}
		f.Set(fmt.Sprint(critic), settings...)
		batch, _ := f.Run()
		units, apart := map[string]int32{}, false
		for _, s := range batch {
			name := fmt.Sprint(s.InstanceID, s.Sample)
			unit, known := units[name]
			apart = apart || known && unit != s.Unit
			units[name] = s.Unit
		}
		if apart == critic || len(units) == len(batch) {
			t.Errorf("critic %v: contexts of a trace are in several units: %v", critic, apart)
		}
	}
}
