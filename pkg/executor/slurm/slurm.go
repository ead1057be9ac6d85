// Package slurm runs arrays of tasks through a Slurm cluster, by its own
// commands: sbatch, squeue, sacct, scontrol, sacctmgr and scancel.
//
// It keeps nothing in memory between calls and nothing alive between jobs. It
// asks the controller seldom and for everything at once, since loops of
// queries are what takes controllers down.
package slurm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/site"
)

// Cluster is the Slurm that the commands on PATH and SLURM_CONF point to.
type Cluster struct {
	site site.Profile
	// delays are the waits between attempts at a command that the controller
	// was too busy for; each is stretched by up to half at random.
	delays  []time.Duration
	timeout time.Duration // of one command; 0 for commandTimeout
	// variables are set for every command, over those of this process.
	variables map[string]string
}

// Open returns the cluster of a site, or an error with exitcode.Unavailable when
// Slurm's commands are not on PATH.
func Open(site site.Profile) (*Cluster, error) {
	for _, name := range []string{"sbatch", "squeue", "scontrol", "scancel"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, exitcode.WithHint(exitcode.Unavailablef("find Slurm: %w", err),
				"run this on a login node, load Slurm's module, or use --executor local")
		}
	}
	return &Cluster{
		site:   site,
		delays: []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second},
		variables: map[string]string{
			"SLURM_BITSTR_LEN":  "0", // else lists of pending tasks are cut off at 64 bytes
			"SLURM_TIME_FORMAT": "%s",
		},
	}, nil
}

// commandTimeout bounds one command. sbatch itself waits up to two minutes
// when the queue is full.
const commandTimeout = 3 * time.Minute

// run runs a command of Slurm and returns what it printed. Variables that
// this process has from a job that it may run in, or that would act as
// options, are kept from it.
func (c *Cluster) run(ctx context.Context, stdin []byte, name string, args ...string) (string, error) {
	timeout := cmp.Or(c.timeout, commandTimeout)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, name, args...)
	// A killed query harms nobody; sbatch gets the chance to finish.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = executor.Environ(c.changesCommand, c.variables)
	cmd.Stdin = bytes.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil {
		return stdout.String(), nil
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("running %s: %w", name, context.Cause(ctx))
	}
	var failed *exec.ExitError
	switch known := errors.As(err, &failed); {
	case limited.Err() != nil && (!known || !failed.Exited()):
		fmt.Fprintf(&stderr, "\nno answer after %v", timeout)
		return "", &commandError{name: name, code: -1, stderr: lastLines(stderr.String()), late: true}
	case !known:
		return "", exitcode.Unavailablef("running %s: %w", name, err)
	}
	return stdout.String(), &commandError{name: name, code: failed.ExitCode(), stderr: lastLines(stderr.String())}
}

// retry runs a command again while the controller is too busy for it, and a few times
// when it says what nobody knows.
func (c *Cluster) retry(ctx context.Context, attempt func() (string, error)) (string, error) {
	for i := 0; ; i++ {
		out, err := attempt()
		var failed *commandError
		if err == nil || i == len(c.delays) || !errors.As(err, &failed) || !failed.again(i) {
			return out, err
		}
		timer := time.NewTimer(c.delays[i] + rand.N(c.delays[i]/2+1))
		select {
		case <-ctx.Done():
			timer.Stop()
			return "", fmt.Errorf("wait for the Slurm controller, which answered %q: %w", failed.stderr, ctx.Err())
		case <-timer.C:
		}
	}
}

// changesCommand reports the variables that would act as options of Slurm's
// commands, or that describe a job that this process runs in. Where the site
// profile leaves a choice open, the user's own SBATCH_ variable may fill it.
func (c *Cluster) changesCommand(name string) bool {
	open := map[string]string{
		"SLURM_CONF": "", "SBATCH_ACCOUNT": c.site.Account, "SBATCH_PARTITION": c.site.Partition, "SBATCH_QOS": c.site.QOS,
		"SBATCH_RESERVATION": c.site.Reservation, "SBATCH_CONSTRAINT": c.site.Constraint,
	}
	if chosen, known := open[name]; known {
		return chosen != ""
	}
	for _, prefix := range []string{"SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SACCT_", "SCANCEL_", "PMI_", "PMIX_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "LATHE_ATTEMPT" || name == "CUDA_VISIBLE_DEVICES"
}
