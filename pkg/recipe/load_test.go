package recipe_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/env/math"
	"github.com/lathe-rl/lathe/pkg/env/tooluse"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/loss/preset"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

const minimal = "testdata/good/minimal.yaml"

func load(t *testing.T, path string, settings ...string) recipe.Recipe {
	t.Helper()
	resolved, err := recipe.Load(path, settings)
	if err != nil {
		t.Fatal(err)
	}
	return resolved.Recipe
}

func environment(r recipe.Recipe) *math.Settings { return r.Env.Settings.(*math.Settings) }

func tools(r recipe.Recipe) tooluse.ToolUse { return r.Env.Settings.(*tooluse.Settings).ToolUse }

// train are the training problems of an environment of mathematics.
func train(r recipe.Recipe) math.Source { return r.Data.Settings.(*math.Data).Train }

// Defaults, then the preset, then base, file and settings: the preset lies
// beneath what any of them says, wherever it is named.
func TestLayers(t *testing.T) {
	t.Parallel()
	dapo, err := preset.Lookup("dapo")
	if err != nil {
		t.Fatal(err)
	}
	// good/preset.yaml is based on overlays/penalty.yaml, which sets the
	// preset exit and loss.kl.coef 0.01.
	r := load(t, "testdata/good/preset.yaml")
	want := dapo
	want.Loss.KL.Coef = 0.01
	if diff := cmp.Diff(want, preset.Objective{DynamicSampling: r.Schedule.BatchSegments == recipe.BatchFull, Select: r.Select, Advantage: r.Advantage.AdvantageSettings, Factors: r.Factors, Weight: r.Weight, Loss: r.Loss}); diff != "" {
		t.Errorf("preset dapo under loss.kl.coef (-want +got):\n%s", diff)
	}
	r = load(t, "testdata/good/preset.yaml", "loss.clip_high=0.5", "preset=gspo")
	if r.Preset != "gspo" || r.Loss.Kind != "gspo" || r.Loss.ClipHigh != 0.5 || r.Loss.ClipLow != 3e-4 || r.Loss.KL.Coef != 0.01 {
		t.Errorf("preset gspo by a setting, named after loss.clip_high: %+v", r.Loss)
	}
	r = load(t, minimal, "seed=1", "seed=2")
	if r.Seed != 2 {
		t.Errorf("the later of two settings gives %d, want 2", r.Seed)
	}
}

// A name comes from the file itself or from its file name, never from a base.
func TestName(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		minimal:                                   "minimal",
		"testdata/good/crlf.yaml":                 "crlf",
		"testdata/good/overlays/files.yaml":       "files",
		"testdata/good/overlays/replaced.yaml":    "called-otherwise",
		"testdata/good/overlays/generated.yaml":   "generated",
		"../../pkg/recipe/testdata/good/bpe.yaml": "bpe",
	} {
		if got := load(t, path).Name; got != want {
			t.Errorf("%s is called %q, want %q", path, got, want)
		}
	}
	if got := load(t, minimal, "name=trial-7").Name; got != "trial-7" {
		t.Errorf("named by a setting: %q", got)
	}
}

