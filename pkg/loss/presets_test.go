package loss_test

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/loss/preset"
)

func lookup(t *testing.T, name string) preset.Objective {
	t.Helper()
	found, err := preset.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Each preset gives the vectors of the source that it is named after: the
// advantages of rewards 1, 0, 0, 0, and the aggregate of the token losses
// [[1,2],[3,4,5,6]] where responses may have 8 tokens.
func TestPresetsGiveTheirVectors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		first     float64 // advantage of the reward of 1
		others    float64
		aggregate float64
	}{
		{"lathe", 1.499997000006, -.499999000002, 3.5},
		{"exit", 1.732050807569, -.577350269190, 3.0},
		{"verl-grpo", 1.499997000006, -.499999000002, 3.5},
		{"trl-grpo", 1.499700059988, -.499900019996, 3.5},
		{"open-instruct-grpo", .75, -.25, 3.5},
		{"slime-grpo", 1.499997000006, -.499999000002, 3.0},
		{"prime-rl", .75, -.25, 3.5},
		{"nemo-grpo", 1, -.577349269191, 3.5},
		{"drgrpo", .75, -.25, 1.3125},
		{"dapo", 1.499997000006, -.499999000002, 3.5},
		{"cispo", 1.499997000006, -.499999000002, 3.5},
		{"gspo", 1.499997000006, -.499999000002, 3.0},
		{"rloo", 1, -1. / 3, 10.5},
		{"ppo", 1, 0, 3.5},      // rewards, before the critic
		{"verl-ppo", 1, 0, 3.5}, // before whitening
		{"reinforce", 1, 0, 10.5},
		{"nll", 1, 0, 3.5},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := lookup(t, test.name)
			advantages, err := credit.GroupAdvantages(o.Advantage, []float64{1, 0, 0, 0}, []bool{true, true, true, true}, []int{1, 2, 3, 4})
			if err != nil {
				t.Fatal(err)
			}
			loss.NearAll(t, "advantage", advantages, []float64{test.first, test.others, test.others, test.others})
			lengths := []int{2, 4}
			weights, err := credit.Weights(o.Weight.Choice().Name, lengths, loss.NormTokens(o.Loss, lengths, 8))
			if err != nil {
				t.Fatal(err)
			}
			loss.Near(t, "aggregate", weights[0]*(1+2)+weights[1]*(3+4+5+6), test.aggregate)
		})
	}
}

// The policy terms of TestClipVectors at one token of log-probability -1, with
// the bounds that each preset has by default.
func TestPresetsClip(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name             string
		advantage, ratio float64
		loss, slope      float64
	}{
		{"lathe", -1, 5, 3, 0},
		{"verl-grpo", -1, 5, 3, 0},
		{"verl-grpo", 1, 1.35, -1.2, 0},
		{"ppo", -1, 5, 3, 0},
		{"exit", -1, 5, 5, 5}, // no dual clip; ε = 0.2 (ExIt App. A.5)
		{"exit", 1, 1.35, -1.2, 0},
		{"trl-grpo", -1, 5, 5, 5},
		{"open-instruct-grpo", 1, 1.35, -1.272, 0},
		{"slime-grpo", 1, .5, -.5, -.5},
		{"drgrpo", -1, .5, .8, 0},
		{"dapo", 1, 1.35, -1.28, 0},
		{"cispo", 1, 1.5, 1.28, -1.28},
		{"cispo", 1, .5, .5, -.5},
		{"gspo", 1, 1.35, -1.0004, 0},
		{"reinforce", 1, 1.35, 1, -1},
		{"rloo", 1, 1.35, 1, -1},
		{"nll", 0, 1.35, 1, -1},
	} {
		spec := lookup(t, test.name).Loss
		in := loss.One(-1, test.ratio, test.advantage)
		in.Reference = in.New // no divergence from the reference
		gradient := loss.MustCoefficients(t, spec, in)
		loss.Near(t, test.name+" loss", gradient.Stats.Loss(), test.loss)
		loss.Near(t, test.name+" slope", gradient.LogProb[0], test.slope)
	}
}

// ExIt Eq. 4 for a response of a constant group: no advantage, and still
// β·k3 of the reference. At log-probabilities -1 and -1.2 of the reference d is 0.2:
// 0.001·(exp(-0.2) - 1 + 0.2) = 0.0000187308, with the slope 0.001·(1 - exp(-0.2)).
func TestExItKeepsThePenaltyOfConstantGroups(t *testing.T) {
	t.Parallel()
	o := lookup(t, "exit")
	advantages, err := credit.GroupAdvantages(o.Advantage, []float64{.7, .7, .7}, []bool{true, true, true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	loss.NearAll(t, "advantages", advantages, []float64{0, 0, 0})
	in := loss.One(-1, 1, advantages[0])
	in.Reference = []float64{-1.2}
	gradient := loss.MustCoefficients(t, o.Loss, in)
	loss.Near(t, "loss", gradient.Stats.Loss(), .0000187307530780)
	loss.Near(t, "slope", gradient.LogProb[0], .000181269246922)
}

// NeMo-RL's k3 has the gradient of k2: lp - ref.
func TestNeMoPenaltyGradient(t *testing.T) {
	t.Parallel()
	kl := lookup(t, "nemo-grpo").Loss.KL
	loss.Near(t, "slope", loss.Penalty(kl, -1, -1.2).Slope(), .2)
	loss.Near(t, "slope", loss.Penalty(kl, -1, -.5).Slope(), -.5)
}

// The complete step of verl by the preset verl-grpo, whose upper bound
// of 0.2 no token of positive advantage reaches.
func TestCompleteStepByPreset(t *testing.T) {
	t.Parallel()
	stats, _ := loss.RunStep(t, lookup(t, "verl-grpo").Loss, loss.StepWeights["token_mean"], loss.CompleteStep(t))
	loss.Near(t, "loss", stats.Loss(), .143048048625)
}

// Every preset is complete: a step with every input it may need has no
// error.
func TestEveryPresetRuns(t *testing.T) {
	t.Parallel()
	for _, name := range preset.Axis.Names() {
		t.Run(name, func(t *testing.T) {
			o := lookup(t, name)
			if _, err := credit.GroupAdvantages(o.Advantage, []float64{1}, []bool{true}, []int{3}); err != nil {
				t.Error(err)
			}
			step := loss.CompleteStep(t)
			for i := range step {
				step[i].Entropy = make([]float64, len(step[i].Mask))
			}
			weights, err := credit.Weights(o.Weight.Choice().Name, []int{2, 3}, loss.NormTokens(o.Loss, []int{2, 3}, 8))
			if err != nil {
				t.Fatal(err)
			}
			loss.RunStep(t, o.Loss, weights, step)
		})
	}
}
