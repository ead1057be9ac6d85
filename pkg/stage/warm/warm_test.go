package warm_test

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

// A warm start demonstrates the kinds of tasks that it names, and all without a
// name.
func TestKindsOfDemonstrations(t *testing.T) {
	t.Parallel()
	learned := func(kinds string) (digest string, err error) {
		r := stagetest.New(t, "data.train.generate.kinds=[add, sub]", "warm_start.kinds="+kinds)
		folder := r.Path("policy")
		_, err = warm.Run(r.Context(), r.Job, r.Env, warm.Inputs{Chunk: 1, LastStep: 2, PolicyOutput: folder})
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
