package rundir

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// ExitRecord is what a task that failed leaves behind: a hint for whoever
// retries it. It never decides what is done.
type ExitRecord struct {
	Task    string    `json:"task"`
	Attempt int       `json:"attempt"`
	Code    int       `json:"code"` // of pkg/exitcode
	Message string    `json:"message"`
	Device  bool      `json:"device,omitempty"` // the GPU failed, or could not be had
	Hint    string    `json:"hint,omitempty"`
	Signal  string    `json:"signal,omitempty"` // that told the task to stop, for example SIGUSR2
	Host    string    `json:"host"`
	Time    time.Time `json:"time"`
	Seconds float64   `json:"seconds,omitempty"` // that it had run
}

// Cause is what the record says of the cause.
func (r ExitRecord) Cause() executor.Cause {
	if r.Device {
		return executor.CauseDevice
	}
	return executor.CauseOfExit(r.Code)
}

// WriteExitRecord leaves the reason of a failure where whoever advances the run
// finds it, since a batch system without accounting keeps no exit codes. A
// record that cannot be written is no second failure: the missing output
// speaks for itself.
func WriteExitRecord(d graph.Dir, t graph.Task, submission, restarts int, record ExitRecord) {
	path := d.ExitRecord(t, submission, restarts)
	content, err := json.Marshal(record)
	if err == nil {
		_ = plainfile.Write(path, append(content, '\n'))
	}
}

// ReadExitRecord returns the record of a submission, if its last start left
// one. restarts is how often it was requeued, as far as that is known.
func ReadExitRecord(d graph.Dir, t graph.Task, submission, restarts int) (ExitRecord, bool) {
	for last := restarts; ; last++ {
		if _, err := os.Lstat(d.ExitRecord(t, submission, last+1)); err != nil {
			var record ExitRecord
			content, err := plainfile.Read(d.ExitRecord(t, submission, last), plainfile.MaxDocument)
			return record, err == nil && json.Unmarshal(content, &record) == nil
		}
	}
}

// ReadExitRecords returns every record that can be read, the oldest first.
func ReadExitRecords(d graph.Dir) []ExitRecord {
	entries, _ := os.ReadDir(d.ExitRecords())
	var records []ExitRecord
	for _, entry := range entries {
		var record ExitRecord
		if content, err := plainfile.Read(filepath.Join(d.ExitRecords(), entry.Name()), plainfile.MaxDocument); err == nil && json.Unmarshal(content, &record) == nil {
			records = append(records, record)
		}
	}
	slices.SortStableFunc(records, func(a, b ExitRecord) int { return a.Time.Compare(b.Time) })
	return records
}

// Sweep removes the temporary files that killed writers left anywhere in a
// run and returns how many there were.
func Sweep(ctx context.Context, d graph.Dir, o seal.SweepOptions) (int, error) {
	swept := 0
	err := Walk(ctx, d, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // swept by another process, or sealed meanwhile
		case err != nil:
			return err
		case !entry.IsDir():
			return nil
		case entry.Name()[0] == '.' && path != string(d):
			return fs.SkipDir
		}
		names, err := seal.Sweep(path, o)
		swept += len(names)
		return err
	})
	return swept, err
}
