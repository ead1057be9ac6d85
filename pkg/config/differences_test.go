package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config"
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		was, is string
		want    []string
	}{
		"the same": {"a: 1\nb:\n  c: x\n", "a: 1\nb:\n  c: x\n", nil},
		"one name in two places": {
			"optimizer:\n  learning_rate: 0.005\nwarm_start:\n  optimizer:\n    learning_rate: 0.02\n",
			"optimizer:\n  learning_rate: 1e-05\nwarm_start:\n  optimizer:\n    learning_rate: 0.01\n",
			[]string{"optimizer.learning_rate: was 0.005, now 1e-05", "warm_start.optimizer.learning_rate: was 0.02, now 0.01"},
		},
		"a field that is new, and one that is gone": {"a: 1\nb: 2\n", "a: 1\nc: \"\"\n", []string{"b: was 2", `c: now ""`}},
		"null":  {"a: null\n", "a:\n  b: true\n", []string{"a: was null", "a.b: now true"}},
		"lists": {"a: []\nb: [1, 2]\n", "a: [x, \"y z\"]\nb: [2, 1]\n", []string{`a: was [], now [x, "y z"]`, "b: was [1, 2], now [2, 1]"}},
		"lists of objects": {
			"filter:\n  - field: a\n    in: [b]\n", "filter:\n  - field: a\n    in: [c]\n  - field: d\n",
			[]string{"filter.0.in: was [b], now [c]", "filter.1.field: now d"},
		},
		"text of many lines": {"a: |-\n  one\n  two\nb: 1\n", "a: |-\n  one\n  three\nb: 1\n", []string{`a: was "one\ntwo", now "one\nthree"`}},
		"long text": {
			"a: " + long + "1\n", "a: " + long + "2\n", []string{"a: was " + long[:40] + "…, now " + long[:40] + "…"},
		},
	} {
		got, err := config.Differences([]byte(c.was), []byte(c.is))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if _, err := config.Differences([]byte("a: ["), nil); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("what is no YAML is compared: %v", err)
	}
}

const long = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"
