package rollout

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/scaffold"
	"github.com/lathe-rl/lathe/pkg/shard"
)

func says(text string) shard.Message { return shard.Message{Role: "assistant", Content: text} }
func asks(text string) shard.Message { return shard.Message{Role: "user", Content: text} }

// scriptedSide is an environment, with its episodes, and a scaffold that do as they are told.
type scriptedSide struct {
	env.Env
	step   env.Step
	next   scaffold.Next
	err    error
	heard  []shard.Message // that Next was called with
	told   *env.TurnVerdict
	seen   scaffold.Trace
	parent env.Parent
	opened []shard.Message
	open   int // episodes
}

func (s *scriptedSide) Traits() env.Traits { return env.Traits{} }

func (s *scriptedSide) Begin(_ context.Context, _ env.Task, prompt []shard.Message) (env.Episode, error) {
	s.opened, s.open = prompt, s.open+1
	return scriptedEpisode{s}, s.err
}

func (s *scriptedSide) Prompt(_ env.Task, kind shard.Kind, parent env.Parent) ([]shard.Message, error) {
	s.parent = parent
	return []shard.Message{asks(string(kind))}, nil
}

func (s *scriptedSide) Next(t scaffold.Trace, _ env.Traits) scaffold.Next {
	s.seen = t
	return s.next
}

// refusal is what a program of the user's says of an episode.
type refusal string

func (r refusal) Error() string        { return string(r) }
func (r refusal) Is(target error) bool { return target == env.ErrOwnProgram }

type scriptedEpisode struct{ *scriptedSide }

func (s scriptedEpisode) Close() error { s.open--; return nil }

func (s scriptedEpisode) Next(_ context.Context, conversation []shard.Message, last *env.TurnVerdict) (env.Step, error) {
	s.heard, s.told = conversation, last
	return s.step, s.err
}

// spoken is a trace whose policy has said "a" in a first attempt, and in a second "b" in one
// context and "c" and "d" in the next, after a prompt that has a message of its role.
func spoken(side *scriptedSide) *Trace {
	t := &Trace{Kind: shard.KindInitial, Prompt: []shard.Message{asks("q")}, Scaffold: side, Stream: func(step, part int) rng.Stream { return rng.New(1, rng.PurposeSample, step, "", part) }}
	t.begin(shard.KindInitial, t.Prompt)
	t.say(policy.FinishStop, 1, says("a"))
	t.step = 1
	t.begin(shard.KindImprove, []shard.Message{asks("q"), says("a"), asks("better?")})
	t.say(policy.FinishStop, 2, says("b"))
	t.begin(shard.KindImprove, []shard.Message{asks("anew")})
	t.say(policy.FinishStop, 1, says("c"), asks("so?"))
	t.say(policy.FinishStop, 1, says("d"))
	return t
}

// say adds what the policy says in tokens, and what it is told.
func (t *Trace) say(finish policy.FinishReason, tokens int, messages ...shard.Message) {
	p := t.last()
	p.messages, p.turns, p.finish = append(p.messages, messages...), p.turns+1, finish
	p.tokens, p.mask = append(p.tokens, make([]int32, 1+tokens)...), append(append(p.mask, false), slices.Repeat([]bool{true}, tokens)...)
	p.logProbs, p.source = make([]float32, len(p.tokens)), shard.LogProbsEngine
}

func texts(messages []shard.Message) string {
	var all []string
	for _, m := range messages {
		all = append(all, m.Content)
	}
	return strings.Join(all, " ")
}

