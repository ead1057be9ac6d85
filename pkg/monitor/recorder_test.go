package monitor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/internal/must"
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
	paths := must.Get(filepath.Glob(filepath.Join(run, Folder, "*", "*.parquet")))(t)
	var all [][]shard.Sample
	for _, path := range paths {
		rows, m, err := shard.Read[shard.Sample](context.Background(), path, seal.Options{})
		if err != nil || m.Run != "id" || m.Stage != "monitor" || m.PolicyVersion != -1 || m.Of != 1 {
			t.Fatalf("%v of %+v", err, m)
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
	must.Do(t, r.Seal())
	if err := r.Seal(); err != nil { // there is nothing
		t.Fatal(err)
	}
	if r.Due(zero.Add(time.Hour)) {
		t.Error("nothing is to be sealed")
	}
	r.Add(zero.Add(3*time.Second), -1, []Reading{{Name: "y"}})
	r.Add(zero.Add(3*time.Second), int(phase.Other), []Reading{{Name: "y", Detail: "b"}, {Name: "y", Detail: "a"}})
	if r.Due(zero.Add(8*time.Second)) || !r.Due(zero.Add(9*time.Second)) {
		t.Error("the second segment is not one of six seconds")
	}
	must.Do(t, r.Seal())
	sample := func(second int, device, name string, value float64, phase, detail string) shard.Sample {
		return shard.Sample{
			Time: zero.Add(time.Duration(second) * time.Second).UnixMicro(), Host: "n1", Device: device, Name: name, Value: value,
			Phase: phase, Detail: detail, Task: "rollout-000001-00003", Attempt: 2,
		}
	}
	want := [][]shard.Sample{{
		sample(0, "", "y", -1, "decode", "word"), sample(1, "", "y", -1, "decode", "word"), sample(2, "", "y", -1, "decode", "word"),
		sample(0, "GPU-b", "x", 0, "decode", ""), sample(1, "GPU-b", "x", 1, "decode", ""), sample(2, "GPU-b", "x", 2, "decode", ""),
	}, {sample(3, "", "y", 0, "", ""), sample(3, "", "y", 0, "other", "a"), sample(3, "", "y", 0, "other", "b")}}
	got := segments(t, run)
	if len(got) != 2 || !slices.Equal(got[0], want[0]) || !slices.Equal(got[1], want[1]) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	if _, err := os.Stat(filepath.Join(run, Folder, "n1", "rollout-000001-00003.2.1767225600000-0001.parquet")); err != nil {
		t.Error(err)
	}
	for i, length := range []time.Duration{2, 6, 18, 54, 162, 300, 300} { // three times as long as the one before, up to 5 minutes
		r := NewRecorder(run, "id", "", seal.Attempt{Host: "../n 2\n", Number: 2}, zero)
		if r.folder != filepath.Join(run, Folder, "-n 2-") || r.stem != "host.2.1767225600000" {
			t.Errorf("a host's segments are %s/%s", r.folder, r.stem)
		}
		r.number = i
		r.Add(zero, -1, []Reading{{Name: "y"}})
		r.Add(zero.Add(time.Second), -1, []Reading{{Name: "y"}})
		if r.Due(zero.Add(length*time.Second-1)) || !r.Due(zero.Add(length*time.Second)) {
			t.Errorf("segment %d is not of %d seconds", i, length)
		}
	}
	r.Add(zero, -1, make([]Reading, mostSamples-1))
	if r.Due(zero) {
		t.Error("a segment is due early")
	}
	r.Add(zero, -1, make([]Reading, 1))
	if !r.Due(zero) {
		t.Error("a segment of the most samples is not due")
	}
}

// What cannot be sealed is kept for the next time; what there is no room for is
// counted, and nothing is lost in silence.
func TestRecorderWithoutADisk(t *testing.T) {
	t.Parallel()
	run := t.TempDir()
	inTheWay := filepath.Join(run, Folder)
	must.Do(t, os.WriteFile(inTheWay, nil, 0o644))
	r := newRecorder(run)
	r.Add(zero, -1, []Reading{{Name: "a", Value: 1}})
	if err := r.Seal(); err == nil {
		t.Fatal("a segment was sealed below a file")
	}
	r.Add(zero.Add(time.Second), -1, []Reading{{Name: "a", Value: 2}})
	if r.Due(zero.Add(2*time.Second-1)) || !r.Due(zero.Add(2*time.Second)) || len(r.series) != 1 {
		t.Error("what was put back is not two seconds old, or another series")
	}
	for i := range mostKept - 1 {
		r.Add(zero.Add(time.Duration(i+1)*time.Millisecond), -1, []Reading{{Name: "b", Value: float64(i)}})
	}
	if err := r.Seal(); err == nil {
		t.Fatal("a segment was sealed below a file")
	}
	r.Add(zero.Add(time.Hour), -1, []Reading{{Name: "c"}})
	must.Do(t, os.Remove(inTheWay))
	must.Do(t, r.Seal())
	rows := segments(t, run)[0]
	byName := map[string]int{}
	var dropped float64
	for _, row := range rows {
		byName[row.Name]++
		if row.Name == MonitorDroppedSamples {
			dropped = row.Value
		}
	}
	if err := r.Seal(); err != nil || len(segments(t, run)) != 1 {
		t.Errorf("of nothing, and samples dropped before: %v", err)
	}
	if byName["a"] != 2 || byName["b"] != mostKept-2 || byName["c"] != 0 || dropped != 2 {
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
