// Package rehearsal runs a run in miniature twice, on simulated nodes or on
// Slurm: once undisturbed, and once with preemptions, lost nodes and time limits, and
// says what that cost and whether both came to the same bytes.
package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Options say what is rehearsed.
type Options struct {
	Resolved *recipe.Resolved // in miniature
	Cuts     []string         // settings that made it so
	Folder   string           // for the runs; there, and empty
	Place    Place
	Version  string // of Lathe
	Log      func(format string, args ...any)

	// Choose says what disturbs a run that takes so long undisturbed, and whose
	// longest task takes so long.
	Choose func(whole, longest time.Duration) Disturbances
	// GiveUpAfter bounds the disturbed run; 0 for ten times the undisturbed one and
	// a minute.
	GiveUpAfter time.Duration
}

// Place is where the runs of a rehearsal are executed.
type Place interface {
	fmt.Stringer
	// Carry carries a run to its end, or until the context ends, while it is disturbed.
	// What happened is said in any case.
	Carry(ctx context.Context, run *rundir.Run, what Disturbances) (Events, error)
}

// Count is how often one kind of disturbance ended an attempt at tasks of a stage.
type Count struct {
	Cause       executor.Cause `json:"cause"`
	Stage       string         `json:"stage"`
	Attempts    int            `json:"attempts"`
	Killed      int            `json:"killed"` // that did not stop by themselves
	LostSeconds float64        `json:"lost_seconds"`
}

// Report is what a rehearsal came to.
type Report struct {
	Recipe string   `json:"recipe"`
	Cuts   []string `json:"cuts"`
	Place  string   `json:"place"`

	PreemptEverySeconds  float64 `json:"preempt_every_seconds"` // 0 for never, here and below
	LoseNodeEverySeconds float64 `json:"lose_node_every_seconds"`
	TimeLimitSeconds     float64 `json:"time_limit_seconds"`

	UndisturbedSeconds float64 `json:"undisturbed_seconds"`
	DisturbedSeconds   float64 `json:"disturbed_seconds"`
	Tasks              int     `json:"tasks"`       // that the undisturbed run started
	BegunAgain         int     `json:"begun_again"` // attempts that the disturbed run started beyond these
	OwnFailures        int     `json:"own_failures"`
	LostSeconds        float64 `json:"lost_seconds"` // work of attempts that were ended
	Disturbed          []Count `json:"disturbed"`
	Hits               []Hit   `json:"hits"`

	Ended    bool     `json:"ended"`
	Failure  string   `json:"failure,omitempty"` // of a run that did not end
	Faults   []string `json:"faults"`            // that lathe verify finds in the disturbed run
	Compared int      `json:"compared"`          // files and folders
	Policy   string   `json:"policy_sha256,omitempty"`
	After    string   `json:"policy_sha256_disturbed,omitempty"`
	First    string   `json:"first_difference,omitempty"` // where the policies differ: the earliest output that does
	// Unrepeatable says why two runs of this recipe differ also without disturbance;
	// empty where they do not.
	Unrepeatable string `json:"unrepeatable,omitempty"`
}

// Survived reports whether the disturbed run came to its end, whole and to the same
// policy, as far as a recipe has the same policy twice by what it says.
func (r Report) Survived(byDesign bool) bool {
	return r.Ended && len(r.Faults) == 0 && (byDesign || r.Policy == r.After)
}

// ByDesign says why two runs of a recipe may differ by what the recipe says; empty
// where they may not.
func ByDesign(r recipe.Recipe) string {
	switch {
	case r.Rollout.Remote != nil:
		return "a server samples (rollout.remote), so responses differ between runs"
	case r.Schedule.Oversample > 1 || r.Schedule.CloseAfterSeconds > 0:
		return "the shards of an iteration depend on their speed (schedule.oversample, schedule.close_after_seconds)"
	}
	return ""
}

