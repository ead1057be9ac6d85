package monitor

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// sampler is one of a test's own.
type sampler struct {
	read   func(now time.Time)
	closed bool
}

func (s *sampler) Kind() string { return "test" }
func (s *sampler) Close()       { s.closed = true }
func (s *sampler) Read(now time.Time, add func(Reading)) {
	s.read(now)
	add(Reading{Name: "read"})
}

// disk is what a recorder of a test seals to.
type disk struct {
	segments [][]shard.Sample
	full     error
}

// runFor runs a monitor of one sampler, in simulated time, from 3 ms after a whole interval on. It returns what was
// sealed, by name, and when the sampler read and the monitor ended. Whether the sampler is ready for the first moment is
// left to the scheduler.
func (d *disk) runFor(t *testing.T, o Options, read func(at time.Duration)) (samples map[string][]string, moments []time.Duration, took time.Duration) {
	t.Helper()
	start := time.Now()
	<-time.After(3 * ms)
	s := &sampler{read: func(now time.Time) {
		if at := now.Sub(start); at > 3*ms {
			moments = append(moments, at)
			read(at)
		}
	}}
	o.Samplers, o.Record = []Sampler{s}, newRecorder("")
	o.Record.write = func(_ string, rows []shard.Sample) error {
		if d.full == nil {
			d.segments = append(d.segments, rows)
		}
		return d.full
	}
	if o.Alive == nil {
		o.Alive = func() bool { return true }
	}
	if o.Log == nil {
		o.Log = t.Errorf
	}
	Run(o)
	took = time.Since(start)
	samples = map[string][]string{}
	for _, row := range slices.Concat(d.segments...) {
		if at := time.UnixMicro(row.Time).Sub(start); at > 3*ms || row.Name != "read" {
			samples[row.Name] = append(samples[row.Name], fmt.Sprintf("%v %v %s%s", at, row.Value, row.Phase, row.Detail))
		}
	}
	if !s.closed && len(samples[Fault]) == 0 {
		t.Error("the sampler is not closed")
	}
	return samples, moments, took
}

func after(d time.Duration) chan struct{} {
	ended := make(chan struct{})
	time.AfterFunc(d, func() { close(ended) })
	return ended
}

const ms = time.Millisecond

// Samples stand on whole multiples of the interval, from the start to the end, which has one of its own.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		phases := writePhases(t, nil, map[phase.Phase]time.Duration{phase.Decode: time.Second})
		read := func(at time.Duration) {
			if at == 10*ms {
				writePhases(t, phases, map[phase.Phase]time.Duration{phase.Decode: time.Second, phase.Load: time.Second})
			}
		}
		samples, moments, took := new(disk).runFor(t, Options{Every: 10 * ms, Ended: after(28 * ms), Phases: phases}, read)
		if want := []time.Duration{10 * ms, 20 * ms, 28 * ms}; !slices.Equal(moments, want) || took != 28*ms {
			t.Errorf("%v until %v", moments, took)
		}
		if got := strings.Join(append(samples["read"], samples[PhaseSeconds]...), "|"); got != "10ms 0 |20ms 0 load|28ms 0 |3ms 1 decodedecode|20ms 1 loadload" {
			t.Errorf("%q", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		alive := 3
		_, moments, took := new(disk).runFor(t, Options{Every: 10 * ms, Alive: func() bool { alive--; return alive > 0 }}, func(time.Duration) {})
		if want := []time.Duration{10 * ms, 20 * ms}; !slices.Equal(slices.Compact(moments), want) || took != 20*ms {
			t.Errorf("of a task that ends unseen: %v until %v", moments, took)
		}
	})
}

// Segments are sealed when they are due, and when a signal says so; a disk that takes none is reported once each time.
func TestRunSeals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d disk
		signals := make(chan os.Signal)
		var sealed []int
		for i := range 10 {
			time.AfterFunc(time.Duration(i)*time.Second+500*ms, func() { sealed = append(sealed, len(d.segments)) })
		}
		time.AfterFunc(5250*ms, func() { signals <- os.Interrupt })
		d.runFor(t, Options{Every: time.Second, Ended: after(10750 * ms), SealNow: signals}, func(time.Duration) {})
		if want := []int{0, 0, 0, 1, 1, 2, 2, 2, 2, 2}; !slices.Equal(sealed, want) || len(d.segments) != 3 {
			t.Errorf("%v segments second by second, %d at the end", sealed, len(d.segments))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		d, logged := disk{full: syscall.ENOSPC}, 0
		time.AfterFunc(5500*ms, func() {
			d.full = nil
			if logged != 1 {
				t.Errorf("logged %d times", logged)
			}
		})
		time.AfterFunc(8500*ms, func() { d.full = syscall.ENOSPC })
		time.AfterFunc(20500*ms, func() { d.full = nil })
		samples, _, _ := d.runFor(t, Options{Every: time.Second, Ended: after(30750 * ms), Log: func(string, ...any) { logged++ }}, func(time.Duration) {})
		if logged != 2 || len(samples["read"]) != 31 {
			t.Errorf("logged %d times, sealed %d of 31 samples", logged, len(samples["read"]))
		}
	})
}

