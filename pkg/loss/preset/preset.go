// Package preset holds the named objectives: what stands between rewards and
// gradient, as the papers and frameworks have it.
package preset

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/registry"
)

// Objective is what a preset fills: everything between rewards and gradient.
type Objective struct {
	Select    credit.Selection         `yaml:"select" json:"select"`
	Advantage credit.AdvantageSettings `yaml:"advantage" json:"advantage"`
	Factors   credit.FactorPicks       `yaml:"factors" json:"factors"`
	Weight    credit.WeightPick        `yaml:"weight" json:"weight"`
	Loss      loss.Loss                `yaml:"loss" json:"loss"`
	// DynamicSampling samples until a batch is full of what select retains:
	// schedule.batch_segments full.
	DynamicSampling bool `yaml:"dynamic_sampling" json:"dynamic_sampling"`
}

// with is an objective without factors.
func with(advantage credit.AdvantageSettings, choices credit.Selection, weight string, l loss.Loss) Objective {
	return Objective{Select: choices, Advantage: advantage, Weight: credit.WeightNamed(weight), Loss: l}
}

// Default is the preset of a recipe that names none.
const Default = "lathe"

// Axis holds the presets by name.
var Axis = registry.New[Objective]("preset")

// aliases are names that people look for, and the preset that each stands for.
var aliases = map[string]string{"grpo": "verl-grpo"}

// Named is the name of the preset that a name or an alias stands for.
func Named(name string) string { return cmp.Or(aliases[name], name) }

// Lookup is the objective of a name or of an alias. An unknown name is a usage error that
// lists the presets: the one that is spelt most like it may be another algorithm.
func Lookup(name string) (Objective, error) {
	name = Named(name)
	if !slices.Contains(Axis.Names(), name) {
		return Objective{}, exitcode.Usagef("unknown preset %q; there are %s, and grpo, which is %s", name, strings.Join(Axis.Names(), ", "), aliases["grpo"])
	}
	return Axis.Make(name, nil)
}

// Each states the semantics of its source as its code or paper has them, with
// three deviations that hold for all: statistics are float64; where rewards are
// compared with their group's, a group of equal rewards has A = 0 exactly, whatever
// the epsilon (a reward that is compared with nothing stays: ppo, reinforce, nll);
// and responses that we failed to judge enter no statistic. The sources' corrections for a sampler that disagrees with the
// learner are left out but where noted: here both are one code, and the weight
// would be 1.
func init() {
	register := func(name, summary string, fill func() Objective) {
		Axis.Register(registry.Choice[Objective]{Name: name, Summary: summary, Make: func(any) (Objective, error) { return fill(), nil }})
	}
	register(Default, "our own: GRPO, the mean over tokens, and no group that teaches nothing", lathePreset)
	register("exit", "ExIt (Jiang, Lupu, Bachrach): standardised, mean over responses of the mean over tokens", exitPreset)
	register("flipts", "FlipTS: standardised without an epsilon, every turn of a trace the same total", fliptsPreset)
	register("verl-grpo", "GRPO as verl 0.9 sets it up", verlGRPO)
	register("ppo", "PPO (Schulman et al.) with a critic, as verl 0.9 has it", ppo)
	register("mle-agents", "PPO with the settings of RL-MLE Tab. 3, but for its factor of durations", mleAgents)
	register("verl-ppo", "PPO as verl 0.9 has it, without a critic", verlPPO)
	register("trl-grpo", "GRPO as TRL 1.16 sets it up", trlGRPO)
	register("trl-sapo", "SAPO as TRL 1.16 sets it up: a soft gate in the place of the clip", trlSAPO)
	register("clip-cov", "Clip-Cov (Cui et al.) as verl 0.9 has it: no gradient for a few tokens of high covariance", clipCov)
	register("kl-cov", "KL-Cov (Cui et al.) as verl 0.9 has it: a penalty on the tokens of highest covariance", klCov)
	register("open-instruct-grpo", "GRPO as open-instruct sets it up (e6c3044, August 2026)", openInstructGRPO)
	register("slime-grpo", "GRPO as slime sets it up (624b824, August 2026)", slimeGRPO)
	register("prime-rl", "prime-rl (559b447, August 2026): centred, masked where the probability moved too far (DPPO)", primeRL)
	register("nemo-grpo", "GRPO as NeMo-RL sets it up (7ea279a, August 2026): mean and deviation of the others", nemoGRPO)
	register("drgrpo", "Dr. GRPO (Liu et al.): centred, sums divided by one constant", drGRPO)
	register("dapo", "DAPO (Yu et al.): clip-higher, dynamic sampling, cut-off responses dropped", dapo)
	register("cispo", "CISPO (MiniMax-M1): a clipped weight that passes no gradient", cispo)
	register("gspo", "GSPO (Zheng et al.): one ratio for a response", gspo)
	register("rloo", "RLOO (Ahmadian et al.): less the mean of the others", rloo)
	register("reinforce", "REINFORCE (Williams) without a baseline", reinforce)
	register("distill", "on-policy distillation (Thinking Machines): a teacher's log-probabilities are the advantage", distill)
	register("self-distill", "self-distillation: the teacher is the policy, told in its prompt what became of the answer (SDPO, OPSD)", selfDistill)
	register("nll", "supervised learning on the responses that earned at least half the reward", nll)
}

