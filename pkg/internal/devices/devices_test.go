package devices

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

func TestTake(t *testing.T) {
	t.Parallel()
	p := NewPool([]string{"0", "1", "GPU-a"})
	if none, release, err := p.Take(t.Context(), 0); err != nil || none != nil {
		t.Errorf("none: %v, %v", none, err)
	} else {
		release()
	}
	first, releaseFirst := must.Get2(p.Take(t.Context(), 1))(t)
	second, releaseSecond := must.Get2(p.Take(t.Context(), 1))(t)
	if !slices.Equal(first, []string{"0"}) || !slices.Equal(second, []string{"1"}) {
		t.Errorf("one and one: %q, %q", first, second)
	}
	releaseFirst()
	two, releaseTwo := must.Get2(p.Take(t.Context(), 2))(t)
	if !slices.Equal(two, []string{"0", "GPU-a"}) {
		t.Errorf("the first two that are free: %q", two)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if got, _, err := p.Take(over, 1); !errors.Is(err, context.Canceled) || got != nil {
		t.Errorf("one of none: %q, %v", got, err)
	}
	releaseSecond()
	releaseTwo()
	if all, _, err := p.Take(t.Context(), p.Len()); err != nil || !slices.Equal(all, []string{"0", "1", "GPU-a"}) {
		t.Errorf("all: %q, %v", all, err)
	}
}

// However many want however many, none is with two takers, and all get theirs.
func TestTakersShareNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"0", "1", "2", "3"}[:rapid.IntRange(1, 4).Draw(t, "devices")]
		p := NewPool(names)
		held := map[string]*atomic.Int32{}
		for _, name := range names {
			held[name] = new(atomic.Int32)
		}
		var takers sync.WaitGroup
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, len(names)), 1, 12).Draw(t, "wanted") {
			takers.Go(func() {
				got, release, err := p.Take(context.Background(), n)
				if err != nil || len(got) != n {
					t.Errorf("%d devices: %q, %v", n, got, err)
					return
				}
				for _, name := range got {
					if held[name].Add(1) != 1 {
						t.Errorf("%s is with two takers", name)
					}
				}
				for _, name := range got {
					held[name].Add(-1)
				}
				release()
			})
		}
		takers.Wait()
	})
}
