package learn_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/stage/evaluate"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
)

// What computed an output's numbers is in its manifest, whichever stage wrote it.
func TestManifestsNameTheEngine(t *testing.T) {
	r := stagetest.New(t)
	data := batch(r)
	update(r, inputs(r, data, "learned"))
	_, err := learn.RunWarm(r.Context(), r.Job, r.World, learn.WarmInputs{Chunk: 1, LastStep: 2, PolicyOutput: r.Path("warm")})
	r.Check(err)
	_, err = evaluate.RunWhole(r.Context(), r.Job, r.World, evaluate.WholeInputs{PolicyFolder: r.Policy(), LastProblem: 2, Of: 1, Output: r.Path("e.parquet")})
	r.Check(err)
	for _, name := range []string{"rollout.parquet", "learned", "learned.optim", "warm", "e.parquet"} {
		if got, want := engineOf(r, name), (policy.Arithmetic{Backend: "cpu"}); got != want {
			t.Errorf("%s: the engine is %+v, want %+v", name, got, want)
		}
	}
}

// engineOf is what an output's manifest says of the engine.
func engineOf(r *stagetest.Rig, name string) (a policy.Arithmetic) {
	r.Helper()
	m, err := seal.Read(r.Context(), r.Path(name), seal.Options{})
	r.Check(err)
	r.Check(json.Unmarshal(m.Notes["engine"], &a))
	return a
}

// A warm start demonstrates the kinds of tasks that it names, and all without a
// name.
func TestKindsOfDemonstrations(t *testing.T) {
	learned := func(kinds string) (digest string, err error) {
		r := stagetest.New(t, "data.train.generate.kinds=[add, sub]", "warm_start.kinds="+kinds)
		folder := r.Path("policy")
		_, err = learn.RunWarm(r.Context(), r.Job, r.World, learn.WarmInputs{Chunk: 1, LastStep: 2, PolicyOutput: folder})
		if err != nil {
			return "", err
		}
		return r.Digest(folder), nil
	}
	digests := map[string]string{}
	for _, kinds := range []string{"[]", "[sub]", "[s*]", "[add, sub]"} {
		var err error
		if digests[kinds], err = learned(kinds); err != nil {
			t.Fatal(err)
		}
	}
	if digests["[]"] != digests["[add, sub]"] || digests["[sub]"] != digests["[s*]"] || digests["[]"] == digests["[sub]"] {
		t.Errorf("digests by the kinds that are demonstrated: %v", digests)
	}
	_, err := learned("[mul, div]")
	if exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), `no training task of a kind in warm_start.kinds ["mul" "div"]`) {
		t.Errorf("kinds that no task has: %v", err)
	}
}
