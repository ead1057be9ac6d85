package score

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// counter scores each message by its length, which is also the seconds it took.
type counter struct {
	env.Env
	traits env.Traits
	set    *env.TaskSet
	asked  []env.Attempt
	fail   func(ctx context.Context) error
}

func (c *counter) Set() *env.TaskSet {
	if c.set == nil {
		c.set = env.NewTaskSet("counter")
		c.set.Add(env.Task{ID: "t"}, env.Facts{})
	}
	return c.set
}

func (c *counter) Traits() env.Traits { return c.traits }

func (c *counter) Score(ctx context.Context, a env.Attempt) (env.Verdict, error) {
	c.asked = append(c.asked, a)
	if c.fail != nil {
		return env.Verdict{}, c.fail(ctx)
	}
	v := env.Verdict{Turns: slices.Clone(a.Earlier), Reason: "counted"}
	for _, at := range a.Own[len(a.Earlier):] {
		n := float64(len(a.Messages[at].Content))
		v.Turns = append(v.Turns, env.TurnVerdict{Outcome: shard.OutcomeOK, Reward: n, ExecuteSeconds: n})
	}
	v.TurnVerdict = v.Turns[len(v.Turns)-1]
	return v, nil
}

// said is a context of a trace: a prompt of one message and what follows it in turn.
func said(step, part int32, finish string, texts ...string) shard.Rollout {
	r := shard.Rollout{InstanceID: "i", Outcome: "ok", Step: step, Part: part, Kind: fmt.Sprint("kind ", step), FinishReason: finish, PromptMessages: 1, Embedding: []float32{float32(part)}}
	for i, text := range texts {
		r.Messages = append(r.Messages, shard.Message{Role: []string{"user", "assistant"}[i%2], Content: text})
	}
	return r
}

// A trace of two attempts, the second in two contexts of one and two turns. The wave before
// has scored the first attempt and the first turn of the second. Every turn keeps its
// attempt and context; the row is that of the last turn, its seconds those of all.
func TestAttempts(t *testing.T) {
	t.Parallel()
	rows := []shard.Rollout{said(0, 0, "stop", "q", "a"), said(1, 1, "stop", "q", "bb"), said(1, 2, "length", "q", "ccc", "more", "dddd")}
	before := []shard.Score{{InstanceID: "i", Turns: []shard.TurnScore{{Step: 0, Reward: 10, ExecuteSeconds: 10, Outcome: "wrong"}, {Step: 1, Part: 1, Reward: 20, ExecuteSeconds: 20}}}}
	e := &counter{}
	got, err := Verdicts(t.Context(), e, []shard.Instance{{InstanceID: "i", TaskID: "t"}}, rows, before, 0)
	if err != nil || len(e.asked) != 1 {
		t.Fatalf("asked %d times, %v", len(e.asked), err)
	}
	if a := e.asked[0]; a.Kind != "kind 1" || a.Finish != "length" || !slices.Equal(a.Own, []int{1, 3, 5}) || len(a.Messages) != 6 || len(a.Earlier) != 1 {
		t.Errorf("asked for %+v", a)
	}
	var turns []string
	for _, turn := range got[0].Turns {
		turns = append(turns, fmt.Sprint(turn.Step, turn.Part, turn.Reward))
	}
	if want := []string{"0 0 10", "1 1 20", "1 2 3", "1 2 4"}; !slices.Equal(turns, want) || got[0].Reward != 4 || got[0].ExecuteSeconds != 37 || got[0].Outcome != "ok" {
		t.Errorf("turns %q, want %q; reward %g in %g s", turns, want, got[0].Reward, got[0].ExecuteSeconds)
	}

	// Under a budget the new turn of a context has its seconds of sampling that no earlier one has.
	rows[2].GenerateSeconds = 4
	if got, err = Verdicts(t.Context(), &counter{}, []shard.Instance{{InstanceID: "i", TaskID: "t"}}, rows, before, 100); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{0, 0, 4, 0} {
		if got[0].Turns[i].GenerateSeconds != want {
			t.Errorf("turn %d was sampled in %g s, want %g", i, got[0].Turns[i].GenerateSeconds, want)
		}
	}

	// Responses are compared by the last message, or all of the last attempt in a transcript,
	// or the policy's own embedding of the last context.
	for want, s := range map[string]scorer{
		"the program":   {environment: &counter{}, embed: recipe.EmbedExtracted},
		"dddd":          {environment: &counter{}},
		"bb\nccc\ndddd": {environment: &counter{traits: env.Traits{Transcript: true}}},
	} {
		if text := s.embedded(rows, "the program"); text != want {
			t.Errorf("compared by %q, want %q", text, want)
		}
	}
	v, err := scorer{environment: &counter{}, embedding: recipe.EmbeddingPolicy, attempt: seal.Attempt{Number: 3, Host: "n1"}}.trace(t.Context(), env.Task{}, rows, shard.Score{})
	if err != nil || !slices.Equal(v.Score.Embedding, []float32{2}) || v.Score.Attempt != 3 || v.Score.Node != "n1" || !v.Judged || v.Reason != "counted" {
		t.Errorf("%+v, %v", v, err)
	}
	// An attempt that has no room leaves the score of the one before.
	v, err = scorer{environment: &counter{}}.trace(t.Context(), env.Task{}, append(rows[:1:1], said(1, 1, "length", "q")), shard.Score{})
	if err != nil || v.Score.Reward != 1 || v.Score.Outcome != "ok" {
		t.Errorf("without room for a second attempt: %+v, %v", v, err)
	}
}

