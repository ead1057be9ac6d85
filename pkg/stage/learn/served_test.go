package learn_test

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
)

// TestServedWeights: a server that was asked for one version and sampled with the weights of
// the one before is found by its log-probabilities. Where these fit no version better, where
// the recipe accepts whatever is served, and where the other version has been pruned, its
// responses are learned from.
func TestServedWeights(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "optimizer.learning_rate=0.05")
	old := batch(r)
	update(r, inputs(r, old, "newer"))
	asks := func(nats float32) func(*shard.Sequence) {
		return func(s *shard.Sequence) {
			shifted(nats)(s)
			s.PolicyVersion = 3
		}
	}
	for name, c := range map[string]struct {
		nats    float32 // that the server's log-probabilities are from those of its weights
		pinned  bool
		before  string // folder of the version before
		refused bool
	}{
		"the version before": {0, false, r.Policy(), true},
		"in other numbers":   {0.02, false, r.Policy(), true},
		"of no version":      {9, false, r.Policy(), false},
		"accepted":           {0, true, r.Policy(), false},
		"pruned":             {0, false, r.Path("none"), false},
	} {
		settings := learn.SettingsOf(r.Recipe)
		settings.Pinned = c.pinned
		in := inputs(r, sampledElsewhere(r, old, name+".arrow", asks(c.nats)), name)
		in.Policy = r.Path("newer")
		in.PolicyOf = func(version int) string {
			return map[int]string{3: r.Path("newer"), 2: c.before, 0: r.Path("none")}[version]
		}
		_, err := learn.Run(r.Context(), r.Job, settings, in)
		const want = "asked for version 3 of the policy and sampled with version 2"
		if refused := err != nil; refused != c.refused || refused && (exitcode.Code(err) != exitcode.Unavailable || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
