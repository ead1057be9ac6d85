package command_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/command"
	"github.com/lathe-rl/lathe/pkg/command/task"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Commands are functions of their options, without a command line: a policy is
// made, asked, and changed in this process.
func TestPolicyOptions(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "policy")
	var out bytes.Buffer
	made := command.PolicyInitOptions{RecipeOptions: command.RecipeOptions{Recipe: smoke}, Out: folder}
	if err := command.PolicyInit(&out, made); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), folder+" ") {
		t.Errorf("it prints %q", out.String())
	}
	if err := command.PolicyInit(&out, made); exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("made again: %v", err)
	}

	out.Reset()
	lines := strings.NewReader("{\"id\": 1, \"text\": \"12+34=\"}\n{\"id\": 2, \"text\": \"\"}\n")
	if err := command.PolicyTokenize(t.Context(), lines, &out, command.PolicyTokenizeOptions{Model: folder}); err != nil {
		t.Fatal(err)
	}
	var row struct {
		ID       int     `json:"id"`
		TokenIDs []int32 `json:"token_ids"`
	}
	decoder := json.NewDecoder(&out)
	for _, want := range []struct{ id, tokens int }{{1, 6}, {2, 0}} { // a token for each character
		if err := decoder.Decode(&row); err != nil || row.ID != want.id || len(row.TokenIDs) != want.tokens {
			t.Errorf("row %+v, error %v, want %+v", row, err, want)
		}
	}

	out.Reset()
	asked := command.PolicyGenerateOptions{Model: folder, Threads: 1, Prompts: []string{"1+1="}, Text: true, MaxNewTokens: 3, TopP: 1, Samples: 2, JSON: true}
	if err := command.PolicyGenerate(t.Context(), nil, &out, asked); err != nil {
		t.Fatal(err)
	}
	if responses := strings.Count(out.String(), "\n"); responses != 2 {
		t.Errorf("%d responses:\n%s", responses, out.String())
	}
	asked.Chat = true
	if err := command.PolicyGenerate(t.Context(), nil, &out, asked); exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), "--chat and --text") {
		t.Errorf("with --chat and --text: %v", err)
	}
}

// Options that cannot be meant are refused before anything is read or made.
func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	none := -1
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"rollout without an iteration": {task.DoRollout(t.Context(), nil, task.RolloutOptions{}), "--iteration is missing"},
		"rollout without a run": {
			task.DoRollout(t.Context(), nil, task.RolloutOptions{Options: task.Options{Iteration: new(int)}}), "--run is missing",
		},
		"score before the first iteration": {
			task.DoScore(t.Context(), nil, task.ScoreOptions{Options: task.Options{Iteration: &none}}), "--iteration is missing or negative",
		},
		"run without a recipe": {command.Run(t.Context(), nil, command.RunOptions{}), "RECIPE and --run are missing"},
		"run elsewhere": {
			command.Run(t.Context(), nil, command.RunOptions{LaunchOptions: command.LaunchOptions{Run: "r", Executor: "cloud"}}), `--executor: got "cloud", want local, steps or slurm`,
		},
		"eval of nothing":  {command.Eval(t.Context(), nil, command.EvalOptions{}), "--recipe is missing"},
		"data of no split": {command.DataGenerate(nil, command.DataGenerateOptions{Split: "dev"}), `--split: got "dev", want train or test`},
		"data of no generator": {
			command.DataGenerate(nil, command.DataGenerateOptions{Split: env.Train, Env: "nowhere"}), `--env: got "nowhere", want one of`,
		},
		"check of nothing":   {task.Check(t.Context(), nil, nil, task.CheckOptions{}), "--env is missing"},
		"inspect of nothing": {command.PolicyInspect(t.Context(), nil, command.PolicyInspectOptions{}), "--model is missing"},
	} {
		if exitcode.Code(c.err) != exitcode.Usage || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want a usage error with %q", name, c.err, c.want)
		}
	}
}
