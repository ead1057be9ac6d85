package preset_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/loss/preset"
)

func TestLookup(t *testing.T) {
	t.Parallel()
	if _, err := preset.Lookup(preset.Default); err != nil {
		t.Error(err)
	}
	_, err := preset.Lookup("grop") // as near to gspo as to grpo
	if want := `unknown preset "grop"; there are ` + strings.Join(preset.Axis.Names(), ", ") + ", and grpo, which is verl-grpo"; err == nil || err.Error() != want || exitcode.Code(err) != exitcode.Usage {
		t.Errorf("an unknown preset: %v, want %s", err, want)
	}
	alias, err := preset.Lookup("grpo")
	if err != nil {
		t.Fatal(err)
	}
	if own, err := preset.Lookup("verl-grpo"); err != nil || !cmp.Equal(own, alias) {
		t.Errorf("grpo is not verl-grpo: %v\n%s", err, cmp.Diff(own, alias))
	}
}

// The settings that tell the frameworks' GRPO apart : one row for each.
func TestPresetTable(t *testing.T) {
	t.Parallel()
	type row struct {
		baseline, scale string
		ddof            int
		epsilon         float64
		aggregation     string
		low, high, dual float64
		estimator       string
		coef            float64
		inClamp, outK   float64
		dropsConstant   bool
	}
	for name, want := range map[string]row{
		"verl-grpo":          {"mean", "std", 1, 1e-6, "token_mean", 0.2, 0.2, 3, "k3", 0.001, 20, 10, false},
		"trl-grpo":           {"mean", "std", 1, 1e-4, "token_mean", 0.2, 0.2, 0, "k3", 0, 0, 0, false},
		"open-instruct-grpo": {"mean", "none", 1, 0, "token_mean", 0.2, 0.272, 0, "k3", 0.05, 40, 0, true},
		"slime-grpo":         {"mean", "std", 1, 1e-6, "seq_mean_token_mean", 0.2, 0.2, 0, "k1", 0, 0, 0, false},
		"nemo-grpo":          {"leave_one_out", "leave_one_out_std", 1, 1e-6, "token_mean", 0.2, 0.2, 0, "k3", 0.01, 20, 10, false},
		"prime-rl":           {"mean", "none", 1, 0, "token_mean", 0.2, 0.2, 0, "k3", 0, 0, 0, true},
		"drgrpo":             {"mean", "none", 1, 0, "seq_mean_token_sum_norm", 0.2, 0.2, 0, "k3", 0, 0, 0, false},
		"dapo":               {"mean", "std", 1, 1e-6, "token_mean", 0.2, 0.28, 0, "k3", 0, 0, 0, true},
		"exit":               {"mean", "std", 0, 0, "seq_mean_token_mean", 0.2, 0.2, 0, "k3", 0.001, 40, 0, false},
		"lathe":              {"mean", "std", 1, 1e-6, "token_mean", 0.2, 0.2, 3, "k3", 0, 20, 10, true},
	} {
		o, err := preset.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		a, l := o.Advantage, o.Loss
		got := row{
			a.Baseline, a.Scale, a.DDof, a.Epsilon, o.Weight.Choice().Name, l.ClipLow, l.ClipHigh, l.DualClip,
			l.KL.Estimator, l.KL.Coef, l.KL.InputClamp, l.KL.OutputClamp, slices.Contains(o.Select.Names(), "constant_group"),
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// RL-MLE Tab. 3.
func TestMLEAgents(t *testing.T) {
	t.Parallel()
	o, err := preset.Lookup("mle-agents")
	if err != nil {
		t.Fatal(err)
	}
	a, l := o.Advantage, o.Loss
	for row, value := range map[string][2]float64{
		"actor_clip_ratio":         {l.ClipLow, 0.2},
		"the same, above":          {l.ClipHigh, 0.2},
		"actor_entropy_coeff":      {l.EntropyCoef, 0.001},
		"critic_cliprange_value":   {l.Value.Clip, 0.5},
		"critic_learning_rate":     {l.Value.LearningRate, 1e-5},
		"critic_grad_clip":         {l.Value.MaxGradNorm, 1},
		"of the critic's own loss": {l.Value.Coef, 1}, // with another coefficient the clip acts at another norm
		"ppo_gamma":                {a.Gamma, 1},
		"ppo_lam":                  {a.Lambda, 1},
		"ppo_kl_coef":              {l.KL.Coef, 0.001},
		"ppo_epochs, as read":      {float64(l.Epochs), 1},
		"mini-batches of a batch of 128 in mini-batches of 128": {float64(l.MiniBatches), 1},
	} {
		if value[0] != value[1] {
			t.Errorf("%s: %g, want %g", row, value[0], value[1])
		}
	}
	if a.Name != "gae" || l.Kind != "clip" || a.Masked != "skip" || !a.Whitening || len(o.Select) > 0 {
		t.Errorf("%+v", o)
	}
}
