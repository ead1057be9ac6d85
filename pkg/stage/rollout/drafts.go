package rollout

import (
	"context"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// generateByDrafts lets the policy say one message in each trace, on which it has
// improved as often as the attempt asks before the environment sees it: each
// time it is shown its draft by the environment's improve prompt, and what it
// says then takes the draft's place (ExIt §2.1: y_t^0 … y_t^K of every
// turn t, beneath the last iterates of the turns before). The conversations
// come out as if the last iterates had been said at once. There is nothing in
// them to learn from: they have no tokens.
func (s *Sampler) generateByDrafts(ctx context.Context, environment env.Env, traces []*Trace) error {
	most := 0
	for _, t := range traces {
		most = max(most, t.drafts)
	}
	drafts := make([]*part, len(traces))
	for improvements := 0; len(traces) > 0 && improvements <= most; improvements++ {
		if err := s.draft(ctx, environment, traces, drafts, improvements); err != nil {
			return err
		}
	}
	for i, t := range traces {
		t.last().settle(drafts[i])
	}
	return nil
}

// draft replaces each trace's draft of its next message: by a first one, then
// by one that improves on the draft, y_t^(k+1) after y_t^k (ExIt Eq. 1). A draft that has no room for an
// improvement stays.
func (s *Sampler) draft(ctx context.Context, environment env.Env, traces []*Trace, drafts []*part, improvements int) error {
	next := make([]*part, 0, len(traces))
	at := make([]int, 0, len(traces))
	for i, t := range traces {
		p := t.last()
		prompt := p.read()
		if improvements > t.drafts {
			continue
		}
		if improvements > 0 {
			if drafts[i].failed != nil || drafts[i].turns == 0 {
				continue
			}
			var err error
			if prompt, err = environment.Prompt(t.Task, shard.KindImprove, env.Parent{Messages: drafts[i].messages}); err != nil {
				return err
			}
		}
		next, at = append(next, &part{
			task: t.Task.ID, messages: append([]shard.Message(nil), prompt...), stream: t.DraftStream(t.step, p.turn(), improvements),
			sampling: p.sampling, newTokens: p.newTokens, before: p.before + p.turns,
		}), append(at, i)
	}
	if err := s.generate(ctx, next); err != nil {
		return err
	}
	for j, i := range at {
		traces[i].last().drafted += next[j].responseTokens()
		if improvements == 0 || next[j].failed != nil || next[j].turns > 0 {
			drafts[i] = next[j]
		}
	}
	return nil
}

// settle takes the last draft as what the policy has said.
func (p *part) settle(draft *part) {
	p.finish, p.stop, p.failed, p.source = draft.finish, draft.stop, draft.failed, shard.LogProbsNone
	p.seconds += draft.seconds
	p.tries += draft.tries
	switch {
	case draft.failed != nil:
	case draft.turns == 0:
		if p.turns > 0 {
			p.trimToPolicy()
		}
	default:
		p.turns++
		p.messages = append(p.messages[:len(p.messages):len(p.messages)], draft.messages[len(draft.messages)-1])
	}
}