// noTeacher has no part in advantages; one would be the policy under its own prompt.
var noTeacher = credit.Teacher{Version: credit.TeacherCurrent, Context: credit.TeacherPrompt}

// groupStandardised is (r - mean) / (std + epsilon).
func groupStandardised(ddof int, epsilon float64) credit.AdvantageSettings {
	return credit.AdvantageSettings{
		Name: "group", Gamma: 1, Lambda: 0.95, Masked: "skip",
		Baseline: "mean", Scale: "std", DDof: ddof, Epsilon: epsilon,
		ZeroScale: "divide", GroupOfOne: "zero", WhiteningDDof: 1, Teacher: noTeacher,
	}
}

// groupCentred is r - mean.
func groupCentred() credit.AdvantageSettings {
	return credit.AdvantageSettings{
		Name: "group", Gamma: 1, Lambda: 0.95, Masked: "skip",
		Baseline: "mean", Scale: "none", DDof: 1,
		ZeroScale: "divide", GroupOfOne: "zero", WhiteningDDof: 1, Teacher: noTeacher,
	}
}

// rewards is r itself.
func rewards() credit.AdvantageSettings {
	a := groupCentred()
	a.Baseline = "none"
	return a
}

// clipped is the loss of PPO with one step per batch and no penalty.
func clipped(low, high float64) loss.Loss {
	return loss.Loss{
		Kind: "clip", ClipLow: low, ClipHigh: high,
		KL:       loss.KL{Estimator: "k3", Gradient: "estimator", RefAlpha: 1},
		Value:    loss.Value{Coef: 0.1, Clip: 0.2},
		Tokens:   loss.Tokens{Name: loss.TokensAll},
		Mismatch: loss.Mismatch{Weight: "token", Mask: "none"},
		Epochs:   1, MiniBatches: 1,
	}
}

// lathePreset is our own default: the mean over
// the tokens of the whole step, dual clip 3, k3 with clamps 20 and 10 (its
// weight is 0 until a recipe sets it), and sampler correction truncated at 2,
// which is 1 everywhere unless the sampler is another program. The other
// numbers are verl's; constant groups and groups with less than two valid
// responses teach nothing and are dropped.
func lathePreset() Objective {
	l := clipped(0.2, 0.2)
	l.DualClip = 3
	l.RatioClamp = 20
	l.KL.InputClamp, l.KL.OutputClamp = 20, 10
	l.TruncatedIS = 2
	return with(groupStandardised(1, 1e-6), credit.Named(credit.ReasonConstantGroup, credit.ReasonMinGroup), "token_mean", l)
}

// exitPreset is ExIt: ExIt Eq. 3 divides by the standard deviation and ExIt Eq. 4 is
// the mean over responses of the mean over tokens; ε = 0.2 (ExIt App. A.5), β = 0.001,
// M = 100 and α = 1 (ExIt Tab. 4). The deviation is the population's, and nothing is
// added to it: the equation has no epsilon. Groups of
// equal rewards stay: ExIt Eq. 4 gives them a KL term (readings exit-std and
// exit-constant-groups). What the paper does not say
// is taken from the code that it forks, open-instruct: k3 with the log ratio
// clamped at 40.
func exitPreset() Objective {
	l := clipped(0.2, 0.2)
	l.KL = loss.KL{Coef: 0.001, Estimator: "k3", Gradient: "estimator", InputClamp: 40, RefEvery: 100, RefAlpha: 1}
	return with(groupStandardised(0, 0), nil, "seq_mean_token_mean", l)
}