// What is left of a budget: sampling and programs count, sampling once. By hand: context 0 was
// sampled in 3 + 2 s, of which a sealed turn has 4, and context 1 in 1 s: 4 + 5 of the turn,
// and 1 + 1, are 11.
func TestClock(t *testing.T) {
	t.Parallel()
	rows := []shard.Rollout{{GenerateSeconds: 3}, {GenerateSeconds: 2}, {Part: 1, GenerateSeconds: 1}}
	for _, c := range []struct{ budget, sealed, left float64 }{{20, 4, 9}, {20, 8, 6}, {10, 4, 0}} {
		before := shard.Score{Turns: []shard.TurnScore{{GenerateSeconds: c.sealed, ExecuteSeconds: 5}}}
		if left := newClock(c.budget, rows, before).left(); left == nil || *left != c.left {
			t.Errorf("of %g s, with %g of a turn, %v are left, want %g", c.budget, c.sealed, left, c.left)
		}
	}
	if left := newClock(0, rows, shard.Score{}).left(); left != nil {
		t.Errorf("without a budget %g s are left", *left)
	}
}

// A score that an environment gave up by itself is our failure; one that was stopped from
// outside, or that lacks a message, is an error of the task.
func TestAskFails(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for name, c := range map[string]struct {
		ctx   context.Context
		err   error
		asked int
		says  string
	}{
		"gave up": {t.Context(), context.Canceled, 3, `scoring task "t": context canceled`},
		"stopped": {stopped, context.Canceled, 1, "context canceled"},
		"fewer":   {t.Context(), nil, 1, `environment "counter" has scores of 0 of 1 messages of task "t"`},
	} {
		e := &counter{fail: func(context.Context) error { return c.err }}
		_, err := scorer{environment: e}.ask(c.ctx, attemptsOf(env.Task{ID: "t"}, []shard.Rollout{said(0, 0, "stop", "q", "a")})[0])
		if err == nil || !strings.HasSuffix(err.Error(), c.says) || len(e.asked) != c.asked || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%s: asked %d times, %v", name, len(e.asked), err)
		}
	}
}

// Traces that wait are counted as such alone; seconds and rewards are sums.
func TestGather(t *testing.T) {
	t.Parallel()
	waits := said(0, 0, "stop", "q", "a")
	waits.Waits = string(shard.WaitTurn)
	row := func(outcome string, reward float64) verdict {
		return verdict{Score: shard.Score{Outcome: outcome, Reward: reward, ExecuteSeconds: 2}, Judged: true, Reason: "r"}
	}
	ended := said(0, 0, "stop", "q", "a")
	failed := row("infra", 0)
	failed.Judged = false
	_, got := gather([][]shard.Rollout{{waits}, {ended}, {ended}, {waits}}, []verdict{row("wrong", 7), row("ok", 1), row("wrong", -3), failed})
	want := map[string]float64{
		"waiting": 1, "responses": 3, "outcome_ok": 1, "outcome_wrong": 1, "outcome_infra": 1, "reward_sum": -2, "execute_seconds": 6,
		MetricRewardMin: -3, MetricRewardMax: 1, MetricReason + "r": 2,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("metrics %v, want %v", got, want)
	}
	if _, none := gather(nil, nil); !reflect.DeepEqual(none, map[string]float64{"responses": 0, "reward_sum": 0}) {
		t.Errorf("of nothing: %v", none)
	}
}

