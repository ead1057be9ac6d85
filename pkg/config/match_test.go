package config_test

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/config"
)

func TestMatches(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text   string
		values []string
		want   bool
	}{
		{"arithmetic__div", []string{"arithmetic__*"}, true},
		{"arithmetic__div", []string{"*"}, true},
		{"arithmetic__div", []string{"arith"}, false},
		{"arithmetic__div", []string{"comparison__*", "arithmetic__div"}, true},
		{"a*b", []string{"a*b"}, true},
		{"", []string{"a"}, false},
		{"a", nil, false},
	}
	for _, test := range tests {
		if got := config.Matches(test.text, test.values); got != test.want {
			t.Errorf("config.Matches(%q, %q) is %v, want %v", test.text, test.values, got, test.want)
		}
	}
}
