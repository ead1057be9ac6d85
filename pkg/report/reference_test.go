package report

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestReferenceCaption: the page says where the reference was replaced.
func TestReferenceCaption(t *testing.T) {
	t.Parallel()
	kl := 0.5
	series := func(iterations, every int) (s Summary) {
		for k := 1; k <= iterations; k++ {
			s.Series = append(s.Series, Iteration{Iteration: k, ReferenceKL: &kl, ReferenceReplaced: every > 0 && k%every == 0})
		}
		return s
	}
	for _, c := range []struct {
		iterations, every int
		want              string
	}{
		{6, 0, "Divergence from the reference policy."},
		{6, 2, "After iterations 2, 4, 6 the policy takes"},
		{20, 2, "After iterations 2, 4, 6, 8, 10, 12, 14, 16, … (10 in all) the policy takes"},
	} {
		if got := referenceCaption(series(c.iterations, c.every)); !strings.Contains(got, c.want) || c.every == 0 && got != c.want {
			t.Errorf("%d iterations, every %d: %q, want %q", c.iterations, c.every, got, c.want)
		}
	}
}

// TestRightBefore: a problem that was right before training is not still wrong.
func TestRightBefore(t *testing.T) {
	t.Parallel()
	row := func(version int, outcome string) []shard.EvaluationRow {
		return []shard.EvaluationRow{{TaskID: "t", PolicyVersion: int32(version), Outcome: outcome}}
	}
	for before, want := range map[string]string{"ok": "unlearned: right before training, wrong after", "wrong": "still wrong"} {
		if picked := transcripts(row(0, before), row(2, "wrong")); len(picked) != 1 || picked[0].Pattern != want {
			t.Errorf("%s before: %+v, want %q", before, picked, want)
		}
	}
}
