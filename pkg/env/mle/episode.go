package mle

import (
	"context"
	"fmt"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/mlebench/task"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// episode is a trace under way. All that it knows is in the conversation and the
// scores.
type episode struct {
	*Env
	of     env.Task
	folder *task.Task
}

// Begin starts a trace, or continues one: it has no state of its own.
func (e *Env) Begin(_ context.Context, of env.Task, _ []shard.Message) (env.Episode, error) {
	folder, err := e.folder(of)
	if err != nil {
		return nil, err
	}
	return &episode{e, of, folder}, nil
}

// Close does nothing.
func (p *episode) Close() error { return nil }

// Next tells the policy what came of its message. A program is waited for: its
// score comes in the next wave. After it the policy debugs what failed and
// improves what did not, in a new context; an action's result is one more
// message of the same context.
func (p *episode) Next(_ context.Context, conversation []shard.Message, last *env.TurnVerdict) (env.Step, error) {
	said := env.Said(conversation, 0)
	if len(said) >= p.settings.MaxTurns || p.submittedAll(conversation, said) {
		return env.Step{}, nil
	}
	if p.style.actions {
		return p.observe(conversation[said[len(said)-1]].Content, p.settings.MaxTurns-len(said), last), nil
	}
	if last == nil {
		return env.Step{Wait: true}, nil
	}
	kind := shard.KindImprove
	if last.Outcome != shard.OutcomeOK {
		kind = shard.KindDebug
	}
	prompt, err := p.Prompt(p.of, kind, env.Parent{Messages: conversation, Verdict: last})
	return env.Step{Messages: prompt, Fresh: true}, err
}

// submittedAll reports whether the attempt has made all of its submissions.
func (p *episode) submittedAll(conversation []shard.Message, said []int) bool {
	submissions := 0
	for _, at := range said {
		if p.submits(conversation[at].Content) {
			submissions++
		}
	}
	return p.settings.MaxSubmissions > 0 && submissions >= p.settings.MaxSubmissions
}

// submits reports whether a message has a program that submits, valid or not.
func (e *Env) submits(message string) bool {
	if e.style.actions {
		a, trouble := parseAction(message)
		return trouble == "" && a.Action == executeCode
	}
	_, ok := e.programIn(message)
	return ok
}

// observe is the result of an action.
func (p *episode) observe(message string, left int, last *env.TurnVerdict) env.Step {
	a, trouble := parseAction(message)
	var observation string
	switch {
	case trouble != "":
		observation = trouble
	case a.Action == requestInfo:
		observation = p.info(p.folder, a.Params.InfoType)
	case last == nil:
		return env.Step{Wait: true}
	default:
		parts := []string{last.Feedback}
		if a.Action == executeCode && last.Outcome == shard.OutcomeOK {
			parts = append(parts, "The submission is valid.", p.scoreLine(p.folder, last))
		} else if a.Action == validateCode && last.Feedback == "" {
			parts = append(parts, "The program ran without an error.")
		}
		observation = strings.TrimSpace(strings.Join(parts, "\n"))
	}
	return env.Step{Messages: []shard.Message{{Role: "user", Content: observation + fmt.Sprintf("\n\nTurns left: %d.", left)}}}
}