// Rehearse runs both runs. An error is one of the undisturbed run, or of
// reading what came out.
func Rehearse(ctx context.Context, o Options) (Report, error) {
	report := Report{Recipe: o.Resolved.Path, Cuts: o.Cuts, Place: o.Place.String(), Faults: []string{}}
	o.Log("running the miniature undisturbed")
	plain, calm, err := o.carry(ctx, "undisturbed", Disturbances{}, 0)
	if err != nil {
		return report, fmt.Errorf("the run fails undisturbed: %w", err)
	}
	whole := time.Since(calm.Began)
	what := o.Choose(whole, calm.Longest)
	report.UndisturbedSeconds, report.Tasks = whole.Seconds(), calm.Attempts
	report.PreemptEverySeconds, report.LoseNodeEverySeconds, report.TimeLimitSeconds = what.PreemptEvery.Seconds(), what.LoseNodeEvery.Seconds(), what.TimeLimit.Seconds()
	limit := o.GiveUpAfter
	if limit == 0 {
		limit = 10*whole + time.Minute
	}
	o.Log("it took %.1f s; running it with disturbances", whole.Seconds())
	disturbed, storm, err := o.carry(ctx, "disturbed", what, limit)
	if ctx.Err() != nil {
		return report, ctx.Err()
	}
	report.DisturbedSeconds, report.BegunAgain, report.OwnFailures = time.Since(storm.Began).Seconds(), max(0, storm.Attempts-calm.Attempts), storm.OwnFailures
	report.count(storm.Hits)
	if err != nil {
		report.Failure = err.Error()
		if errors.Is(err, context.DeadlineExceeded) {
			report.Failure = fmt.Sprintf("it was not done after %.0f s%s", limit.Seconds(), mostHit(storm.Hits))
		}
		return report, nil
	}
	report.Ended = true
	found, err := verify.Verify(ctx, disturbed)
	if err != nil {
		return report, err
	}
	for _, f := range found.Faults {
		report.Faults = append(report.Faults, fmt.Sprint(f))
	}
	last := o.Resolved.Recipe.Schedule.Iterations
	if report.Policy, report.After, err = bothPolicies(ctx, plain, disturbed, last); err != nil {
		return report, err
	}
	var first string
	first, report.Compared = compare(ctx, plain, disturbed)
	if report.Policy == report.After {
		return report, nil
	}
	report.First = first
	if report.Unrepeatable = ByDesign(o.Resolved.Recipe); report.Unrepeatable != "" {
		return report, nil
	}
	o.Log("the policies differ; running it undisturbed again to check whether they always do")
	again, _, err := o.carry(ctx, "undisturbed-again", Disturbances{}, 0)
	if err != nil {
		return report, err
	}
	if first, _ := compare(ctx, plain, again); first != "" {
		report.Unrepeatable = fmt.Sprintf("two undisturbed runs differ too, first in %s", first)
	}
	return report, nil
}

// carry makes a run and carries it out. A limit of 0 is none.
func (o Options) carry(ctx context.Context, name string, what Disturbances, limit time.Duration) (*rundir.Run, Events, error) {
	opened, err := rundir.Create(ctx, graph.Dir(filepath.Join(o.Folder, name)), o.Resolved, seal.AttemptFromEnv(), o.Version)
	if err != nil {
		return nil, Events{}, err
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	events, err := o.Place.Carry(ctx, opened, what)
	return opened, events, err
}

// mostHit names the task that was ended most often, which is the likely reason of a
// run that does not end: it takes longer than what lies between two disturbances.
func mostHit(hits []Hit) string {
	times, task := map[string]int{}, ""
	for _, h := range hits {
		if times[h.Task]++; times[h.Task] > times[task] {
			task = h.Task
		}
	}
	if task == "" {
		return ""
	}
	return fmt.Sprintf("; %s was ended most often, %s: it may need more time between disturbances", task, plural.Count(times[task], "time"))
}

func bothPolicies(ctx context.Context, a, b *rundir.Run, version int) (of, other string, err error) {
	for run, digest := range map[*rundir.Run]*string{a: &of, b: &other} {
		m, err := seal.Record(ctx, run.Dir.Policy(version))
		if err != nil {
			return "", "", err
		}
		*digest = m.ContentSHA256
	}
	return of, other, nil
}

// compare finds the first output, in the order of the work, whose content differs
// between two runs of a recipe, and counts those that were compared.
func compare(ctx context.Context, a, b *rundir.Run) (first string, compared int) {
	for _, n := range a.Graph.Nodes() {
		for shard := range a.Graph.Shards(n) {
			t := graph.Task{Node: n, Shard: shard}
			ours, theirs := a.Graph.Outputs(t), b.Graph.Outputs(t)
			for i := range ours {
				one, errOne := seal.Record(ctx, ours[i])
				other, errOther := seal.Record(ctx, theirs[i])
				if errOne != nil && errOther != nil {
					continue // what neither made: a later wave for which nothing waited
				}
				compared++
				if first == "" && one.ContentSHA256 != other.ContentSHA256 {
					first = a.Dir.Rel(ours[i])
				}
			}
		}
	}
	return first, compared
}

// count sums what was done to the run by kind and stage.
func (r *Report) count(hits []Hit) {
	r.Hits, r.Disturbed = append([]Hit{}, hits...), []Count{}
	counts := map[string]*Count{}
	for _, h := range hits {
		key := string(h.Cause) + " " + h.Stage
		c, known := counts[key]
		if !known {
			c = &Count{Cause: h.Cause, Stage: h.Stage}
			counts[key] = c
		}
		c.Attempts++
		c.LostSeconds += h.LostSeconds
		r.LostSeconds += h.LostSeconds
		if h.Killed {
			c.Killed++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		r.Disturbed = append(r.Disturbed, *counts[key])
	}
}

// EmptyFolder makes a folder for the runs, or takes one that is there and empty.
func EmptyFolder(path string) error {
	entries, err := os.ReadDir(path)
	switch {
	case err == nil && len(entries) > 0:
		return exitcode.Usagef("%q is not empty; a rehearsal needs a new folder", path)
	case err == nil:
		return nil
	case !errors.Is(err, os.ErrNotExist):
		return exitcode.Usagef("%w", err)
	}
	if err := os.MkdirAll(path, 0o777); err != nil {
		return exitcode.IOf("create the folder of the rehearsal: %w", err)
	}
	return nil
}
