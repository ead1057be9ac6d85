package cmdline

import (
	"slices"
	"testing"
	"time"
)

// TestPatience: each tick prints how long it has taken, and no tick is printed after the end.
func TestPatience(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ticks, ended, done := make(chan time.Time), make(chan struct{}), make(chan struct{})
	var printed []time.Duration
	go func() {
		defer close(done)
		patience(ticks, ended, began, func(d time.Duration) { printed = append(printed, d) })
	}()
	ticks <- began.Add(20 * time.Second)
	ticks <- began.Add(40 * time.Second)
	close(ended)
	<-done
	if !slices.Equal(printed, []time.Duration{20 * time.Second, 40 * time.Second}) {
		t.Errorf("printed %v", printed)
	}
}
