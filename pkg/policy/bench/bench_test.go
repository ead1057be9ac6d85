package bench

import (
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
)

// TestShare: a share is of whichever of products and bytes bounds the work more, and
// unknown where the ceiling is.
func TestShare(t *testing.T) {
	t.Parallel()
	c := Ceiling{GFLOPs: 100, GBs: 5}.Higher(Ceiling{GFLOPs: 50, GBs: 10})
	rates := []Rate{{Work: Train, GFLOPs: 80, GBs: 1}, {Work: Decode, GFLOPs: 10, GBs: 7}}
	c.Share(rates)
	if rates[0].Share != 0.8 || rates[1].Share != 0.7 {
		t.Errorf("shares %g and %g, want 0.8 and 0.7", rates[0].Share, rates[1].Share)
	}
	fast := []Rate{{Work: Decode, GFLOPs: 10, GBs: 15.3}} // weights that caches hold
	c.Reached(fast).Share(fast)
	if fast[0].Share != 1 {
		t.Errorf("work beyond the measured ceiling has the share %g", fast[0].Share)
	}
	Ceiling{}.Share(rates[:1])
	if rates[0].Share != 0.8 {
		t.Errorf("an unknown ceiling changes a share to %g", rates[0].Share)
	}
}

// No prompt begins as another does, whatever the vocabulary, or a page of one would stand
// for both.
func TestTokensShareNoPrefix(t *testing.T) {
	t.Parallel()
	const prompts, length = 1000, 8
	seen := map[string]int{}
	for number := range prompts {
		ids := tokens(policy.Config{VocabSize: 260}, length, number)
		if slices.Min(ids) < 0 || slices.Max(ids) >= 260 {
			t.Fatalf("prompt %d: %v", number, ids)
		}
		text := string(ids)
		if other, there := seen[text]; there {
			t.Fatalf("prompts %d and %d begin alike: %v", other, number, ids)
		}
		seen[text] = number
	}
}
