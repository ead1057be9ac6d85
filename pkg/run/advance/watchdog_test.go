package advance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/site"
)

// A watchdog submits its successor and nobody else does; where the queue is full
// the run goes on without.
func TestWatchdogIsRenewed(t *testing.T) {
	a, submitted := withFakeSlurm(t, `echo 12`)
	limits := slurm.Limits{MaxArraySize: 101, MaxJobCount: 100}
	renew := func(job string) {
		t.Helper()
		a.Attempt.JobID = job
		if err := a.renewWatchdog(t.Context(), limits); err != nil {
			t.Error(err)
		}
	}
	renew("11")
	if got := submitted(); got != "" {
		t.Errorf("where there was none, a gate submits %q", got)
	}
	if err := a.submitWatchdog(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	if got := submitted(); strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "--begin=now+600\n") {
		t.Errorf("the watchdog is submitted as %q", got)
	}
	if job, known := readTimed(watchdogPath(a.Run.Dir)); !known || job.ID != "12" {
		t.Errorf("job %q is noted, %v; want 12", job.ID, known)
	}
	renew("11")
	if got := submitted(); got != "" {
		t.Errorf("while one waits, a gate submits %q", got)
	}
	renew("12")
	if got := submitted(); strings.Count(got, "\n") != 1 {
		t.Errorf("the watchdog submits %q", got)
	}
	a.Site.Site.WatchdogSeconds = 0
	renew("12")
	if got := submitted(); got != "" {
		t.Errorf("where the site wants none, %q is submitted", got)
	}

	a, submitted = withFakeSlurm(t, `echo "sbatch: error: AssocMaxSubmitJobLimit: job submit limit" >&2; exit 1`)
	if err := a.submitWatchdog(t.Context(), limits); err != nil {
		t.Errorf("in a queue that is full: %v", err)
	}
	if _, known := readTimed(watchdogPath(a.Run.Dir)); known || submitted() == "" {
		t.Error("a watchdog is noted that the queue did not take, or was not tried")
	}
}

// One alarm at most waits in the queue, and it starts when an iteration is due.
func TestAlarm(t *testing.T) {
	a, submitted := withFakeSlurm(t, `echo 12`)
	limits := slurm.Limits{MaxArraySize: 101, MaxJobCount: 100}
	set := func(alarmed bool, due time.Time) string {
		t.Helper()
		if err := a.setAlarm(t.Context(), &jobsView{alarmed: alarmed}, due, limits); err != nil {
			t.Error(err)
		}
		return submitted()
	}
	if got := set(false, time.Time{}) + set(true, time.Now().Add(time.Hour)); got != "" {
		t.Errorf("where nothing is due, or an alarm waits, %q is submitted", got)
	}
	if got := set(false, time.Now().Add(90500*time.Millisecond)); !strings.HasSuffix(got, "--begin=now+91\n") {
		t.Errorf("an alarm in 90.5 s is submitted as %q", got)
	}
	if job, known := readTimed(alarmPath(a.Run.Dir)); !known || job.ID != "12" {
		t.Errorf("job %q is noted, %v; want 12", job.ID, known)
	}
	if got := set(false, time.Now().Add(-time.Minute)); !strings.HasSuffix(got, "--begin=now+1\n") {
		t.Errorf("an alarm for what is overdue is submitted as %q", got)
	}
}

// withFakeSlurm is an advancer of an empty run where sbatch is a script, and what
// gives the arguments with which that was called since it was last asked.
func withFakeSlurm(t *testing.T, sbatch string) (a *Advancer, submitted func() string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	r := &rundir.Run{Dir: graph.Dir(t.TempDir()), Identity: rundir.Identity{RunID: "r1"}}
	r.Recipe.Resources.Stages.Gate.Minutes = 10
	scripts := map[string]string{"sbatch": `cat >/dev/null; echo "$@" >>` + log + "\n" + sbatch, "squeue": "echo other", "scontrol": "exit 1", "scancel": "exit 1", "sinfo": "echo 'normal* 15:00:00'"}
	return advancerOf(t, r, scripts), func() string {
		content, _ := os.ReadFile(log) // none when it was not called
		_ = os.Remove(log)
		return string(content)
	}
}

// advancerOf advances a run where Slurm's commands are scripts.
func advancerOf(t *testing.T, r *rundir.Run, scripts map[string]string) *Advancer {
	t.Helper()
	folder := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/bash\n"+script+"\n"), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	profile := site.Default()
	profile.WatchdogSeconds = 600
	cluster, err := slurm.Open(profile)
	if err != nil {
		t.Fatal(err)
	}
	return &Advancer{Run: r, Cluster: cluster, Site: site.Resolved{Site: profile}, Attempt: seal.AttemptFromEnv(), Log: t.Logf}
}
