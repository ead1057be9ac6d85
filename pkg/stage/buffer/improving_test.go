package buffer

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// worded is an environment of which only prompts are asked: it words the last message and
// what is known of it.
type worded struct {
	env.Env
	tasks *env.TaskSet
}

func (w worded) Set() *env.TaskSet { return w.tasks }

func (worded) Prompt(task env.Task, kind shard.Kind, parent env.Parent) ([]shard.Message, error) {
	said := []string{task.ID, string(kind), parent.Messages[len(parent.Messages)-1].Content}
	if parent.Verdict != nil {
		said = append(said, parent.Verdict.Feedback)
	}
	return []shard.Message{{Role: "user", Content: strings.Join(said, " ")}}, nil
}

// TestImproving: a teacher reads the prompt to improve the response, with the verdict on its
// last turn where there is one.
func TestImproving(t *testing.T) {
	t.Parallel()
	tasks := env.NewTaskSet("worded")
	tasks.Add(env.Task{ID: "a"}, env.Facts{Split: env.Train})
	prompt := improving(worded{tasks: tasks})
	conversation := []shard.Message{{Role: "user", Content: "1+1"}, {Role: "assistant", Content: "3"}}
	for want, turns := range map[string][]shard.TurnScore{
		"a improve 3":        nil,
		"a improve 3 second": {{Feedback: "first"}, {Feedback: "second"}},
		"a improve 3 first":  {{Feedback: "first"}},
	} {
		got, err := prompt("a", conversation, shard.Score{Turns: turns})
		if err != nil || len(got) != 1 || got[0].Content != want {
			t.Errorf("%d turns: %+v, %v, want %q", len(turns), got, err, want)
		}
	}
	if _, err := prompt("b", conversation, shard.Score{}); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), `environment "worded" has no task "b"`) {
		t.Errorf("another task: %v", err)
	}
}
