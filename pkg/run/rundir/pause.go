package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Pause is jobs/paused.json: while it is there, nothing of the run is started,
// wherever its gates and drivers run. Whoever resumes the run removes it.
type Pause struct {
	By    string    `json:"by"` // user and host
	Since time.Time `json:"since"`
	// Stop says that tasks which run are stopped too: those of Stage and
	// Iteration, where these are given.
	Stop      bool        `json:"stop"`
	Stage     graph.Stage `json:"stage,omitempty"`     // empty for every stage
	Iteration *int        `json:"iteration,omitempty"` // nil for every iteration
}

// Stops reports whether the tasks of a node are stopped.
func (p Pause) Stops(n graph.Node) bool {
	return p.Stop && (p.Stage == "" || p.Stage == n.Stage) && (p.Iteration == nil || *p.Iteration == n.Iteration)
}

// String says who paused the run, and how it goes on.
func (p Pause) String() string {
	word := "paused"
	if p.Stop {
		word = "cancelled"
	}
	return fmt.Sprintf("%s by %s at %s", word, p.By, p.Since.Format(time.RFC3339))
}

// Err is the error with which whoever moves the run on leaves it.
func (p Pause) Err(d graph.Dir) error {
	return exitcode.WithHint(exitcode.Stoppedf("run %q was %s", d, p), "nothing that is sealed is lost; the command that started the run resumes it")
}

func pausePath(d graph.Dir) string { return filepath.Join(d.Jobs(), "paused.json") }

// Write pauses a run.
func (p Pause) Write(d graph.Dir, attempt seal.Attempt) error {
	return seal.ReplaceJSON(pausePath(d), p, attempt)
}

// ReadPause says whether a run is paused. A pause that cannot be read is one.
func ReadPause(d graph.Dir) (p Pause, paused bool) {
	content, err := plainfile.Read(pausePath(d), plainfile.MaxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return p, false
	}
	if err != nil || json.Unmarshal(content, &p) != nil {
		p = Pause{By: "a command whose record cannot be read"}
	}
	return p, true
}

// Resume lets a run that was paused go on.
func Resume(d graph.Dir) error {
	if err := plainfile.Remove(pausePath(d)); err != nil {
		return fmt.Errorf("resuming a paused run: %w", err)
	}
	return nil
}
