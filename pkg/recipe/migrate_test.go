package recipe_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config/configtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// TestFingerprintsStay: testdata/old/fingerprints.txt is what version 50bdd7a computed of
// the shipped recipes. Renamed fields leave every recipe what it was.
func TestFingerprintsStay(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/old/fingerprints.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		path, want, _ := strings.Cut(strings.TrimSpace(line), " ")
		resolved, err := recipe.Load(filepath.Join(jobsFolder, path), nil)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := resolved.Recipe.Fingerprints(); !slices.Contains(got, want) {
			t.Errorf("%s: %s is none of %s", path, want, got)
		}
	}
}

// TestSealedRecipesRead: recipes as version 50bdd7a resolved and sealed them are those
// that the shipped files say now. LATHE_OLD_RECIPES names a folder of more.
func TestSealedRecipesRead(t *testing.T) {
	t.Parallel()
	folder := "testdata/old/shown"
	if more := os.Getenv("LATHE_OLD_RECIPES"); more != "" {
		folder = more
	}
	for _, path := range configtest.Glob(t, folder+"/*.yaml") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		was, err := recipe.Parse(text)
		if err != nil {
			t.Error(err)
			continue
		}
		is, err := recipe.Load(filepath.Join(jobsFolder, strings.ReplaceAll(filepath.Base(path), "_", "/")), nil)
		if err != nil {
			t.Fatal(err)
		}
		now := is.Recipe
		now.Description, was.Description = "", ""   // words for people, which may have been improved since
		now.Evaluation.Every = was.Evaluation.Every // whose default became auto
		if diff := cmp.Diff(string(recipe.Write(&now)), string(recipe.Write(was))); diff != "" {
			t.Errorf("%s (-the file now +as read):\n%s", path, diff)
		}
	}
}

const oldText = `# A recipe.
policy: {new: {}}
data: {train: {generate: {}}, test: {generate: {}}}
score: {embedding: ngrams}

# Which instances.
curriculum:
  name: exit
  exit:
    min_buffer_size: 4
    diversity_bonus: true # eq. 6
credit:
  segments: turn
  reward: score_and_improvement # of AceGRPO
  score_and_improvement:
    alpha: 0.5
# Against what.
advantage:
  kind: group
  epsilon: 1e-6
  # Slow actions.
  factors: [duration]
  duration: {no_program: 0}
loss: {aggregation: token_sum, epochs: 2, weights: [duration], duration: {no_program: 0}} # as before
optimizer: {learning_rate: 1e-4}
`

const newText = `# A recipe.
policy: {new: {}}
data: {train: {generate: {}}, test: {generate: {}}}
score: {embedding: ngrams}

# Which instances.
curriculum:
  name: exit
  exit:
    min_buffer_size: 4
segments: turn
reward:
  name: score_and_improvement # of AceGRPO
  score_and_improvement:
    alpha: 0.5
# Against what.
advantage:
  name: group
  epsilon: 1e-6
`

