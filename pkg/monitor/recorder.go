package monitor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The length of segments: a monitor that is killed loses the one that it has not
// sealed. The first is short, so that a task that is killed soon has one; each of the
// next is three times as long, so that a task of a day does not leave thousands of files.
const (
	firstSegment   = 2 * time.Second
	longestSegment = 5 * time.Minute
	mostSamples    = 16 << 10 // of a segment
	mostKept       = 64 << 10 // while the run's folder takes none
)

// Recorder keeps samples and seals them in segments. Its methods may be called
// from several goroutines.
type Recorder struct {
	folder  string // of the segments: gpu/HOST of a run
	host    string
	task    string
	attempt seal.Attempt
	stem    string        // of the segments' names
	run     seal.Manifest // what the manifests of all segments say

	mu      sync.Mutex // of what follows
	series  []series
	numbers map[series]int32
	points  []point
	since   time.Time // of the first point
	dropped int

	sealing sync.Mutex // one segment at a time
	number  int
}

type series struct{ device, name, detail string }

// point is a sample, in a quarter of the memory that a row takes.
type point struct {
	micros int64
	value  float64
	series int32
	phase  int16 // -1 for none
}

// NewRecorder keeps samples for a run, of a task and an attempt at it. The task is
// empty for none. Nothing is written before the first segment is sealed.
func NewRecorder(runFolder, runID, task string, attempt seal.Attempt, started time.Time) *Recorder {
	stem := task
	if stem == "" {
		stem = "host"
	}
	return &Recorder{
		folder: filepath.Join(runFolder, Folder, plainName(attempt.Host)), host: attempt.Host, task: task, attempt: attempt,
		stem:    fmt.Sprintf("%s.%d.%d", plainName(stem), attempt.Number, started.UnixMilli()),
		run:     seal.Manifest{Run: runID, Stage: "monitor", PolicyVersion: -1, Of: 1},
		numbers: map[series]int32{},
	}
}

// plainName makes one element of a path of a name.
func plainName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '/' || r < ' ' {
			return '-'
		}
		return r
	}, name)
	return strings.TrimLeft(name, ".")
}

// Add keeps readings of one moment. during is what the task did since the moment
// before; -1 where that is not known.
func (r *Recorder) Add(at time.Time, during int, readings []Reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.points) == 0 {
		r.since = at
	}
	for _, reading := range readings {
		if len(r.points) >= mostKept {
			r.dropped++
			continue
		}
		key := series{reading.Device, reading.Name, reading.Detail}
		number, known := r.numbers[key]
		if !known {
			number = int32(len(r.series))
			r.series, r.numbers[key] = append(r.series, key), number
		}
		r.points = append(r.points, point{at.UnixMicro(), reading.Value, number, int16(during)})
	}
}

// Due reports whether it is time to seal a segment.
func (r *Recorder) Due(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	length := firstSegment
	for range r.number { // 2, 6, 18, 54 and 162 seconds, and then 5 minutes
		length = min(3*length, longestSegment)
	}
	return len(r.points) >= mostSamples || len(r.points) > 0 && now.Sub(r.since) >= length
}

// Seal seals what there is. What cannot be sealed is kept for the next time, as
// far as there is room, and counted where there is none.
func (r *Recorder) Seal() error {
	r.sealing.Lock()
	defer r.sealing.Unlock()
	r.mu.Lock()
	points, known := r.points, r.series
	r.points, r.series, r.numbers = nil, nil, map[series]int32{}
	if r.dropped > 0 && len(points) > 0 {
		known = append(known, series{name: MonitorDroppedSamples})
		points = append(points, point{points[len(points)-1].micros, float64(r.dropped), int32(len(known) - 1), -1})
	}
	r.mu.Unlock()
	if len(points) == 0 {
		return nil
	}
	slices.SortStableFunc(points, func(a, b point) int {
		x, y := known[a.series], known[b.series]
		switch {
		case a.series == b.series && a.micros < b.micros:
			return -1
		case a.series == b.series:
			return int(min(1, a.micros-b.micros))
		case x.device != y.device:
			return strings.Compare(x.device, y.device)
		case x.name != y.name:
			return strings.Compare(x.name, y.name)
		}
		return strings.Compare(x.detail, y.detail)
	})
	rows := make([]shard.Sample, len(points))
	for i, p := range points {
		s := known[p.series]
		rows[i] = shard.Sample{
			Time: p.micros, Host: r.host, Device: s.device, Name: s.name, Value: p.value, Detail: s.detail,
			Task: r.task, Attempt: int32(r.attempt.Number),
		}
		if p.phase >= 0 {
			rows[i].Phase = phase.Phase(p.phase).String()
		}
	}
	path := filepath.Join(r.folder, fmt.Sprintf("%s-%04d.parquet", r.stem, r.number))
	if _, err := shard.Write(path, rows, nil, r.attempt, r.run); err != nil {
		r.putBack(points, known)
		return err
	}
	r.mu.Lock()
	r.number++
	r.mu.Unlock()
	return nil
}

// putBack keeps points that could not be sealed for the next time.
func (r *Recorder) putBack(points []point, known []series) {
	r.mu.Lock()
	defer r.mu.Unlock()
	newer, newerSeries := r.points, r.series
	r.points, r.series, r.numbers = points, known, map[series]int32{}
	for i, s := range known {
		r.numbers[s] = int32(i)
	}
	r.since = time.UnixMicro(points[0].micros)
	for _, p := range newer {
		s := newerSeries[p.series]
		if len(r.points) >= mostKept {
			r.dropped++
			continue
		}
		number, there := r.numbers[s]
		if !there {
			number = int32(len(r.series))
			r.series, r.numbers[s] = append(r.series, s), number
		}
		p.series = number
		r.points = append(r.points, p)
	}
}
