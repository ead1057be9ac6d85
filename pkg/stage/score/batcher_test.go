package score

import (
	"context"
	"errors"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/lathe-rl/lathe/pkg/internal/await"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// TestBatcher: what waits while the engine is busy is asked for at once, each gets its own
// answer, and an error is that of its own batch.
func TestBatcher(t *testing.T) {
	t.Parallel()
	begun, free := make(chan struct{}, 2), make(chan error)
	var sizes []int
	b := batcher{generate: func(_ context.Context, requests []policy.Request) ([]policy.Completion, error) {
		sizes = append(sizes, len(requests)) // one call at a time
		begun <- struct{}{}
		if err := <-free; err != nil {
			return nil, err
		}
		completions := make([]policy.Completion, len(requests))
		for i, r := range requests {
			completions[i].TokenIDs = r.Prompt
		}
		return completions, nil
	}}
	var first, others errgroup.Group
	fault := errors.New("no engine")
	first.Go(func() error {
		if _, err := b.ask(t.Context(), policy.Request{}); !errors.Is(err, fault) {
			t.Errorf("a call that failed: %v", err)
		}
		return nil
	})
	<-begun
	for i := range int32(5) {
		others.Go(func() error {
			c, err := b.ask(t.Context(), policy.Request{Prompt: []int32{i}})
			if err != nil || !slices.Equal(c.TokenIDs, []int32{i}) {
				t.Errorf("question %d: %v, %v", i, c.TokenIDs, err)
			}
			return nil
		})
	}
	await.Until(t, "five questions wait", func() bool {
		b.queue.Lock()
		defer b.queue.Unlock()
		return len(b.waiting) == 5
	})
	free <- fault
	_ = first.Wait() // it has none
	<-begun
	free <- nil
	_ = others.Wait() // they have none
	if !slices.Equal(sizes, []int{1, 5}) {
		t.Errorf("batches of %d", sizes)
	}
}
