package learn_test

import (
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/evaluate"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// What computed an output's numbers is in its manifest, whichever stage wrote it, and apart
// from it on which instructions, which change no number.
func TestManifestsNameTheEngine(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t)
	data := batch(r)
	update(r, inputs(r, data, "learned"))
	_, err := warm.Run(r.Context(), r.Job, warm.SettingsOf(r.Recipe), r.Env, warm.Inputs{Chunk: 1, LastStep: 2, PolicyOutput: r.Path("warm")})
	r.Check(err)
	_, err = evaluate.Plan(r.Context(), r.Job, r.Recipe.Evaluation, r.Env, r.Path("evaluation.parquet"))
	r.Check(err)
	_, err = rollout.Run(r.Context(), r.Job, rollout.SettingsOf(r.Recipe), r.Env, rollout.Inputs{
		Plan: r.Path("evaluation.parquet"), LastRow: 2, PolicyFolder: r.Policy(), Of: 1, Evaluation: true, Output: r.Path("evalrollout.parquet"),
	})
	r.Check(err)
	for _, name := range []string{"rollout.parquet", "learned", "learned.optim", "warm", "evalrollout.parquet"} {
		engine, unit := engineOf(r, name)
		if want := (policy.Arithmetic{Backend: "cpu"}); engine != want {
			t.Errorf("%s: the engine is %+v, want %+v", name, engine, want)
		}
		if !slices.Contains(vec.AvailableISAs(), unit) {
			t.Errorf("%s: computed by %q, want one of %q", name, unit, vec.AvailableISAs())
		}
	}
}

// engineOf is what an output's manifest says of the engine, and on what of a CPU it ran.
func engineOf(r *stagetest.Rig, name string) (a policy.Arithmetic, unit string) {
	r.Helper()
	m, err := seal.Read(r.Context(), r.Path(name), seal.Options{})
	r.Check(err)
	a, _, err = stage.EngineOf(m)
	r.Check(err)
	unit, err = stage.UnitOf(m)
	r.Check(err)
	return a, unit
}
