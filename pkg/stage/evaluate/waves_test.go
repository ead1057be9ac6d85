package evaluate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/evaluate"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
	"github.com/lathe-rl/lathe/pkg/stage/score"
)

// TestGathered: an evaluation in a plan, rollouts and scores has the rows of one
// that is measured in one process.
func TestGathered(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "evaluation.problems=4")
	if waves, err := r.Recipe.Waves(true); err != nil || waves != 1 {
		t.Fatalf("%d waves: %v", waves, err)
	}
	whole, err := r.Measure(r.Policy(), 0, 4, 0)
	r.Check(err)
	_, err = evaluate.Plan(r.Context(), r.Job, r.Recipe.Evaluation, r.Env, r.Path("plan.parquet"))
	r.Check(err)
	wave := stage.WaveRef{Rollout: r.Path("rollout.parquet"), Score: r.Path("score.parquet")}
	_, err = rollout.Run(r.Context(), r.Job, rollout.SettingsOf(r.Recipe), r.Env, rollout.Inputs{
		Plan: r.Path("plan.parquet"), LastRow: 4, PolicyFolder: r.Policy(), Of: 1, Evaluation: true, Output: wave.Rollout,
	})
	r.Check(err)
	_, err = score.Run(r.Context(), r.Job, r.Recipe.Score, r.Env, score.Inputs{
		Plan: r.Path("plan.parquet"), Rollout: wave.Rollout, Of: 1, Evaluation: true, Output: wave.Score,
	})
	r.Check(err)
	m, err := evaluate.Run(r.Context(), r.Job, r.Recipe.Evaluation, r.Env, evaluate.Inputs{
		Plan: r.Path("plan.parquet"), LastRow: 4, Waves: []stage.WaveRef{wave}, Of: 1, Output: r.Path("gathered.parquet"),
	})
	r.Check(err)
	gathered := stagetest.Read[shard.EvaluationRow](r, r.Path("gathered.parquet"))
	if diff := cmp.Diff(whole, gathered); diff != "" || len(whole) == 0 {
		t.Errorf("%d rows, whole and gathered: %s", len(whole), diff)
	}
	tokens := 0.0
	for _, row := range gathered {
		tokens += float64(row.ResponseTokens)
	}
	if m.Stage != "evaluate" || m.PolicyVersion != 0 || len(m.Inputs) != 3 || m.Metrics["responses"] != float64(len(whole)) || m.Metrics["response_tokens"] != tokens || tokens == 0 {
		t.Errorf("%s of version %d from %v: %v", m.Stage, m.PolicyVersion, m.Inputs, m.Metrics)
	}
	r.Check(stagetest.Write(r.Path("none.parquet"), []shard.Score{}))
	if _, err = evaluate.Run(r.Context(), r.Job, r.Recipe.Evaluation, r.Env, evaluate.Inputs{
		Plan: r.Path("plan.parquet"), LastRow: 4, Waves: []stage.WaveRef{{Rollout: wave.Rollout, Score: r.Path("none.parquet")}}, Of: 1, Output: r.Path("failed.parquet"),
	}); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "traces and scores of 0") {
		t.Errorf("scores of other traces: %v", err)
	}

	// In waves, where each message waits for its score, the rows are those of a policy that
	// speaks on at once.
	turns := stagetest.Turns{Env: r.Env, Of: 2}
	r.Env = turns
	atOnce, err := r.Measure(r.Policy(), 0, 4, 0)
	r.Check(err)
	turns.Wait = true
	r.Env = turns
	inWaves, err := r.Measure(r.Policy(), 0, 4, 0)
	r.Check(err)
	if diff := cmp.Diff(atOnce, inWaves); diff != "" {
		t.Errorf("at once and in waves: %s", diff)
	}
}
