package advance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Stuck is jobs/stuck.json: why the last controller job, or the last command of a person,
// could not submit what is ready. It is evidence and decides nothing; whoever advances
// the run next removes it or writes another.
type Stuck struct {
	Message string    `json:"message"`
	Hint    string    `json:"hint,omitempty"`
	Code    int       `json:"code"`          // of pkg/exitcode
	Job     string    `json:"job,omitempty"` // of the controller job, Slurm's; empty for a command of a person
	Host    string    `json:"host"`
	Time    time.Time `json:"time"`
}

// String is who was stuck, and why.
func (s Stuck) String() string {
	who := "the last lathe advance, on " + s.Host + ","
	if s.Job != "" {
		who = "controller job " + s.Job
	}
	text := fmt.Sprintf("%s could not submit what is ready: %s", who, s.Message)
	if s.Hint != "" {
		text += " (" + s.Hint + ")"
	}
	return text
}

func stuckPath(d graph.Dir) string { return filepath.Join(d.Jobs(), "stuck.json") }

// ReadStuck returns why nobody can advance a run, if that is so.
func ReadStuck(d graph.Dir) (Stuck, bool) {
	var s Stuck
	content, err := plainfile.Read(stuckPath(d), plainfile.MaxDocument)
	return s, err == nil && json.Unmarshal(content, &s) == nil && s.Message != ""
}

// IsStuck reports whether an error of advancing a run says that the run cannot go on by
// itself although it has not failed: nothing was submitted that will look at it.
func IsStuck(err error) bool {
	switch exitcode.Code(err) {
	case exitcode.OK, exitcode.LeftOut, exitcode.Stopped:
		return false
	}
	return !HasFailed(err) && !errors.Is(err, slurm.ErrQueueFull)
}

// NoteEnd leaves the reason where people look, if advancing a run ended with one that
// keeps it from going on: in the run, and in the comments of this job and of the
// watchdog, which squeue shows. cluster is nil where Slurm cannot be asked.
func NoteEnd(ctx context.Context, d graph.Dir, cluster *slurm.Cluster, attempt seal.Attempt, ended error) {
	if !IsStuck(ended) {
		if exitcode.Code(ended) != exitcode.Stopped {
			// A record that cannot be removed is one that says too much, and no failure.
			_ = plainfile.Remove(stuckPath(d))
		}
		return
	}
	s := Stuck{Message: ended.Error(), Hint: strings.Join(exitcode.Hints(ended), "; "), Code: exitcode.Code(ended), Host: attempt.Host, Time: time.Now().UTC()}
	if os.Getenv("SLURM_JOB_ID") == attempt.JobID {
		s.Job = attempt.JobID
	}
	_ = seal.ReplaceJSON(stuckPath(d), s, attempt) // the log has it too
	if cluster == nil {
		return
	}
	comment := fmt.Sprintf("lathe %s: stuck: %s", d, s.Message)
	if s.Job != "" {
		cluster.Comment(ctx, s.Job, comment)
	}
	if watchdog, known := readTimed(watchdogPath(d)); known {
		cluster.Comment(ctx, watchdog.ID, comment)
	}
}

// fallenGate is how the last of a run's controller jobs ended, if it ended otherwise than
// well and none waits or runs: the run goes no further.
func (view *jobsView) fallenGate(gates []slurm.Job) string {
	var last slurm.Job
	for _, gate := range gates {
		switch view.states.Of(gate.Tasks()[0]).Phase {
		case slurm.PhasePending, slurm.PhaseRunning:
			return ""
		}
		if gate.Submitted.After(last.Submitted) {
			last = gate
		}
	}
	if last.ID == "" {
		return ""
	}
	state := view.states.Of(last.Tasks()[0])
	if state.Phase != slurm.PhaseEnded || state.Cause == executor.CauseOK || state.Cause == executor.CauseCancelled {
		return ""
	}
	return fmt.Sprintf("controller job %s ended and submitted nothing: %s", last.ID, state.Evidence)
}

// rehearse has Slurm look at a job of each stage before the first is submitted to this
// site, so that a run does not start what a later stage cannot resume.
func (a *Advancer) rehearse(ctx context.Context, limits slurm.Limits) error {
	if was, err := plainfile.Read(sitePath(a.Run.Dir), plainfile.MaxDocument); err == nil && (a.Site.Path == sitePath(a.Run.Dir) || string(was) == string(a.Site.YAML)) {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return TryStages(ctx, a.Cluster, a.Run, a.Site, limits, a.Binaries)
}