// Contexts of an attempt follow each other; turns are counted over them.
func TestTrace(t *testing.T) {
	t.Parallel()
	trace := spoken(&scriptedSide{})
	for step, want := range []string{"q a", "q a better? b anew c so? d", ""} {
		if got := texts(trace.conversation(step)); got != want {
			t.Errorf("attempt %d: %q, want %q", step, got, want)
		}
	}
	if trace.saidIn(0) != 1 || trace.saidIn(1) != 3 || trace.last().turn() != 4 || trace.last().before != 1 || trace.last().responseTokens() != 2 {
		t.Errorf("said %d and %d, next is turn %d after %d, %d tokens", trace.saidIn(0), trace.saidIn(1), trace.last().turn(), trace.last().before, trace.last().responseTokens())
	}
	last := trace.last()
	last.messages = append(last.messages, asks("and?"), asks("well?"))
	if last.trimToPolicy(); texts(last.messages) != "anew c so? d" {
		t.Errorf("trimmed to %q", texts(last.messages))
	}

	// A score of the first attempt, and of two of the second's three messages. Blind, it says
	// no reward.
	score := shard.Score{Turns: []shard.TurnScore{
		{Step: 0, Reward: 1, ExecuteSeconds: 3}, {Step: 1, Reward: 2, ExecuteSeconds: 4}, {Step: 1, Part: 1, Reward: 5, ExecuteSeconds: 5}, {Step: 1, Part: 1}, {Step: 1, Part: 1},
	}}
	for _, blind := range []bool{false, true} {
		trace.blind = blind
		var got []string
		for _, k := range trace.judgedIn(7, score) {
			got = append(got, fmt.Sprint(k.Sample, k.Attempt, k.Turn, k.Verdict.Reward, " ", texts(k.messages)))
		}
		want := []string{"7 0 0 1 q a", "7 1 0 2 q a better? b", "7 1 1 5 q a better? b anew c", "7 1 2 0 q a better? b anew c so? d"}
		if blind {
			for i, reward := range []string{" 1 q", " 2 q", " 5 q"} {
				want[i] = strings.Replace(want[i], reward, " 0 q", 1)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("blind %t, known (-want +got):\n%s", blind, diff)
		}
	}

	// The rows say all that a later wave resumes from.
	trace.blind, trace.waits = false, shard.WaitStep
	last.stop, last.finish, last.seconds = "", policy.FinishStop, 2
	last.tokens[len(last.tokens)-1] = 9
	rows := trace.Rows(4)
	blind := &Trace{Stream: trace.Stream, Scaffold: &scriptedSide{}, blind: true}
	blind.resume(rows, score, func(int32) bool { return false })
	if told := blind.attempts()[0].Verdict; told == nil || told.Reward != 0 || told.ExecuteSeconds != 3 {
		t.Errorf("resumed blind, the first attempt's verdict is %+v", told)
	}
	again := &Trace{Stream: trace.Stream, Scaffold: &scriptedSide{}}
	again.resume(rows, score, func(token int32) bool { return token == 9 })
	if diff := cmp.Diff(rows, again.Rows(4)); diff != "" || again.step != 1 || again.waits != shard.WaitStep || !again.last().closed || again.parts[0].closed {
		t.Errorf("resumed in attempt %d, waits %q, closed %t (-was +is):\n%s", again.step, again.waits, again.last().closed, diff)
	}
	want := []scaffold.Attempt{{Kind: shard.KindInitial, Spoke: true, Seconds: 3, Turns: 1, Verdict: &env.TurnVerdict{Reward: 1, ExecuteSeconds: 3}}, {Kind: shard.KindImprove, Spoke: true, Seconds: 9, Turns: 4, Verdict: &env.TurnVerdict{}}}
	if diff := cmp.Diff(want, again.attempts()); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	trace.failed = errors.New("down")
	trace.parts[0].source, trace.parts[0].logProbs[1] = shard.LogProbsNone, -1
	if rows := trace.Rows(0); rows[2].Outcome != "infra" || rows[0].LogProbs[1] != 0 || rows[2].Part != 2 || rows[2].Wave != 0 {
		t.Errorf("failed: %+v", rows)
	}
}

// What the environment answers, and what the scaffold wants after an attempt.
func TestReact(t *testing.T) {
	t.Parallel()
	verdict := &env.TurnVerdict{Reward: 3}
	for name, c := range map[string]struct {
		side    scriptedSide
		change  func(*Trace)
		waits   shard.Wait
		goingOn bool
		parts   int
		said    string // in the last context
		parent  string // that a new attempt is prompted with; empty for none
	}{
		"it goes on":               {scriptedSide{step: env.Step{Messages: []shard.Message{asks("more")}}}, nil, "", true, 3, "anew c so? d more", ""},
		"anew":                     {scriptedSide{step: env.Step{Messages: []shard.Message{asks("fresh")}, Fresh: true}}, nil, "", true, 4, "fresh", ""},
		"it waits":                 {scriptedSide{step: env.Step{Wait: true}}, nil, shard.WaitTurn, false, 3, "anew c so? d", ""},
		"over, and done":           {scriptedSide{next: scaffold.Next{Done: true}}, nil, "", false, 3, "anew c so? d", ""},
		"over, the scaffold waits": {scriptedSide{next: scaffold.Next{Wait: true}}, nil, shard.WaitStep, false, 3, "anew c so? d", ""},
		"cut off":                  {scriptedSide{step: env.Step{Wait: true}, next: scaffold.Next{Done: true}}, func(t *Trace) { t.last().finish = policy.FinishLength }, "", false, 3, "anew c so? d", ""},
		"said nothing":             {scriptedSide{step: env.Step{Wait: true}, next: scaffold.Next{Done: true}}, func(t *Trace) { t.last().turns = 0 }, "", false, 3, "anew c so? d", ""},
		"failed":                   {scriptedSide{}, func(t *Trace) { t.last().failed = errors.New("down") }, "", true, 3, "anew c so? d", ""},
		"again from the start":     {scriptedSide{next: scaffold.Next{Kind: shard.KindInitial, Parent: -1}}, nil, "", true, 4, "q", ""},
		"another kind":             {scriptedSide{next: scaffold.Next{Kind: shard.KindImprove, Parent: -1}}, nil, "", true, 4, "improve", ""},
		"from an attempt":          {scriptedSide{next: scaffold.Next{Kind: shard.KindInitial, Parent: 0, Drafts: 2}}, nil, "", true, 4, "initial", "q a"},
		"from another sample": {scriptedSide{next: scaffold.Next{Kind: shard.KindInitial, Parent: -1, From: &scaffold.Known{Sample: 2, Attempt: 1, Turn: 1}}}, func(t *Trace) {
			for _, k := range []scaffold.Known{{Sample: 1, Attempt: 1, Turn: 1}, {Sample: 2, Attempt: 1, Turn: 1}, {Sample: 2, Attempt: 0, Turn: 1}, {Sample: 2, Attempt: 1, Turn: 0}} {
				t.known = append(t.known, judged{k, []shard.Message{says(fmt.Sprint(k.Sample, k.Attempt, k.Turn))}})
			}
		}, "", true, 4, "initial", "2 1 1"},
	} {
		side := &c.side
		trace := spoken(side)
		trace.goingOn = true
		if err := trace.open(t.Context(), side, nil); err != nil {
			t.Fatal(err)
		}
		if c.change != nil {
			c.change(trace)
		}
		trace.verdicts = map[int]*env.TurnVerdict{0: verdict}
		if err := trace.react(t.Context(), side); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := texts(trace.last().messages); trace.waits != c.waits || trace.goingOn != c.goingOn || len(trace.parts) != c.parts || got != c.said || texts(side.parent.Messages) != c.parent {
			t.Errorf("%s: waits %q, goes on %t, %d contexts, the last %q, from %q", name, trace.waits, trace.goingOn, len(trace.parts), got, texts(side.parent.Messages))
		}
		if name == "from an attempt" && (side.parent.Verdict != verdict || trace.drafts != 2 || trace.step != 2 || side.open != 1 || texts(side.opened) != "initial") {
			t.Errorf("%s: verdict %v, %d drafts, attempt %d, %d open at %q", name, side.parent.Verdict, trace.drafts, trace.step, side.open, texts(side.opened))
		}
		if name == "failed" && trace.failed == nil || side.step.Wait && c.waits == shard.WaitTurn && texts(side.heard) != "q a better? b anew c so? d" {
			t.Errorf("%s: %v, heard %q", name, trace.failed, texts(side.heard))
		}
	}

	// A trace that waited for a turn's score goes on with it; one that waited for an attempt's
	// asks the scaffold; a new one begins with its prompt.
	side := &scriptedSide{step: env.Step{Messages: []shard.Message{asks("more")}}, next: scaffold.Next{Done: true}}
	trace := spoken(side)
	trace.waits, trace.verdicts = shard.WaitTurn, map[int]*env.TurnVerdict{1: verdict}
	if err := trace.start(t.Context(), side); err != nil || side.told != verdict || texts(side.opened) != "q a better? b anew c so? d" || !trace.goingOn || trace.waits != "" {
		t.Errorf("after a turn's score: %v, told %v, opened %q, goes on %t, waits %q", err, side.told, texts(side.opened), trace.goingOn, trace.waits)
	}
	trace.waits = shard.WaitStep
	if err := trace.start(t.Context(), side); err != nil || len(side.seen.Attempts) != 2 || trace.goingOn || side.open != 0 {
		t.Errorf("after an attempt's: %v, seen %v, %d open", err, side.seen, side.open)
	}
	trace.parts, trace.step = nil, 0
	if err := trace.start(t.Context(), side); err != nil || texts(trace.last().messages) != "q" || !trace.goingOn {
		t.Errorf("at the start: %v", err)
	}
	// Under a budget each turn waits for its seconds, unless the attempt is over, and none begins
	// once it is spent.
	for _, spent := range []bool{false, true} {
		trace := spoken(side)
		trace.Scaffold = scaffold.Budget{Scaffold: side, Seconds: 10}
		if err := trace.open(t.Context(), side, nil); err != nil {
			t.Fatal(err)
		}
		if err := trace.react(t.Context(), side); err != nil || trace.waits != shard.WaitTurn || trace.goingOn {
			t.Errorf("under a budget: %v, waits %q, goes on %t", err, trace.waits, trace.goingOn)
		}
		trace.verdicts, trace.taken = map[int]*env.TurnVerdict{1: verdict}, map[int]taken{0: {seconds: 9}}
		if spent {
			trace.taken[1] = taken{seconds: 1}
		}
		if err := trace.start(t.Context(), side); err != nil || trace.goingOn == spent || trace.waits != "" {
			t.Errorf("spent %v: %v, waits %q, goes on %t", spent, err, trace.waits, trace.goingOn)
		}
		over := &scriptedSide{next: scaffold.Next{Done: true}}
		trace = spoken(over)
		trace.Scaffold = scaffold.Budget{Scaffold: over, Seconds: 10}
		if err := errors.Join(trace.open(t.Context(), over, nil), trace.react(t.Context(), over)); err != nil || trace.waits != "" {
			t.Errorf("an attempt that is over waits %q: %v", trace.waits, err)
		}
	}
	if got := goingOn([]*Trace{{goingOn: true}, {}, {goingOn: true, failed: side.err}, {goingOn: true, failed: errors.New("down")}}); len(got) != 2 {
		t.Errorf("%d go on", len(got))
	}
}

// A draft takes the place of a message: without tokens, with its seconds and requests. One
// without room ends the trace after what was said before.
func TestSettle(t *testing.T) {
	t.Parallel()
	draft := &part{messages: []shard.Message{asks("q"), says("e")}, turns: 1, finish: policy.FinishLength, stop: "x", seconds: 1, tries: 2}
	for name, c := range map[string]struct {
		turns int
		draft func()
		said  string
		after int
	}{
		"said":    {2, func() {}, "anew c so? d more e", 3},
		"no room": {2, func() { draft.turns = 0 }, "anew c so? d", 2},
		"at once": {0, func() {}, "anew c so? d more", 0},
		"failed":  {2, func() { draft.failed = errors.New("down") }, "anew c so? d more", 2},
	} {
		p := spoken(&scriptedSide{}).last()
		p.messages, p.turns, p.seconds, p.tries = append(p.messages, asks("more")), c.turns, 4, 3
		if name != "said" {
			draft.turns, draft.failed = 0, nil
		}
		c.draft()
		p.settle(draft)
		if texts(p.messages) != c.said || p.turns != c.after || p.seconds != 5 || p.tries != 5 || p.finish != policy.FinishLength || p.stop != "x" || p.source != shard.LogProbsNone || (p.failed != nil) != (name == "failed") {
			t.Errorf("%s: %q, %d turns, %+v", name, texts(p.messages), p.turns, p)
		}
		draft.turns, draft.failed = 1, nil
	}
}

// Metrics count what this wave has added; failures above the share that is borne end the
// task, those of the environment alone as usage where another try would fail the same way.
func TestBatchMetrics(t *testing.T) {
	t.Parallel()
	rows := []shard.Rollout{{PromptTokens: 3, ResponseTokens: 5, Turns: 1, FinishReason: "length"}, {PromptTokens: 2, FinishReason: "length"}, {PromptTokens: 4, ResponseTokens: 7, Turns: 2, FinishReason: "stop"}}
	b := &Batch{traces: []planned{{Trace: &Trace{failed: errors.New("down")}}, {Trace: &Trace{waits: shard.WaitTurn, parts: []*part{{}, {tokens: make([]int32, 6)}}}}}, resumed: rows[2:]}
	want := map[string]float64{"responses": 2, "prompt_tokens": 5, "response_tokens": 5, "cut_off": 2, shard.MetricAttempts: 2, shard.MetricNoRoom: 1, "infra": 1, "waiting": 1}
	if got := b.metrics(rows); !reflect.DeepEqual(got, want) || !b.Waits() || (&Batch{traces: b.traces[:1]}).Waits() {
		t.Errorf("metrics %v, want %v; waits %t", got, want, b.Waits())
	}
	if b.traces = b.traces[1:]; b.tokens() != 6 {
		t.Errorf("%d tokens are read again", b.tokens())
	}

	traces := []*Trace{
		{failed: errors.New("down"), parts: []*part{{source: shard.LogProbsNone, tries: 3}}},
		{parts: []*part{{retokenized: true, source: shard.LogProbsServer, tries: 1}, {source: shard.LogProbsNone, tries: 2}}},
	}
	counted := map[string]float64{"waiting": 1}
	addRemoteMetrics(counted, traces)
	if want := map[string]float64{"waiting": 1, "infra": 1, "retokenized": 1, "without_logprobs": 1}; !reflect.DeepEqual(counted, want) || requests(traces) != 6 {
		t.Errorf("of a server %v and %g requests", counted, requests(traces))
	}

	environment := func(text string) error { return &environmentError{"t", errors.New(text)} }
	for name, c := range map[string]struct {
		failed       []error
		server, side float64 // shares that are borne
		says         string
	}{
		"none":        {[]error{nil, nil}, 0, 0, ""},
		"server":      {[]error{errors.New("a"), nil, errors.New("b"), nil}, 0.25, 1, "2 of 4 responses could not be had from the server; the first: a"},
		"borne":       {[]error{errors.New("a"), nil, environment("b"), nil}, 0.25, 0.25, ""},
		"environment": {[]error{environment("a"), nil, nil, environment("b")}, 0, 0.25, `2 of 4 episodes failed; the first: environment of task "t": a`},
	} {
		var traces []*Trace
		for _, err := range c.failed {
			traces = append(traces, &Trace{failed: err})
		}
		err := tooManyFailed(&recipe.Remote{MaxFailed: c.server}, env.Traits{MaxFailed: c.side, MaxFailedSetting: "env.x"}, traces)
		if (err == nil) != (c.says == "") || err != nil && (err.Error() != c.says || exitcode.Code(err) != exitcode.Failed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where a program of the user's fails all in the same way, another try would, too.
func TestFailsAgain(t *testing.T) {
	t.Parallel()
	own := &Trace{failed: &environmentError{"t", refusal("bad")}}
	err := tooManyFailed(nil, env.Traits{}, []*Trace{own, own})
	if exitcode.Code(err) != exitcode.Usage || !strings.HasPrefix(err.Error(), "2 episodes failed in the same way: ") {
		t.Errorf("%v", err)
	}
}

// Which streams draw what: no two contexts, drafts or samples share one, and a name of its
// own changes with each of its parts alone.
func TestStreams(t *testing.T) {
	t.Parallel()
	drawn := map[string]string{}
	note := func(name string, s rng.Stream) {
		t.Helper()
		value := fmt.Sprint(s.Float64(0))
		if other, twice := drawn[value]; twice {
			t.Errorf("%s and %s draw the same", name, other)
		}
		drawn[value] = name
	}
	for sample := range 2 {
		contexts, drafts := trainingStreams(1, 1, "i", sample)
		measured, measuredDrafts := evaluationStreams(1, "i", sample)
		for a := range 2 {
			for b := range 2 {
				name := fmt.Sprint(sample, a, b)
				note("context "+name, contexts(a, b))
				note("measured "+name, measured(a, b))
				for c := range 2 {
					note(fmt.Sprint("draft ", name, c), drafts(a, b, c))
					note(fmt.Sprint("measured draft ", name, c), measuredDrafts(a, b, c))
				}
			}
		}
	}
	contexts, _ := trainingStreams(5, 3, "i", 2)
	if got, want := contexts(0, 0).Float64(0), rng.New(5, rng.PurposeSample, 3, "i", 2).Float64(0); got != want {
		t.Errorf("the first context draws %g, the instance's own stream %g", got, want)
	}
	measured, _ := evaluationStreams(5, "i", 2)
	if got, want := measured(3, 0).Float64(0), rng.New(5, rng.PurposeEvaluation, 3, "i", 2).Float64(0); got != want {
		t.Errorf("the first context of a measured attempt draws %g, the attempt's own stream %g", got, want)
	}
}

// Where thinking is dropped each later turn begins a context that reads the answers before
// it, while the conversation, which environments and scores see, has all that was said, once.
func TestDropThinking(t *testing.T) {
	t.Parallel()
	side := &scriptedSide{step: env.Step{Messages: []shard.Message{asks("more?")}}}
	trace := &Trace{dropThinking: true, Stream: func(step, part int) rng.Stream { return rng.New(1, rng.PurposeSample, step, "", part) }}
	if err := trace.attempt(t.Context(), side, shard.KindInitial, []shard.Message{asks("q")}); err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{"<think>1</think>\n\na", "<think>2</think>b"} {
		trace.say(policy.FinishStop, 1, says(said))
		if err := trace.next(t.Context(), side, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := texts(trace.last().read()), "q a more? b more?"; got != want || !trace.goingOn {
		t.Errorf("the policy reads %q, want %q", got, want)
	}
	if got, want := texts(trace.conversation(0)), "q <think>1</think>\n\na more? <think>2</think>b more?"; got != want {
		t.Errorf("the conversation is %q, want %q", got, want)
	}
	if len(trace.parts) != 3 || trace.last().turn() != 3 || trace.last().prompt != 1 {
		t.Errorf("%d contexts, the next turn is %d, after a prompt of %d messages", len(trace.parts), trace.last().turn(), trace.last().prompt)
	}
}
