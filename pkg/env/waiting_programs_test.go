package env

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestWatchWaits: a request is reported once it is slow and each time that long again,
// and its end is reported too. The clock is a list of ticks.
func TestWatchWaits(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var waits Waits
	ticks, ended, done := make(chan time.Time), make(chan struct{}), make(chan struct{})
	var got []string
	go func() {
		defer close(done)
		watchWaits(waits.Open, 20*time.Second, ticks, ended, func(w *Wait, waited time.Duration) {
			if w == nil {
				got = append(got, "none")
				return
			}
			got = append(got, fmt.Sprintf("%s %v", w.Request, waited))
		})
	}()
	tick := func(s int) { ticks <- began.Add(time.Duration(s) * time.Second) }
	tick(0)
	second := waits.Begin(Wait{Request: "b", Since: began.Add(time.Second)})
	first := waits.Begin(Wait{Request: "a", Since: began})
	for _, s := range []int{5, 10, 15, 20, 25, 40, 45} {
		tick(s)
	}
	tick(46)
	first()
	tick(60) // of b, which has been slow since 21
	tick(61)
	second()
	tick(62)
	tick(63)
	close(ended)
	<-done
	want := []string{"a 20s", "a 40s", "b 59s", "none"}
	if !slices.Equal(got, want) {
		t.Errorf("reported %q, want %q", got, want)
	}
}
