package preset_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config"
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

// usual are the settings that most sources share, as written in their code or paper:
// standardised by the group's deviation, PPO's clip at 0.2 on both sides, one step on each
// batch, the k3 estimator without a coefficient. A field that is not here is 0, false or empty.
const usual = `
advantage.name: group
advantage.gamma: 1
advantage.lambda: 0.95
advantage.masked: skip
advantage.baseline: mean
advantage.scale: std
advantage.ddof: 1
advantage.epsilon: 1e-06
advantage.zero_scale: divide
advantage.group_of_one: zero
advantage.whitening_ddof: 1
advantage.teacher.version: current
advantage.teacher.context: prompt
weight: token_mean
loss.kind: clip
loss.clip_low: 0.2
loss.clip_high: 0.2
loss.kl.estimator: k3
loss.kl.gradient: estimator
loss.kl.ref_alpha: 1
loss.tokens.name: all
loss.value.coef: 0.1
loss.value.clip: 0.2
loss.mismatch.weight: token
loss.mismatch.mask: none
loss.epochs: 1
loss.mini_batches: 1
`

// The fields of verl's vanilla loss, of rewards that are compared with nothing, of rewards
// that are centred, and of a critic.
const (
	vanilla = "\nloss.dual_clip: 3\nloss.ratio_clamp: 20\nloss.kl.input_clamp: 20\nloss.kl.output_clamp: 10\n"
	centred = "\nadvantage.scale: none\nadvantage.epsilon: 0\n"
	bare    = centred + "advantage.baseline: none\n"
	critic  = bare + "advantage.name: gae\nadvantage.lambda: 1\nadvantage.whitening: true\nloss.value.clip: 0.5\n"
)

// sources are the presets as their sources state them: all that differs from usual. Where
// the numbers stand is said in the comment of each preset.
var sources = map[string]string{
	"lathe": vanilla + "select: [constant_group, min_group]\nloss.truncated_is: 2", // our own
	"exit": `advantage.ddof: 0
		advantage.epsilon: 0
		weight: seq_mean_token_mean
		loss.kl.coef: 0.001
		loss.kl.input_clamp: 40
		loss.kl.ref_every: 100`, // ExIt Eq. 3, ExIt Eq. 4, ExIt Tab. 4
	"flipts": `advantage.ddof: 0
		advantage.epsilon: 0
		weight: seq_mean_turn_mean_token_mean`, // FlipTS §3.1, FlipTS Eq. 1
	"verl-grpo":          vanilla + "advantage.group_of_one: reward\nloss.kl.coef: 0.001",
	"trl-grpo":           "advantage.epsilon: 0.0001\nloss.kl.importance: true",
	"trl-sapo":           "advantage.epsilon: 0.0001\nloss.kl.importance: true\nloss.kind: sapo\nloss.tau_positive: 1\nloss.tau_negative: 1.05\nweight: seq_mean_token_mean",
	"clip-cov":           "loss.tokens.name: clip_cov\nloss.tokens.share: 0.0002\nloss.tokens.low: 1\nloss.tokens.high: 5",
	"kl-cov":             "loss.clip_low: 1\nloss.clip_high: 1e+09\nloss.tokens.name: kl_cov\nloss.tokens.share: 0.0002\nloss.tokens.kl_coef: 0.1",
	"open-instruct-grpo": centred + "select: [constant_group]\nloss.clip_high: 0.272\nloss.kl.coef: 0.05\nloss.kl.input_clamp: 40\nloss.truncated_is: 2",
	"slime-grpo":         "weight: seq_mean_token_mean\nloss.kl.estimator: k1",
	"prime-rl":           centred + "select: [constant_group, {min_advantage: {magnitude: 1e-09}}]\nloss.kind: dppo\nloss.sampler_kl: 0.001",
	"nemo-grpo": `advantage.baseline: leave_one_out
		advantage.scale: leave_one_out_std
		advantage.zero_scale: keep
		loss.kl.coef: 0.01
		loss.kl.gradient: k2
		loss.kl.input_clamp: 20
		loss.kl.output_clamp: 10`,
	"drgrpo":       centred + "weight: seq_mean_token_sum_norm",
	"dapo":         "select: [constant_group, overlong]\nloss.clip_high: 0.28\ndynamic_sampling: true",
	"cispo":        "loss.kind: cispo\nloss.clip_low: 1\nloss.clip_high: 0.28\nloss.ratio_clamp: 20",
	"gspo":         "loss.kind: gspo\nloss.clip_low: 0.0003\nloss.clip_high: 0.0004\nweight: seq_mean_token_mean",
	"rloo":         centred + "advantage.baseline: leave_one_out\nselect: [min_group]\nloss.kind: reinforce\nweight: seq_mean_token_sum",
	"reinforce":    bare + "loss.kind: reinforce\nweight: seq_mean_token_sum",
	"distill":      bare + teacher,
	"self-distill": bare + teacher + "\nadvantage.teacher.context: improve",
	"nll":          bare + "select: [min_advantage, non_positive]\nloss.kind: nll",
	"ppo":          vanilla + critic,
	"verl-ppo":     vanilla + bare + "advantage.whitening: true",
	"mle-agents":   vanilla + critic + rlMLETable3,
}

