package run_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Objectives that look at all tokens of a gradient unit, or at what the iteration before
// measured, come to the same bytes in any number of shards.
func TestObjectivesOverShards(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings []string
		metric   string
		want     func(float64) bool
	}{
		"entropy":  {[]string{"loss.tokens={name: entropy, share: 0.4}"}, "tokens_apart_share", func(x float64) bool { return x > .4 && x < .8 }},
		"kl_cov":   {[]string{"preset=kl-cov", "loss.tokens.share=0.1"}, "tokens_apart_share", func(x float64) bool { return x > .02 && x < .15 }},
		"clip_cov": {[]string{"preset=clip-cov", "loss.tokens={name: clip_cov, share: 0.1, low: 0, high: 5}"}, "tokens_apart_share", func(x float64) bool { return x > .02 && x < .15 }},
		"adaptive": {[]string{"loss.entropy_target=0.3", "loss.entropy_step=0.01", "loss.mini_batches=2"}, "entropy_coef", func(x float64) bool { return x == .01 || x == 0 }},
		"sapo":     {[]string{"preset=trl-sapo", "rollout.group=8"}, "ratio", func(x float64) bool { return x == 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := runtest.Finish(t, runtest.Smoke(), append([]string{"evaluation.every=0"}, c.settings...)...)
			cut := runtest.Finish(t, runtest.Smoke(), append([]string{"evaluation.every=0", "schedule.gradient_shards=3"}, c.settings...)...)
			for _, version := range []int{1, 2} {
				if diff := cmp.Diff(runtest.Digest(t, whole.Dir.Policy(version)), runtest.Digest(t, cut.Dir.Policy(version))); diff != "" {
					t.Errorf("policy %d (-whole +in shards): %s", version, diff)
				}
			}
			m, err := seal.Read(t.Context(), whole.Dir.Policy(2), seal.Options{})
			if got, there := m.Metrics[c.metric]; err != nil || !there || !c.want(got) {
				t.Errorf("%s %v, %v", c.metric, got, err)
			}
		})
	}
}