// A driver that hangs for more than 10 seconds is a fault, once, until it answers; it does not hold up the end for more
// than a second.
func TestRunWithAHangingSampler(t *testing.T) {
	t.Parallel()
	for forever, want := range map[bool]string{
		false: "12s 1 test has not answered for 10s|43s 1 test has not answered for 10s|31s 0 test answers again|50s 0 test answers again",
		true:  "12s 1 test has not answered for 10s",
	} {
		synctest.Test(t, func(t *testing.T) {
			first, second := after(30500*ms), after(49500*ms)
			if forever {
				first = make(chan struct{})
			}
			samples, _, took := new(disk).runFor(t, Options{Every: time.Second, Ended: after(60500 * ms)}, func(at time.Duration) {
				switch at {
				case time.Second:
					<-first
				case 32 * time.Second:
					<-second
				}
			})
			slices.Sort(samples[Fault])
			if got := samples[Fault]; !slices.Equal(got, slices.Sorted(slices.Values(strings.Split(want, "|")))) {
				t.Errorf("%q", got)
			}
			if forever {
				if took != 61500*ms {
					t.Errorf("ended after %v", took)
				}
				close(first)
			}
		})
	}
}

// writePhases writes the memory of a task's phases, as package phase lays it out, into a file; nil for a new one.
func writePhases(t *testing.T, file *os.File, totals map[phase.Phase]time.Duration) *os.File {
	t.Helper()
	if file == nil {
		var err error
		if file, err = os.Create(filepath.Join(t.TempDir(), "phases")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
	}
	words := []int64{0, -1, 0} // no mark is being made, and no phase goes on
	for p := range phase.Names {
		words = append(words, int64(totals[phase.Phase(p)]))
	}
	bytes := must.Get(binary.Append(nil, binary.NativeEndian, words))(t)
	must.Get(file.WriteAt(bytes, 0))(t)
	return file
}

// What a task did is what it did for longest since the last time; of two as long, the first.
func TestSpent(t *testing.T) {
	t.Parallel()
	s := spent{file: writePhases(t, nil, nil)}
	for i, c := range []struct {
		load, decode time.Duration
		most         int
		want         []Reading
	}{
		{0, 0, -1, nil},
		{2, 3, int(phase.Decode), []Reading{{Name: PhaseSeconds, Value: 2, Detail: "load"}, {Name: PhaseSeconds, Value: 3, Detail: "decode"}}},
		{7, 3, int(phase.Load), []Reading{{Name: PhaseSeconds, Value: 5, Detail: "load"}}},
		{8, 4, int(phase.Load), []Reading{{Name: PhaseSeconds, Value: 1, Detail: "load"}, {Name: PhaseSeconds, Value: 1, Detail: "decode"}}},
	} {
		writePhases(t, s.file, map[phase.Phase]time.Duration{phase.Load: c.load * time.Second, phase.Decode: c.decode * time.Second})
		if most, got := s.since(); most != c.most || !slices.Equal(got, c.want) {
			t.Errorf("%d: %d, %v", i, most, got)
		}
	}
	s.file.Close()
	if most, got := s.since(); most != -1 || len(got) != 1 || got[0].Name != Fault || got[0].Value != 1 {
		t.Errorf("of no memory: %d, %v", most, got)
	}
	if most, got := s.since(); most != -1 || len(got) != 0 {
		t.Errorf("said again: %d, %v", most, got)
	}
}

// A monitor that is started beside a task has what it needs, and what becomes of it is logged.
// Alone: the environment names it.
func TestBeside(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	t.Setenv("BESIDE_OUT", out)
	t.Setenv("LD_BIND_NOW", "1")
	flags := fmt.Sprintf("--attached\n--run\n/r\n--task\nt\n--pid\n%d\n", os.Getpid())
	for name, c := range map[string]struct{ program, cores, code, out, log string }{
		"none":          {"", "2", "0", "", ""},
		"with cores":    {"testdata/beside.sh", "2.5", "0", flags + "--cores\n2.5\nlazy\nshared\n", ""},
		"without":       {"testdata/beside.sh", "", "0", flags + "lazy\nshared\n", ""},
		"a failure":     {"testdata/beside.sh", "", "3", flags + "lazy\nshared\n", "lathe-monitor: exit status 3"},
		"not a program": {"testdata/none.sh", "", "0", "", "lathe-monitor did not start: fork/exec testdata/none.sh: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(Variable, c.program)
			t.Setenv(CoresVariable, c.cores)
			t.Setenv("BESIDE_CODE", c.code)
			_ = os.Remove(out)
			var logged string
			Beside("/r", "t", func(format string, args ...any) { logged += fmt.Sprintf(format, args...) })()
			got, _ := os.ReadFile(out)
			if string(got) != c.out || logged != c.log {
				t.Errorf("%q, and logged %q", got, logged)
			}
		})
	}
}
