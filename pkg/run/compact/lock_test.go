package compact

import (
	"context"
	"errors"
	"testing"

	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// TestLock: of two that compact a run, the second waits for the first.
func TestLock(t *testing.T) {
	t.Parallel()
	d := graph.Dir(t.TempDir())
	release, err := lock(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lock(gone, d); !errors.Is(err, context.Canceled) {
		t.Errorf("a run that is locked is locked again: %v", err)
	}
	second := make(chan error)
	go func() {
		release, err := lock(t.Context(), d)
		if err == nil {
			release()
		}
		second <- err
	}()
	release()
	if err := <-second; err != nil {
		t.Error(err)
	}
	if _, err := lock(t.Context(), d+"/nothing"); err == nil {
		t.Error("a run that is not there is locked")
	}
}
