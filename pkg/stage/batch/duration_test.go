package batch_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
)

// The programs of the messages of traces run for 0 and 1, 1 and 1, 2 and 3, and 3
// and 3 seconds in each of two groups: the mean of the 16 is 14/8. Each message has
// its own in the batch, whatever context it is in, as a factor on the advantage
// after whitening or on its weight.
func TestDurationOfTurns(t *testing.T) {
	t.Parallel()
	const mean = 14. / 8
	f := stagetest.Traces(t, "smoke")
	contexts := [][]float64{{0, 1 / mean}, {1 / mean}, {1 / mean}, {2 / mean, 3 / mean}, {3 / mean}, {3 / mean}}
	contexts = append(contexts, contexts...)
	near := cmpopts.EquateApprox(1e-12, 0)

	f.Set("plain")
	plain, _ := f.Run()
	f.Set("factors", "factors=[duration]")
	onAdvantages, _ := f.Run()
	f.Set("weights", "factors=[{duration: {multiplies: weight}}]")
	onWeights, _ := f.Run()
	var factors [][]float64
	for i, s := range onAdvantages {
		factors = append(factors, s.TurnFactors)
		if !slices.Equal(s.TurnWeights, plain[i].TurnWeights) || !slices.Equal(s.TurnAdvantages, plain[i].TurnAdvantages) {
			t.Errorf("sequence %d: a factor after whitening changes advantages or weights", i)
		}
	}
	if diff := cmp.Diff(contexts, factors, near); diff != "" {
		t.Errorf("factors (-want +got):\n%s", diff)
	}
	for i, s := range onWeights {
		var want []float64
		for turn, w := range plain[i].TurnWeights {
			want = append(want, w*contexts[i][turn])
		}
		if diff := cmp.Diff(want, s.TurnWeights, near); diff != "" || !slices.Equal(s.TurnFactors, plain[i].TurnFactors) {
			t.Errorf("sequence %d: weights (-want +got):\n%s", i, diff)
		}
	}

	// Before whitening a trace has one advantage, and the mean of its messages' weights.
	f.Set("early", "factors=[duration]", "factors.duration.before_whitening=true")
	early, _ := f.Run()
	of := map[string]float64{"0": .5 / mean, "1": 1 / mean, "2": 2.5 / mean, "3": 3 / mean}
	for i, s := range early {
		want := float64(plain[i].TurnAdvantages[0]) * of[fmt.Sprint(s.Sample)]
		if diff := cmp.Diff(want, float64(s.TurnAdvantages[0]), cmpopts.EquateApprox(1e-6, 0)); diff != "" {
			t.Errorf("sequence %d: advantage (-want +got):\n%s", i, diff)
		}
	}
}

// STaR with scores: of each group's two valid solutions the better one is
// fine-tuned on by the negative log-likelihood, every turn of it.
func TestBestSolutions(t *testing.T) {
	t.Parallel()
	f := stagetest.Traces(t, "smoke")
	f.Set("best", "preset=nll", "select=[{below_top: {share: 0.5}}]")
	batch, _ := f.Run()
	if len(batch) != 2 || batch[0].Sample != 2 || batch[1].Sample != 2 || len(batch[0].TurnWeights) != 2 {
		t.Errorf("%d sequences, the first of sample %d", len(batch), batch[0].Sample)
	}
	group := []string{"dropped below_top", "dropped below_top", "trained", "dropped below_top", "dropped infra"}
	if diff := cmp.Diff(append(group, group...), f.Reasons()); diff != "" {
		t.Errorf("the ledger (-want +got):\n%s", diff)
	}
}
