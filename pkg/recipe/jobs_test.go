package recipe_test

import (
	order "cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	_ "github.com/lathe-rl/lathe/pkg/builtin"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/config/configtest"
	"github.com/lathe-rl/lathe/pkg/curriculum/exit"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/site"
)

const jobsFolder = "../../jobs"

func sharedFolder(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("LATHE_SHARED")
	if folder == "" {
		folder = "../../../shared"
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// shippedRecipes are all files of jobs, in folders too, but those that are a part
// of a recipe.
func shippedRecipes(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(slices.Concat(configtest.Glob(t, jobsFolder+"/*.yaml"), configtest.Glob(t, jobsFolder+"/*/*.yaml"), configtest.Glob(t, jobsFolder+"/*/*/*.yaml")), func(path string) bool {
		folder := filepath.Base(filepath.Dir(path))
		return folder == "datasets" || folder == "sites"
	})
}

// Every recipe that is shipped loads, validates, is called after its file,
// and comes back from its written form.
func TestShippedRecipes(t *testing.T) {
	t.Parallel()
	for _, path := range shippedRecipes(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			resolved, err := recipe.Load(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.TrimSuffix(filepath.Base(path), ".yaml"); resolved.Recipe.Name != want {
				t.Errorf("the recipe is called %q, want %q", resolved.Recipe.Name, want)
			}
			if resolved.Recipe.Description == "" {
				t.Error("the recipe has no description")
			}
			back, err := recipe.Parse(resolved.YAML)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&resolved.Recipe, back); diff != "" {
				t.Errorf("the written recipe reads back differently (-want +got):\n%s", diff)
			}
		})
	}
}

// The data of the recipes exist in the quantity that they ask for.
func TestShippedRecipesHaveProblems(t *testing.T) {
	shared := sharedFolder(t)
	type source struct { // of an environment: recipes that share it are tried with one
		env    recipe.Env
		data   recipe.Data
		seed   uint64
		folder string
	}
	type environment struct {
		source
		problems env.Env
	}
	var environments []environment
	for _, path := range shippedRecipes(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			resolved, err := recipe.Load(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r := resolved.Recipe
			sources, _ := config.Find[[]string](&r, "data.train.files")
			if folder, ok := config.Find[string](&r, "env.tooluse.bfcl"); ok {
				sources = append(sources, folder)
			}
			if offline, ok := config.Find[string](&r, "data.offline"); ok {
				sources = append(sources, offline)
			}
			if folders, ok := config.Find[[]string](&r, "data.tasks"); ok {
				sources = append(sources, folders...)
			}
			switch files := strings.Join(sources, " "); {
			case strings.Contains(files, "$LATHE_DATA"), strings.Contains(files, "$LATHE_OFFLINE"), strings.Contains(files, "$LATHE_LADDER"):
				t.Skip("the recipe's problems are not shipped")
			case strings.Contains(files, "$LATHE_SHARED"):
				if _, err := os.Stat(filepath.Join(shared, "data")); err != nil {
					t.Skip("set LATHE_SHARED to the folder that holds data")
				}
				t.Setenv("LATHE_SHARED", shared)
			}
			from := source{r.Env, r.Data, r.Seed, filepath.Dir(path)}
			at := slices.IndexFunc(environments, func(e environment) bool { return reflect.DeepEqual(e.source, from) })
			if at < 0 {
				problems, err := r.NewEnv(from.folder)
				if exitcode.Code(err) == exitcode.Unavailable {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				kept(t, &r, from.folder, problems)
				environments, at = append(environments, environment{from, problems}), len(environments)
			}
			problems := environments[at].problems
			if got := len(problems.Set().Tasks(env.Test)); got < r.Evaluation.Problems {
				t.Errorf("%d test problems, but evaluation.problems is %d", got, r.Evaluation.Problems)
			}
			// A few tasks that take minutes are asked several times an iteration.
			if got := len(problems.Set().Tasks(env.Train)); got < r.Rollout.Prompts && !problems.Traits().Slow {
				t.Errorf("%d training problems, but rollout.prompts is %d", got, r.Rollout.Prompts)
			}
		})
	}
}

