package loss

import (
	_ "embed"

	"github.com/lathe-rl/lathe/pkg/config"
)

//go:embed settings.go
var source string

var _ = config.Docs[Loss](source)

// Loss is the policy loss.
//
// With r = exp(logp - logp of the sampler) and advantage A, the loss of a token is
//
//	clip       max(-A·r, -A·clip(r, 1-clip_low, 1+clip_high)), and for A < 0 at most -A·dual_clip
//	cispo      -stop(clip(r, 1-clip_low, 1+clip_high))·A·logp, where stop passes no gradient
//	gspo       clip, with r the geometric mean of the ratios of the whole response; its gradient reaches each token's logp
//	gmpo       -A·r, with r that mean of ratios whose logarithms are first held to at most clip_high for A > 0 and at least -clip_low for A < 0
//	dppo       -A·r, or 0 where p - p of the sampler is above clip_high and A > 0, or below -clip_low and A < 0
//	sapo       -A·σ(τ(r - 1))·4/τ, with τ tau_positive for A > 0 and tau_negative elsewhere (SAPO, arXiv 2511.20347)
//	reinforce  -A·logp
//	nll        -logp, whatever the advantage
type Loss struct {
	Kind          string   `yaml:"kind" json:"kind" choices:"clip,cispo,gspo,gmpo,dppo,sapo,reinforce,nll"` // clip (PPO and GRPO), cispo, gspo, gmpo, dppo, sapo, reinforce or nll
	NormTokens    int      `yaml:"norm_tokens" json:"norm_tokens"`                                          // divisor of seq_mean_token_sum_norm; 0 is rollout.max_new_tokens
	NormPadded    bool     `yaml:"norm_padded" json:"norm_padded"`                                          // divide seq_mean_token_sum_norm by the longest response of the optimizer step instead (verl; the divisor then changes from step to step)
	ClipLow       float64  `yaml:"clip_low" json:"clip_low"`                                                // ε_low; 1 for no lower bound. gmpo: bound on -log r of a token
	ClipHigh      float64  `yaml:"clip_high" json:"clip_high"`                                              // ε_high. gmpo: bound on log r of a token
	ClipAbsolute  bool     `yaml:"clip_absolute" json:"clip_absolute"`                                      // cispo only: clip_high is itself the upper bound of r and there is no lower one (TRL)
	DualClip      float64  `yaml:"dual_clip" json:"dual_clip"`                                              // c > 1; 0 for none. TRL's delta is the same bound
	TauPositive   float64  `yaml:"tau_positive" json:"tau_positive"`                                        // sapo: τ of tokens with A > 0
	TauNegative   float64  `yaml:"tau_negative" json:"tau_negative"`                                        // sapo: τ of the others
	Tokens        Tokens   `yaml:"tokens" json:"tokens"`                                                    // tokens that are treated apart
	RatioClamp    float64  `yaml:"ratio_clamp" json:"ratio_clamp"`                                          // bound on |log ratio| before exp; 0 for none
	KL            KL       `yaml:"kl" json:"kl"`                                                            //
	Value         Value    `yaml:"value" json:"value"`                                                      //
	SamplerKL     float64  `yaml:"sampler_kl" json:"sampler_kl"`                                            // coefficient of (logp - logp of the sampler)², added to each token's loss (prime-rl, Kimi K2.5); 0 for none
	EntropyCoef   float64  `yaml:"entropy_coef" json:"entropy_coef"`                                        // the loss has - coef · aggregate(H)
	EntropyTarget float64  `yaml:"entropy_target" json:"entropy_target"`                                    // nats a token; above 0 entropy_coef is that of the first iteration, and each later one's rises by entropy_step where the entropy of the iteration before was below, falls where it was above, and does not act there (Skywork-OR1); 0 for a coefficient that stays
	EntropyStep   float64  `yaml:"entropy_step" json:"entropy_step"`                                        // of the coefficient, with entropy_target (Skywork-OR1: 0.005)
	TruncatedIS   float64  `yaml:"truncated_is" json:"truncated_is"`                                        // bound C on the sampler correction weight; 0 for none (our sampler is exact)
	Mismatch      Mismatch `yaml:"mismatch" json:"mismatch"`                                                //
	Epochs        int      `yaml:"epochs" json:"epochs"`                                                    // passes over the batch
	MiniBatches   int      `yaml:"mini_batches" json:"mini_batches"`                                        // optimizer steps per pass, each on whole groups
}

// LooksAtAdvantage reports whether the loss of a kind is made with advantages.
func LooksAtAdvantage(kind string) bool { return kind != "nll" }