// rlMLETable3 is RL-MLE Tab. 3 beside PPO: critic_cliprange_value, ppo_gamma and ppo_lam
// are those of critic. With a coefficient other than 1 the critic's gradient clip would
// act at another norm.
const rlMLETable3 = `
	loss.entropy_coef: 0.001
	loss.kl.coef: 0.001
	loss.value.coef: 1
	loss.value.learning_rate: 1e-05
	loss.value.max_grad_norm: 1`

// teacher is what on-policy distillation has: the advantage is the teacher's
// log-probability less the policy's, and no ratio is clipped (tinker-cookbook,
// distillation/train_on_policy: kl_penalty_coef 1, kl_discount_factor 0, importance_sampling).
const teacher = `
	advantage.name: teacher
	advantage.teacher.coef: 1
	loss.clip_low: 1
	loss.clip_high: 1e+09`

func fields(t *testing.T, texts ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for line := range strings.Lines(strings.Join(texts, "\n")) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		field, value, ok := strings.Cut(line, ": ")
		if !ok {
			t.Fatalf("%q is no field with a value", line)
		}
		if found[field] = value; value == "0" {
			delete(found, field)
		}
	}
	return found
}

// Every setting of every preset is its source's.
func TestPresetsAreTheirSources(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(slices.Sorted(maps.Keys(sources)), preset.Axis.Names()); diff != "" {
		t.Errorf("presets (-of the table +of the code):\n%s", diff)
	}
	for name, text := range sources {
		o, err := preset.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		got := fields(t, config.Overrides(&o, &preset.Objective{})...)
		if diff := cmp.Diff(fields(t, usual, text), got); diff != "" {
			t.Errorf("%s (-source +preset):\n%s", name, diff)
		}
	}
}

// A preset that is named after a framework says which version of it, since frameworks change
// their defaults.
func TestPresetsNameVersions(t *testing.T) {
	t.Parallel()
	framework := regexp.MustCompile(`verl|TRL|open-instruct|slime|prime-rl|NeMo-RL`)
	version := regexp.MustCompile(`(verl|TRL) [0-9]+\.[0-9]+|(open-instruct|slime|prime-rl|NeMo-RL).*\([0-9a-f]{7}, [A-Z][a-z]+ 20[0-9]{2}\)`)
	for _, p := range preset.Axis.All() {
		if framework.MatchString(p.Name+" "+p.Summary) && !version.MatchString(p.Summary) {
			t.Errorf("%s: %q names no version", p.Name, p.Summary)
		}
	}
}
