// Package await has tests wait for what another process or goroutine brings
// about: for a condition, and never for a time.
package await

import (
	"testing"
	"time"
)

// Limit is when a condition counts as one that never comes. No machine is so busy.
const Limit = 10 * time.Minute

// Until waits until a condition holds, which it looks at after a millisecond, and less and
// less often, down to five times a second. What names the condition where it never comes.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	pause := time.Millisecond
	for start := time.Now(); !condition(); pause = min(2*pause, 200*time.Millisecond) {
		if time.Since(start) > Limit {
			t.Fatalf("after %v it is not so: %s", Limit, what)
		}
		time.Sleep(pause)
	}
}
