package loss

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/config/configtest"
)

// sections are those of a recipe that a loss is checked in.
type sections struct {
	Loss      Loss      `yaml:"loss"`
	Optimizer Optimizer `yaml:"optimizer"`
	Prompts   int       `yaml:"prompts"`
	Adapter   bool      `yaml:"adapter"`
}

func validSections() *sections {
	s := &sections{Loss: lossWithEverything(), Optimizer: DefaultOptimizer(), Prompts: 4}
	s.Loss.Epochs, s.Loss.MiniBatches, s.Loss.KL.RefAlpha = 1, 1, 1
	s.Loss.Mismatch = Mismatch{Weight: "token", Mask: "none"}
	s.Loss.Tokens = Tokens{Name: TokensAll}
	return s
}

func TestValidate(t *testing.T) {
	t.Parallel()
	rows := map[string]string{
		"": "",
		"loss.kind=ppo loss.clip_high=0 loss.clip_absolute=true": "loss.kind",
		"loss.kind=nll loss.clip_high=0":                         "",
		"loss.norm_tokens=1":                                     "",
		"loss.norm_padded=true":                                  "",
		"loss.norm_padded=true loss.norm_tokens=1":               "loss.norm_padded",
		"loss.clip_absolute=true":                                "loss.clip_absolute",
		"loss.clip_absolute=true loss.kind=cispo":                "",
		"loss.dual_clip=0":                                       "",
		"loss.dual_clip=1":                                       "loss.dual_clip",
		"loss.dual_clip=1.5":                                     "",
		"loss.epochs=0":                                          "loss.epochs",
		"loss.mini_batches=0":                                    "loss.mini_batches",
		"loss.mini_batches=4":                                    "",
		"loss.mini_batches=5":                                    "loss.mini_batches",
		"loss.mini_batches=2 prompts=1":                          "loss.mini_batches",
		"loss.mini_batches=2 prompts=0":                          "", // which its own check refuses

		"loss.mismatch.weight=loud loss.truncated_is=0":            "loss.mismatch.weight",
		"loss.mismatch.weight=sequence loss.truncated_is=0":        "loss.mismatch.weight",
		"loss.mismatch.weight=sequence loss.truncated_is=1":        "",
		"loss.truncated_is=0":                                      "",
		"loss.mismatch.mask=loud loss.mismatch.low=.5":             "loss.mismatch.mask",
		"loss.mismatch.mask=token":                                 "loss.mismatch.mask",
		"loss.mismatch.mask=token loss.mismatch.low=.5":            "",
		"loss.mismatch.mask=token loss.mismatch.low=1":             "",
		"loss.mismatch.mask=token loss.mismatch.low=2":             "loss.mismatch.low",
		"loss.mismatch.mask=token loss.mismatch.high=.9":           "loss.mismatch.high",
		"loss.mismatch.mask=token loss.mismatch.high=1":            "",
		"loss.mismatch.mask=token loss.mismatch.high=1.5":          "",
		"loss.mismatch.low=.5":                                     "loss.mismatch.mask",
		"loss.mismatch.high=2":                                     "loss.mismatch.mask",
		"loss.mismatch.inverse=true":                               "loss.mismatch.mask",
		"loss.kl.estimator=k4":                                     "loss.kl.estimator",
		"loss.kl.gradient=k4":                                      "loss.kl.gradient",
		"loss.kl.ref_every=1":                                      "",
		"loss.kl.ref_every=-1":                                     "loss.kl.ref_every",
		"loss.kl.ref_alpha=0":                                      "",
		"loss.kl.ref_alpha=2 loss.kl.ref_every=1":                  "loss.kl.ref_alpha",
		"loss.kl.ref_alpha=0 loss.kl.ref_every=1":                  "loss.kl.ref_alpha",
		"loss.kl.ref_every=1 adapter=true":                         "loss.kl.ref_every",
		"loss.kl.ref_every=1 loss.kl.coef=0 adapter=true":          "",
		"loss.kl.ref_every=0 adapter=true":                         "",
		"optimizer.beta1=0 optimizer.beta2=0":                      "",
		"optimizer.beta1=1 optimizer.beta2=-.1":                    "optimizer.beta1 optimizer.beta2",
		"optimizer.epsilon=0":                                      "optimizer.epsilon",
		"optimizer.decay=step optimizer.state=float8":              "optimizer.decay optimizer.state",
		"optimizer.min_ratio=1.1":                                  "optimizer.min_ratio",
		"loss.clip_low=1.1 loss.value.coef=0 loss.value.clip=0":    "loss.clip_low",
		"loss.value.learning_rate=1e-6 loss.value.max_grad_norm=1": "",
	}
	for _, kind := range []string{"clip", "cispo", "gspo", "gmpo", "dppo"} {
		rows["loss.clip_high=0 loss.kind="+kind] = "loss.clip_high"
	}
	for _, field := range []string{
		"loss.clip_high", "loss.ratio_clamp", "loss.sampler_kl", "loss.entropy_coef", "loss.truncated_is", "loss.norm_tokens", "loss.dual_clip",
		"loss.value.coef", "loss.value.clip", "loss.value.learning_rate", "loss.value.max_grad_norm",
		"loss.kl.coef", "loss.kl.input_clamp", "loss.kl.output_clamp",
		"optimizer.learning_rate", "optimizer.weight_decay", "optimizer.max_grad_norm", "optimizer.warmup_steps",
	} {
		rows[field+"=-1"] = field
	}
	configtest.Checks(t, validSections, func(s *sections, c *config.Checker) {
		s.Loss.Validate(c, Around{Prompts: s.Prompts, Adapter: s.Adapter})
		s.Optimizer.Validate(c, "optimizer")
	}, rows)
}
