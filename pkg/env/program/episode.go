package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/lathe-rl/lathe/pkg/child/stdio"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// episode is the program's side of one attempt. It can be lost at any time, with the
// program that has it: what the policy has said brings another one to where it was.
type episode struct {
	env    *Env
	task   env.Task
	prompt int // messages of the prompt
	id     string

	slot       *slot
	generation int // of the slot's program that has it
	live       bool
	restarts   int
}

var episodes atomic.Uint64 // names them

// Begin starts an episode, of which the program knows nothing before the policy has
// said something.
func (e *Env) Begin(_ context.Context, task env.Task, prompt []shard.Message) (env.Episode, error) {
	if e.settings.Program.MaxTurns == 1 {
		return env.Reply(func([]shard.Message) ([]shard.Message, error) { return nil, nil }), nil
	}
	if _, err := e.known(task); err != nil {
		return nil, err
	}
	return &episode{env: e, task: task, prompt: len(prompt), id: "e" + strconv.FormatUint(episodes.Add(1), 10)}, nil
}

// beginning is what a program is told of an episode.
type beginning struct {
	Episode  string    `json:"episode"`
	Task     taskView  `json:"task"`
	Messages []message `json:"messages"`
}

// message is a [shard.Message] as a program and data files have it.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func toMessages(of []shard.Message) []message {
	all := make([]message, len(of))
	for i, m := range of {
		all[i] = message(m)
	}
	return all
}

func fromMessages(of []message) []shard.Message {
	var all []shard.Message
	for _, m := range of {
		all = append(all, shard.Message(m))
	}
	return all
}

// turn is a message of the policy that a program answers.
type turn struct {
	Episode string       `json:"episode"`
	Message string       `json:"message"`
	Verdict *verdictView `json:"verdict,omitempty"`
}

// verdictView is a score as a program is shown it.
type verdictView struct {
	Outcome  string             `json:"outcome"`
	Reward   float64            `json:"reward"`
	Score    float64            `json:"score"`
	Parts    map[string]float64 `json:"parts,omitempty"`
	Feedback string             `json:"feedback,omitempty"`
}

func viewOf(v *env.TurnVerdict) *verdictView {
	if v == nil {
		return nil
	}
	view := &verdictView{Outcome: string(v.Outcome), Reward: v.Reward, Score: v.NormalizedScore, Parts: map[string]float64{}, Feedback: v.Feedback}
	for _, part := range v.Parts {
		view.Parts[part.Name] = part.Value
	}
	return view
}

// Next has the program answer the policy's message, which in a recipe with waves has
// its score first. After the last message that there may be nothing is asked.
func (p *episode) Next(ctx context.Context, conversation []shard.Message, last *env.TurnVerdict) (env.Step, error) {
	said := env.Said(conversation, 0)
	if len(said) == 0 || said[len(said)-1] != len(conversation)-1 {
		return env.Step{}, exitcode.Bugf("continuing %q: the conversation does not end with the policy's message", p.task.ID)
	}
	settings := p.env.settings.Program
	switch {
	case len(said) >= settings.MaxTurns:
		return env.Step{}, nil
	case settings.Waves && last == nil:
		return env.Step{Wait: true}, nil
	}
	alone := false
	for {
		step, err := p.answer(ctx, conversation, last, alone)
		var item *itemError
		switch {
		case err == nil, ctx.Err() != nil, errors.As(err, &item), exitcode.Code(err) != exitcode.Failed:
			return step, err
		case errors.Is(err, errLost):
			alone = true
		case p.restarts >= settings.Retries:
			return step, err
		default:
			p.restarts++
		}
	}
}

// answer has the program that has the episode answer.
func (p *episode) answer(ctx context.Context, conversation []shard.Message, last *env.TurnVerdict, alone bool) (env.Step, error) {
	end := len(conversation) - 1
	if err := p.resume(ctx, conversation[:end], alone); err != nil {
		return env.Step{}, err
	}
	return p.say(ctx, conversation[end].Content, last, alone)
}

