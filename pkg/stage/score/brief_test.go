package score_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/evaluate"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
	"github.com/lathe-rl/lathe/pkg/stage/score"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// talkative is an environment that would say more than it may.
type talkative struct {
	env.Env
	tail env.Tail
}

const told = "Traceback (most recent call last): ValueError: 17 is not 18"

func (e *talkative) Assist(env.Assistant) {}

func (e *talkative) CutBy(tail env.Tail) { e.tail = tail }

func (e *talkative) Score(ctx context.Context, attempt env.Attempt) (env.Verdict, error) {
	v, err := e.Env.Score(ctx, attempt)
	if err == nil && e.tail != nil {
		v.Feedback = e.tail(told, 12)
		v.Turns[len(v.Turns)-1].Feedback = v.Feedback
	}
	return v, err
}

// TestBrief: what an environment tells the policy is counted in the policy's own
// tokens, in training and when it is measured; the manifest names the policy.
func TestBrief(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t)
	text, err := tokenizer.Load(r.Policy())
	r.Check(err)
	want := text.Tail(told, 12)
	if n := len(text.EncodeText(want)); want == told || n == 0 || n > 12 {
		t.Fatalf("%q has %d tokens", want, n)
	}
	plan, instances := r.Plan(2)
	rollouts := answers(r, instances, func(int) (string, shard.Outcome) { return "7", shard.OutcomeOK })
	for _, policy := range []string{r.Policy(), ""} {
		output := r.Path("score" + filepath.Base(policy) + ".parquet")
		m, err := score.Run(r.Context(), r.Job, r.Recipe.Score, &talkative{Env: r.Env}, score.Inputs{Plan: plan, Rollout: rollouts, Of: 1, Output: output, Policy: policy})
		r.Check(err)
		for _, row := range stagetest.Read[shard.Score](r, output) {
			if cut := row.Feedback == want; cut != (policy != "") {
				t.Errorf("policy %q: told %q", policy, row.Feedback)
			}
		}
		named := false
		for _, input := range m.Inputs {
			named = named || policy != "" && strings.HasSuffix(input.Path, filepath.Base(policy)) && input.ContentSHA256 != ""
		}
		if named != (policy != "") {
			t.Errorf("policy %q: the manifest's inputs are %v", policy, m.Inputs)
		}
	}
	sampler, err := rollout.OpenSampler(r.Context(), rollout.SettingsOf(r.Recipe), r.Job.Process, r.Policy(), 1)
	r.Check(err)
	defer sampler.Close()
	measured := &talkative{Env: r.Env}
	_, err = evaluate.Measure(r.Context(), rollout.SettingsOf(r.Recipe), measured, sampler, 0, 1, 0)
	r.Check(err)
	if measured.tail == nil || measured.tail(told, 12) != want {
		t.Error("a measured policy is told in tokens of another")
	}
}
