package tooluse

import (
	"context"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// episode is one conversation under way. Everything in it follows from the
// task and what the policy has said.
type episode struct {
	task    *task
	tools   *ToolUse
	backend Backend

	executed [][]Executed // by the user's turn, the last one being the present one
	steps    int          // messages of the policy
	over     bool
	last     ending // of the policy's last message
}

func (e *Env) newEpisode(t *task) *episode {
	return &episode{task: t, tools: &e.settings.ToolUse, backend: t.open(len(t.turns)), executed: [][]Executed{nil}}
}

// Next answers the policy's message at the end of the conversation: with the
// results of its calls, or after <TASK_FINISHED> with the user's next request.
// The episode is over when the user has no request left, after <TASK_ERROR>,
// after a message without a valid ending, and after the last step, whose calls
// are still executed.
func (e *episode) Next(ctx context.Context, conversation []shard.Message, _ *env.TurnVerdict) (env.Step, error) {
	if len(conversation) == 0 || conversation[len(conversation)-1].Role != roleAssistant {
		return env.Step{}, exitcode.Bugf("continuing %q: the conversation does not end with the policy's message", e.task.ID)
	}
	messages, err := e.step(ctx, conversation[len(conversation)-1].Content)
	return env.Step{Messages: messages}, err
}

// Close ends the backend.
func (e *episode) Close() error { return e.backend.Close() }

// step takes one message of the policy. What comes back is nil when the
// episode is over.
func (e *episode) step(ctx context.Context, said string) ([]shard.Message, error) {
	e.steps++
	end, calls := read(said)
	e.last = end
	var answer []shard.Message
	switch end {
	case endsOpen, endsGivenUp:
		e.over = true
	case endsFinished:
		if len(e.executed) == len(e.task.turns) {
			e.over = true
			break
		}
		e.executed = append(e.executed, nil)
		answer = e.task.request(len(e.executed) - 1)
	case endsCalls:
		results, err := e.run(ctx, calls)
		if err != nil {
			return nil, err
		}
		message, err := resultMessage(e.tools.ResultRole, results)
		if err != nil {
			return nil, err
		}
		answer = []shard.Message{message}
	}
	e.over = e.over || e.steps >= e.task.rules.Steps
	if e.over {
		return nil, nil
	}
	return answer, nil
}

// run runs a list of calls in its order, up to the first that fails and
// no more than may be.
func (e *episode) run(ctx context.Context, text string) (results []string, err error) {
	if e.tools.Calls == callsAny {
		text = asList(text)
	}
	entries, why := parseList(text)
	if why != "" {
		return []string{why}, nil
	}
	turn := len(e.executed) - 1
	for i, entry := range entries {
		if i == e.tools.MaxCalls {
			return append(results, leftOut(len(entries)-i, fmt.Sprintf("for there may be %d in one message", e.tools.MaxCalls))...), nil
		}
		call, ok := parseCall(entry)
		result := Result{Text: notACall, Failed: true}
		if ok {
			if result, err = e.backend.Call(ctx, call); err != nil {
				return nil, err
			}
			e.executed[turn] = append(e.executed[turn], Executed{call, result.Failed})
		}
		results = append(results, clip(result.Text, e.tools.MaxResultBytes))
		if result.Failed {
			return append(results, leftOut(len(entries)-i-1, "for this one failed")...), nil
		}
	}
	return results, nil
}

// replay takes the steps of a conversation again, and makes sure that the
// results come out as the conversation shows them. What the user says is not
// compared: an improve prompt stands in its place. After each message of the
// policy, at position i, after is called if it is not nil.
func (e *episode) replay(ctx context.Context, conversation []shard.Message, after func(i int) error) error {
	for i, m := range conversation {
		if m.Role != roleAssistant {
			continue
		}
		if e.over {
			return exitcode.Dataf("replaying an episode of %q: message %d comes after the episode's end", e.task.ID, i+1)
		}
		answer, err := e.step(ctx, m.Content)
		if err != nil {
			return err
		}
		if after != nil {
			if err := after(i); err != nil {
				return err
			}
		}
		if i+1 == len(conversation) {
			return nil
		}
		shown := conversation[i+1]
		if e.last == endsCalls && len(answer) > 0 && shown != answer[0] {
			return exitcode.WithHint(
				exitcode.Dataf("replaying an episode of %q: message %d is %q, and the same calls now give %q", e.task.ID, i+2, clip(shown.Content, 200), clip(answer[0].Content, 200)),
				"functions must do the same whenever the same calls are made in the same order")
		}
	}
	return nil
}
