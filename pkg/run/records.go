package run

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ExitRecord is what a task that failed leaves behind: a hint for whoever
// retries it. It never decides what is done.
type ExitRecord struct {
	Task    string    `json:"task"`
	Attempt int       `json:"attempt"`
	Code    int       `json:"code"` // of pkg/exitcode
	Message string    `json:"message"`
	Hint    string    `json:"hint,omitempty"`
	Host    string    `json:"host"`
	Time    time.Time `json:"time"`
}

// ExitRecord is the path of the record that a task leaves when it fails: of a
// submission, from 0, and how often Slurm had requeued that.
func (d Dir) ExitRecord(t Task, submission, restarts int) string {
	return filepath.Join(d.Jobs(), "exit", fmt.Sprintf("%s.%d.%d.json", t, submission, restarts))
}

// Log is the path of the log of an attempt.
func (d Dir) Log(t Task, attempt int) string {
	return filepath.Join(d.Logs(), fmt.Sprintf("%s.%d.log", t, attempt))
}

// readExitRecord returns the record of a submission, if its last start left
// one. restarts is how often it was requeued, as far as that is known: the queue
// knows, what the accounting remembers has 0.
func readExitRecord(d Dir, t Task, submission, restarts int) (ExitRecord, bool) {
	for last := restarts; ; last++ {
		if _, err := os.Lstat(d.ExitRecord(t, submission, last+1)); err != nil {
			var record ExitRecord
			content, err := os.ReadFile(d.ExitRecord(t, submission, last))
			return record, err == nil && json.Unmarshal(content, &record) == nil
		}
	}
}
