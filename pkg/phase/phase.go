// Package phase keeps what this process is doing, and for how long it did what,
// where a monitor beside it can read it: in memory that the two share.
//
// A process without a monitor keeps nothing. A mark is two reads of the clock and
// a few stores, no system call and no write to any file, so that a loop may mark
// every token. No result depends on it.
package phase

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Phase is what a process is doing.
type Phase uint32

// The phases of a task.
const (
	Other     Phase = iota // nothing that is told apart
	Load                   // opening a policy, an environment or a batch
	Prefill                // reading prompts
	Decode                 // sampling tokens
	Forward                // of the learner
	Backward               //
	Optimizer              // an optimizer step
	Seal                   // writing, digesting and publishing outputs
	Wait                   // for files that another node has made
	Execute                // programs of the policy, and other scores
	Serve                  // answers of a server that samples
	count
)

// Names are the words for the phases, in their order, as samples carry them.
var Names = [count]string{"other", "load", "prefill", "decode", "forward", "backward", "optimizer", "seal", "wait", "execute", "serve"}

func (p Phase) String() string {
	if p < count {
		return Names[p]
	}
	return fmt.Sprintf("phase %d", uint32(p))
}

// Totals are the seconds that a process has spent in each phase.
type Totals [count]time.Duration

// The layout of the shared memory: native words, written by one process and read
// by another of the same machine.
//
//	0   sequence: odd while a mark is being made
//	8   the phase
//	16  when it began, in nanoseconds of CLOCK_MONOTONIC
//	24  nanoseconds spent in each phase before that
const (
	totalsAt = 24
	size     = totalsAt + 8*int(count)
)

// record is one process's memory.
type record struct {
	mu    sync.Mutex // between the goroutines of the writer
	words [size / 8]*atomic.Int64
	base  int64 // CLOCK_MONOTONIC at start
	start time.Time
}

// own is that of this process; nil while nobody asks.
var own atomic.Pointer[record]

// Share makes the memory of this process and returns the file that another
// process reads it by. It has no name: it is gone when both have closed it.
func Share() (*os.File, error) {
	fd, err := unix.MemfdCreate("lathe-phase", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making the memory of the phases: %w", err)
	}
	file := os.NewFile(uintptr(fd), "lathe-phase")
	if err := file.Truncate(int64(size)); err != nil {
		return nil, fmt.Errorf("making the memory of the phases: %w", err)
	}
	memory, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("making the memory of the phases: %w", err)
	}
	now, err := monotonic()
	if err != nil {
		return nil, err
	}
	r := &record{base: now, start: time.Now()}
	for i := range r.words {
		r.words[i] = (*atomic.Int64)(unsafe.Pointer(&memory[8*i]))
	}
	r.words[2].Store(now)
	own.Store(r)
	return file, nil
}

// Enter marks that this process is in a phase from now on, and returns what marks
// that it is back in the one before:
//
//	defer phase.Enter(phase.Load)()
//
// Work that goes on at the same time in several goroutines is in the phase that
// was marked last.
func Enter(p Phase) (leave func()) {
	r := own.Load()
	if r == nil {
		return func() {}
	}
	before := r.mark(p)
	return func() { r.mark(before) }
}

// Mark marks that this process is in a phase from now on.
func Mark(p Phase) {
	if r := own.Load(); r != nil {
		r.mark(p)
	}
}

func (r *record) mark(p Phase) (before Phase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before = Phase(r.words[1].Load())
	now := r.base + int64(time.Since(r.start))
	r.words[0].Add(1)
	r.words[totalsAt/8+int(before)].Add(now - r.words[2].Load())
	r.words[1].Store(int64(p))
	r.words[2].Store(now)
	r.words[0].Add(1)
	return before
}

// readTries bounds how often a reader looks again because a mark was being made.
const readTries = 100

// Read reads the memory of another process.
func Read(file *os.File) (Totals, error) {
	var buffer [size]byte
	word := func(at int) int64 { return int64(binary.NativeEndian.Uint64(buffer[at:])) }
	for range readTries {
		if _, err := file.ReadAt(buffer[:], 0); err != nil {
			return Totals{}, fmt.Errorf("reading the phases of the task: %w", err)
		}
		sequence := word(0)
		var again [8]byte
		if _, err := file.ReadAt(again[:], 0); err != nil {
			return Totals{}, fmt.Errorf("reading the phases of the task: %w", err)
		}
		if sequence%2 == 0 && int64(binary.NativeEndian.Uint64(again[:])) == sequence {
			break
		}
	}
	now, err := monotonic()
	if err != nil {
		return Totals{}, err
	}
	var totals Totals
	for p := range totals {
		totals[p] = time.Duration(word(totalsAt + 8*p))
	}
	if current := word(8); current >= 0 && current < int64(count) {
		totals[current] += time.Duration(max(0, now-word(16)))
	}
	return totals, nil
}

func monotonic() (int64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, fmt.Errorf("reading the clock: %w", err)
	}
	return t.Nano(), nil
}
