package paper

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// printed is a setting as a paper's table has it, for one column of the table or for all.
type printed struct {
	name    string // the paper's
	setting string // ours; empty for one that is no setting of a recipe
	values  string // of each column, with spaces between; one for all
	why     string // ours differs, or that there is no setting; empty where it is the paper's
}

// settingsTable is a table of a paper, whose columns are recipes.
type settingsTable struct {
	of      string // the paper's table
	recipes string // below jobs, a column each, with spaces between
	rows    []printed
}

// exitRows are those that ExIt Tab. 4, 5 and 6 have in common.
func exitRows(lr, prompts, epochs, refEvery, refAlpha, size, least, p, diverge string) []printed {
	return []printed{
		{"learning rate", "optimizer.learning_rate", lr, ""},
		{"prompts per batch", "rollout.prompts", prompts, ""},
		{"rollouts per prompt", "rollout.group", "8", ""},
		{"epochs per batch", "loss.epochs", epochs, ""},
		{"KL coefficient β", "loss.kl.coef", "0.001", ""},
		{"reference update interval M", "loss.kl.ref_every", refEvery, ""},
		{"reference update α", "loss.kl.ref_alpha", refAlpha, ""},
		{"clip ε (ExIt App. A.5)", "loss.clip_low", "0.2", ""},
		{"clip ε (ExIt App. A.5)", "loss.clip_high", "0.2", ""},
		{"total buffer size", "curriculum.exit.buffer_size", "– " + size, ""},
		{"minimum buffer size", "curriculum.exit.min_buffer_size", "– " + least, ""},
		{"self-iteration probability", "curriculum.exit.select_probability", "– " + p, ""},
		{"divergence probability", "curriculum.exit.diverge_probability", "– – – " + diverge, ""},
	}
}

