package slurm

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Queued is a job of this user that waits or runs: a plain job, or all tasks of
// an array that are in the same state.
type Queued struct {
	ID      string // of the job, or of the whole array
	Name    string
	Pending bool
	Folder  string // that it runs in; known of names without a space
}

// Queue lists what this user has in the queue under names with a prefix, in one
// query. Whoever submitted it: what a killed controller job has left no record of is here
// too.
func (c *Cluster) Queue(ctx context.Context, prefix string) ([]Queued, error) {
	out, err := c.Ask(ctx, nil, "squeue", "-h", "-u", strconv.Itoa(os.Getuid()), "-o", "%F %T %j %Z")
	if err != nil {
		return nil, explain(err)
	}
	var jobs []Queued
	for line := range strings.Lines(out) {
		fields := strings.SplitN(strings.TrimRight(line, "\n"), " ", 3)
		if len(fields) != 3 || !isNumber(fields[0]) {
			return nil, malformed("squeue", line)
		}
		if strings.HasPrefix(fields[2], prefix) && fields[1] != "COMPLETING" {
			name, folder, _ := strings.Cut(fields[2], " ")
			jobs = append(jobs, Queued{ID: fields[0], Name: name, Pending: phaseOfState(fields[1]) == PhasePending, Folder: folder})
		}
	}
	return jobs, nil
}

// CancelNow kills jobs, which are given no time to stop.
func (c *Cluster) CancelNow(ctx context.Context, ids ...string) error {
	// The signal alone ends what runs; what waits has nothing to be signalled.
	if err := c.Signal(ctx, "KILL", ids...); err != nil {
		return err
	}
	return c.Cancel(ctx, ids...)
}

// Signal sends a signal to all processes of jobs that run, their batch shells too.
func (c *Cluster) Signal(ctx context.Context, signal string, ids ...string) error {
	return c.cancel(ctx, []string{"--signal=" + signal, "--full"}, ids)
}

// Requeue ends a job that runs and puts it back into the queue. It reports whether the
// job ran still.
func (c *Cluster) Requeue(ctx context.Context, id string) (bool, error) {
	_, err := c.Ask(ctx, nil, "scontrol", "requeue", id)
	if isGone(err) {
		return false, nil
	}
	return err == nil, explain(err)
}

// Running is a job, or a task of an array, at work.
type Running struct {
	ID    string // with its index in an array
	Name  string
	Node  string
	Start time.Time
}

// Running lists what this user has at work under names with a prefix.
func (c *Cluster) Running(ctx context.Context, prefix string) ([]Running, error) {
	out, err := c.Ask(ctx, nil, "squeue", "-h", "-r", "-t", "RUNNING", "-u", strconv.Itoa(os.Getuid()), "-o", "%i %N %S %j")
	if err != nil {
		return nil, explain(err)
	}
	var jobs []Running
	for line := range strings.Lines(out) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(fields) != 4 {
			return nil, malformed("squeue", line)
		}
		if strings.HasPrefix(fields[3], prefix) {
			jobs = append(jobs, Running{ID: fields[0], Node: fields[1], Start: parseTime(fields[2]), Name: fields[3]})
		}
	}
	return jobs, nil
}

// CancelWaiting cancels those tasks of jobs that have not started.
func (c *Cluster) CancelWaiting(ctx context.Context, ids ...string) error {
	return c.cancel(ctx, []string{"--state=PENDING"}, ids)
}

// Ask runs one of Slurm's commands, again while the controller is too busy for it,
// and returns what it printed; the error says what it complained of.
func (c *Cluster) Ask(ctx context.Context, stdin []byte, name string, args ...string) (string, error) {
	return c.retry(ctx, func() (string, error) { return c.run(ctx, stdin, name, args...) })
}

// idsPerCall bounds the ids that one call is given. Linux takes 128 KiB as one argument,
// and an id of a task has at most 20 digits, a _ and 7 more.
const idsPerCall = 4000

