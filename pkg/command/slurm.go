package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/report"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/site"
)

// advancerOf sets up what moves a run on a Slurm cluster. name is a site
// profile's name or file; when it is empty, the run's last one is used.
func advancerOf(opened *rundir.Run, name string) (*advance.Advancer, error) {
	if name == "" {
		if path, ok := advance.SitePath(opened.Dir); ok {
			name = path
		} else {
			name = "generic"
		}
	}
	profile, err := site.Load(name)
	if err != nil {
		return nil, err
	}
	cluster, err := slurm.Open(profile.Site)
	if err != nil {
		return nil, err
	}
	binaries := profile.Site.Binaries
	if binaries == "" {
		if binaries, err = binaryFolder(); err != nil {
			return nil, err
		}
	}
	return &advance.Advancer{
		Run: opened, Cluster: cluster, Site: *profile, Attempt: seal.AttemptFromEnv(), Binaries: binaries, Version: Version, Log: talk("lathe"),
	}, nil
}

// advanceSlurm submits what is ready and leaves. When the run is done it
// writes the report.
func advanceSlurm(c *cli.Context, opened *rundir.Run) error {
	advancer, err := advancerOf(opened, c.String("site"))
	if err != nil {
		return err
	}
	if c.Bool("retry") {
		if err := advance.Forgive(opened.Dir, advancer.Attempt); err != nil {
			return err
		}
	}
	result, err := advancer.Advance(c.Context)
	for errors.Is(err, slurm.ErrQueueFull) {
		// Nothing waits in the queue that would go on with the run.
		fmt.Fprintf(os.Stderr, "lathe: %v; trying again every %s\n", err, queueFullEvery)
		select {
		case <-c.Context.Done():
			return exitcode.WithHint(c.Context.Err(), "when there is room: lathe advance --run %s", opened.Dir)
		case <-time.After(queueFullEvery):
		}
		result, err = advancer.Advance(c.Context)
	}
	if err != nil {
		return err
	}
	if result.Done {
		return finishSlurm(c.Context, opened)
	}
	fmt.Fprintf(os.Stderr, "lathe: %d arrays submitted, %d tasks pending or running\n", len(result.Submitted), result.Live)
	return nil
}

func finishSlurm(ctx context.Context, opened *rundir.Run) error {
	summary, err := report.Write(ctx, opened)
	if err != nil {
		return err
	}
	if err := report.Text(stdout, summary); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "lathe: the report is %s\n", filepath.Join(opened.Dir.Report(), "index.html"))
	return closing.LeftOut(ctx, opened)
}

// How often a foreground run on Slurm looks at its files, and how often, at
// most, it asks Slurm.
const (
	lookEvery = 5 * time.Second
	askEvery  = 60 * time.Second
)

// queueFullEvery is how often a queue that takes no more jobs is asked again.
const queueFullEvery = 30 * time.Second

// driveSlurm stays with a run that its gates carry, and takes over where
// they are lost.
func driveSlurm(c *cli.Context, opened *rundir.Run) error {
	advancer, err := advancerOf(opened, c.String("site"))
	if err != nil {
		return err
	}
	watcher := newWatcher(os.Stderr, opened)
	defer watcher.close()
	surveyor := survey.New(opened.Graph)
	var asked time.Time
	for {
		if time.Since(asked) >= askEvery {
			result, err := advancer.Advance(c.Context)
			if err != nil && !errors.Is(err, slurm.ErrQueueFull) { // there will be room
				return err
			}
			if result.Done {
				return finishSlurm(c.Context, opened)
			}
			asked = time.Now()
			watcher.queue(result.Live)
		}
		surveyor.Refresh()
		found, err := surveyor.Survey(c.Context)
		if err != nil {
			return err
		}
		watcher.look(found)
		if found.Done {
			return finishSlurm(c.Context, opened)
		}
		select {
		case <-c.Context.Done():
			return exitcode.WithHint(c.Context.Err(), "the jobs go on without this process; see lathe status %s", opened.Dir)
		case <-time.After(lookEvery):
		}
	}
}

// rehearsalLimits are those of the cluster, or, where there is none to ask,
// the site profile's and Slurm's own defaults (slurm.conf(5)).
func rehearsalLimits(ctx context.Context, site site.Profile) slurm.Limits {
	cluster, err := slurm.Open(site)
	if err == nil {
		var limits slurm.Limits
		if limits, err = cluster.Limits(ctx); err == nil {
			return limits
		}
	}
	fmt.Fprintf(os.Stderr, "lathe: the cluster's limits are not known, Slurm's defaults are taken: %v\n", err)
	limits := slurm.Limits{MaxArraySize: 1001, MaxJobCount: 10000, MaxSubmit: site.MaxSubmit}
	if site.MaxArraySize > 0 {
		limits.MaxArraySize = site.MaxArraySize
	}
	return limits
}

// dryRunSlurm shows the job scripts that the first arrays would be submitted
// with.
func dryRunSlurm(c *cli.Context, g graph.Graph) error {
	name := c.String("site")
	if name == "" {
		name = "generic"
	}
	profile, err := site.Load(name)
	if err != nil {
		return err
	}
	limits := rehearsalLimits(c.Context, profile.Site)
	binaries, err := binaryFolder()
	if err != nil {
		return err
	}
	planned := &rundir.Run{Dir: g.Dir, Identity: rundir.Identity{RunID: "RUN"}, Recipe: g.Recipe, Graph: g}
	shown := map[graph.Stage]bool{}
	for _, n := range g.Nodes() {
		shards := make([]int, g.Shards(n))
		for i := range shards {
			shards[i] = i
		}
		array := drive.ArrayOf(planned, n, shards, 0, binaries)
		chunks, err := slurm.Plan(array, limits, profile.Site.Throttle)
		if err != nil {
			return err
		}
		if shown[n.Stage] {
			continue
		}
		shown[n.Stage] = true
		script, err := slurm.Script(array, chunks[0], profile.Site)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "\n# %s: %d tasks in %d job arrays; the first:\n%s", n, len(shards), len(chunks), script)
	}
	return nil
}

// seeJobs asks Slurm about a run that was handed to it.
func seeJobs(ctx context.Context, opened *rundir.Run) (*advance.Seen, error) {
	if !advance.HasSubmissions(opened.Dir) {
		return nil, nil
	}
	advancer, err := advancerOf(opened, "")
	if err != nil {
		return nil, err
	}
	seen, err := advance.SeeJobs(ctx, advancer)
	if err != nil {
		return nil, err
	}
	return &seen, nil
}