// Mismatch says which ratios correct for a sampler that is not the old policy.
//
// With d = logp of the old policy - logp of the sampler, the ratio of a token is
// exp(d), that of a sequence exp(sum d) and its geometric mean exp(mean d), over
// the learned tokens of all its turns. The policy loss of a token is multiplied,
// without gradient, by
//
//	w = min(q, truncated_is)  where low ≤ r ≤ high
//	    0                     elsewhere: the token is masked
//
// with q the ratio that weight names (w is 1 without truncated_is) and r the one
// that mask names, or 1/r with inverse. A token that is masked keeps the other
// terms of its loss, and its weight stays in every mean of weight: the
// divisor is that of all learned tokens. Where old policy and sampler agree, w is
// exactly 1, unless truncated_is is less. As the frameworks have it:
//
//	TIS                            truncated_is C, weight token or sequence
//	IcePop                         mask token, low and high, truncated_is at high or above
//	TRL's sequence_mask            mask sequence, high 3, weight sequence, truncated_is 3
//	seq-mask-tis (OpenRLHF, NeMo)  mask geometric, low 0.999, high 1.002, a truncated_is that nothing reaches
//	verl's rejection by k1         mask token (token_k1), sequence (seq_sum_k1) or geometric (seq_mean_k1), inverse
type Mismatch struct {
	Weight  string  `yaml:"weight" json:"weight" choices:"token,sequence,geometric"`  // ratio of old policy to sampler that weighs, up to truncated_is: token, its own; sequence, the product over the learned tokens of the sequence; geometric, their geometric mean
	Mask    string  `yaml:"mask" json:"mask" choices:"none,token,sequence,geometric"` // ratio that must be between low and high, or what it is of weighs 0: token (IcePop; verl's token_k1 with inverse), sequence (TRL's sequence_mask, cap 3), geometric (seq-mask-tis of OpenRLHF and NeMo-RL) or none. The divisor of weight stays
	Low     float64 `yaml:"low" json:"low"`                                           // lower bound, from 0, which is none, to 1; kept itself
	High    float64 `yaml:"high" json:"high"`                                         // upper bound, 1 or more, or 0 for none; kept itself
	Inverse bool    `yaml:"inverse" json:"inverse"`                                   // the bounds are of the ratio of sampler to old policy (verl's rejection by k1)
}

// Value is the loss of the critic of advantage.name gae, added to the policy's
// with the same weights of tokens:
//
//	coef · ½·max((v - R)², (clip(v, old - clip, old + clip) - R)²)
//
// with the return R and the value before the first optimizer step, old.
type Value struct {
	Coef float64 `yaml:"coef" json:"coef"` // c_1 of PPO
	Clip float64 `yaml:"clip" json:"clip"` // bound on v - old; 0 for none

	LearningRate float64 `yaml:"learning_rate" json:"learning_rate"` // the highest of the critic's schedule, which else is optimizer's; 0 for optimizer.learning_rate
	MaxGradNorm  float64 `yaml:"max_grad_norm" json:"max_grad_norm"` // L2 norm to clip the critic's gradient to by itself; 0 for optimizer.max_grad_norm, of a head and the policy together
}

// KL is the penalty towards the reference policy.
//
// With d = logp - logp of the
// reference, k1 = d, k2 = d²/2, k3 = exp(-d) - 1 + d and abs = |d|.
type KL struct {
	Coef        float64 `yaml:"coef" json:"coef"`                                  // β; 0 for none, and no reference is computed
	Estimator   string  `yaml:"estimator" json:"estimator" choices:"k1,k2,k3,abs"` // k1, k2, k3 or abs
	Gradient    string  `yaml:"gradient" json:"gradient" choices:"estimator,k2"`   // estimator: of the estimate itself; k2: d, whatever the estimate (verl's k3+, NeMo-RL)
	Importance  bool    `yaml:"importance" json:"importance"`                      // multiply the estimate by the importance ratio, gradient included (slime, TRL: optional)
	InputClamp  float64 `yaml:"input_clamp" json:"input_clamp"`                    // bound on |d| before the estimator; 0 for none
	OutputClamp float64 `yaml:"output_clamp" json:"output_clamp"`                  // bound on the estimate; 0 for none
	RefEvery    int     `yaml:"ref_every" json:"ref_every"`                        // M: refresh the reference every M iterations; 0 never
	RefAlpha    float64 `yaml:"ref_alpha" json:"ref_alpha"`                        // α: reference ← α·policy + (1-α)·reference
}

// Optimizer is AdamW with a learning-rate schedule.
type Optimizer struct {
	LearningRate float64 `yaml:"learning_rate" json:"learning_rate"`                  // the highest of the schedule
	Beta1        float64 `yaml:"beta1" json:"beta1"`                                  // decay of the first moment
	Beta2        float64 `yaml:"beta2" json:"beta2"`                                  // decay of the second moment
	Epsilon      float64 `yaml:"epsilon" json:"epsilon"`                              // added to the root of the second moment
	WeightDecay  float64 `yaml:"weight_decay" json:"weight_decay"`                    // decoupled; of matrices, not of norms and biases
	MaxGradNorm  float64 `yaml:"max_grad_norm" json:"max_grad_norm"`                  // global L2 norm to clip to; 0 for none
	WarmupSteps  int     `yaml:"warmup_steps" json:"warmup_steps"`                    // linear from 0
	Decay        string  `yaml:"decay" json:"decay" choices:"constant,linear,cosine"` // constant, linear or cosine, to MinRatio at the last step
	MinRatio     float64 `yaml:"min_ratio" json:"min_ratio"`                          // of the last step to the highest learning rate
	State        string  `yaml:"state" json:"state" choices:"float32,bfloat16"`       // float32; or bfloat16: moments take half the memory, and bfloat16 weights have no float32 masters but are rounded randomly
}

// DefaultOptimizer is AdamW for a policy that can already answer.
func DefaultOptimizer() Optimizer {
	return Optimizer{
		LearningRate: 1e-6, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8,
		MaxGradNorm: 1, Decay: "constant", State: "float32",
	}
}
