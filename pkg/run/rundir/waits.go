package rundir

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Wait is the note of a task that waits for a slow program of the user's. The task
// writes it again every [env.SlowAfter], and removes it once the program answers.
type Wait struct {
	Task    string    `json:"task"`
	Attempt int       `json:"attempt"`
	Host    string    `json:"host"`
	Message string    `json:"message"`
	Time    time.Time `json:"time"`
}

// staleWait is how old the note of a task may be that still waits: a task that was
// killed leaves its note, and clocks differ.
const staleWait = 6 * env.SlowAfter

func waitPath(d graph.Dir, t graph.Task) string { return filepath.Join(d.Waits(), t.String()+".json") }

// WriteWait leaves the note of a task. One that cannot be written is missing, and
// nothing else: the task's log has it too.
func WriteWait(d graph.Dir, t graph.Task, attempt seal.Attempt, wait Wait) {
	wait.Task, wait.Attempt, wait.Host = t.String(), attempt.Number, attempt.Host
	_ = seal.ReplaceJSON(waitPath(d, t), wait, attempt)
}

// RemoveWait removes the note of a task.
func RemoveWait(d graph.Dir, t graph.Task) {
	_ = plainfile.Remove(waitPath(d, t)) // one that stays is soon too old to count
}

// ReadWaits returns the notes of tasks that wait now, by the names of the tasks.
func ReadWaits(d graph.Dir, now time.Time) []Wait {
	entries, _ := os.ReadDir(d.Waits())
	var waits []Wait
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".json" {
			continue
		}
		var wait Wait
		content, err := plainfile.Read(filepath.Join(d.Waits(), entry.Name()), plainfile.MaxDocument)
		if err == nil && json.Unmarshal(content, &wait) == nil && now.Sub(wait.Time) < staleWait {
			waits = append(waits, wait)
		}
	}
	return waits
}