// settingsTables are written by hand from the papers.
var settingsTables = []settingsTable{
	{"ExIt Tab. 4", "exit-grpo exit-curriculum exit-improve exit-diverge exit-math", exitRows("1e-6", "128", "1", "100", "1", "512 512 512 512", "128 128 128 128", "0.5 0.5 0.5 0.5", "0.2 0.2")},
	{"ExIt Tab. 5", "bfcl-grpo bfcl-curriculum bfcl-improve bfcl-diverge bfcl-exit", exitRows("1e-6 5e-7 5e-7 5e-7 1e-6", "16", "2", "100", "1", "320 640 640 640", "320 320 320 320", "0.2 0.5 0.5 0.5", "0.2 0.5")},
	{"ExIt Tab. 6", "exit/mle-grpo exit/mle-curriculum exit/mle-improve exit/mle-diverge exit/mle-exit", exitRows("1e-6", "4", "1", "100", "0.5", "3 24 32 24", "3 8 8 3", "0.5 0.5 0.5 0.5", "0.2 0.5")},
	{"ExIt §5.1 and App. A, mathematics", "exit-math", []printed{
		{"training problems", "data.train.limit", "1280", ""},
		{"validation problems", "data.held_out.5.limit", "100", ""},
		{"revisions K", "evaluation.steps", "16", ""},
		{"samples", "evaluation.samples", "8", ""},
		{"temperature of Llama 3.2", "evaluation.temperature", "0.6", ""},
		{"top_p of Llama 3.2", "evaluation.top_p", "0.9", ""},
		{"asynchronous updates", "schedule.staleness", "1", ""},
	}},
	{"ExIt App. A.3 and A.5, tool use", "bfcl-exit", []printed{
		{"turns of the policy, training", "env.tooluse.train.steps", "10", ""},
		{"user turns, training", "env.tooluse.train.user_turns", "1", ""},
		{"turns of the policy, tests", "env.tooluse.test.steps", "60", ""},
		{"revisions K", "evaluation.steps", "4", ""},
		{"temperature of Qwen 2.5", "evaluation.temperature", "0.7", ""},
		{"top_p of Qwen 2.5", "evaluation.top_p", "0.8", ""},
		{"top_k of Qwen 2.5", "evaluation.top_k", "20", ""},
		{"repetition penalty of Qwen 2.5", "", "1.05", "there is no such setting"},
	}},
	{"ExIt App. A.4 and A.5, MLE-bench", "exit/mle-grpo", []printed{
		{"seconds of a program", "env.limits.wall_seconds", "300", ""},
		{"greedy-search steps", "evaluation.steps", "16", ""},
		{"temperature of DeepSeek-R1-Distill-Qwen", "evaluation.temperature", "0.6", ""},
		{"top_p of DeepSeek-R1-Distill-Qwen", "evaluation.top_p", "0.95", ""},
		{"hardware of programs", "env.program.hardware", "a_single_H100_GPU", ""},
	}},
	{"ExIt Tab. 3 (worst, best)", "exit/mle-grpo", []printed{
		{"random-acts-of-pizza", "env.ranges.0.worst", "0", ""},
		{"random-acts-of-pizza", "env.ranges.0.best", "1", ""},
		{"spooky-author-identification", "env.ranges.1.worst", "1.5", ""},
		{"spooky-author-identification", "env.ranges.1.best", "1", "reading exit-spooky-range: the best log loss is 0"},
		{"detecting-insults-in-social-commentary", "env.ranges.2.worst", "0", ""},
		{"detecting-insults-in-social-commentary", "env.ranges.2.best", "1", ""},
		{"nomad2018-predict-transparent-conductors", "env.ranges.3.worst", "1", ""},
		{"nomad2018-predict-transparent-conductors", "env.ranges.3.best", "0", ""},
		{"jigsaw-toxic-comment-classification-challenge", "env.ranges.4.worst", "0", ""},
		{"jigsaw-toxic-comment-classification-challenge", "env.ranges.4.best", "1", ""},
		{"aerial-cactus-identification", "env.ranges.5.worst", "0", ""},
		{"aerial-cactus-identification", "env.ranges.5.best", "1", ""},
	}},
	{"FlipTS §4.1 and App. E", "flipts/qwen3-4b flipts/llama-8b flipts/trajectory flipts/final-success", []printed{
		{"learning rate", "optimizer.learning_rate", "1e-6", ""},
		{"questions of a batch", "rollout.prompts", "16", ""},
		{"responses G", "rollout.group", "16", ""},
		{"tokens of a response", "rollout.max_new_tokens", "8192", ""},
		{"turns T less 1", "scaffold.steps", "1", ""},
		{"KL coefficient", "loss.kl.coef", "0", ""},
		{"strictly on policy", "schedule.staleness", "0", ""},
		{"update steps", "schedule.iterations", "800", ""},
		{"target ξ", "curriculum.flipts.target", "0.5 0.5 – 0.5", ""},
		{"pool M", "curriculum.flipts.pool_size", "2000 2000 – 2000", ""},
		{"refresh η", "curriculum.flipts.refresh_share", "0.3 0.3 – 0.3", ""},
		{"cull γ", "curriculum.flipts.cull_share", "0.25 0.25 – 0.25", ""},
	}},
	{"FlipTS App. F", "flipts/ablation flipts/target-0.2 flipts/target-0.8 flipts/pool-20000 flipts/pool-100000", []printed{
		{"target ξ", "curriculum.flipts.target", "0.5 0.2 0.8 0.5 0.5", ""},
		{"pool M", "curriculum.flipts.pool_size", "2000 2000 2000 20000 100000", ""},
		{"turns less 1", "evaluation.steps", "1", ""},
		{"samples", "evaluation.samples", "8", ""},
	}},
	{"FlipTS Tab. 1, Tab. 5 and App. D", "flipts/qwen3-4b flipts/dynamic-filter flipts/step-level flipts/llama-8b flipts/ood", []printed{
		{"samples", "evaluation.samples", "128 128 128 8 1", ""},
		{"turns less 1", "evaluation.steps", "9", ""},
		{"responses of a question", "rollout.group", "16", ""},
		{"prompts, ×4 with the filter, ×2 of one turn", "rollout.prompts", "16 64 32 16 16", ""},
	}},
	{"AceGRPO Tab. 3", "ace/ace", []printed{
		{"uncertainty weight α", "curriculum.ace.uncertainty_weight", "0.5", ""},
		{"headroom weight λ", "curriculum.ace.headroom_weight", "0.5", ""},
		{"deviation clip δ_max", "curriculum.ace.max_deviation", "1", ""},
		{"initial potential", "curriculum.ace.initial_potential", "0.05", ""},
		{"ρ, early", "curriculum.ace.stages.0.rho", "2", ""},
		{"ρ, mid", "curriculum.ace.stages.1.rho", "3.5", ""},
		{"ρ, late", "curriculum.ace.stages.2.rho", "5", ""},
		{"least weight, early", "curriculum.ace.stages.0.min_weight", "0.01", ""},
		{"least weight, mid", "curriculum.ace.stages.1.min_weight", "0.005", ""},
		{"least weight, late", "curriculum.ace.stages.2.min_weight", "0.001", ""},
		{"exploration ε, early", "curriculum.ace.stages.0.epsilon", "0.2", ""},
		{"exploration ε, mid", "curriculum.ace.stages.1.epsilon", "0.15", ""},
		{"exploration ε, late", "curriculum.ace.stages.2.epsilon", "0.1", ""},
		{"top percentile, early", "curriculum.ace.stages.0.top", "1", ""},
		{"top percentile, mid", "curriculum.ace.stages.1.top", "1", ""},
		{"top percentile, late", "curriculum.ace.stages.2.top", "0.4", ""},
		{"stage begins at, mid", "curriculum.ace.stages.1.from", "200", ""},
		{"stage begins at, late", "curriculum.ace.stages.2.from", "1000", ""},
		{"block, early", "curriculum.ace.stages.0.block", "1", ""},
		{"block, mid", "curriculum.ace.stages.1.block", "2", ""},
		{"block, late", "curriculum.ace.stages.2.block", "3", ""},
		{"penalty γ", "curriculum.ace.penalty", "0.3", ""},
		{"decay η", "curriculum.ace.decay", "0.9", ""},
		{"history window", "curriculum.ace.history", "20", ""},
		{"draft multiplier", "curriculum.ace.draft", "2", ""},
		{"debug multiplier", "curriculum.ace.debug", "1", ""},
		{"improve multiplier", "curriculum.ace.improve", "1", ""},
		{"improvement weight α", "reward.score_and_improvement.alpha", "0.3", ""},
		{"stability ε", "reward.score_and_improvement.epsilon", "1e-6", ""},
	}},
	{"AceGRPO Tab. 4 and 5", "ace/ace ace/whole-200", []printed{
		{"group size G", "rollout.group", "8", ""},
		{"starting states of a step", "rollout.prompts", "8", ""},
		{"temperature", "rollout.temperature", "0.7", ""},
		{"tokens of a response", "rollout.max_new_tokens", "16384", ""},
		{"clip", "loss.clip_low", "0.2", ""},
		{"clip", "loss.clip_high", "0.2", ""},
		{"KL coefficient", "loss.kl.coef", "0.005", ""},
		{"entropy coefficient", "loss.entropy_coef", "0.0005", ""},
		{"learning rate", "optimizer.learning_rate", "1e-6", ""},
		{"learning-rate schedule", "optimizer.decay", "constant", ""},
		{"weight decay", "optimizer.weight_decay", "0.1", ""},
		{"Adam β1", "optimizer.beta1", "0.9", ""},
		{"Adam β2", "optimizer.beta2", "0.98", ""},
		{"training steps", "schedule.iterations", "1000 200", "reading acegrpo-steps: AceGRPO §5.1 has 400"},
		{"gradient clipping", "optimizer.max_grad_norm", "1", ""},
	}},
	{"MLE-RL §5.1", "mlerl/mlerl", []printed{
		{"KL coefficient", "loss.kl.coef", "0", ""},
		{"learning rate", "optimizer.learning_rate", "1e-6", ""},
		{"batch size", "schedule.batch_segments", "64", ""},
		{"tokens of a response", "rollout.max_new_tokens", "16384", ""},
		{"synchronised every", "schedule.sync_every", "5", ""},
		{"temperature", "rollout.temperature", "1", ""},
		{"top_p", "rollout.top_p", "1", ""},
		{"turns of a trace", "env.max_turns", "15", ""},
		{"memory, training", "curriculum.restarts.capacity", "5", ""},
		{"similarity T_ast", "curriculum.restarts.threshold", "0.9", ""},
		{"reset ratio p, training", "curriculum.restarts.reset_ratio", "0.7", ""},
		{"memory, evaluation", "scaffold.memory_pool.capacity", "3", ""},
		{"reset ratio, evaluation", "scaffold.memory_pool.reset_ratio", "0.5", ""},
		{"hours of a competition, Lite, in seconds", "evaluation.seconds", "43200", ""},
		{"repeats", "evaluation.samples", "3", ""},
		{"window W", "reward.running_mean.window", "64", ""},
		{"threshold τ_rm", "reward.running_mean.threshold", "0", ""},
	}},
	{"RL-MLE Tab. 3", "rlmle/rlmle", []printed{
		{"max_response_length", "rollout.max_new_tokens", "1024", ""},
		{"train_batch_size", "rollout.prompts", "128", ""},
		{"total_epochs", "schedule.iterations", "100", ""},
		{"actor_grad_clip", "optimizer.max_grad_norm", "1", ""},
		{"actor_clip_ratio", "loss.clip_low", "0.2", ""},
		{"actor_clip_ratio", "loss.clip_high", "0.2", ""},
		{"actor_entropy_coeff", "loss.entropy_coef", "0.001", ""},
		{"actor_ppo_epochs", "loss.epochs", "100", "reading rlmle-epochs: one pass"},
		{"actor_learning_rate", "optimizer.learning_rate", "1e-5", ""},
		{"temperature", "rollout.temperature", "0.7", ""},
		{"top_k (−1 is all: 0)", "rollout.top_k", "0", ""},
		{"top_p", "rollout.top_p", "1", ""},
		{"critic_learning_rate", "loss.value.learning_rate", "1e-5", ""},
		{"critic_grad_clip", "loss.value.max_grad_norm", "1", ""},
		{"critic_cliprange_value", "loss.value.clip", "0.5", ""},
		{"ppo_gamma", "advantage.gamma", "1", ""},
		{"ppo_lam", "advantage.lambda", "1", ""},
		{"adv_estimator", "advantage.name", "gae", ""},
		{"ppo_kl_coef", "loss.kl.coef", "0.001", ""},
		{"max_prompt_length", "", "1024", "a prompt is as long as it is: what leaves no room in the context is refused before the run"},
	}},
}

