package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/report"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/site"
)

// genericSite is the profile of a cluster about which nothing is said.
const genericSite = "generic"

// localSite is the profile of this machine.
const localSite = "local"

// advancerOf sets up what moves a run on a Slurm cluster. name is a site
// profile's name or file; when it is empty, the run's last one is used. settings are
// what the command line says instead of it.
func advancerOf(opened *rundir.Run, name string, settings ...string) (*advance.Advancer, error) {
	if name == "" {
		name = genericSite
		if path, ok := advance.SitePath(opened.Dir); ok {
			if err := rundir.Trusted(opened.Dir, path); err != nil {
				return nil, err
			}
			name = path
		}
	}
	profile, err := site.Load(name, settings...)
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
		Run: opened, Cluster: cluster, Site: *profile, Attempt: seal.AttemptFromEnv(), Binaries: binaries, Version: cmdline.Version, Needs: needsOf(opened), Log: cmdline.Log("lathe"),
	}, nil
}

// noteEnd leaves the reason why a run cannot go on where people look. advancer is nil where
// Slurm cannot be asked.
func noteEnd(ctx context.Context, opened *rundir.Run, advancer *advance.Advancer, ended error) {
	if advancer == nil {
		advance.NoteEnd(ctx, opened.Dir, nil, seal.AttemptFromEnv(), ended)
		return
	}
	advance.NoteEnd(ctx, opened.Dir, advancer.Cluster, advancer.Attempt, ended)
}

// finishSlurm writes the report of a run that is done.
func finishSlurm(ctx context.Context, out io.Writer, opened *rundir.Run) error {
	if err := writeReport(ctx, out, opened, opened.Dir.Report()); err != nil {
		return err
	}
	return closing.LeftOut(ctx, opened)
}

// writeReport writes the report of a run into a folder, and prints its summary.
func writeReport(ctx context.Context, out io.Writer, opened *rundir.Run, folder string) error {
	summary, err := report.Write(ctx, opened, folder)
	if err != nil {
		return err
	}
	if err := report.Text(out, summary); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "lathe: wrote the report %s\n", filepath.Join(folder, "index.html"))
	return nil
}

// How often a foreground run on Slurm looks at its files, and how often, at
// most, it asks Slurm.
const (
	lookEvery = 5 * time.Second
	askEvery  = 60 * time.Second
)

// driveSlurm stays with a run that its controller jobs carry, and takes over where
// they are lost.
func (o RunOptions) driveSlurm(ctx context.Context, out io.Writer, opened *rundir.Run) (err error) {
	advancer, err := advancerOf(opened, o.Site, o.siteSettings()...)
	defer func() { noteEnd(ctx, opened, advancer, err) }()
	if err != nil {
		return err
	}
	err = stay(ctx, out, advancer)
	notify(ctx, opened, advancer.Site.Site.Notify, err, true)
	return err
}

// stay looks at the files of a run until it is done.
func stay(ctx context.Context, out io.Writer, advancer *advance.Advancer) error {
	opened := advancer.Run
	watcher := newWatcher(os.Stderr, opened)
	defer watcher.close()
	surveyor := survey.New(opened.Graph)
	var asked time.Time
	for {
		if p, paused := rundir.ReadPause(opened.Dir); paused {
			return p.Err(opened.Dir)
		}
		if time.Since(asked) >= askEvery {
			result, err := advancer.Advance(ctx)
			if err != nil && !errors.Is(err, slurm.ErrQueueFull) { // there will be room
				return err
			}
			if result.Done {
				return finishSlurm(ctx, out, opened)
			}
			asked = time.Now()
			watcher.queue(result.Live)
		}
		surveyor.Refresh()
		found, err := surveyor.Survey(ctx)
		if err != nil {
			return err
		}
		watcher.look(found)
		if found.Done {
			return finishSlurm(ctx, out, opened)
		}
		select {
		case <-ctx.Done():
			return exitcode.WithHint(ctx.Err(), "the jobs continue without this process; see lathe status %s", opened.Dir)
		case <-time.After(lookEvery):
		}
	}
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
