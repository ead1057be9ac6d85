package compare

import "testing"

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
