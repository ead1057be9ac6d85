package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/doctor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/site"
)

// DoctorOptions are those of lathe doctor.
type DoctorOptions struct {
	Folder      string // in which runs are to lie
	Site        string // profile with what is known already
	Partition   string // these replace the profile's
	Account     string
	Write       string // path of the site profile that is written; empty for none
	Local       bool   // this machine alone, also where there is a Slurm
	NoJob       bool   // submit nothing
	WaitSeconds int    // for the job that looks at nodes
	JSON        bool

	Witness string // folder in which this process is one of two that meet
}

func doctorCommand() *cli.Command {
	var o DoctorOptions
	return cmdline.Help{
		Example: "lathe doctor --folder runs --write jobs/sites/mine.yaml",
		Exits:   map[int]string{exitcode.Unavailable: "runs would fail; the table names the problems", exitcode.Stopped: ""},
	}.Command(&cli.Command{
		Name: "doctor", Usage: "inspect a cluster, its nodes and a folder, and write a site profile",
		Description: "With Slurm: reads its limits, tests which flags it accepts, and submits one job of two tasks on two nodes\n" +
			"that measures how soon one node sees the other's files. Without Slurm: inspects this machine. Each line\n" +
			"names its source.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "folder", Usage: "`FOLDER` for runs", Value: ".", Destination: &o.Folder},
			&cli.StringFlag{Name: "site", Usage: "start from site profile `NAME` or file", EnvVars: []string{"LATHE_SITE"}, Destination: &o.Site},
			&cli.StringFlag{Name: "partition", Usage: "Slurm `PARTITION`; default: the profile's, else the cluster's", Destination: &o.Partition},
			&cli.StringFlag{Name: "account", Usage: "Slurm `ACCOUNT`; default: the profile's", Destination: &o.Account},
			&cli.StringFlag{Name: "write", Usage: "write a site profile to `FILE`, which must not exist", Destination: &o.Write},
			&cli.BoolFlag{Name: "local", Usage: "inspect only this machine", Destination: &o.Local},
			&cli.BoolFlag{Name: "no-job", Usage: "submit no job: the nodes and the shared folder stay unchecked", Destination: &o.NoJob},
			&cli.IntFlag{Name: "wait-seconds", Usage: "wait up to `SECONDS` for the job that inspects the nodes", Value: 300, Destination: &o.WaitSeconds},
			&cli.StringFlag{Name: "witness", Usage: "internal: visibility probe in `FOLDER`", Destination: &o.Witness},
			cmdline.JSONFlag(&o.JSON),
		},
		Action: cmdline.NoArguments(func(c *cli.Context) error { return Doctor(c.Context, c.App.Writer, o) }),
	})
}

// Doctor finds out what a place is like.
func Doctor(ctx context.Context, out io.Writer, o DoctorOptions) error {
	if o.Witness != "" {
		rank, err := strconv.Atoi(os.Getenv("SLURM_PROCID"))
		if err != nil {
			return cmdline.Misusef("--witness works only in a Slurm task: SLURM_PROCID is not set")
		}
		binaries, err := binaryFolder()
		if err != nil {
			return err
		}
		return doctor.Bear(ctx, o.Witness, rank, binaries)
	}
	if err := cmdline.AtLeast(1, "wait-seconds", o.WaitSeconds); err != nil {
		return err
	}
	if _, err := os.Lstat(o.Write); o.Write != "" && !errors.Is(err, fs.ErrNotExist) {
		return exitcode.Usagef("--write: %q already exists", o.Write)
	}
	if info, err := os.Stat(o.Folder); err != nil || !info.IsDir() {
		return exitcode.Usagef("--folder: %q is not an existing folder", o.Folder)
	}
	var report doctor.Report
	_, missing := exec.LookPath("sbatch")
	if missing != nil || o.Local {
		report.Place = "local"
		if err := o.here(ctx, &report); err != nil {
			return err
		}
		if missing != nil {
			report.Findings = append(report.Findings, doctor.Finding{
				About: "Slurm", Level: doctor.Note, Found: "none: runs use processes of this machine", From: "sbatch is not on PATH; slurm/devcluster up starts a test cluster (apt-get install slurm-wlm munge)",
			})
		}
	} else if err := o.cluster(ctx, &report); err != nil {
		return err
	}
	if o.JSON {
		if err := cmdline.WriteJSON(out, report); err != nil {
			return err
		}
	} else if err := report.Print(out); err != nil {
		return err
	}
	if o.Write != "" {
		if err := o.write(report); err != nil {
			return err
		}
	}
	if n := report.Problems(); n > 0 {
		return exitcode.Unavailablef("problems that make runs fail: %s", plural.Of(n, len(report.Findings), "finding"))
	}
	return nil
}

func (o DoctorOptions) here(ctx context.Context, report *doctor.Report) error {
	binaries, err := binaryFolder()
	if err != nil {
		return err
	}
	if binaries == "" { // those on PATH
		found, _ := exec.LookPath("lathe-rollout")
		binaries = filepath.Dir(found)
	}
	doctor.LookHere(ctx, report, o.Folder, binaries)
	return ctx.Err()
}

func (o DoctorOptions) cluster(ctx context.Context, report *doctor.Report) error {
	report.Place = "slurm"
	profile, err := site.Load(cmp.Or(o.Site, genericSite))
	if err != nil {
		return err
	}
	known := profile.Site
	known.Partition, known.Account = cmp.Or(o.Partition, known.Partition), cmp.Or(o.Account, known.Account)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if known.Binaries != "" {
		self = filepath.Join(known.Binaries, "lathe")
	}
	opened, err := slurm.Open(known)
	if err != nil {
		return err
	}
	c := &doctor.Cluster{Slurm: opened, Site: known, Folder: o.Folder, Binary: self}
	answers := c.Look(ctx, report)
	c.Given(report)
	if !answers {
		return o.here(ctx, report)
	}
	doctor.LookAtEnvironment(report)
	doctor.LookAtFolder(ctx, report, o.Folder)
	if o.NoJob || ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Fprintf(os.Stderr, "lathe: waiting up to %d s for a job of two tasks that inspects the nodes\n", o.WaitSeconds)
	return c.Meet(ctx, report, time.Duration(o.WaitSeconds)*time.Second)
}

// write writes the profile, if it is one.
func (o DoctorOptions) write(report doctor.Report) error {
	name := strings.TrimSuffix(filepath.Base(o.Write), filepath.Ext(o.Write))
	if err := os.MkdirAll(filepath.Dir(o.Write), 0o777); err != nil {
		return exitcode.IOf("write the site profile: %w", err)
	}
	if err := seal.Replace(o.Write, report.Profile(name), seal.AttemptFromEnv()); err != nil {
		return err
	}
	if _, err := site.Load(mustPath(o.Write)); err != nil {
		return exitcode.Bugf("read back the site profile that was written: %w", err)
	}
	fmt.Fprintf(os.Stderr, "lathe: wrote %s; use it with --site %s\n", o.Write, mustPath(o.Write))
	return nil
}

// mustPath is a path that cannot be taken for the name of a profile.
func mustPath(path string) string {
	if strings.ContainsRune(path, filepath.Separator) {
		return path
	}
	return "./" + path
}
