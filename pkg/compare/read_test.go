package compare

import (
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// TestSeedless: runs that go on from another of their own seed are of one method, and
// numbers that only begin or end like the seed stay.
func TestSeedless(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		seed uint64
		want string
	}{
		{"path: /runs/sweep/offline-s2/policy/v000000\n", 2, "path: /runs/sweep/offline-s/policy/v000000\n"},
		{"path: /runs/sweep/offline-s12\nsteps: 2\n", 12, "path: /runs/sweep/offline-s\nsteps: 2\n"},
		{`path: "/runs/offline-s2"`, 2, `path: "/runs/offline-s"`},
		{"path: /runs/offline-s23/policy", 2, "path: /runs/offline-s23/policy"},
		{"path: /runs/offline-s2.bak/policy", 2, "path: /runs/offline-s2.bak/policy"},
	} {
		if got := seedless(c.text, c.seed); got != c.want {
			t.Errorf("seed %d: %q, want %q", c.seed, got, c.want)
		}
	}
}

// TestJoinSeeds: runs of several seeds are of one method when each goes on from the run of
// its own seed, and when all go on from one, which has a seed too.
func TestJoinSeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ texts, want []string }{
		{[]string{"path: a-s1", "path: a-s2", "path: a-s3"}, []string{"path: a-s", "path: a-s", "path: a-s"}},
		{[]string{"path: a-s1", "path: a-s1", "path: a-s1"}, []string{"path: a-s1", "path: a-s1", "path: a-s1"}},
		{[]string{"path: a-s1"}, []string{"path: a-s"}},
	} {
		var runs []Run
		for i, text := range c.texts {
			runs = append(runs, Run{Run: &rundir.Run{Recipe: recipe.Recipe{Seed: uint64(i + 1)}}, method: text})
		}
		joinSeeds(runs)
		var got []string
		for _, r := range runs {
			got = append(got, r.method)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: methods %q, want %q", c.texts, got, c.want)
		}
	}
}
