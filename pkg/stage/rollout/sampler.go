package rollout

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/remote"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stopstring"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// Sampler is a policy that speaks: an engine or a server, its tokenizer and
// its chat format.
type Sampler struct {
	Chat      chat.Chat
	generator generator
	engine    *policy.Engine      // of the generator; nil for a server
	own       shard.LogProbSource // of the log-probabilities that the generator gives

	stops            *stopstring.Set
	includeStop      bool
	rendersElsewhere bool                  // the server applies its own chat template
	turns            int                   // bound on the policy's messages in an attempt
	context          func(longest int) int // bounds the tokens of a context
}

// OpenSampler opens a policy folder for sampling with what the recipe names. An
// attempt has at most so many messages of the policy.
func OpenSampler(ctx context.Context, s Settings, process stage.Process, folder string, turns int) (*Sampler, error) {
	defer phase.Enter(phase.Load)()
	format, err := stage.LoadChat(s.Policy, folder)
	if err != nil {
		return nil, err
	}
	generator, engine, err := openGenerator(ctx, s, process, folder, format.Tokenizer())
	if err != nil {
		return nil, err
	}
	own := shard.LogProbsEngine
	if s.Rollout.Remote != nil {
		own = shard.LogProbsServer
	}
	stops, err := stopstring.New(s.Rollout.Stop)
	if err != nil {
		return nil, err
	}
	return &Sampler{
		Chat: format, generator: generator, engine: engine, own: own,
		stops: stops, includeStop: s.Rollout.IncludeStop, turns: turns, context: s.Rollout.Context,
		rendersElsewhere: s.Rollout.Remote != nil && s.Rollout.Remote.API == remote.Chat,
	}, nil
}

// Note adds to a manifest what sampled, unless that is a server.
func (s *Sampler) Note(m *seal.Manifest) error {
	if s.engine == nil {
		return nil
	}
	return stage.NoteEngine(m, s.engine)
}

// Close frees the engine, or ends the server.
func (s *Sampler) Close() error { return s.generator.Close() }

// longest is the number of tokens of the longest context.
func (s *Sampler) longest() int { return s.context(s.generator.Longest()) }

// closes reports whether a token ends a message.
func (s *Sampler) closes(token int32) bool { return slices.Contains(s.Chat.StopTokens(), token) }

// generate lets the policy say one message in each context.
func (s *Sampler) generate(ctx context.Context, parts []*part) error {
	stops := s.Chat.StopTokens()
	turns := make([]remote.Turn, 0, len(parts))
	asked := make([]*part, 0, len(parts))
	for _, p := range parts {
		room, err := s.appendPrompt(p)
		if err != nil {
			return err
		}
		if !room {
			continue
		}
		turn := p.turn()
		asked = append(asked, p)
		turns = append(turns, remote.Turn{
			Request: policy.Request{
				Prompt: p.tokens, MaxNewTokens: min(p.newTokens[min(turn, len(p.newTokens))-1], s.longest()-len(p.tokens)), StopTokens: stops,
				Stream: p.stream, Sampling: p.sampling, Keep: turn < s.turns, Watch: s.watch(),
			},
			Messages: p.read(), StopStrings: s.stops.Strings(),
		})
	}
	if len(turns) == 0 {
		return nil
	}
	began := time.Now()
	leave := phase.Enter(phase.Serve) // our engine says more
	replies, err := s.generator.Generate(ctx, turns)
	leave()
	if err != nil {
		return fmt.Errorf("sampling: %w", err)
	}
	seconds := time.Since(began).Seconds() / float64(len(turns))
	for i, p := range asked {
		p.seconds += seconds
		p.tries += replies[i].Tries
		if p.failed = replies[i].Failed; p.failed == nil {
			s.appendReply(p, replies[i])
		}
	}
	return nil
}

// appendPrompt appends the tokens that the conversation has gained since the
// policy last spoke, and the opening of its own message. Where they leave no
// room for an answer the attempt is over: it ends with what the policy said
// last, or, before it has spoken, with a prompt that is too long.
func (s *Sampler) appendPrompt(p *part) (room bool, err error) {
	var ids []int32
	if p.turns == 0 {
		ids, err = s.Chat.Prompt(p.read())
		if env.Begins(p.messages) && s.rendersElsewhere {
			err = exitcode.Dataf("it ends with a message of the assistant to continue, which rollout.remote.api chat cannot send: use rollout.remote.api completions")
		}
	} else {
		ids, err = s.Chat.Continue(p.messages, p.closed)
	}
	if err != nil {
		return false, fmt.Errorf("prompt of task %q: %w", p.task, err)
	}
	if len(ids) == 0 {
		return false, exitcode.Dataf("task %q: the prompt renders to no tokens", p.task)
	}
	if room = len(p.tokens)+len(ids) < s.longest(); !room {
		p.finish = policy.FinishLength
		if p.turns > 0 {
			p.trimToPolicy()
			return false, nil
		}
	}
	if p.turns == 0 {
		p.promptTokens, p.source = len(ids), s.own
	}
	p.tokens = append(p.tokens, ids...)
	p.mask = append(p.mask, make([]bool, len(ids))...)
	p.logProbs = append(p.logProbs, make([]float32, len(ids))...)
	return room, nil
}

// appendReply appends what the policy said.
func (s *Sampler) appendReply(p *part, r remote.Reply) {
	p.turns++
	content := s.end(p, &r)
	p.finish = r.FinishReason
	p.tokens = append(p.tokens, r.TokenIDs...)
	p.retokenized = p.retokenized || r.Retokenized
	if r.LogProbs == nil {
		p.source = shard.LogProbsNone
		p.logProbs = append(p.logProbs, make([]float32, len(r.TokenIDs))...)
	} else {
		p.logProbs = append(p.logProbs, r.LogProbs...)
	}
	for range r.TokenIDs {
		p.mask = append(p.mask, true)
	}
	// What is kept as text is UTF-8; what was sampled is in the token ids.
	p.messages, p.prompt = env.Answer(p.messages, p.prompt, tokenizer.ValidText(content))
}
