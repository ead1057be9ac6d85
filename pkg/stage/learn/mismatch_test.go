package learn_test

import (
	"math"
	"testing"

	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
)

// TestMismatch: whatever corrects for a sampler changes no bit where the sampler
// agrees with the learner, and one that was less sure of every token by log 4 has
// ratios of 4, or of 4 to the number of tokens.
func TestMismatch(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t)
	engine := batch(r)
	plain := update(r, inputs(r, engine, "plain"))
	exact := sampledElsewhere(r, engine, "exact.arrow", shifted(0))
	quarter := sampledElsewhere(r, engine, "quarter.arrow", shifted(float32(math.Log(4))))
	for _, test := range []struct {
		name           string
		truncated      float64
		mismatch       loss.Mismatch
		weight, masked float64
	}{
		{"tis-sequence", 2, loss.Mismatch{Weight: "sequence", Mask: "none"}, 2, 0},
		{"tis-geometric", 8, loss.Mismatch{Weight: "geometric", Mask: "none"}, 4, 0},
		{"icepop", 5, loss.Mismatch{Weight: "token", Mask: "token", Low: 0.5, High: 5}, 4, 0},
		{"icepop-reached", 2, loss.Mismatch{Weight: "token", Mask: "token", Low: 0.5, High: 2}, 0, 1},
		{"sequence-mask", 3, loss.Mismatch{Weight: "sequence", Mask: "sequence", High: 3}, 0, 1},
		{"geometric-mask", 0, loss.Mismatch{Weight: "token", Mask: "geometric", Low: 0.999, High: 5}, 1, 0},
		{"token-k1", 0, loss.Mismatch{Weight: "token", Mask: "token", Low: 0.5, High: 5, Inverse: true}, 0, 1},
	} {
		r.Recipe.Loss.TruncatedIS, r.Recipe.Loss.Mismatch = test.truncated, test.mismatch
		update(r, inputs(r, exact, test.name+"-exact"))
		if r.Digest(r.Path(test.name+"-exact")) != r.Digest(r.Path("plain")) {
			t.Errorf("%s: a sampler that agrees gives another policy", test.name)
		}
		got := update(r, inputs(r, quarter, test.name))
		for name, want := range map[string]float64{
			"correction": test.weight, "mismatch_masked_share": test.masked, "policy_loss": test.weight * plain["policy_loss"],
			"trained_tokens": plain["trained_tokens"],
		} {
			// One rounding to float32 of a log-probability that is a few nats.
			if math.Abs(got[name]-want) > 1e-5 {
				t.Errorf("%s: %s is %g, want %g", test.name, name, got[name], want)
			}
		}
	}
}