// Reasons are the score's own, or what its feedback begins with, in at most 60 bytes; those
// after the 32nd are counted together. Other verifiers are counted where they differ.
func TestAudit(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct{ reason, feedback string }{
		"own":                   {" own ", "other"},
		"late":                  {"", "late: by 3 s"},
		"wrong":                 {"", ": nothing"},
		strings.Repeat("x", 60): {"", strings.Repeat("x", 60)},
		strings.Repeat("x", 59): {strings.Repeat("x", 59) + "é and more", ""},
	} {
		if got := reasonOf(shard.Score{Outcome: "wrong", Feedback: c.feedback}, c.reason); got != want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	a, got := newAudit(), map[string]float64{}
	for i := range 35 {
		a.add(shard.Score{Outcome: []string{"ok", "wrong"}[i%2]}, fmt.Sprint(min(i, 33)), "set", []env.Other{{Name: "v", Right: i%3 == 0}})
	}
	a.into(got)
	// Of 18 right ones 6 are multiples of 3, and of 17 wrong ones 6.
	for name, want := range map[string]float64{
		MetricReason + "0": 1, MetricReason + "31": 1, MetricReason + "32": 0, MetricReason + "other": 3, MetricForm + "set": 35,
		MetricFormRight + "set": 18, MetricCompared + "v": 35, MetricAccepts + "v": 6, MetricRefuses + "v": 12,
	} {
		if got[name] != want {
			t.Errorf("%s is %g, want %g", name, got[name], want)
		}
	}
}

// How many traces are scored at a time, and those that take long first.
func TestAtATime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ atATime, threads, batch, of, want int }{
		{of: 8, want: 8}, {threads: 3, of: 8, want: 2}, {threads: 9, of: 8, want: 1}, {atATime: 5, of: 8, want: 5}, {batch: 4, threads: 2, of: 8, want: 16},
	} {
		if got := AtATime(env.Traits{AtATime: c.atATime, Threads: c.threads, Batch: c.batch}, c.of); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	var traces [][]shard.Rollout
	tasks := map[string]string{}
	for _, cost := range []string{"b", "a", "c", "b"} {
		id := fmt.Sprint(len(traces))
		traces, tasks[id] = append(traces, []shard.Rollout{{InstanceID: id}}), cost
	}
	costs := &counter{set: env.NewTaskSet("costly")}
	if got := longestFirst(costs, tasks, traces); !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Errorf("without costs: %v", got)
	}
	costs.set.Cost = func(id string) float64 { return float64(id[0]) }
	if got := longestFirst(costs, tasks, traces); !slices.Equal(got, []int{2, 0, 3, 1}) {
		t.Errorf("by costs: %v", got)
	}
}

// Failures are logged one by one up to eight; of more, their number.
func TestLogFailed(t *testing.T) {
	t.Parallel()
	for failed, want := range map[int]string{0: "", 1: "1", 8: "8", 9: "8 and 1 more response", 12: "8 and 4 more responses"} {
		verdicts := []verdict{{}, {}}
		for range failed {
			verdicts = append(verdicts, verdict{failed: errors.New("down")})
		}
		var got string
		lines := 0
		logFailed(func(format string, args ...any) {
			if text := fmt.Sprintf(format, args...); strings.Contains(text, " more ") {
				got = fmt.Sprint(lines, " and ", text[:strings.Index(text, " left out")])
			} else if lines++; strings.HasSuffix(text, ": down") {
				got = fmt.Sprint(lines)
			}
		}, verdicts)
		if got != want {
			t.Errorf("%d failures: logged %q, want %q", failed, got, want)
		}
	}
}