// Relative paths of a base in another folder still point at the same files.
func TestBasePaths(t *testing.T) {
	base := []string{"train.jsonl", "$LATHE_SHARED/more.jsonl", "/data/absolute.jsonl"}
	moved := []string{"../train.jsonl", "$LATHE_SHARED/more.jsonl", "/data/absolute.jsonl"}
	if got := train(load(t, "testdata/good/files.yaml")).Files; !slices.Equal(got, base) {
		t.Errorf("files %q, want %q", got, base)
	}
	r := load(t, "testdata/good/overlays/files.yaml")
	if got := train(r).Files; !slices.Equal(got, moved) {
		t.Errorf("files of a base %q, want %q", got, moved)
	}
	t.Setenv("LATHE_SHARED", "/shared")
	got, err := config.ResolvePaths(train(r).Files, "testdata/good/overlays")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"testdata/good/train.jsonl", "/shared/more.jsonl", "/data/absolute.jsonl"}; !slices.Equal(got, want) {
		t.Errorf("resolved %q, want %q", got, want)
	}
	r = load(t, "testdata/good/overlays/replaced.yaml")
	if got := train(r).Files; !slices.Equal(got, []string{"mine.jsonl"}) {
		t.Errorf("replaced files: %q", got)
	}
	if len(train(r).Filter) != 0 || train(r).Fields.Question != "problem" {
		t.Errorf("an overlay's empty list clears the base's, and leaves other fields: %+v", train(r))
	}
	r = load(t, "testdata/good/overlays/tools.yaml")
	files, _ := config.Find[[]string](&r, "data.train.files")
	if tools(r).Functions != "other.json" || files[0] != "../tools/train.jsonl" || tools(r).Processes != 2 || tools(r).Test.Steps != 5 {
		t.Errorf("an overlay of tools: %+v, %q", tools(r), files)
	}
	r = load(t, "testdata/good/tools.yaml")
	if traits, err := r.Traits(); err != nil || tools(r).Functions != "tools/functions.json" || traits.Turns != 10 {
		t.Errorf("tools: %+v", tools(r))
	}

	r = load(t, "testdata/good/overlays/generated.yaml")
	if g := train(r).Generate; g == nil || g.Count != 50 || g.TestShare != 0.2 || len(train(r).Files) != 0 {
		t.Errorf("files replaced by a generator: %+v", train(r))
	}
}

func TestResolvePaths(t *testing.T) {
	t.Setenv("LATHE_TEST_FOLDER", "/models")
	t.Setenv("LATHE_TEST_NOTHING", "")
	for path, want := range map[string]string{
		"":                         "",
		"a/b":                      "jobs/a/b",
		"../a":                     "a",
		"/a":                       "/a",
		"$LATHE_TEST_FOLDER/a":     "/models/a",
		"${LATHE_TEST_FOLDER}-2/a": "/models-2/a",
	} {
		got, err := recipe.Policy{Path: path}.Resolve("jobs")
		if err != nil || got != filepath.FromSlash(want) {
			t.Errorf("%q: %q, %v; want %q", path, got, err, want)
		}
	}
	_, err := recipe.Policy{Path: "$LATHE_TEST_NOTHING/a"}.Resolve("jobs")
	want := `the recipe's path "$LATHE_TEST_NOTHING/a" needs the environment variable LATHE_TEST_NOTHING, which is not set`
	if err == nil || err.Error() != want || exitcode.Code(err) != exitcode.Usage || len(exitcode.Hints(err)) != 1 {
		t.Errorf("an unset variable: %v, hints %q", err, exitcode.Hints(err))
	}
}

