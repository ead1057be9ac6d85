package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// refusal is what a failed command of Slurm means for whoever ran it.
type refusal int

const (
	unknown   refusal = iota // words that no pattern knows: asked again a few times
	busy                     // the controller is busy or out of reach: asked again, longer
	full                     // as many jobs are queued as may be: wait
	overLimit                // a limit on jobs, or a job beyond its limits: full if jobs of ours are queued
	closed                   // nobody can run here now; that may change
	noCluster                // there is no cluster to ask, or it does not know us
	gone                     // the job that was named has ended or is unknown
	refused                  // the same request is refused each time
)

// unknownDelays is how many of the waits between attempts are spent on words that no
// pattern knows.
const unknownDelays = 3

// patterns say what Slurm's words mean. The first that is found holds, so that what is
// particular stands before what is general. The words are those of src/common/slurm_errno.c,
// src/sbatch/sbatch.c and job_state_reason_string of Slurm 22.05 to 26.05.
var patterns = []struct {
	means refusal
	words []string
}{
	// Limits that others fill too, and those that a user fills alone.
	{full, []string{"GrpSubmit", "SubmitJobPerAccount", "SubmitJobsPerAccount", "MaxSubmitAccount", "job queue full", "temporarily unable to accept job", "try again: job limit", "Unable to create job record, try again"}},
	{overLimit, []string{"SubmitJob", "Maximum number of jobs", "MaxJobCount"}},
	// Any other limit that Slurm names is one that the job itself is beyond.
	{refused, []string{"QOSMax", "QOSMin", "QOSGrp", "QOSUsage", "QOSNot", "AssocMax", "AssocGrp", "breached requested QOS"}},
	{overLimit, []string{"job submit limit", "violates accounting/QOS policy", "Job limit"}},
	{noCluster, []string{
		"establish a configuration source", "failed to fetch config", "DNS SRV lookup failed", "Unable to process configuration file", "No such file or directory",
		"munge", "Munge", "authentication", "Incompatible versions", "Unable to establish control machine",
	}},
	{busy, []string{
		"Unable to contact slurm controller", "Unexpected message received", "Message send failure", "Message receive failure", "Communication connection failure", "Communication shutdown failure",
		"Socket timed out", "Zero Bytes were transmitted", "zero length message", "message length", "Failed to send entire message", "Unexpected missing socket", "Connection refused", "Connection timed out",
		"Connection reset", "Broken pipe", "Transport endpoint is not connected", "No route to host", "Network is unreachable", "Host is unreachable", "Temporary failure in name resolution", "Interrupted system call",
		"Resource temporarily unavailable", "in standby mode", "Rate limit exceeded", "rate limit exceeded", "controller is busy", "controller not responding", "I/O error writing", "creation temporarily disabled",
		"no answer after", "Requested nodes are busy", "try again", "please retry", "internal error, contact system administrator",
	}},
	{gone, []string{"Invalid job id", "already completing or completed", "Job is pending execution", "Job has already finished"}},
	{closed, []string{
		"System submissions disabled", "partition not available (inactive or drain)", "Requested operation is presently disabled", "Required node not available", "configuration not available now",
		"not usable now", "Partition in DOWN state",
	}},
	{refused, []string{
		"nvalid", "not available", "not permitted", "denied", "can not be satisfied", "cannot be satisfied", "not in this partition", "than permitted", "than available", "exceeds", "exceeded", "too long",
		"No partition specified", "unrecognized option", "requires an argument", "not supported", "dependency problem", "required, but not provided", "needs to be provided", "not specified", "Requested ", "is disabled", "unset",
	}},
}

// commandError is a command of Slurm that ran and failed.
type commandError struct {
	name   string
	code   int
	stderr string
	late   bool // it was stopped because it took too long
}

func (e *commandError) Error() string {
	if e.stderr == "" {
		return fmt.Sprintf("%s failed with exit code %d and printed nothing", e.name, e.code)
	}
	return fmt.Sprintf("%s failed: %s", e.name, e.stderr)
}

// means looks the words of the command up.
func (e *commandError) means() refusal {
	for _, p := range patterns {
		for _, words := range p.words {
			if strings.Contains(e.stderr, words) {
				return p.means
			}
		}
	}
	return unknown
}

// again reports whether the command is to be run again after it has failed so often
// before.
func (e *commandError) again(failures int) bool {
	switch e.means() {
	case busy:
		return !e.late // longer than all waits between attempts together
	case unknown:
		return failures < unknownDelays
	}
	return false
}

// meaning is what an error means, if it is that of a command that ran and failed.
func meaning(err error) (refusal, bool) {
	var failed *commandError
	if !errors.As(err, &failed) {
		return unknown, false
	}
	return failed.means(), true
}

// isGone reports an error about a job that has ended or is unknown.
func isGone(err error) bool {
	means, _ := meaning(err)
	return means == gone
}

// ErrQueueFull means that no more jobs are accepted for now.
var ErrQueueFull = errors.New("the queue is full")

// ErrNoCluster means that Slurm's commands are here and no cluster answers them.
var ErrNoCluster = errors.New("no Slurm cluster answers")

// explain turns a failed command into an error of the right kind.
func explain(err error) error {
	var failed *commandError
	if !errors.As(err, &failed) {
		return err
	}
	switch failed.means() {
	case full, overLimit:
		return fmt.Errorf("%w: %w", ErrQueueFull, err)
	case busy, noCluster:
		return exitcode.WithHint(exitcode.Unavailablef("%w: %w", ErrNoCluster, err), "see scontrol ping; on a machine that belongs to no cluster use --executor local")
	case closed:
		return exitcode.WithHint(exitcode.Unavailablef("%w", err), "the partition accepts no jobs now; see sinfo, or name another partition in the site profile")
	}
	if failed.name == "sbatch" {
		return exitcode.WithHint(exitcode.Usagef("%w", err), "the site profile or the recipe's resources request something that this cluster does not have; see sinfo and lathe run --dry-run")
	}
	return exitcode.Unavailablef("%w", err)
}

// explainSubmission is explain for a submission. A limit on jobs is one that waiting
// helps against only where jobs of this user are queued: else the job itself is beyond
// it, and would be refused as long as one waits.
func (c *Cluster) explainSubmission(ctx context.Context, err error) error {
	means, failed := meaning(err)
	if !failed || means != overLimit {
		return explain(err)
	}
	names, askErr := c.Names(ctx)
	if askErr != nil {
		return explain(err) // the next attempt may know
	}
	for _, name := range names {
		// Controller jobs submit, and take no place for long.
		if !strings.HasSuffix(name, "-"+GateStage) && name != os.Getenv("SLURM_JOB_NAME") {
			return explain(err)
		}
	}
	return exitcode.WithHint(exitcode.Usagef("%w", err),
		"you have no other queued jobs, so the job itself exceeds a limit: request less time, memory, cores or tasks for the stage (resources.stages), or name another partition, qos or account in the site profile")
}

// lastLines is what a command printed last, in one line of bounded length.
func lastLines(text string) string {
	const lines, most = 4, 800
	all := strings.Split(strings.TrimSpace(text), "\n")
	text = strings.Join(all[max(0, len(all)-lines):], "; ")
	if len(text) > most {
		text = text[:most] + " ..."
	}
	return text
}
