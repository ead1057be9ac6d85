package phase

import (
	"os"
	"sync"
	"testing"
	"time"
)

// What a process marks is what another reads: all of the time is in some phase,
// and in the right one. Alone: the memory is one for the process.
func TestMarks(t *testing.T) {
	Enter(Load)() // nobody asks yet
	asked := time.Now()
	file, err := Share()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Store(nil)
	defer file.Close()
	shared := time.Now()
	leave := Enter(Decode)
	time.Sleep(20 * time.Millisecond)
	inner := Enter(Seal)
	time.Sleep(10 * time.Millisecond)
	inner()
	time.Sleep(5 * time.Millisecond)
	leave()
	Mark(Forward)
	least := time.Since(shared)
	totals, err := Read(file)
	most := time.Since(asked)
	if err != nil {
		t.Fatal(err)
	}
	var sum time.Duration
	for _, spent := range totals {
		sum += spent
	}
	if sum < least || sum > most {
		t.Errorf("the phases add up to %v, want %v to %v", sum, least, most)
	}
	if totals[Decode] < 25*time.Millisecond || totals[Seal] < 10*time.Millisecond || totals[Load] != 0 {
		t.Errorf("the phases are %v", totals)
	}
	before := totals[Forward]
	time.Sleep(2 * time.Millisecond)
	if totals, _ = Read(file); totals[Forward] < before+2*time.Millisecond {
		t.Errorf("the phase that goes on stands at %v, it was %v", totals[Forward], before)
	}
}

// A reader beside writers never sees a mark that is half made: no time is counted
// twice or lost. Alone: the memory is one for the process.
func TestReadWhileMarking(t *testing.T) {
	file, err := Share()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Store(nil)
	defer file.Close()
	start := time.Now()
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					Enter(Prefill)()
				}
			}
		})
	}
	for range 2000 {
		totals, err := Read(file)
		if err != nil {
			t.Fatal(err)
		}
		var sum time.Duration
		for _, spent := range totals {
			sum += spent
		}
		if sum > time.Since(start)+20*time.Millisecond || sum < 0 {
			t.Fatalf("the phases add up to %v after %v", sum, time.Since(start))
		}
	}
	close(stop)
	writers.Wait()
}

// A file that is no such memory is an error.
func TestReadOther(t *testing.T) {
	t.Parallel()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := Read(file); err == nil {
		t.Error("an empty file was read")
	}
	if got := Phase(99).String(); got != "phase 99" {
		t.Errorf("an unknown phase is %q", got)
	}
}

func BenchmarkEnter(b *testing.B) {
	b.Run("nobody asks", func(b *testing.B) {
		for b.Loop() {
			Enter(Decode)()
		}
	})
	file, err := Share()
	if err != nil {
		b.Fatal(err)
	}
	defer own.Store(nil)
	defer file.Close()
	b.Run("shared", func(b *testing.B) {
		for b.Loop() {
			Enter(Decode)()
		}
	})
}
