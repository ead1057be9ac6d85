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
	Code    int       `json:"code"` // of pkg/exit
	Message string    `json:"message"`
	Hint    string    `json:"hint,omitempty"`
	Host    string    `json:"host"`
	Time    time.Time `json:"time"`
}

// ExitRecord is the path of the record of a failed attempt.
func (d Dir) ExitRecord(t Task, attempt int) string {
	return filepath.Join(d.Jobs(), "exit", fmt.Sprintf("%s.%d.json", t, attempt))
}

// Log is the path of the log of an attempt.
func (d Dir) Log(t Task, attempt int) string {
	return filepath.Join(d.Logs(), fmt.Sprintf("%s.%d.log", t, attempt))
}

// readExitRecord returns the record of an attempt, if it left one.
func readExitRecord(d Dir, t Task, attempt int) (ExitRecord, bool) {
	var record ExitRecord
	content, err := os.ReadFile(d.ExitRecord(t, attempt))
	if err != nil || json.Unmarshal(content, &record) != nil {
		return ExitRecord{}, false
	}
	return record, true
}