// kept seals the tasks of an environment and makes it again from them: it asks
// and scores as before.
func kept(t *testing.T, r *recipe.Recipe, folder string, was env.Env) {
	t.Helper()
	rows := was.Set().Rows()
	path := filepath.Join(t.TempDir(), "tasks.parquet")
	if _, err := shard.Write(path, rows, nil, seal.AttemptFromEnv(), seal.Manifest{}); err != nil {
		t.Fatal(err)
	}
	read, _, err := shard.Read[shard.TaskRow](t.Context(), path, seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	is, err := r.EnvFromRows(folder, read)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(rows, is.Set().Rows(), func(a, b shard.TaskRow) bool { return cmp.Equal(a, b, cmpopts.EquateEmpty()) }) {
		t.Error("rows of rows are others")
	}
	for _, split := range []env.Split{env.Train, env.Test} {
		if !cmp.Equal(was.Set().Tasks(split), is.Set().Tasks(split), cmpopts.EquateEmpty()) {
			t.Fatalf("the tasks to %s are others", split)
		}
		for _, task := range was.Set().Tasks(split)[:min(50, len(was.Set().Tasks(split)))] {
			before, errBefore := was.Prompt(task, shard.KindInitial, env.Parent{})
			after, errAfter := is.Prompt(task, shard.KindInitial, env.Parent{})
			if difference := cmp.Diff(before, after); difference != "" || errBefore != nil || errAfter != nil {
				t.Fatalf("task %s is asked differently: %v, %v: %s", task.ID, errBefore, errAfter, difference)
			}
			conversation := append(before, shard.Message{Role: "assistant", Content: task.Answer})
			old, errBefore := was.Score(t.Context(), env.Attempt{Task: task, Messages: conversation, Own: env.Said(conversation, 0), Finish: "stop"})
			now, errAfter := is.Score(t.Context(), env.Attempt{Task: task, Messages: conversation, Own: env.Said(conversation, 0), Finish: "stop"})
			old.ExecuteSeconds, now.ExecuteSeconds = 0, 0
			if difference := cmp.Diff(old, now); difference != "" || fmt.Sprint(errBefore) != fmt.Sprint(errAfter) {
				t.Fatalf("task %s is judged differently: %v, %v: %s", task.ID, errBefore, errAfter, difference)
			}
		}
	}
}

// ExIt Tab. 4, column by column: what distinguishes the ablations.
func TestExitAblations(t *testing.T) {
	t.Parallel()
	type column struct {
		curriculum     string
		improve        bool
		pDiverge       float64
		bonus          bool
		usesEmbeddings bool
	}
	want := map[string]column{
		"exit-curriculum": {"exit", false, 0, false, false},
		"exit-improve":    {"exit", true, 0, false, false},
		"exit-diverge":    {"exit", true, 0.2, false, false},
		"exit-math":       {"exit", true, 0.2, true, true},
	}
	for name, want := range want {
		resolved, err := recipe.Load(filepath.Join(jobsFolder, name+".yaml"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := resolved.Recipe
		e := r.Curriculum.Settings().(*exit.Settings)
		got := column{r.Curriculum.Name, e.Improve, e.DivergeProbability, len(r.Factors) == 1 && r.Factors[0].Name == "diversity", r.Score.Embedding != "none"}
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if e.BufferSize != 512 || e.MinBufferSize != 128 || e.SelectProbability != 0.5 {
			t.Errorf("%s: buffer %d, minimum %d, p %v; Table 4 has 512, 128, 0.5", name, e.BufferSize, e.MinBufferSize, e.SelectProbability)
		}
	}
	// The rows that all columns share.
	for _, name := range []string{"exit-grpo", "exit-curriculum", "exit-improve", "exit-diverge", "exit-math"} {
		resolved, err := recipe.Load(filepath.Join(jobsFolder, name+".yaml"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := resolved.Recipe
		type shared struct {
			learningRate         float64
			prompts, group       int
			epochs               int
			beta                 float64
			refEvery             int
			refAlpha             float64
			clipLow, clipHigh    float64
			scale                string
			aggregation, problem string
		}
		question, _ := config.Find[string](&r, "data.train.fields.question")
		got := shared{
			r.Optimizer.LearningRate, r.Rollout.Prompts, r.Rollout.Group, r.Loss.Epochs, r.Loss.KL.Coef, r.Loss.KL.RefEvery,
			r.Loss.KL.RefAlpha, r.Loss.ClipLow, r.Loss.ClipHigh, r.Advantage.Scale, r.Weight.Choice().Name, question,
		}
		if want := (shared{1e-6, 128, 8, 1, 0.001, 100, 1, 0.2, 0.2, "std", "seq_mean_token_mean", "problem"}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	grpo, err := recipe.Load(filepath.Join(jobsFolder, "exit-grpo.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := grpo.Recipe.Curriculum.Name; got != "uniform" {
		t.Errorf("exit-grpo has the curriculum %q, want uniform", got)
	}
}

// jobs/COMPOSITIONS.md has what each recipe chooses on every axis.
func TestCompositionsPage(t *testing.T) {
	t.Parallel()
	var paths []string
	for _, path := range shippedRecipes(t) {
		within, err := filepath.Rel(jobsFolder, path)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, within)
	}
	slices.SortFunc(paths, func(a, b string) int {
		return order.Or(strings.Compare(filepath.Dir(a), filepath.Dir(b)), strings.Compare(a, b))
	})
	page, err := recipe.Compositions(jobsFolder, paths)
	if err != nil {
		t.Fatal(err)
	}
	configtest.Golden(t, jobsFolder+"/COMPOSITIONS.md", page)
}

// jobs/REFERENCE.md says what the types say.
func TestReference(t *testing.T) {
	t.Parallel()
	configtest.Golden(t, jobsFolder+"/REFERENCE.md", recipe.Reference())
	for _, f := range append(recipe.Describe(), site.Describe()...) {
		if f.Doc == "" {
			t.Errorf("%s has no comment", f.Path)
		}
	}
}

// ExIt Tab. 5, column by column.
func TestExitToolUseAblations(t *testing.T) {
	t.Parallel()
	type column struct {
		curriculum             string
		learningRate           float64
		size, least            int
		p                      float64
		improve                bool
		pDiverge               float64
		bonus, usesEmbeddings  bool
		prompts, group, epochs int
		beta                   float64
		refEvery               int
		refAlpha               float64
	}
	for name, want := range map[string]column{
		"bfcl-grpo":       {"uniform", 1e-6, 0, 0, 0, false, 0, false, false, 16, 8, 2, .001, 100, 1},
		"bfcl-curriculum": {"exit", 5e-7, 320, 320, .2, false, 0, false, false, 16, 8, 2, .001, 100, 1},
		"bfcl-improve":    {"exit", 5e-7, 640, 320, .5, true, 0, false, false, 16, 8, 2, .001, 100, 1},
		"bfcl-diverge":    {"exit", 5e-7, 640, 320, .5, true, .2, false, false, 16, 8, 2, .001, 100, 1},
		"bfcl-exit":       {"exit", 1e-6, 640, 320, .5, true, .5, true, true, 16, 8, 2, .001, 100, 1},
	} {
		resolved, err := recipe.Load(filepath.Join(jobsFolder, name+".yaml"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := resolved.Recipe
		e, selects := r.Curriculum.Settings().(*exit.Settings)
		if !selects {
			e = &exit.Settings{}
		}
		got := column{
			r.Curriculum.Name, r.Optimizer.LearningRate, e.BufferSize, e.MinBufferSize, e.SelectProbability, e.Improve, e.DivergeProbability, len(r.Factors) == 1 && r.Factors[0].Name == "diversity",
			r.Score.Embedding != "none", r.Rollout.Prompts, r.Rollout.Group, r.Loss.Epochs, r.Loss.KL.Coef, r.Loss.KL.RefEvery, r.Loss.KL.RefAlpha,
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
