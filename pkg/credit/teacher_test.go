package credit

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// By hand: differences log p_T - log p of the learned tokens are 0.5, -2 and 0. With
// coefficient 1 they are added as they are (Thinking Machines: the advantage is the negative
// reverse KL of the token), with 0.5 halved, under a bound of 1 the -2 is -1. What is not
// learned stays, whatever stands there.
func TestTeacherAdd(t *testing.T) {
	t.Parallel()
	nan := float32(math.NaN())
	mask := []bool{false, true, true, true}
	teacher, old := []float32{nan, -1, -3, -0.25}, []float32{nan, -1.5, -1, -0.25}
	for _, test := range []struct {
		name             string
		spec             Teacher
		advantages, want []float32
	}{
		{"alone", Teacher{Coef: 1}, []float32{0, 0, 0, 0}, []float32{0, 0.5, -2, 0}},
		{"beside a reward", Teacher{Coef: 0.5}, []float32{0, 1, 1, 1}, []float32{0, 1.25, 0, 1}},
		{"bounded", Teacher{Coef: 2, Bound: 1}, []float32{7, 0, 0, 0}, []float32{7, 1, -2, 0}},
	} {
		got := test.spec.Add(test.advantages, teacher, old, mask)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if &got[0] == &test.advantages[0] {
			t.Errorf("%s: the advantages are changed in place", test.name)
		}
	}
}

// A policy that agrees with its teacher has nothing to learn from it, and each token's part
// depends on no other token: the discount is 0.
func TestTeacherIsByToken(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "n")
		draw := func(name string) []float32 {
			return rapid.SliceOfN(rapid.Float32Range(-20, 0), n, n).Draw(t, name)
		}
		advantages, teacher, old := draw("advantages"), draw("teacher"), draw("old")
		mask := rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "mask")
		spec := Teacher{Coef: rapid.Float64Range(0, 2).Draw(t, "coef"), Bound: rapid.Float64Range(0, 5).Draw(t, "bound")}
		if got := spec.Add(advantages, old, old, mask); !cmp.Equal(got, advantages) {
			t.Fatalf("%v became %v", advantages, got)
		}
		all := spec.Add(advantages, teacher, old, mask)
		i := rapid.IntRange(0, n-1).Draw(t, "i")
		if alone := spec.Add(advantages[i:i+1], teacher[i:i+1], old[i:i+1], mask[i:i+1]); alone[0] != all[i] {
			t.Fatalf("token %d alone has %v, among others %v", i, alone[0], all[i])
		}
	})
}

func TestTeacherVersion(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		version TeacherVersion
		k, want int
	}{{TeacherCurrent, 1, 0}, {TeacherCurrent, 7, 6}, {0, 7, 0}, {3, 2, 1}, {3, 4, 3}, {3, 9, 3}} {
		if got := (Teacher{Version: test.version}).VersionAt(test.k); got != test.want {
			t.Errorf("version %d teaches iteration %d by %d, want %d", test.version, test.k, got, test.want)
		}
	}
}
