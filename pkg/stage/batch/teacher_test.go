package batch

import (
	"errors"
	"testing"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The best trace is a valid one in which the policy spoke, and the first of several; without one, the first.
func TestBest(t *testing.T) {
	t.Parallel()
	trace := func(outcome shard.Outcome, reward float64) credit.Trace {
		return credit.Trace{Contexts: []credit.Context{{TurnTokens: []int{3}}}, Score: shard.Score{Outcome: string(outcome), Reward: reward}}
	}
	silent := credit.Trace{Score: shard.Score{Outcome: string(shard.OutcomeInvalid), Reward: 5}}
	infra, low, high := trace(shard.OutcomeInfra, 9), trace(shard.OutcomeWrong, -1), trace(shard.OutcomeOK, 1)
	for _, test := range []struct {
		traces []credit.Trace
		want   int
	}{{[]credit.Trace{low}, 0}, {[]credit.Trace{silent, low}, 1}, {[]credit.Trace{infra, low}, 1}, {[]credit.Trace{low, infra, high, high}, 2}, {[]credit.Trace{infra, infra}, 0}} {
		if got := (group{Group: credit.Group{Traces: test.traces}}).best(); got != test.want {
			t.Errorf("%v: trace %d, want %d", test.traces, got, test.want)
		}
	}
}

// A teacher reads the policy's own prompt, or what is worded of the conversation and the score
// of the trace itself, or of the best in its group.
func TestTeacherPrompt(t *testing.T) {
	t.Parallel()
	g := group{contexts: [][]contextRow{{{InstanceID: "i"}, {InstanceID: "other"}}, {{InstanceID: "i", Sample: 1}}}}
	g.Instance.TaskID = "task"
	for reward := range 2 {
		g.Traces = append(g.Traces, credit.Trace{Contexts: []credit.Context{{TurnTokens: []int{3}}}, Score: shard.Score{Outcome: string(shard.OutcomeOK), Reward: float64(reward)}})
	}
	held := &tokens{messages: map[shard.TraceName][]shard.Message{{InstanceID: "i"}: {{Content: "worse"}}, {InstanceID: "i", Sample: 1}: {{Content: "better"}}}}
	words := func(task string, conversation []shard.Message, score shard.Score) ([]shard.Message, error) {
		if score.Reward > 0.5 {
			return []shard.Message{{Role: "user", Content: task + ": " + conversation[0].Content}}, nil
		}
		return nil, errors.New(conversation[0].Content)
	}
	for _, c := range []struct {
		context    string
		words      func(string, []shard.Message, shard.Score) ([]shard.Message, error)
		trace      int
		want, fail string
	}{
		{credit.TeacherPrompt, nil, 0, "", ""},
		{credit.TeacherImprove, words, 0, "", "worse"},
		{credit.TeacherImprove, words, 1, `[{"Role":"user","Content":"task: better"}]`, ""},
		{credit.TeacherImproveBest, words, 0, `[{"Role":"user","Content":"task: better"}]`, ""},
	} {
		r := &reduction{in: Inputs{TeacherPrompt: c.words}}
		r.Advantage.Teacher.Context = c.context
		failed := ""
		got, err := r.teacherPrompt(held, g, c.trace)
		if err != nil {
			failed = err.Error()
		}
		if got != c.want || failed != c.fail {
			t.Errorf("%s, trace %d: %q and error %q, want %q and %q", c.context, c.trace, got, failed, c.want, c.fail)
		}
	}
}