// resume brings the program to where the conversation is. In a recipe with waves a
// program goes on from the messages; in any other the policy's messages are said
// again, and must be answered as they were. The last request of a prompt is not
// compared: another may stand in its place, to improve on what followed.
func (p *episode) resume(ctx context.Context, before []shard.Message, alone bool) error {
	pool := p.env.pool
	if p.live && pool.generationOf(p.slot) == p.generation {
		return nil
	}
	if p.slot == nil {
		p.slot = pool.place()
	}
	p.live, p.generation = false, pool.generationOf(p.slot)
	first := p.env.opening(p.task, before)
	if p.env.settings.Program.Waves {
		first = len(before)
	}
	said := env.Said(before, first)
	view, err := p.env.view(p.task)
	if err != nil {
		return err
	}
	if _, err := p.ask(ctx, verbBegin, beginning{p.id, view, toMessages(before[:first])}, alone); err != nil {
		return err
	}
	for i, at := range said {
		step, err := p.say(ctx, before[at].Content, nil, alone)
		if err != nil {
			return err
		}
		next := len(before)
		if i+1 < len(said) {
			next = said[i+1]
		}
		if next != p.prompt && !slices.Equal(step.Messages, before[at+1:next]) {
			return fmt.Errorf("task %q: the program gave another answer to message %d when the episode was replayed: an episode may depend only on its task, its seed and the messages", p.task.ID, i+1)
		}
	}
	p.live = true
	return nil
}

// say tells the program a message of the policy.
func (p *episode) say(ctx context.Context, said string, verdict *env.TurnVerdict, alone bool) (env.Step, error) {
	raw, err := p.ask(ctx, verbNext, turn{p.id, said, viewOf(verdict)}, alone)
	if err != nil {
		return env.Step{}, err
	}
	var step struct {
		refusal
		Messages []message `json:"messages"`
		Fresh    bool      `json:"fresh"`
	}
	if err := plainjson.Strict(raw, &step); err != nil {
		return env.Step{}, badAnswer(verbNext, raw, fmt.Sprintf(`want {"messages": […]}, or {} at the end of the episode: %v`, err))
	}
	if len(step.Messages) > 0 {
		if err := checkMessages(step.Messages); err != nil {
			return env.Step{}, badAnswer(verbNext, raw, err.Error())
		}
	}
	return env.Step{Messages: fromMessages(step.Messages), Fresh: step.Fresh && len(step.Messages) > 0}, nil
}

func (p *episode) ask(ctx context.Context, verb string, item any, alone bool) (json.RawMessage, error) {
	return p.env.pool.wait(ctx, p.slot, &call{verb: verb, item: item, alone: alone, generation: p.generation})
}

// Close tells the program that the episode is over.
func (p *episode) Close() error {
	if p.slot == nil {
		return nil
	}
	pool := p.env.pool
	if p.live && pool.generationOf(p.slot) == p.generation {
		c := &call{verb: verbClose, item: map[string]string{"episode": p.id}, generation: p.generation, done: make(chan struct{})}
		_ = pool.queue(p.slot, c) // nobody waits for it
	}
	pool.leave(p.slot)
	p.slot, p.live = nil, false
	return nil
}

// badAnswer is an item that the program must not say. The program is well.
func badAnswer(verb string, raw json.RawMessage, wanted string) error {
	return &itemError{verb, fmt.Sprintf("it answered %s: %s", stdio.Shown(raw), wanted)}
}

// checkMessages checks messages that a program or a file has given.
func checkMessages(messages []message) error {
	if len(messages) == 0 {
		return errors.New("a list of messages must not be empty")
	}
	for _, m := range messages {
		switch m.Role {
		case "system", "user", "assistant", "tool":
		default:
			return fmt.Errorf("a message has the role %q: it must be system, user, assistant or tool", m.Role)
		}
	}
	if messages[len(messages)-1].Role == "assistant" {
		return errors.New("the last message is the assistant's: nothing is asked")
	}
	return nil
}
