package evaluate_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

// hasty is a server whose policy gives up at once, and makes the next of the
// reference calls when it is shown what it said: the recipe's improve prompt is
// the request and the message after it.
func hasty(tasks []env.Task, folder *string) http.Handler {
	say := func(messages []shard.Message) string {
		last := messages[len(messages)-1]
		if last.Role != "user" || !strings.HasSuffix(last.Content, ">") {
			return "<TASK_ERROR>"
		}
		for _, task := range tasks {
			if !strings.HasPrefix(messages[1].Content, task.Question) {
				continue
			}
			var truth [][]json.RawMessage
			if json.Unmarshal([]byte(task.Answer), &truth) != nil {
				break
			}
			var said []string
			for _, turn := range truth {
				if text, err := json.Marshal(turn); err == nil && len(turn) > 0 {
					said = append(said, "<tool>"+string(text)+"</tool>")
				}
				said = append(said, "<TASK_FINISHED>")
			}
			step := 0
			for _, m := range messages {
				if m.Role == "assistant" {
					step++
				}
			}
			return said[step]
		}
		return "an unknown task"
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := map[string]any{}
		switch r.URL.Path {
		case "/v1/models":
			answer = map[string]any{"data": []any{map[string]any{"id": *folder}}}
		case "/v1/chat/completions":
			var ask struct{ Messages []shard.Message }
			_ = json.NewDecoder(r.Body).Decode(&ask) // what cannot be read has no messages
			answer = map[string]any{"model": *folder, "choices": []any{map[string]any{
				"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": say(ask.Messages)},
			}}}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // a client that has gone is no concern of ours
	})
}

// TestEveryMessageIsImprovedOn: in step k of tool use each message of an episode
// was improved on k times before the functions saw it (ExIt §2.1).
// A policy that is right only at second thought fails at step 0, and is right
// at all others, in every turn.
func TestEveryMessageIsImprovedOn(t *testing.T) {
	t.Parallel()
	var folder string
	var tasks []env.Task
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { hasty(tasks, &folder).ServeHTTP(w, r) }))
	defer web.Close()
	r := stagetest.NewOf(t, "tooluse-smoke",
		"evaluation.steps=2", "evaluation.samples=1", "evaluation.greedy=true", "env.tooluse.test.steps=60", "env.prompts.improve={question} {previous_response}",
		"policy.new.max_position_embeddings=100000", "policy.new.tokenizer=bytes", "rollout.max_new_tokens=5000",
		"rollout.remote.url="+web.URL, "rollout.remote.server=openai", "rollout.remote.api=chat", "rollout.remote.ready_seconds=5",
	)
	folder, tasks = r.Path("policy"), r.Env.Set().Tasks(env.Test)
	r.Check(os.Mkdir(folder, 0o755))
	r.Check(warm.InitPolicy(warm.SettingsOf(r.Recipe), r.Env, folder))
	rows, err := r.Measure(folder, 0, 12, 0)
	r.Check(err)
	if len(rows) != 12*2*3 {
		t.Fatalf("%d rows, want 12 tasks × 2 chains × 3 steps", len(rows))
	}
	for i, row := range rows {
		task := tasks[i/6]
		want := 1.0
		if row.Step == 0 {
			want = 0
		}
		if row.TaskID != task.ID || row.Score != want || int(row.Level) != task.Level || row.Prompt != task.Question {
			t.Errorf("row %d, task %s, step %d: score %g, want %g, level %d, prompt %q:\n%s", i, row.TaskID, row.Step, row.Score, want, row.Level, row.Prompt, row.Response)
		}
		if row.Step > 0 && strings.Count(row.Response, "<TASK_FINISHED>") != task.Level {
			t.Errorf("row %d: the transcript of %d turns is\n%s", i, task.Level, row.Response)
		}
		if row.Step > 0 && row.ResponseTokens <= rows[i-1].ResponseTokens {
			t.Errorf("row %d: %d tokens after %d steps, %d before", i, row.ResponseTokens, row.Step, rows[i-1].ResponseTokens)
		}
	}
}