// fliptsPreset is trajectory-level GRPO as FlipTS has it (readings flipts-std,
// flipts-turn-weight and flipts-open-values): the advantage of
// FlipTS §3.1, with the population's standard deviation and no epsilon,
// and FlipTS Eq. 1 without a KL term. ε is not given: 0.2. Nothing is dropped; a
// group of equal rewards has no gradient and counts in the mean.
func fliptsPreset() Objective {
	return with(groupStandardised(0, 0), nil, "seq_mean_turn_mean_token_mean", clipped(0.2, 0.2))
}

// verlGRPO is GRPO as the documentation of verl 0.9.1 sets it up: core_algos.py for the
// advantage (ddof 1, +1e-6, a group of one keeps its reward), the vanilla loss
// with its dual clip, and the KL loss "low_var_kl" with weight 0.001.
func verlGRPO() Objective {
	advantage := groupStandardised(1, 1e-6)
	advantage.GroupOfOne = "reward"
	l := verlLoss()
	l.KL.Coef = 0.001
	return with(advantage, nil, "token_mean", l)
}

// verlLoss is verl's "vanilla" policy loss with its defaults.
func verlLoss() loss.Loss {
	l := clipped(0.2, 0.2)
	l.DualClip = 3
	l.RatioClamp = 20
	l.KL.InputClamp, l.KL.OutputClamp = 20, 10
	return l
}

// ppo is PPO (Schulman et al., arXiv 1707.06347) with a critic, with verl's
// defaults: γ = λ = 1, advantages whitened over the tokens of the batch, its
// vanilla loss, and values clipped at 0.5. verl's critic is a model of its own,
// so the weight of its loss beside the policy's has no source: 0.1 is ours.
func ppo() Objective {
	advantage := rewards()
	advantage.Name, advantage.Lambda = "gae", 1
	advantage.Whitening = true
	l := verlLoss()
	l.Value.Clip = 0.5
	return with(advantage, nil, "token_mean", l)
}

// mleAgents is PPO as RL-MLE has it, on verl (RL-MLE §4.1): ppo with the settings of
// RL-MLE Tab. 3: actor_clip_ratio 0.2,
// actor_entropy_coeff 0.001, critic_cliprange_value 0.5, critic_learning_rate 1e-5,
// critic_grad_clip 1.0, ppo_gamma 1.0, ppo_lam 1.0 and ppo_kl_coef 0.001. What the
// table leaves open is verl's: the mean over tokens, whitened advantages, the dual
// clip.
//
//   - Its critic is a model of its own (critic_model_type): policy.critic model. Its loss
//     has the coefficient 1, so that critic_grad_clip bounds the gradient that it names.
//   - verl takes ppo_kl_coef off the rewards; here it weighs a term of the loss, with
//     the estimator of verl's KL loss.
//   - actor_ppo_epochs and critic_ppo_epochs are 100 in the table, with a mini-batch
//     of the whole batch: 100 optimizer steps on each. That is also the table's
//     total_epochs, so we read one pass; loss.epochs 100 is the other reading
//     (readings rlmle-epochs, rlmle-critic-loss and rlmle-gae-tokens).
//   - The rest of the table is no part of an objective: actor_learning_rate 1e-5 and
//     actor_grad_clip 1.0 (optimizer), train_batch_size 128, temperature 0.7, top_k -1
//     and top_p 1, its rows read with one line slipped (rollout; reading rlmle-table-3).
//   - The factor of durations (RL-MLE §3.1) is a choice of its own, which a recipe names.
func mleAgents() Objective {
	o := ppo()
	o.Loss.EntropyCoef, o.Loss.KL.Coef = 0.001, 0.001
	o.Loss.Value.Coef = 1
	o.Loss.Value.LearningRate, o.Loss.Value.MaxGradNorm = 1e-5, 1
	return o
}

// verlPPO is verl's PPO without a critic: with γ = λ = 1 and values of 0,
// generalised advantage estimation gives each token the return, which verl
// then whitens over the tokens of the batch.
func verlPPO() Objective {
	advantage := rewards()
	advantage.Whitening = true
	return with(advantage, nil, "token_mean", verlLoss())
}

