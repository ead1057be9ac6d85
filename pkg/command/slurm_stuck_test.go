package command_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/await"
)

// shutSite is a site whose partition takes no more jobs once the first have been submitted:
// the warm start closes it. Controller jobs run in another.
const shutSite = `memory_flag: false
partition: low
watchdog_seconds: 3600
notify: [sh, -c, 'echo "$LATHE_EVENT: $LATHE_MESSAGE" >>FOLDER/notified']
stages:
  gate: {partition: high}
  warm: {setup: ['until [[ -e FOLDER/submitted ]]; do sleep 0.2; done; scontrol update partitionname=low state=inactive']}
`

// TestSlurmStuck: a controller job whose sbatch is refused leaves the run stuck, with
// Slurm's words wherever people look, and the run goes on when the cause is fixed.
func TestSlurmStuck(t *testing.T) {
	t.Parallel()
	c := commandtest.StartCluster(t, commandtest.Build(t), "--nodes", "2")
	lathe := filepath.Join(c.Bin, "lathe")
	settings := commandtest.Set("schedule.iterations=1", "warm_start.steps=2", "warm_start.chunk=2")

	t.Run("a controller job", func(t *testing.T) {
		c := c.In(t)
		folder := t.TempDir()
		site, dir := filepath.Join(folder, "shut.yaml"), filepath.Join(folder, "run")
		if err := os.WriteFile(site, []byte(strings.ReplaceAll(shutSite, "FOLDER", folder)), 0o666); err != nil {
			t.Fatal(err)
		}
		c.Must(lathe, append([]string{"advance", "--recipe", "jobs/smoke.yaml", "--run", dir, "--site", site}, settings...)...)
		if err := os.WriteFile(filepath.Join(folder, "submitted"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		var status struct{ State, Evidence, Stuck string }
		await.Until(t, "the run is stuck", func() bool {
			if out, err := c.Command(lathe, "status", "--json", dir); err == nil {
				if err := json.Unmarshal([]byte(out), &status); err != nil {
					t.Fatal(err)
				}
			}
			return status.State == "stuck"
		})
		const words = "Required partition not available (inactive or drain)"
		notified := ""
		await.Until(t, "the site is notified", func() bool {
			content, _ := os.ReadFile(filepath.Join(folder, "notified")) // the job writes it last
			notified = string(content)
			return notified != ""
		})
		for where, text := range map[string]string{
			"lathe status":            status.Evidence,
			"lathe status --watch":    c.Must(lathe, "status", "--watch", dir), // which ends
			"lathe logs":              c.Must(lathe, "logs", dir),
			"lathe logs --stage gate": c.Must(lathe, "logs", "--stage", "gate", dir),
			"the watchdog's comment":  c.Must("squeue", "-h", "-t", "pending", "-o", "%k"),
			"the job's comment":       c.Must("squeue", "-h", "-t", "completed,failed", "-o", "%k"),
			"notify":                  notified,
		} {
			if !strings.Contains(text, words) {
				t.Errorf("%s lacks Slurm's words:\n%s", where, text)
			}
		}
		if said := c.Must(lathe, "logs", dir); !strings.HasPrefix(said, "gate-000000-00000, attempt 0: failed") {
			t.Errorf("the controller job does not come first:\n%s", said)
		}
		if !strings.HasPrefix(notified, "stuck: ") {
			t.Errorf("notified of %q", notified)
		}

		c.Must("scontrol", "update", "partitionname=low", "state=up")
		c.Must(lathe, "advance", dir)
		c.Await(dir, nil)
		if out := c.Must(lathe, "logs", "--stage", "gate", dir); strings.Contains(out, "failed") {
			t.Errorf("of a run that is done a controller job is shown as failed:\n%s", out)
		}
		c.Settle() // no job writes into the folder any more
	})

	t.Run("before the first job", func(t *testing.T) {
		c := c.In(t)
		dir := filepath.Join(t.TempDir(), "run")
		said, err := c.Command(lathe, append([]string{"advance", "--recipe", "jobs/smoke.yaml", "--run", dir, "--site", "generic", "--set", "resources.stages.rollout.memory_gb=64"}, settings...)...)
		var ended *exec.ExitError
		if !errors.As(err, &ended) || ended.ExitCode() != exitcode.Usage || !strings.Contains(said, "stage rollout") || !strings.Contains(said, "Requested node configuration is not available") {
			t.Errorf("%v, want exit code %d:\n%s", err, exitcode.Usage, said)
		}
		if names := c.Must("squeue", "-h", "-t", "all", "-o", "%j"); strings.Contains(names, "warm") && strings.Contains(names, filepath.Base(dir)) {
			t.Errorf("a job was submitted:\n%s", names)
		}
		if said := c.Must(lathe, "status", dir); !strings.Contains(said, ": stuck, 0 of 1 iteration learned") {
			t.Errorf("lathe status:\n%s", said)
		}
	})

	// As on a laptop or a build node: the commands are there, and no cluster answers.
	t.Run("no cluster", func(t *testing.T) {
		c := c.In(t)
		folder := t.TempDir()
		conf, err := os.ReadFile(c.Conf())
		if err != nil {
			t.Fatal(err)
		}
		dead := regexp.MustCompile(`(?m)^SlurmctldPort=.*`).ReplaceAll(conf, []byte("SlurmctldPort=1"))
		if err := os.WriteFile(filepath.Join(folder, "slurm.conf"), dead, 0o666); err != nil {
			t.Fatal(err)
		}
		said, err := c.Command("env", "SLURM_CONF="+filepath.Join(folder, "slurm.conf"), lathe, "doctor", "--folder", folder)
		var ended *exec.ExitError
		if !errors.As(err, &ended) || ended.ExitCode() != exitcode.Unavailable || !strings.HasSuffix(said, "\n") {
			t.Errorf("%v", err)
		}
		for _, want := range []string{
			"problem  Slurm: no Slurm cluster answers: ", "Unable to contact slurm controller", "unknown  partitions: not checked", "unknown  between nodes: not checked",
			"ok       binaries: all of them", "ok       folder " + folder + ", names: ", ", processor: ",
		} {
			if !strings.Contains(said, want) {
				t.Errorf("lathe doctor does not print %q:\n%s", want, said)
			}
		}
	})

	// What a node has goes into the profile, and a dry run without a cluster refuses more.
	t.Run("the profile", func(t *testing.T) {
		c := c.In(t)
		folder := t.TempDir()
		site := filepath.Join(folder, "site.yaml")
		c.Must(lathe, "doctor", "--folder", folder, "--no-job", "--write", site)
		content, err := os.ReadFile(site)
		if err != nil || !strings.Contains(string(content), "\nnode_memory_gb: 15.62\n") || !strings.Contains(string(content), "\nnode_cpus: 4\n") {
			t.Fatalf("%v; the profile is\n%s", err, content)
		}
		said, err := c.Command("env", "SLURM_CONF=/nowhere", lathe, "run", "jobs/smoke.yaml", "--run", filepath.Join(folder, "run"), "--dry-run", "--site", site,
			"--set", "resources.stages.rollout.memory_gb=64", "--set", "resources.stages.gate.cpus=5")
		var ended *exec.ExitError
		if !errors.As(err, &ended) || ended.ExitCode() != exitcode.Usage ||
			!strings.Contains(said, "resources.stages.rollout.memory_gb: got 64, the largest node has 15.62") ||
			!strings.Contains(said, "resources.stages.gate.cpus: got 5, the largest node has 4") {
			t.Errorf("%v:\n%s", err, said)
		}
	})
}
