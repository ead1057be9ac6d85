package monitor

import (
	"cmp"
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
	attempt int
	stem    string                                       // of the segments' names
	write   func(path string, rows []shard.Sample) error // seals a segment

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
		folder: filepath.Join(runFolder, Folder, plainName(attempt.Host)), host: attempt.Host, task: task, attempt: attempt.Number,
		stem: fmt.Sprintf("%s.%d.%d", plainName(stem), attempt.Number, started.UnixMilli()),
		write: func(path string, rows []shard.Sample) error {
			_, err := shard.Write(path, rows, nil, attempt, seal.Manifest{Run: runID, Stage: "monitor", PolicyVersion: -1, Of: 1})
			return err
		},
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
		r.keep(series{reading.Device, reading.Name, reading.Detail}, point{micros: at.UnixMicro(), value: reading.Value, phase: int16(during)})
	}
}

// keep adds a point of a series, or counts it where there is no room. The caller holds mu.
func (r *Recorder) keep(key series, p point) {
	if len(r.points) >= mostKept {
		r.dropped++
		return
	}
	number, known := r.numbers[key]
	if !known {
		number = int32(len(r.series))
		r.series, r.numbers[key] = append(r.series, key), number
	}
	p.series = number
	r.points = append(r.points, p)
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
		return cmp.Or(strings.Compare(x.device, y.device), strings.Compare(x.name, y.name), strings.Compare(x.detail, y.detail), cmp.Compare(a.micros, b.micros))
	})
	rows := make([]shard.Sample, len(points))
	for i, p := range points {
		s := known[p.series]
		rows[i] = shard.Sample{
			Time: p.micros, Host: r.host, Device: s.device, Name: s.name, Value: p.value, Detail: s.detail,
			Task: r.task, Attempt: int32(r.attempt),
		}
		if p.phase >= 0 {
			rows[i].Phase = phase.Phase(p.phase).String()
		}
	}
	path := filepath.Join(r.folder, fmt.Sprintf("%s-%04d.parquet", r.stem, r.number))
	if err := r.write(path, rows); err != nil {
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
		r.keep(newerSeries[p.series], p)
	}
}
