package monitor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

var zero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newRecorder(run string) *Recorder {
	return NewRecorder(run, "id", "rollout-000001-00003", seal.Attempt{Host: "n1", Number: 2}, zero)
}

// segments reads the segments of a run.
func segments(t *testing.T, run string) [][]shard.Sample {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(run, Folder, "*", "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	var all [][]shard.Sample
	for _, path := range paths {
		rows, m, err := shard.Read[shard.Sample](context.Background(), path, seal.Options{})
		if err != nil || m.Run != "id" {
			t.Fatalf("%v of run %q", err, m.Run)
		}
		all = append(all, rows)
	}
	return all
}

// What is added is what is sealed: by device, name and time, with the task.
func TestRecorder(t *testing.T) {
	t.Parallel()
	run := t.TempDir()
	r := newRecorder(run)
	for i := range 3 {
		r.Add(zero.Add(time.Duration(i)*time.Second), int(phase.Decode), []Reading{{Device: "GPU-b", Name: "x", Value: float64(i)}, {Name: "y", Value: -1, Detail: "word"}})
	}
	if r.Due(zero.Add(time.Second)) || !r.Due(zero.Add(2*time.Second)) {
		t.Error("the first segment is not one of two seconds")
	}
	if err := r.Seal(); err != nil {
		t.Fatal(err)
	}
	if err := r.Seal(); err != nil { // there is nothing
		t.Fatal(err)
	}
	r.Add(zero.Add(3*time.Second), -1, []Reading{{Name: "y"}})
	if r.Due(zero.Add(8*time.Second)) || !r.Due(zero.Add(9*time.Second)) {
		t.Error("the second segment is not one of six seconds")
	}
	if err := r.Seal(); err != nil {
		t.Fatal(err)
	}
	sample := func(second int, device, name string, value float64, phase, detail string) shard.Sample {
		return shard.Sample{
			Time: zero.Add(time.Duration(second) * time.Second).UnixMicro(), Host: "n1", Device: device, Name: name, Value: value,
			Phase: phase, Detail: detail, Task: "rollout-000001-00003", Attempt: 2,
		}
	}
	want := [][]shard.Sample{{
		sample(0, "", "y", -1, "decode", "word"), sample(1, "", "y", -1, "decode", "word"), sample(2, "", "y", -1, "decode", "word"),
		sample(0, "GPU-b", "x", 0, "decode", ""), sample(1, "GPU-b", "x", 1, "decode", ""), sample(2, "GPU-b", "x", 2, "decode", ""),
	}, {sample(3, "", "y", 0, "", "")}}
	got := segments(t, run)
	if len(got) != 2 || !slices.Equal(got[0], want[0]) || !slices.Equal(got[1], want[1]) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
}

// What cannot be sealed is kept for the next time; what there is no room for is
// counted, and nothing is lost in silence.
func TestRecorderWithoutADisk(t *testing.T) {
	t.Parallel()
	run := t.TempDir()
	inTheWay := filepath.Join(run, Folder)
	if err := os.WriteFile(inTheWay, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r := newRecorder(run)
	r.Add(zero, -1, []Reading{{Name: "a", Value: 1}})
	if err := r.Seal(); err == nil {
		t.Fatal("a segment was sealed below a file")
	}
	for i := range mostKept {
		r.Add(zero.Add(time.Duration(i+1)*time.Millisecond), -1, []Reading{{Name: "b", Value: float64(i)}})
	}
	if err := r.Seal(); err == nil {
		t.Fatal("a segment was sealed below a file")
	}
	r.Add(zero.Add(time.Hour), -1, []Reading{{Name: "c"}})
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := r.Seal(); err != nil {
		t.Fatal(err)
	}
	rows := segments(t, run)[0]
	byName := map[string]int{}
	var dropped float64
	for _, row := range rows {
		byName[row.Name]++
		if row.Name == MonitorDroppedSamples {
			dropped = row.Value
		}
	}
	if byName["a"] != 1 || byName["b"] != mostKept-1 || byName["c"] != 0 || dropped != 2 {
		t.Errorf("%v, and %v dropped", byName, dropped)
	}
}

// What was recorded is read again, moment by moment.
func TestReplay(t *testing.T) {
	t.Parallel()
	rows := []shard.Sample{{Time: 2, Name: "b", Value: 2}, {Time: 1, Name: "a", Value: 1, Device: "GPU-a"}, {Time: 1, Name: "b", Value: 3, Detail: "d"}}
	r := NewReplay(rows)
	for i, want := range [][]Reading{{{"GPU-a", "a", 1, ""}, {"", "b", 3, "d"}}, {{"", "b", 2, ""}}, nil} {
		var got []Reading
		r.Read(zero, func(r Reading) { got = append(got, r) })
		if !slices.Equal(got, want) {
			t.Errorf("moment %d: %v, want %v", i, got, want)
		}
	}
}

// hanging is a sampler that does not come back.
type hanging struct{ until chan struct{} }

func (hanging) Kind() string                        { return "hanging" }
func (hanging) Close()                              {}
func (h hanging) Read(_ time.Time, _ func(Reading)) { <-h.until }

// A driver that hangs stops no other sampler, and not the end.
func TestRunWithAHangingSampler(t *testing.T) {
	t.Parallel()
	run := t.TempDir()
	h := hanging{make(chan struct{})}
	defer close(h.until)
	ended := make(chan struct{})
	r := newRecorder(run)
	time.AfterFunc(150*time.Millisecond, func() { close(ended) })
	Run(Options{
		Every: 10 * time.Millisecond, Samplers: []Sampler{h, NewHost(os.Getpid(), 0)}, Record: r,
		Alive: func() bool { return true }, Ended: ended, Log: t.Logf,
	})
	got := segments(t, run)
	if len(got) != 1 || !slices.ContainsFunc(got[0], func(s shard.Sample) bool { return s.Name == CPUSeconds }) {
		t.Errorf("%d segments", len(got))
	}
}