// trlGRPO is the GRPOTrainer of TRL 1.16.0 with its defaults: ddof 1, +1e-4, loss type
// "dapo" (the mean over the tokens of the whole step), no dual clip, β = 0,
// and k3 without clamps, times the importance ratio (use_bias_correction_kl, since 1.16).
// analysis/presets_wheels.py compares it with an installed wheel, as it does those of verl.
func trlGRPO() Objective {
	l := clipped(0.2, 0.2)
	l.KL.Importance = true
	return with(groupStandardised(1, 1e-4), nil, "token_mean", l)
}

// trlSAPO is loss_type "sapo" of TRL 1.16.0 (SAPO, Gao et al., arXiv 2511.20347): a soft gate
// in the place of the clip, τ 1 and 1.05, the mean over responses of the mean over tokens.
func trlSAPO() Objective {
	o := trlGRPO()
	o.Weight = credit.WeightNamed("seq_mean_token_mean")
	o.Loss.Kind, o.Loss.TauPositive, o.Loss.TauNegative = "sapo", 1, 1.05
	return o
}

// clipCov is the policy loss "clip_cov" of verl 0.9.1 (Cui et al., The Entropy Mechanism of
// Reinforcement Learning, arXiv 2505.22617) with its defaults: 2e-4 of the tokens, with
// covariances from 1 to 5. It has no dual clip and bounds no ratio.
func clipCov() Objective {
	l := clipped(0.2, 0.2)
	l.Tokens = loss.Tokens{Name: loss.TokensClipCov, Share: 2e-4, Low: 1, High: 5}
	return with(groupStandardised(1, 1e-6), nil, "token_mean", l)
}

// klCov is verl's policy loss "kl_cov" of the same paper with its defaults: the ratio is not
// clipped, and 2e-4 of the tokens are charged 0.1 times their log ratio (ppo_kl_coef of its
// actor.yaml; the paper's own scripts have 1).
func klCov() Objective {
	l := clipped(1, unbounded)
	l.Tokens = loss.Tokens{Name: loss.TokensKLCov, Share: 2e-4, KLCoef: 0.1}
	return with(groupStandardised(1, 1e-6), nil, "token_mean", l)
}

// unbounded is an upper bound that no ratio reaches.
const unbounded = 1e9

// distill is on-policy distillation as Thinking Machines has it (On-Policy Distillation,
// 2025, and the tinker-cookbook's train_on_policy): the advantage of a token is the
// teacher's log-probability less the policy's, with coefficient 1 and discount 0; rewards
// have no part; the importance ratio is not clipped. Its sum over tokens is a mean over
// them here. The recipe names the teacher: advantage.teacher.path or version.
func distill() Objective {
	advantage := rewards()
	advantage.Name, advantage.Teacher.Coef = "teacher", 1
	return with(advantage, nil, "token_mean", clipped(1, unbounded))
}

// selfDistill is distill with the policy as its own teacher, under the environment's prompt
// to improve the answer: SDPO (Hübotter et al., arXiv 2601.20802) for the sampled token
// alone, as TRL's distillation_mode sampled_token has it, with the teacher live. SDPO shows
// the teacher a successful answer of the group, if there is one, and never the answer
// that it scores: advantage.teacher.context improve_best is nearer to that.
func selfDistill() Objective {
	o := distill()
	o.Advantage.Teacher.Context = credit.TeacherImprove
	return o
}

// openInstructGRPO is open-instruct with its defaults: centred advantages,
// constant groups dropped, clip 0.2 and 0.272, the mean over tokens, β = 0.05
// with k3 clamped at 40, and truncation of the sampler correction at 2.
func openInstructGRPO() Objective {
	l := clipped(0.2, 0.272)
	l.KL.Coef, l.KL.InputClamp = 0.05, 40
	l.TruncatedIS = 2
	return with(groupCentred(), credit.Named(credit.ReasonConstantGroup), "token_mean", l)
}

// slimeGRPO is slime with its defaults: ddof 1, +1e-6, the mean over
// responses of the mean over tokens, no dual clip, and k1 with weight 0.
func slimeGRPO() Objective {
	l := clipped(0.2, 0.2)
	l.KL.Estimator = "k1"
	return with(groupStandardised(1, 1e-6), nil, "seq_mean_token_mean", l)
}

