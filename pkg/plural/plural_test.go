package plural

import "testing"

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 tasks", 1: "1 task", 2: "2 tasks", -1: "-1 tasks"} {
		if got := Count(n, "task"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
