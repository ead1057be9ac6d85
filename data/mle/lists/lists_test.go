package lists_test

import (
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/data/mle/lists"
	"github.com/lathe-rl/lathe/pkg/mlebench/grader"
)

// TestSplits: the lists of MLE-bench are the splits of the competitions that package
// grader knows, and those of the papers are as long as the papers say.
func TestSplits(t *testing.T) {
	t.Parallel()
	bySplit := map[grader.Split][]string{}
	for _, c := range grader.All() {
		bySplit[c.Split] = append(bySplit[c.Split], c.ID)
	}
	var bench []string
	for _, split := range []grader.Split{grader.Low, grader.Medium, grader.High, grader.Dev} {
		same(t, "mle-bench-"+string(split), bySplit[split])
		if split != grader.Dev {
			bench = append(bench, bySplit[split]...)
		}
	}
	same(t, "mle-bench", bench)
	for name, want := range map[string]int{
		"mle-bench-low": 22, "mle-bench-medium": 38, "mle-bench-high": 15, "mle-bench-dev": 7, "mle-bench": 75,
		"mle-dojo": 134, // AceGRPO App. A.1
		"rl-mle":   12, "exit-train": 3, "exit-test": 3,
	} {
		ids, err := lists.Lookup(name)
		if err != nil || len(ids) != want || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != want {
			t.Errorf("%s: %d competitions, want %d: %v", name, len(ids), want, err)
		}
		for _, id := range ids {
			if name != "mle-dojo" && !slices.Contains(bench, id) && !slices.Contains(bySplit[grader.Dev], id) {
				t.Errorf("%s: %q is no competition of MLE-bench", name, id)
			}
			if name == "mle-dojo" && slices.Contains(bench, id) {
				t.Errorf("%s: %q is one of MLE-bench", name, id)
			}
		}
	}
	for _, name := range []string{"mle-bench-lite", "../lists/rl-mle", ""} {
		if ids, err := lists.Lookup(name); err == nil {
			t.Errorf("list %q: %v, want an error", name, ids)
		}
	}
}

func same(t *testing.T, name string, want []string) {
	t.Helper()
	ids, err := lists.Lookup(name)
	if err != nil || !slices.Equal(slices.Sorted(slices.Values(ids)), slices.Sorted(slices.Values(want))) {
		t.Errorf("%s: %q, want %q: %v", name, ids, want, err)
	}
}