func TestMigrate(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	migrated := func(path string) (string, bool) {
		text, changed, err := recipe.Migrate(path)
		if err != nil {
			t.Fatal(err)
		}
		return text, changed
	}
	base := write("base.yaml", oldText)
	text, changed := migrated(base)
	if !changed {
		t.Error("nothing has changed")
	}
	want := strings.Replace(newText, "curriculum:\n", "# eq. 6\ncurriculum:\n", 1) +
		"# Slow actions.\nfactors: [{duration: {multiplies: both, no_program: 0}}, diversity]\nloss: {epochs: 2} # as before\nweight: token_sum\noptimizer: {learning_rate: 1e-4}\n"
	if diff := cmp.Diff(want, text); diff != "" {
		t.Error(diff)
	}
	// Files that are based on it, while it has the old form.
	for name, c := range map[string]struct{ old, now string }{
		"uniform":  {"base: base.yaml\ncurriculum: {name: uniform}\n", "base: base.yaml\ncurriculum: {name: uniform}\nfactors: [{duration: {multiplies: both, no_program: 0}}]\n"},
		"settings": {"base: base.yaml\nadvantage: {duration: {all_zero: 0.5}}\nloss: {duration: {all_zero: 0.5}}\n", "base: base.yaml\nfactors: [{duration: {multiplies: both, all_zero: 0.5, no_program: 0}}, diversity]\n"},
		"off":      {"base: base.yaml\ncurriculum: {exit: {diversity_bonus: false}}\nadvantage: {factors: []}\nloss: {weights: []}", "base: base.yaml\nfactors: []\n"},
		"cage":     {"env: {name: program, program: {cage: {read: [x]}}}\n", "env: {name: program, program: {sandbox: {read: [x]}}}\n"},
		"improved": {"base: base.yaml\ncredit: {reward: verdict}\nenv: {answer: {step_improvement: true}}\n", "base: base.yaml\nreward: {name: improvement}\n"},
		"braces":   {"{base: base.yaml, advantage: {kind: none}, loss: {aggregation: token_mean}}\n", "{base: base.yaml, advantage: {name: none}, weight: token_mean}\n"},
		"filters":  {"base: base.yaml\nfilters: {invalid: true, min_group: 3, constant_group: false}\n", "base: base.yaml\nselect: [{min_group: {responses: 3}}, invalid]\n"},
		"current":  {"base: base.yaml\nrollout: {group: 4}\n", "base: base.yaml\nrollout: {group: 4}\n"},
	} {
		path := write(name+".yaml", c.old)
		got, changed := migrated(path)
		if diff := cmp.Diff(c.now, got); diff != "" || changed != (c.old != c.now) {
			t.Errorf("%s (changed %v):\n%s", name, changed, diff)
		}
		write(name+".yaml", got)
	}
	write("base.yaml", text)
	for _, path := range configtest.Glob(t, folder+"/*.yaml") {
		if again, changed := migrated(path); changed {
			t.Errorf("%s changes again:\n%s", path, again)
		}
		if _, err := recipe.Load(path, nil); err != nil && !strings.Contains(path, "cage") {
			t.Error(err)
		}
	}
}

// Old fields are refused with what to write.
func TestMovedFieldsAreRefused(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"credit.reward=signed":                   `--set credit.reward=signed: credit.reward is now reward.name; write --set "reward={name: signed}"`,
		"credit.segments=turn":                   `--set credit.segments=turn: credit.segments is now segments; write --set "segments=turn"`,
		"credit.running_mean.signed=true":        `--set credit.running_mean.signed=true: credit.running_mean is now reward.running_mean; write --set "reward={running_mean: {signed: true}}"`,
		"advantage.kind=none":                    `--set advantage.kind=none: advantage.kind is now advantage.name; write --set "advantage={name: none}"`,
		"advantage={factors: [duration]}":        `--set advantage={factors: [duration]}: advantage.factors is now factors; write --set "factors=[duration]"`,
		"loss.weights=[duration]":                `--set loss.weights=[duration]: loss.weights is now factors; write --set "factors=[{duration: {multiplies: weight}}]"`,
		"loss.aggregation=token_sum":             `--set loss.aggregation=token_sum: loss.aggregation is now weight; write --set "weight=token_sum"`,
		"curriculum.exit.diversity_bonus=true":   `--set curriculum.exit.diversity_bonus=true: curriculum.exit.diversity_bonus is now factors; write --set "factors=[diversity]"`,
		"env.answer.step_improvement=true":       `--set env.answer.step_improvement=true: env.answer.step_improvement is now reward.name; write --set "reward={name: improvement}"`,
		"filters.below_percentile.percentile=60": `--set filters.below_percentile.percentile=60: filters is now select; write --set "select=[constant_group, min_group, {below_percentile: {percentile: 60, submissions: 0}}]"`,
	} {
		_, err := recipe.Load(minimal, []string{"curriculum.name=exit", setting})
		if exitcode.Code(err) != exitcode.Usage || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", setting, err, want)
		}
	}
}