// AskAbout runs squeue or sacct about jobs, in as many calls as their ids need, and
// returns what all of them printed. Jobs that nobody knows are no error.
func (c *Cluster) AskAbout(ctx context.Context, ids []string, name string, args ...string) (string, error) {
	var all strings.Builder
	for part := range slices.Chunk(ids, idsPerCall) {
		out, err := c.Ask(ctx, nil, name, append(slices.Clone(args), "-j", strings.Join(part, ","))...)
		switch {
		case isGone(err):
			continue // so squeue answers when it knows none of them
		case err != nil:
			return "", err
		}
		all.WriteString(out)
	}
	return all.String(), nil
}

// Hasty is the cluster as somebody asks it who waits: a controller that is busy is asked
// again for seconds and not for a minute.
func (c *Cluster) Hasty() *Cluster {
	hasty := *c
	hasty.delays = c.delays[:min(2, len(c.delays))]
	return &hasty
}

// Config asks for the configuration of the cluster: the values of slurm.conf by
// their names.
func (c *Cluster) Config(ctx context.Context) (map[string]string, error) {
	out, err := c.Ask(ctx, nil, "scontrol", "show", "config")
	if err != nil {
		return nil, explain(err)
	}
	return parseValues(out), nil
}

// Names lists the names of all jobs of this user in the queue, array tasks singly.
func (c *Cluster) Names(ctx context.Context) ([]string, error) {
	out, err := c.Ask(ctx, nil, "squeue", "-h", "-r", "-u", strconv.Itoa(os.Getuid()), "-o", "%j")
	if err != nil {
		return nil, explain(err)
	}
	var names []string
	for line := range strings.Lines(out) {
		names = append(names, strings.TrimSpace(line))
	}
	return names, nil
}

// partitions are those that jobs go to for which a site profile has a name, or a list of
// names; none is the default one.
func partitions(named string) []string {
	return strings.FieldsFunc(cmp.Or(named, os.Getenv("SBATCH_PARTITION")), func(r rune) bool { return r == ',' || r == ' ' })
}

// LongestMinutes is the longest time limit of the partitions that a site profile has a
// name for, or a list of names, of the default one for none; 0 for no bound, or where that
// cannot be told.
func (c *Cluster) LongestMinutes(ctx context.Context, named string) (longest int) {
	out, err := c.Ask(ctx, nil, "sinfo", "-h", "-o", "%P %l")
	if err != nil {
		return 0
	}
	wanted := partitions(named)
	for line := range strings.Lines(out) {
		name, limit, _ := strings.Cut(strings.TrimSpace(line), " ")
		bare, isDefault := strings.CutSuffix(name, "*")
		if slices.Contains(wanted, bare) || len(wanted) == 0 && isDefault {
			minutes := ParseMinutes(strings.TrimSpace(limit))
			if minutes == 0 {
				return 0
			}
			longest = max(longest, minutes)
		}
	}
	return longest
}

// ParseMinutes reads a time limit: infinite, MINUTES:SECONDS, HOURS:MINUTES:SECONDS,
// with DAYS- before; 0 for no bound or what cannot be read.
func ParseMinutes(text string) int {
	days, clock, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, clock = "0", text
	}
	parts := strings.Split(clock, ":")
	var numbers []int
	for _, part := range append([]string{days}, parts...) {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || n > 1<<20 {
			return 0
		}
		numbers = append(numbers, n)
	}
	minutes := numbers[0] * 24 * 60
	switch len(parts) {
	case 2:
		return minutes + numbers[1]
	case 3:
		return minutes + numbers[1]*60 + numbers[2]
	}
	return 0
}

// Comment gives a job of this user a comment, which squeue shows (-o %k). A site that
// does not allow it is no matter.
func (c *Cluster) Comment(ctx context.Context, id, text string) {
	_, _ = c.run(ctx, nil, "scontrol", "update", "JobId="+bareID(id), "Comment="+strings.ReplaceAll(text, "\n", " "))
}