// resolvedSettings are a recipe's by their paths.
func resolvedSettings(t *testing.T, name string) any {
	t.Helper()
	resolved, err := recipe.Load(sourcetree.Path("jobs", filepath.FromSlash(name)+".yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := yaml.Unmarshal(resolved.YAML, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// at finds a setting by its path.
func at(all any, path string) (value any, found bool) {
	for name := range strings.SplitSeq(path, ".") {
		switch here := all.(type) {
		case map[string]any:
			all, found = here[name]
		case []any:
			i, err := strconv.Atoi(name)
			if found = err == nil && i < len(here); found {
				all = here[i]
			}
		default:
			found = false
		}
		if !found {
			return nil, false
		}
	}
	return all, true
}

// sameSetting compares a setting with what a table prints: as numbers where both are.
func sameSetting(value any, text string) bool {
	a, errA := strconv.ParseFloat(fmt.Sprint(value), 64)
	b, errB := strconv.ParseFloat(text, 64)
	if errA == nil && errB == nil {
		return a == b
	}
	return strings.ReplaceAll(fmt.Sprint(value), " ", "_") == text
}

// TestSettings prints every full-size recipe's resolved settings beside the paper's table, as
// jobs/SETTINGS.md. A difference without a reason is an error, and so is a reason without a
// difference.
func TestSettings(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# Settings of the papers and of the recipes\n\nThe papers' tables of settings, and what the full-size recipes resolve to. – is a setting that a column does not have. `TestSettings` writes\nthis page with `go test ./pkg/paper -run TestSettings -update`; a difference without a reason fails it.\n")
	compared, different := 0, 0
	for _, table := range settingsTables {
		names := strings.Fields(table.recipes)
		recipes := make([]any, len(names))
		for i, name := range names {
			recipes[i] = resolvedSettings(t, name)
		}
		fmt.Fprintf(&b, "\n## %s\n\n| the paper's name | setting | recipe | paper | recipe's | difference |\n|---|---|---|---|---|---|\n", table.of)
		for _, row := range table.rows {
			wants, differs := strings.Fields(row.values), false
			for i, name := range names {
				want := wants[min(i, len(wants)-1)]
				value, found := at(recipes[i], row.setting)
				text := "–"
				if found {
					text = strings.ReplaceAll(fmt.Sprint(value), " ", "_")
				}
				equal := found && sameSetting(value, want) || want == "–"
				if want == "–" {
					text = "–"
				}
				note := ""
				if compared++; !equal {
					note, differs = row.why, true
					different++
					if row.why == "" {
						t.Errorf("%s, %s: %s is %s in %s, %s in the paper, without a reason", table.of, row.name, row.setting, text, name, want)
					}
				}
				fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s | %s |\n", row.name, row.setting, name, want, text, note)
			}
			if !differs && row.why != "" {
				t.Errorf("%s, %s: has a reason for a difference, and there is none", table.of, row.name)
			}
		}
	}
	fmt.Fprintf(&b, "\n%d settings compared: %d differ, each with its reason.\n", compared, different)
	golden.Check(t, sourcetree.Path("jobs", "SETTINGS.md"), b.String())
}