// A pattern stands for what matches it, by name; a file with such a name for itself.
func TestPatterns(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"train-00001-of-00002.parquet", "train-00000-of-00002.parquet", "test.parquet", "a[1].jsonl"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for pattern, want := range map[string][]string{
		"train-*.parquet": {"train-00000-of-00002.parquet", "train-00001-of-00002.parquet"},
		"t?st.parquet":    {"test.parquet"}, "a[1].jsonl": {"a[1].jsonl"}, "none.parquet": {"none.parquet"},
		"none-*": nil, "[": nil,
	} {
		got, err := config.ResolvePaths([]string{pattern}, folder)
		for i := range got {
			got[i] = filepath.Base(got[i])
		}
		if says := fmt.Sprintf("nothing matches the pattern %q", filepath.Join(folder, pattern)); !slices.Equal(got, want) || (err != nil) != (want == nil) || err != nil && (err.Error() != says || exitcode.Code(err) != exitcode.Data) {
			t.Errorf("%q: %q, %v", pattern, got, err)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	r := load(t, minimal,
		"rollout.shards=3", "optimizer.learning_rate=1e-4", "evaluation.greedy=false", "name=a", `description="quoted # text"`,
		"env.prompts.initial={question}=", "env.answer.marker=####", "policy.new.hidden_size=64", "policy={backend: cpu}",
		"data.train.generate.kinds=[mul, div]", "data.train.generate.levels.1=3", "data.train.generate.levels.2=4",
		"data.train.filter.0.field=module", "data.train.filter.0.in=[a, b]", "curriculum.name=exit", "curriculum.exit.select_probability=1",
	)
	selected, _ := config.Find[float64](&r, "curriculum.exit.select_probability")
	if r.Rollout.Shards != 3 || r.Optimizer.LearningRate != 1e-4 || r.Evaluation.Greedy || r.Name != "a" ||
		r.Description != "quoted # text" || environment(r).Prompts.Initial != "{question}=" || environment(r).Answer.Marker != "####" ||
		r.Policy.New.HiddenSize != 64 || r.Policy.Backend != "cpu" || selected != 1 {
		t.Errorf("settings are not taken: %+v", r)
	}
	g := train(r).Generate
	if !slices.Equal(g.Kinds, []string{"mul", "div"}) || !slices.Equal(g.Levels, []int{1, 3, 4}) {
		t.Errorf("lists: %q %v", g.Kinds, g.Levels)
	}
	if f := train(r).Filter; len(f) != 1 || f[0].Field != "module" || !slices.Equal(f[0].In, []string{"a", "b"}) {
		t.Errorf("a list of groups: %+v", f)
	}
	r = load(t, minimal, "policy.new=null", "policy.path=models/x")
	if r.Policy.New != nil || r.Policy.Path != "models/x" {
		t.Errorf("policy.new=null leaves %+v", r.Policy)
	}
}

func TestBadSettings(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"rollout.shards":                  "--set rollout.shards: want FIELD=VALUE",
		"":                                "--set : want FIELD=VALUE",
		"=3":                              `--set =3: unknown field ""; it has name, description, seed, preset, policy, start, warm_start, env, data, curriculum, scaffold, rollout, score, segments, reward, select, advantage, factors, weight, loss, optimizer, schedule, evaluation, resources`,
		"rollout.shard=2":                 `--set rollout.shard=2: unknown field "shard" in rollout; did you mean "shards"?`,
		"rolout.shards=2":                 `--set rolout.shards=2: unknown field "rolout"; did you mean "rollout"?`,
		"shards=2":                        `--set shards=2: unknown field "shards"; did you mean "rollout.shards"?`,
		"base=x":                          `--set base=x: unknown field "base"; it has name, description, seed, preset, policy, start, warm_start, env, data, curriculum, scaffold, rollout, score, segments, reward, select, advantage, factors, weight, loss, optimizer, schedule, evaluation, resources`,
		"rollout.shards=1.5":              "--set rollout.shards=1.5: want a whole number, got 1.5",
		"rollout.shards=":                 "--set rollout.shards=: want a whole number, got nothing",
		"rollout.shards=[":                "--set rollout.shards=[: sequence end token ']' not found",
		"rollout.top_p=1: 2":              "--set rollout.top_p=1: 2: want a finite number, got fields",
		"optimizer.learning_rate=.nan":    "--set optimizer.learning_rate=.nan: want a finite number, got .nan",
		"evaluation.greedy=yes":           "--set evaluation.greedy=yes: want true or false, got yes",
		"data.train.generate.levels.3=2":  `--set data.train.generate.levels.3=2: data.train.generate.levels is a list of 2 entries, numbered from 0; "3" is none of them`,
		"data.train.generate.levels.-1=2": `--set data.train.generate.levels.-1=2: data.train.generate.levels is a list of 2 entries, numbered from 0; "-1" is none of them`,
		"seed.x=1":                        `--set seed.x=1: seed is a whole number from 0 and has no field "x"`,
		"policy=null":                     "--set policy=null: want fields, got nothing",
		"loss.kl=3":                       "--set loss.kl=3: loss.kl wants fields, got the number 3",
		"loss.kl={coeff: 1}":              `--set loss.kl={coeff: 1}: unknown field "coeff" in loss.kl; did you mean "coef"?`,
		"env.answer.marker=a\x07":         "--set env.answer.marker=a\x07: the text has a control character or is not valid UTF-8",
		"preset=dappo":                    `--set preset=dappo: unknown preset "dappo"; there are ` + strings.Join(preset.Axis.Names(), ", ") + ", and grpo, which is verl-grpo",
		"rollout.temperature=1e-8":        "testdata/good/minimal.yaml: rollout.temperature: must be 0.0001 or more: at 0 all responses of a group are the same (1e-08)",
		"evaluation.temperature=1e-8":     "testdata/good/minimal.yaml: evaluation.temperature: must be 0.0001 or more: evaluation.greedy adds a greedy chain (1e-08)",
		"rollout.top_p=1e-50":             "testdata/good/minimal.yaml: rollout.top_p: must be above 0 and at most 1, which keeps all (1e-50)",
		"schedule.iterations=4000000000000000000": "testdata/good/minimal.yaml: schedule.iterations: must be from 0 to 1000000 (4000000000000000000)",
		"rollout.prompts=9223372036854775807":     "testdata/good/minimal.yaml: rollout.prompts: must be at most 1000000000 (9223372036854775807)",
		"rollout.group=900000000":                 "testdata/good/minimal.yaml: rollout.prompts × rollout.group: makes more than 1000000000 responses of an iteration",
		"evaluation.samples=1000000000":           "testdata/good/minimal.yaml: evaluation.problems × samples × (steps + 1): makes more than 1000000000 responses",
		"rollout.shards=500":                      "testdata/good/minimal.yaml: rollout.shards: must not be above rollout.prompts 128 (500)",
	} {
		_, err := recipe.Load(minimal, []string{setting})
		if err == nil || err.Error() != want || exitcode.Code(err) != exitcode.Usage {
			t.Errorf("%q:\n got %v\nwant %s", setting, err, want)
		}
	}
}

// The recipe of a run is whole; whoever edits it is told where.
func TestParse(t *testing.T) {
	t.Parallel()
	resolved, err := recipe.Load(minimal, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := string(resolved.YAML)
	for _, c := range []struct{ from, to, want string }{
		{"name: minimal", "base: other.yaml", "recipe.yaml:1:7: the recipe of a run is whole; it has no base"},
		{"  group: 8", "  group: 8.5", "want a whole number, got 8.5"},
		{"  group: 8", "  group: 0", "recipe.yaml: rollout.group: must be 1 or more (0)"},
		{"preset: lathe", "preset: leathe", `unknown preset "leathe"; there are cispo, clip-cov, dapo, `},
	} {
		_, err := recipe.Parse([]byte(strings.Replace(text, c.from, c.to, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.to, err, c.want)
		}
	}
}

// Every preset makes a recipe that validates, but for the teacher that distill leaves to
// the recipe.
func TestPresetsValidate(t *testing.T) {
	t.Parallel()
	for _, name := range preset.Axis.Names() {
		settings := []string{"preset=" + name}
		if name == "distill" {
			settings = append(settings, "advantage.teacher.version=0")
		}
		if _, err := recipe.Load(minimal, settings); err != nil {
			t.Error(err)
		}
	}
}

// The settings of a factor take effect, are kept in the recipe that a run reads, and are
// checked.
func TestSettingsOfFactor(t *testing.T) {
	t.Parallel()
	const exit = "../../jobs/exit-math.yaml"
	for _, setting := range []string{"factors.diversity.bound=2", "factors=[{diversity: {bound: 2}}]"} {
		resolved, err := recipe.Load(exit, []string{setting})
		if err != nil {
			t.Fatal(err)
		}
		back, err := recipe.Parse(resolved.YAML)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []*recipe.Recipe{&resolved.Recipe, back} {
			if diff := cmp.Diff([]credit.Choice{{Name: "diversity", Settings: &credit.Diversity{Bound: 2}}}, r.CreditSpec().Factors); diff != "" {
				t.Errorf("%v:\n%s", setting, diff)
			}
		}
	}
	if _, err := recipe.Load(exit, []string{"factors.diversity.bound=0.5"}); err == nil || !strings.Contains(err.Error(), "factors.diversity.bound: must be 1 or more, or 0 for none") {
		t.Errorf("a bound of 0.5: %v", err)
	}
}
