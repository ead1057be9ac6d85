package rollout

import (
	"slices"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/scaffold"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Trace is one sample of an instance under way: an attempt at its prompt, and
// whatever attempts its scaffold adds to that.
type Trace struct {
	Task         env.Task
	Kind         shard.Kind      // of the first attempt
	Prompt       []shard.Message // of the first attempt
	Scaffold     scaffold.Scaffold
	Sampling     policy.Sampling
	MaxNewTokens []int // of the policy's messages 1, 2 … of an attempt; the last one holds for all later ones
	// Stream is what a context's tokens are drawn from: context part of an
	// attempt, both from 0.
	Stream func(step, part int) rng.Stream
	// Choices is what the scaffold draws from.
	Choices rng.Stream
	// DraftStream is what drafts are drawn from, where an attempt has any: the
	// message of a turn, from 1, after a number of improvements.
	DraftStream func(step, turn, draft int) rng.Stream

	parts    []*part
	step     int // attempt that is under way
	drafts   int // improvements of each of its messages before the environment sees it
	verdicts map[int]*env.TurnVerdict
	taken    map[int]taken // by attempt
	known    []judged      // in all samples of the instance, in the wave before
	waits    shard.Wait
	failed   error // why the trace cannot go on, by no fault of the policy
	episode  env.Episode
	goingOn  bool // the policy speaks next
	// dropThinking begins a new context with each later turn, of which earlier answers have
	// lost their thinking.
	dropThinking bool
	blind        bool // scaffold and environment see scores without what held-out answers say
}

// taken is what the scored turns of an attempt have taken.
type taken struct {
	seconds float64
	turns   int
}

// part is one context of a trace: what the policy has read and written since
// it last started afresh.
type part struct {
	task     string // its id
	step     int
	kind     shard.Kind
	messages []shard.Message
	prompt   int // messages before the policy first speaks
	// history is what it has read before messages: those of earlier contexts, without
	// thinking. They stand there once.
	history []shard.Message

	stream    rng.Stream
	sampling  policy.Sampling
	newTokens []int
	before    int // messages of the policy in earlier contexts of the attempt

	tokens       []int32
	mask         []bool    // as long as tokens; true where the policy wrote
	logProbs     []float32 // as long as tokens; 0 where mask is false
	promptTokens int
	turns        int
	drafted      int // tokens of drafts
	tries        int // requests made for it
	finish       policy.FinishReason
	stop         string // at which the last turn ended; empty for none
	closed       bool   // the last turn ended in a stop token
	source       shard.LogProbSource
	retokenized  bool
	seconds      float64
	failed       error // why its last message is missing
}

// last is the context that is under way.
func (t *Trace) last() *part { return t.parts[len(t.parts)-1] }

// begin starts a context of the attempt that is under way.
func (t *Trace) begin(kind shard.Kind, prompt []shard.Message) {
	number, before := 0, 0
	for _, p := range t.parts {
		if p.step == t.step {
			number++
			before += p.turns
		}
	}
	t.parts = append(t.parts, &part{
		task: t.Task.ID, step: t.step, kind: kind, prompt: len(prompt), before: before,
		messages: append([]shard.Message(nil), prompt...), // a plan's are shared by the samples
		stream:   t.Stream(t.step, number), sampling: t.Sampling, newTokens: t.MaxNewTokens,
	})
}

// proceed starts a context that goes on from the last one with more messages, without the
// thinking in it.
func (t *Trace) proceed(messages []shard.Message) {
	p := t.last()
	history := chat.WithoutThinking(p.read())
	t.begin(p.kind, messages)
	t.last().history = history
}

// read is all that the policy has read and written in the context.
func (p *part) read() []shard.Message { return slices.Concat(p.history, p.messages) }

// conversation is that of an attempt, contexts one after the other.
func (t *Trace) conversation(step int) []shard.Message {
	var of []*part
	for _, p := range t.parts {
		if p.step == step {
			of = append(of, p)
		}
	}
	if len(of) == 1 {
		return of[0].messages[:len(of[0].messages):len(of[0].messages)]
	}
	var messages []shard.Message
	for _, p := range of {
		messages = append(messages, p.messages...)
	}
	return messages
}

// judged is a message of the policy with its score and all that led to it.
type judged struct {
	scaffold.Known
	messages []shard.Message
}

// judgedIn lists the messages of a sample that have scores.
func (t *Trace) judgedIn(sample int, score shard.Score) []judged {
	var all []judged
	turns := map[int]int{}
	for _, row := range score.Turns {
		step := int(row.Step)
		conversation := t.conversation(step)
		said := env.Said(conversation, 0)
		verdict := env.TurnVerdictOf(row)
		if t.blind {
			verdict = verdict.Blind()
		}
		// The prompt's history may have messages of the policy before its own.
		if own := len(said) - t.saidIn(step) + turns[step]; own < len(said) {
			all = append(all, judged{scaffold.Known{Sample: sample, Attempt: step, Turn: turns[step], Verdict: verdict}, conversation[:said[own]+1]})
		}
		turns[step]++
	}
	return all
}

// saidIn counts the policy's own messages in an attempt.
func (t *Trace) saidIn(step int) (n int) {
	for _, p := range t.parts {
		if p.step == step {
			n += p.turns
		}
	}
	return n
}

// choosing is what the scaffold chooses by.
func (t *Trace) choosing() scaffold.Trace {
	s := scaffold.Trace{Attempts: t.attempts(), Stream: t.Choices}
	for _, k := range t.known {
		s.Known = append(s.Known, k.Known)
	}
	return s
}

// attempts is what the scaffold sees of the trace.
func (t *Trace) attempts() []scaffold.Attempt {
	attempts := make([]scaffold.Attempt, t.step+1)
	for step, taken := range t.taken {
		attempts[step].Seconds, attempts[step].Turns = taken.seconds, taken.turns
	}
	for _, p := range t.parts {
		attempts[p.step].Kind = p.kind
		attempts[p.step].Spoke = attempts[p.step].Spoke || p.turns > 0
	}
	for step, verdict := range t.verdicts {
		attempts[step].Verdict = verdict
	}
	return attempts
}

// Rows are the trace's contexts as a rollout shard has them, but for the names
// of instance, sample and policy. wave is the one under way.
func (t *Trace) Rows(wave int) []shard.Rollout {
	outcome := shard.OutcomeOK
	if t.failed != nil {
		outcome = shard.OutcomeInfra
	}
	rows := make([]shard.Rollout, len(t.parts))
	for i, p := range t.parts {
		if p.source == shard.LogProbsNone {
			clear(p.logProbs) // what is known of some turns is of no use without the others
		}
		rows[i] = shard.Rollout{
			Step: int32(p.step), Part: int32(i), Kind: string(p.kind), Messages: p.messages, PromptMessages: int32(p.prompt),
			TokenIDs: p.tokens, LossMask: p.mask, LogProbs: p.logProbs,
			FinishReason: string(p.finish), StopString: p.stop, Turns: int32(p.turns),
			PromptTokens: int32(p.promptTokens), ResponseTokens: int32(p.responseTokens()),
			GenerateSeconds: p.seconds, Outcome: string(outcome), LogProbSource: string(p.source), Retokenized: p.retokenized,
			Wave: int32(wave), Waits: string(t.waits),
		}
	}
	return rows
}

// resume takes up a trace that waits, from its rows and the score of it.
// closes says whether a token ends a message.
func (t *Trace) resume(rows []shard.Rollout, score shard.Score, closes func(token int32) bool) {
	t.verdicts, t.taken = map[int]*env.TurnVerdict{}, map[int]taken{}
	for _, row := range score.Turns {
		so := t.taken[int(row.Step)]
		t.taken[int(row.Step)] = taken{so.seconds + row.Seconds(), so.turns + 1}
		verdict := env.TurnVerdictOf(row)
		if t.blind {
			verdict = verdict.Blind()
		}
		t.verdicts[int(row.Step)] = &verdict // the last of an attempt stays
	}
	for _, row := range rows {
		t.step = int(row.Step)
		t.begin(shard.Kind(row.Kind), row.Messages)
		p := t.last()
		p.prompt, p.tokens, p.mask, p.logProbs = int(row.PromptMessages), row.TokenIDs, row.LossMask, row.LogProbs
		p.promptTokens, p.turns = int(row.PromptTokens), int(row.Turns)
		p.finish, p.stop, p.source, p.retokenized = policy.FinishReason(row.FinishReason), row.StopString, shard.LogProbSource(row.LogProbSource), row.Retokenized
		p.seconds = row.GenerateSeconds
		n := len(p.tokens)
		p.closed = p.finish == policy.FinishStop && p.stop == "" && n > 0 && closes(p.tokens[n-1])
	}
	t.waits = shard.Wait(rows[len(rows)-1].Waits)
}

// responseTokens is the number of tokens that the policy wrote.
func (p *part) responseTokens() int {
	n := p.drafted
	for _, m := range p.mask {
		if m {
			n++
		}
	}
	return n
}

// turn is the number of the policy's next message in the attempt, from 1.
func (p *part) turn() int { return p.before + p.turns + 1 }

// trimToPolicy takes back what the conversation has gained since the policy
// last spoke.
func (p *part) trimToPolicy() {
	n := len(p.messages)
	for n > 0 && p.messages[n-1].Role != "assistant" {
		n--
	}
	p.messages = p.messages[:n:n]
}
