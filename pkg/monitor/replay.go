package monitor

import (
	"cmp"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// Replay is a [Sampler] that reads again what was recorded: each Read is the next
// moment of it, whatever the time is now. After the last it reads nothing.
type Replay struct {
	rows []shard.Sample // by time
}

// NewReplay reads rows of segments again.
func NewReplay(rows []shard.Sample) *Replay {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b shard.Sample) int { return cmp.Compare(a.Time, b.Time) })
	return &Replay{rows: rows}
}

// Kind implements [Sampler].
func (r *Replay) Kind() string { return "replay" }

// Close implements [Sampler].
func (r *Replay) Close() {}

// Read implements [Sampler].
func (r *Replay) Read(_ time.Time, add func(Reading)) {
	for i, row := range r.rows {
		if row.Time != r.rows[0].Time {
			r.rows = r.rows[i:]
			return
		}
		add(Reading{Device: row.Device, Name: row.Name, Value: row.Value, Detail: row.Detail})
	}
	r.rows = nil
}