// primeRL is prime-rl with its defaults: centred advantages, responses of
// advantage 0 dropped, the ratio masked where the probability moved by more
// than 0.2 (DPPO), and 0.001 times the squared log ratio to the sampler.
func primeRL() Objective {
	l := clipped(0.2, 0.2)
	l.Kind = "dppo"
	l.SamplerKL = 0.001
	// Its zero_advantage filter drops a response that earned its group's mean, too.
	zero := credit.Named(credit.ReasonConstantGroup).With(credit.ReasonMinAdvantage, &credit.MinAdvantage{Magnitude: 1e-9})
	return with(groupCentred(), zero, "token_mean", l)
}

// nemoGRPO is NeMo-RL with its defaults: mean and standard deviation of the
// others, undivided where that deviation is 0, the mean over tokens, and 0.01
// of k3 with clamps 20 and 10 and the gradient of k2.
func nemoGRPO() Objective {
	advantage := groupStandardised(1, 1e-6)
	advantage.Baseline, advantage.Scale = "leave_one_out", "leave_one_out_std"
	advantage.ZeroScale = "keep"
	l := clipped(0.2, 0.2)
	l.KL = loss.KL{Coef: 0.01, Estimator: "k3", Gradient: "k2", InputClamp: 20, OutputClamp: 10, RefAlpha: 1}
	return with(advantage, nil, "token_mean", l)
}

// drGRPO is Dr. GRPO (Liu et al., Understanding R1-Zero-Like Training, 2025):
// centred advantages, and token losses summed over a response and divided by
// the one constant of the longest allowed response, without KL.
func drGRPO() Objective {
	return with(groupCentred(), nil, "seq_mean_token_sum_norm", clipped(0.2, 0.2))
}

// dapo is DAPO (Yu et al., arXiv 2503.14476): clip-higher 0.2 and 0.28
// (section 3.1), constant groups dropped until a batch is full (3.2: dynamic sampling), the
// mean over tokens (3.3), cut-off responses dropped (3.4), no KL (2.3). The soft overlong
// punishment of 3.4 is reward.overlong, which a recipe names. The paper leaves ddof and ε
// open; they are those of verl, on which it is built.
func dapo() Objective {
	o := with(groupStandardised(1, 1e-6), credit.Named(credit.ReasonConstantGroup, credit.ReasonOverlong), "token_mean", clipped(0.2, 0.28))
	o.DynamicSampling = true
	return o
}

// cispo is CISPO (MiniMax-M1, arXiv 2506.13585): GRPO's advantage, the mean
// over tokens, and a clipped weight that passes no gradient. Its equation clips on both
// sides, and its experiments leave the lower side open: section 3.1 sets ε_low so large that
// it bounds nothing and tunes ε_high alone (the sentence as Trinity-RFT's CISPOPolicyLossFn
// quotes it; verl's recipe has ε_low 10). So does this preset, clip_low 1. The paper does not
// state its upper bound: 1.28 is verl's, slime's and NeMo-RL's. TRL's reading is
// loss.clip_absolute with loss.clip_high 5.
func cispo() Objective {
	l := clipped(1, 0.28)
	l.Kind = "cispo"
	l.RatioClamp = 20
	return with(groupStandardised(1, 1e-6), nil, "token_mean", l)
}

// gspo is GSPO (Zheng et al., arXiv 2507.18071): one ratio per response, with
// the bounds 3e-4 and 4e-4 of its section 5.1.
func gspo() Objective {
	l := clipped(3e-4, 4e-4)
	l.Kind = "gspo"
	return with(groupStandardised(1, 1e-6), nil, "seq_mean_token_mean", l)
}

// rloo is RLOO (Ahmadian et al., Back to Basics, 2024): the reward less the
// mean of the others, times the log-probability of the whole response.
func rloo() Objective {
	advantage := groupCentred()
	advantage.Baseline = "leave_one_out"
	l := clipped(0.2, 0.2)
	l.Kind = "reinforce"
	return with(advantage, credit.Named(credit.ReasonMinGroup), "seq_mean_token_sum", l)
}

// reinforce is REINFORCE (Williams, 1992) without a baseline.
func reinforce() Objective {
	l := clipped(0.2, 0.2)
	l.Kind = "reinforce"
	return with(rewards(), nil, "seq_mean_token_sum", l)
}

// nll is supervised learning on the responses that earned at least half the
// full reward, the mean over their tokens (rejection sampling, as in STaR). A reward of -1
// is as large, and non_positive drops it.
func nll() Objective {
	l := clipped(0.2, 0.2)
	l.Kind = "nll"
	return with(rewards(), credit.Named(credit.ReasonMinAdvantage, credit.ReasonNonPositive), "token_mean", l)
}
