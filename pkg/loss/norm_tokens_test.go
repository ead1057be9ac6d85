package loss

import "testing"

func TestNormTokens(t *testing.T) {
	t.Parallel()
	lengths := []int{2, 4}
	for _, test := range []struct {
		name string
		spec Loss
		want int
	}{
		{"limit on new tokens", Loss{}, 16},
		{"given", Loss{NormTokens: 8}, 8},
		{"longest response", Loss{NormTokens: 8, NormPadded: true}, 4},
	} {
		if got := NormTokens(test.spec, lengths, 16); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}
