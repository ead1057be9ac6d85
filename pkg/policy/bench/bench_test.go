package bench

import "testing"

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
	Ceiling{}.Share(rates[:1])
	if rates[0].Share != 0.8 {
		t.Errorf("an unknown ceiling changes a share to %g", rates[0].Share)
	}
}
