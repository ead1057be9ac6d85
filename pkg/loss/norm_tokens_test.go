package loss

import "testing"

func TestNormTokens(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		spec    Loss
		lengths []int
		want    int
	}{
		{"limit on new tokens", Loss{}, []int{2, 4}, 16},
		{"given", Loss{NormTokens: 1}, []int{2, 4}, 1},
		{"longest response", Loss{NormTokens: 8, NormPadded: true}, []int{2, 4}, 4},
		{"longest of none", Loss{NormPadded: true}, nil, 0},
	} {
		if got := NormTokens(test.spec, test.lengths, 16); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}
