package tooluse

import (
	"context"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// rightBefore is the probability that the message which a demonstration
// iterates on is right already, so that a policy learns to keep it too.
const rightBefore = 0.5

// Positions of a demonstration's draws in its stream.
const (
	drawOneByOne = 0 // a message for each call, or one for all calls of a turn
	drawStep     = 1 // the step that is iterated on
	drawRight    = 2 // whether its earlier message is right
	drawFlaw     = 3 // how it is wrong
)

// Demonstration plays a task with its reference calls: an episode that is
// executed in full, or for improve and diverge one that iterates on a step
// of it. It is false for a task without reference calls, and for one whose
// reference calls fail.
func (e *Env) Demonstration(of env.Task, kind shard.Kind, stream rng.Stream) (conversation []shard.Message, ok bool, err error) {
	t, known := e.tasks[of.ID]
	if !known || t.truth == nil {
		return nil, false, nil
	}
	said, err := t.perfect(stream.Bool(drawOneByOne, 0.5))
	if err != nil {
		return nil, false, err
	}
	if kind == shard.KindInitial {
		return e.play(t, t.opening(), said)
	}
	step := stream.IntN(drawStep, len(said))
	history, ok, err := e.play(t, t.opening(), said[:step])
	if !ok || err != nil {
		return nil, false, err
	}
	previous := said[step]
	if !stream.Bool(drawRight, rightBefore) {
		flaws := []string{taskError, taskFinished, openTool + "[]" + closeTool}
		previous = flaws[stream.IntN(drawFlaw, len(flaws))]
	}
	prompt, err := e.Prompt(of, kind, env.Parent{Messages: append(history, shard.Message{Role: roleAssistant, Content: previous})})
	if err != nil {
		return nil, false, err
	}
	return e.play(t, prompt, said[step:])
}

// perfect lists the messages of a policy that makes the reference calls.
func (t *task) perfect(oneByOne bool) (said []string, err error) {
	for turn := range t.turns {
		lists := [][]Call{t.truth[turn]}
		if oneByOne {
			lists = nil
			for _, call := range t.truth[turn] {
				lists = append(lists, []Call{call})
			}
		}
		for _, list := range lists {
			if len(list) == 0 {
				continue
			}
			text, err := plainjson.Line(list)
			if err != nil {
				return nil, err
			}
			said = append(said, openTool+string(text)+closeTool)
		}
		said = append(said, taskFinished)
	}
	return said, nil
}

// play lets a policy that says what is given speak after a prompt, up to the
// end of the episode or until it has nothing more to say. A call that fails is
// no demonstration.
func (e *Env) play(t *task, prompt []shard.Message, said []string) (conversation []shard.Message, ok bool, err error) {
	ctx := context.Background()
	played := e.newEpisode(t)
	defer played.Close()
	if err := played.replay(ctx, prompt, nil); err != nil {
		return nil, false, err
	}
	conversation = append([]shard.Message(nil), prompt...)
	for _, message := range said {
		if played.over {
			return nil, false, nil
		}
		conversation = append(conversation, shard.Message{Role: roleAssistant, Content: message})
		answer, err := played.step(ctx, message)
		if err != nil {
			return nil, false, err
		}
		conversation = append(conversation, answer...)
	}
	for _, turn := range played.executed {
		for _, call := range turn {
			if call.Failed {
				return nil, false, nil
			}
		}
	}
	return conversation, true, nil
}
