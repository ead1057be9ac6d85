package rollout

import (
	"context"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/scaffold"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Play lets the policy go on in all traces until each has ended, waits for a
// score, or has failed. Contexts are batched freely: no result depends on the
// company it was sampled in.
func (s *Sampler) Play(ctx context.Context, environment env.Env, traces []*Trace) error {
	defer closeAll(traces)
	defer phase.Enter(phase.Execute)() // what answers the policy, but for when it speaks
	err := each(ctx, traces, func(ctx context.Context, t *Trace) error { return t.start(ctx, environment) })
	if err != nil {
		return err
	}
	for active := goingOn(traces); len(active) > 0; active = goingOn(active) {
		if err := s.generateMessages(ctx, environment, active); err != nil {
			return err
		}
		err := each(ctx, active, func(ctx context.Context, t *Trace) error { return t.react(ctx, environment) })
		if err != nil {
			return err
		}
	}
	return nil
}

// goingOn lists the traces in which the policy speaks next.
func goingOn(traces []*Trace) []*Trace {
	var active []*Trace
	for _, t := range traces {
		if t.failed == nil && t.goingOn {
			active = append(active, t)
		}
	}
	return active
}

// start begins a trace, or resumes one that waited.
func (t *Trace) start(ctx context.Context, environment env.Env) error {
	waited := t.waits
	t.waits = shard.WaitNone
	switch {
	case len(t.parts) == 0:
		return t.attempt(ctx, environment, t.Kind, t.Prompt)
	case waited == shard.WaitTurn && t.spent():
		return nil
	case waited == shard.WaitTurn:
		conversation := t.conversation(t.step)
		if err := t.open(ctx, environment, conversation); err != nil {
			return err
		}
		return t.next(ctx, environment, t.verdicts[t.step])
	}
	return t.nextAttempt(ctx, environment)
}

// attempt begins an attempt at a prompt.
func (t *Trace) attempt(ctx context.Context, environment env.Env, kind shard.Kind, prompt []shard.Message) error {
	t.begin(kind, prompt)
	t.goingOn = true
	return t.open(ctx, environment, prompt)
}

// open starts the environment's side of the attempt that is under way.
func (t *Trace) open(ctx context.Context, environment env.Env, conversation []shard.Message) (err error) {
	t.close()
	t.episode, err = environment.Begin(ctx, t.Task, conversation)
	return err
}

// react lets the environment answer what the policy has just said, or the
// scaffold go on where the attempt is over.
func (t *Trace) react(ctx context.Context, environment env.Env) error {
	p := t.last()
	if p.failed != nil {
		t.failed = p.failed
		return nil
	}
	if p.turns == 0 || p.finish != policy.FinishStop { // cut off: there is nothing to go on from
		return t.nextAttempt(ctx, environment)
	}
	return t.next(ctx, environment, nil)
}

// next takes the environment's answer to the policy's last message, on which
// it is told the score if it has waited for that.
func (t *Trace) next(ctx context.Context, environment env.Env, verdict *env.TurnVerdict) error {
	step, err := t.episode.Next(ctx, t.conversation(t.step), verdict)
	switch {
	case err != nil:
		return err
	case step.Wait, verdict == nil && !step.Over() && t.counts(env.TraitsOf(environment, t.Task.ID)):
		t.waits, t.goingOn = shard.WaitTurn, false
	case step.Over():
		return t.nextAttempt(ctx, environment)
	case step.Fresh:
		t.begin(t.last().kind, step.Messages)
		t.goingOn = true
	case t.dropThinking:
		t.proceed(step.Messages)
		t.goingOn = true
	default:
		p := t.last()
		p.messages = append(p.messages, step.Messages...)
		t.goingOn = true
	}
	return nil
}

// spent reports whether a budget leaves the trace no other turn. It looks at sealed
// seconds alone, so a replay ends the trace where the run did.
func (t *Trace) spent() bool {
	budget, ok := t.Scaffold.(scaffold.Budget)
	return ok && budget.Spent(t.choosing())
}

// counts reports whether every turn waits until its seconds are sealed with its score:
// under a budget, where turns may wait.
func (t *Trace) counts(traits env.Traits) bool {
	_, ok := t.Scaffold.(scaffold.Budget)
	return ok && traits.Waves >= traits.Turns
}

// nextAttempt begins what the scaffold wants after the attempts so far.
func (t *Trace) nextAttempt(ctx context.Context, environment env.Env) error {
	t.close()
	t.goingOn = false
	next := t.Scaffold.Next(t.choosing(), env.TraitsOf(environment, t.Task.ID))
	switch {
	case next.Done:
		return nil
	case next.Wait:
		t.waits = shard.WaitStep
		return nil
	}
	var parent env.Parent
	if next.Parent >= 0 {
		parent = env.Parent{Messages: t.conversation(next.Parent), Verdict: t.verdicts[next.Parent]}
	}
	for _, k := range t.known {
		if next.From != nil && k.Sample == next.From.Sample && k.Attempt == next.From.Attempt && k.Turn == next.From.Turn {
			parent = env.Parent{Messages: k.messages, Verdict: &k.Verdict}
		}
	}
	prompt := t.Prompt
	if next.Parent >= 0 || next.From != nil || next.Kind != t.Kind {
		var err error
		if prompt, err = environment.Prompt(t.Task, next.Kind, parent); err != nil {
			return err
		}
	}
	t.step++
	t.drafts = next.Drafts
	return t.attempt(ctx, environment, next.Kind, prompt)
}

// generateMessages lets the policy say one message in each trace.
func (s *Sampler) generateMessages(ctx context.Context, environment env.Env, traces []*Trace) error {
	var plain []*part
	var drafted []*Trace
	for _, t := range traces {
		if t.drafts > 0 {
			drafted = append(drafted, t)
		} else {
			plain = append(plain, t.last())
		}
	}
	if err := s.generate(ctx, plain); err != nil {
		return err
	}
	return s.generateByDrafts(ctx, environment, drafted)
}
