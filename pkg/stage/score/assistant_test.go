package score_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/score"
)

// assisted is an environment whose feedback is what its assistant says.
type assisted struct {
	env.Env
	assistant env.Assistant
}

func (a *assisted) CutBy(env.Tail) {}

func (a *assisted) Assist(assistant env.Assistant) { a.assistant = assistant }

func (a *assisted) Score(ctx context.Context, attempt env.Attempt) (env.Verdict, error) {
	v, err := a.Env.Score(ctx, attempt)
	if err == nil && a.assistant != nil {
		v.Feedback, _, err = a.assistant(ctx, []shard.Message{{Role: "user", Content: "1+1=?"}})
		v.Turns[len(v.Turns)-1].Feedback = v.Feedback
	}
	return v, err
}

// TestAssistant: an environment is lent the policy of the recipe, a server or a
// folder, in training alone; a server that fails is our failure.
func TestAssistant(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"choices":[{"message":{"content":"two"},"finish_reason":"stop"}]}`)) // a client that has gone is no concern of ours
	}))
	defer server.Close()
	down := httptest.NewServer(http.NotFoundHandler())
	defer down.Close()
	r := stagetest.New(t)
	folder := r.Policy()
	for _, c := range []struct {
		name, settings string
		want           func(feedback string) bool
		outcome        shard.Outcome
	}{
		{"a server", "{url: '" + server.URL + "', model: coder}", func(f string) bool { return f == "two" }, shard.OutcomeWrong},
		{"a server that refuses", "{url: '" + down.URL + "', model: coder}", nil, shard.OutcomeInfra},
		{"a policy", "{policy: '" + folder + "', max_new_tokens: 8}", func(f string) bool { return f != "" && f != "two" }, shard.OutcomeWrong},
		{"a policy, in evaluations too", "{policy: '" + folder + "', max_new_tokens: 8, backend: cpu, evaluations: true}", func(f string) bool { return f != "" && f != "two" }, shard.OutcomeWrong},
	} {
		r := stagetest.New(t, "score.assistant="+c.settings)
		plan, instances := r.Plan(3)
		rollouts := answers(r, instances, func(int) (string, shard.Outcome) { return "7", shard.OutcomeOK })
		var said []string
		for _, evaluation := range []bool{false, true} {
			e := &assisted{Env: r.Env}
			output := r.Path("assisted.parquet")
			if evaluation {
				output = r.Path("evalassisted.parquet")
			}
			_, err := score.Run(r.Context(), r.Job, r.Recipe.Score, e, score.Inputs{Plan: plan, Rollout: rollouts, Iteration: 1, Of: 1, Output: output, Evaluation: evaluation})
			r.Check(err)
			if evaluation {
				if (e.assistant != nil) != r.Recipe.Score.Assistant.Evaluations {
					t.Errorf("%s: whether an evaluation has an assistant is wrong", c.name)
				}
				continue
			}
			for _, row := range stagetest.Read[shard.Score](r, output) {
				if row.Outcome != string(c.outcome) || c.want != nil && !c.want(row.Feedback) {
					t.Errorf("%s: outcome %s, feedback %q", c.name, row.Outcome, row.Feedback)
				}
				said = append(said, row.Feedback)
			}
		}
		if said = slices.Compact(said); len(said) != 1 {
			t.Errorf("%s: the same question had the answers %q", c.name, said)
		}
	}
}
