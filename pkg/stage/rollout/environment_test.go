package rollout_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// broken is an environment that cannot begin the episodes of some tasks.
type broken struct {
	env.Env
	tasks []string
	err   error
}

func (b broken) Begin(ctx context.Context, task env.Task, prompt []shard.Message) (env.Episode, error) {
	if slices.Contains(b.tasks, task.ID) {
		return nil, b.err
	}
	return b.Env.Begin(ctx, task, prompt)
}

// TestEnvironmentFails: an episode that the environment fails is ours to answer for,
// up to the share that the recipe bears; what is wrong with the data ends the
// task.
func TestEnvironmentFails(t *testing.T) {
	t.Parallel()
	r := stagetest.NewOf(t, "tooluse-smoke", "env.tooluse.max_failed=0.1")
	r.Job.Plain = true // the policy has no seal
	folder := r.Path("policy")
	r.Check(os.Mkdir(folder, 0o755))
	r.Check(warm.InitPolicy(warm.SettingsOf(r.Recipe), r.Env, folder))
	plan, instances := r.Plan(12)
	play := func(name string, environment env.Env) (seal.Manifest, error) {
		return rollout.Run(r.Context(), r.Job, rollout.SettingsOf(r.Recipe), environment, rollout.Inputs{
			Plan: plan, LastRow: len(instances), PolicyFolder: folder, Iteration: 1, Of: 1, Output: r.Path(name),
		})
	}
	fire := errors.New("the tools are on fire")
	one, two := []string{instances[3].TaskID}, []string{instances[3].TaskID, instances[7].TaskID}

	// 4 of 48 episodes are less than a tenth.
	m, err := play("rollout.parquet", broken{r.Env, one, fire})
	r.Check(err)
	if m.Metrics["infra"] != 4 {
		t.Errorf("%g episodes are counted as failed, want 4", m.Metrics["infra"])
	}
	for i, row := range stagetest.Read[shard.Rollout](r, r.Path("rollout.parquet")) {
		if failed := i/4 == 3; (row.Outcome == string(shard.OutcomeInfra)) != failed || failed && len(row.TokenIDs) != 0 {
			t.Errorf("row %d: outcome %s, %d tokens", i, row.Outcome, len(row.TokenIDs))
		}
	}

	// 8 of 48 are more.
	_, err = play("never.parquet", broken{r.Env, two, fire})
	if exitcode.Code(err) != exitcode.Failed || !strings.Contains(err.Error(), "8 of 48 episodes failed; the first: environment of task") || len(exitcode.Hints(err)) == 0 {
		t.Errorf("too many failures: %v", err)
	}
	_, err = play("never.parquet", broken{r.Env, one, exitcode.Dataf("the history is another's")})
	if exitcode.Code(err) != exitcode.Data {
		t.Errorf("damaged data: %v", err)
	}
	if _, err := os.Stat(r.Path("never.parquet")); err == nil {
		t.Error("a shard was sealed all the same")
	}
}

// begun is an environment whose prompts begin the response.
type begun struct{ env.Env }

func (b begun) Prompt(task env.Task, kind shard.Kind, parent env.Parent) ([]shard.Message, error) {
	prompt, err := b.Env.Prompt(task, kind, parent)
	return append(prompt, shard.Message{Role: "assistant", Content: "It is "}), err
}

// What a prompt begins to say for the policy is read by it as its own words, and
// is one message with what it then says.
func TestBegunResponse(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "rollout.group=2")
	r.Job.Plain = true
	folder := r.Path("policy")
	r.Check(os.Mkdir(folder, 0o755))
	r.Check(warm.InitPolicy(warm.SettingsOf(r.Recipe), r.Env, folder))
	r.Env = begun{r.Env}
	plan, instances := r.Plan(2)
	_, err := rollout.Run(r.Context(), r.Job, rollout.SettingsOf(r.Recipe), r.Env, rollout.Inputs{Plan: plan, LastRow: len(instances), PolicyFolder: folder, Iteration: 1, Of: 1, Output: r.Path("rollout.parquet")})
	r.Check(err)
	text, err := tokenizer.Load(folder)
	r.Check(err)
	rows := stagetest.Read[shard.Rollout](r, r.Path("rollout.parquet"))
	if len(rows) != 4 {
		t.Errorf("%d rows, want 4", len(rows))
	}
	for _, row := range rows {
		prompt := text.Decode(row.TokenIDs[:row.PromptTokens])
		last := row.Messages[len(row.Messages)-1]
		if len(row.Messages) != 2 || row.PromptMessages != 1 || row.Messages[0].Role != "user" || last.Role != "assistant" || !strings.HasPrefix(last.Content, "It is ") ||
			!strings.HasSuffix(prompt, "<|assistant|>It is ") {
			t.Errorf("the prompt is %q, the messages %+v, of which %d ask", prompt, row.Messages, row.PromptMessages)
		}
	}
}
