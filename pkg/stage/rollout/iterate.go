package rollout

import (
	"context"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Iteration says how a policy iterates on its own messages.
type Iteration struct {
	Steps int // K, improvements of each message
	// Stream is where the message of a turn, from 1, is drawn from after a
	// number of improvements.
	Stream func(e *Episode, turn, step int) rng.Stream
}

// Iterate plays all episodes as Play does, but before the environment sees a
// message of the policy, the policy has improved on it K times: each time it
// is shown its message by the environment's improve prompt, and what it says
// then takes the message's place (ExIt, paper 000, section 2.1: y_t^0 … y_t^K
// of every turn t, beneath the last iterates of the turns before). The
// conversations come out as if the last iterates had been said at once. There
// is nothing in them to learn from: they have no tokens.
func (s *Sampler) Iterate(ctx context.Context, world env.Env, episodes []*Episode, settings policy.Sampling, maxNewTokens []int, iteration Iteration) error {
	defer closeAll(episodes)
	active, err := begin(ctx, world, episodes)
	if err != nil {
		return err
	}
	for turn := 1; len(active) > 0; turn++ {
		drafts := make([]*Episode, len(active))
		for step := range iteration.Steps + 1 {
			if err := s.draft(ctx, world, active, drafts, turn, step, settings, maxNewTokens, iteration); err != nil {
				return err
			}
		}
		var answered []*Episode
		for i, e := range active {
			if e.settle(drafts[i]) {
				answered = append(answered, e)
			}
		}
		if active, err = react(ctx, answered); err != nil {
			return err
		}
	}
	return nil
}

// draft replaces each episode's draft of its next message: by a first one in
// step 0, by one that improves on the draft in any other. A draft that has no
// room for an improvement stays.
func (s *Sampler) draft(ctx context.Context, world env.Env, episodes, drafts []*Episode, turn, step int, settings policy.Sampling, maxNewTokens []int, iteration Iteration) error {
	next := make([]*Episode, 0, len(episodes))
	at := make([]int, 0, len(episodes))
	for i, e := range episodes {
		prompt := e.Conversation
		if step > 0 {
			if drafts[i].failed != nil || drafts[i].turns == 0 {
				continue
			}
			var err error
			if prompt, err = world.Prompt(e.Task, shard.KindImprove, drafts[i].Conversation); err != nil {
				return err
			}
		}
		next, at = append(next, &Episode{Task: e.Task, Conversation: prompt, Stream: iteration.Stream(e, turn, step)}), append(at, i)
	}
	if _, err := s.generate(ctx, next, turn, settings, maxNewTokens); err != nil {
		return err
	}
	for j, i := range at {
		episodes[i].drafted += next[j].ResponseTokens()
		if step == 0 || next[j].failed != nil || next[j].turns > 0 {
			drafts[i] = next[j]
		}
	}
	return nil
}

// settle takes the last draft as what the policy has said, and tells whether
// it has said all it wanted.
func (e *Episode) settle(draft *Episode) bool {
	e.finish, e.stop, e.failed = draft.finish, draft.stop, draft.failed
	e.seconds += draft.seconds
	e.tries += draft.tries
	if draft.failed != nil {
		return false
	}
	if draft.turns == 0 {
		if e.turns > 0 {
			e.unhear()
		}
		return false
	}
	e.turns++
	e.Conversation = append(e.Conversation[:len(e.Conversation):len(e.Conversation)], shard.Message{Role: "assistant", Content: draft.Response()})
	return e.finish == policy.FinishStop
}
