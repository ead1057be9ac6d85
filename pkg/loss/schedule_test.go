package loss

import (
	"math"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Worked by hand: 2 steps of warmup, 10 in all, so 8 steps of decay, from 1
// to .2.
func TestLearningRate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		decay string
		step  int
		want  float64
		total int
	}{
		{"linear", 2, 1, 2}, // all steps are warmup
		{"linear", 3, .2, 2},
		{"cosine", 3, .2, 1},
		{"constant", 1, .5, 10},
		{"constant", 2, 1, 10},
		{"constant", 3, 1, 10},
		{"constant", 10, 1, 10},
		{"linear", 1, .5, 10},
		{"linear", 2, 1, 10},
		{"linear", 6, .6, 10}, // half way: 1 - .8/2
		{"linear", 10, .2, 10},
		{"linear", 12, .2, 10}, // after the end
		{"cosine", 2, 1, 10},
		{"cosine", 4, .882842712475, 10}, // a quarter: .2 + .8·(1+√½)/2
		{"cosine", 6, .6, 10},
		{"cosine", 10, .2, 10},
	} {
		spec := Optimizer{LearningRate: 1, WarmupSteps: 2, Decay: test.decay, MinRatio: .2}
		got, err := LearningRate(spec, test.step, test.total)
		if err != nil {
			t.Fatal(err)
		}
		near(t, test.decay, got, test.want)
	}

	got, err := LearningRate(Optimizer{LearningRate: 3e-4, Decay: "constant"}, 1, 1)
	if err != nil || got != 3e-4 {
		t.Errorf("without warmup the first rate is %v (%v), want 3e-4", got, err)
	}
	if got, err := LearningRate(Optimizer{Decay: "step"}, 1, 10); got != 0 || exitcode.Code(err) != exitcode.Usage {
		t.Errorf("unknown decay: error %v, want a usage error", err)
	}
	if got, err := LearningRate(Optimizer{Decay: "constant"}, 0, 10); got != 0 || exitcode.Code(err) != exitcode.Bug {
		t.Errorf("step 0: error %v, want a bug", err)
	}
}

// M = 3: versions 3 and 6 refresh; iteration 4 is the first that has v3.
func TestReferenceVersion(t *testing.T) {
	t.Parallel()
	want := []int{0, 0, 0, 3, 3, 3, 6}
	for i, version := range want {
		if got := ReferenceVersion(3, i+1); got != version {
			t.Errorf("iteration %d: reference version %d, want %d", i+1, got, version)
		}
		if ReferenceVersion(1, i) != max(i-1, 0) || RefreshDue(1, i) != (i > 0) {
			t.Errorf("an interval of 1: iteration %d has reference version %d; version %d refreshes: %v", i, ReferenceVersion(1, i), i, RefreshDue(1, i))
		}
		if got := RefreshDue(3, i); got != (i == 3 || i == 6) {
			t.Errorf("version %d: refresh due %v", i, got)
		}
	}
	if ReferenceVersion(0, 500) != 0 || RefreshDue(0, 500) || RefreshDue(100, 0) {
		t.Error("an interval of 0 refreshed, or version 0 did")
	}
}

// ExIt §2.2: ref ← α·policy + (1-α)·ref.
func TestRefreshReference(t *testing.T) {
	t.Parallel()
	policy := []float32{1, -2, .1, float32(math.SmallestNonzeroFloat32), float32(math.Copysign(0, -1))}
	for _, test := range []struct {
		alpha float64
		want  []float32
	}{
		{0, []float32{3, 2, .7, 1, 1}},
		{.5, []float32{2, 0, .4, .5, .5}},
		{.25, []float32{2.5, 1, .55, .75, .75}},
		{1, policy}, // bit for bit
	} {
		ref := []float32{3, 2, .7, 1, 1}
		if err := RefreshReference(ref, policy, test.alpha); err != nil {
			t.Fatal(err)
		}
		for i := range ref {
			if math.Float32bits(ref[i]) != math.Float32bits(test.want[i]) {
				t.Errorf("α %v: weight %d is %v, want %v", test.alpha, i, ref[i], test.want[i])
			}
		}
	}
	if err := RefreshReference([]float32{1}, policy, 1); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("shapes: error %v, want a bug", err)
	}
	for _, alpha := range []float64{math.NaN(), -.1, 1.1} {
		if err := RefreshReference([]float32{1}, []float32{1}, alpha); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("α %v: error %v, want a usage error", alpha, err)
		}
	}
}
