package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Linux refuses an argument of 128 KiB, and arguments of 2 MiB in all: however many jobs
// there are, each is asked about once and cancelled once.
func TestManyJobsTakeManyCalls(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for _, name := range []string{"squeue", "sacct", "scancel"} {
		fakeCommand(t, name, `printf '%s\n' "$@" >>`+log)
	}
	// given lists the ids that the calls since the last time were given.
	given := func() (ids []string) {
		t.Helper()
		content, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			if line = strings.TrimSpace(line); line != "" && line[0] >= '0' && line[0] <= '9' {
				ids = append(ids, strings.Split(line, ",")...)
			}
		}
		if err := os.Remove(log); err != nil {
			t.Fatal(err)
		}
		return ids
	}
	const jobs, tasks = 20_000, 150_000
	var wanted []Job
	var ids []string
	for i := range jobs {
		ids = append(ids, fmt.Sprint(10_000_000+i))
		wanted = append(wanted, Job{ID: ids[i], Shards: Shards{0}})
	}
	for _, accounting := range []bool{false, true} {
		if _, err := quick().States(t.Context(), Limits{Accounting: accounting}, append(wanted, wanted[0])); err != nil {
			t.Fatal(err)
		}
		want := ids
		if accounting {
			want = slices.Concat(ids, ids)
		}
		if got := given(); !slices.Equal(got, want) {
			t.Errorf("accounting %v: %d ids are asked about, want %d", accounting, len(got), len(want))
		}
	}
	ids = nil
	for i := range tasks {
		ids = append(ids, fmt.Sprintf("10000000_%d", i))
	}
	if err := quick().Cancel(t.Context(), ids...); err != nil {
		t.Fatal(err)
	}
	if got := given(); !slices.Equal(got, ids) {
		t.Errorf("%d tasks are cancelled, want %d", len(got), len(ids))
	}
	if err := quick().CancelWaiting(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(log); err == nil {
		t.Error("scancel is called for nothing")
	}
}

// Jobs of one call that Slurm has forgotten leave those of another as they are.
func TestForgottenJobsOfOneCall(t *testing.T) {
	fakeCommand(t, "squeue", `case "${!#}" in 9*) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1;; esac
echo "10000000|COMPLETED|0|0|1|2|n1|None|"`)
	jobs := []Job{{ID: "10000000", Shards: Shards{0}}}
	for i := range idsPerCall {
		jobs = append(jobs, Job{ID: fmt.Sprint(90_000_000 + i), Shards: Shards{0}})
	}
	jobs = append(jobs, Job{ID: "10000001", Shards: Shards{0}})
	states, err := quick().States(t.Context(), Limits{}, jobs)
	if err != nil || states.Of(jobs[0].Tasks()[0]).Phase != PhaseEnded || states.Of(jobs[1].Tasks()[0]).Phase != PhaseUnknown {
		t.Errorf("states are %+v, %+v, %v; want ended, unknown", states.Of(jobs[0].Tasks()[0]), states.Of(jobs[1].Tasks()[0]), err)
	}
}

func TestParseMinutes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"30:00": 30, "1:00:00": 60, "1-00:00:00": 1440, "infinite": 0, "n/a": 0, "": 0, "-5:00": 0, "9999999-0:0:0": 0} {
		if got := ParseMinutes(text); got != want {
			t.Errorf("%q is %d minutes, want %d", text, got, want)
		}
	}
}

// A site profile may name several partitions, and the user's SBATCH_ variables fill what it
// leaves open.
// Alone: it changes PATH and SBATCH_ variables.
func TestOfPartitionsAndAccounts(t *testing.T) {
	fakeCommand(t, "sinfo", `printf '%s\n' 'debug* 30:00' 'gpu 1-00:00:00' 'gpu 1-00:00:00' 'long 3-00:00:00' 'free infinite'`)
	fakeCommand(t, "scontrol", `printf '%s\n' 'ClusterName = here' 'MaxArraySize = 1001' 'MaxJobCount = 10000' 'AccountingStorageType = accounting_storage/slurmdbd'`)
	fakeCommand(t, "sacctmgr", `case "$*" in
*cluster=here*account=physics*) printf '%s\n' '40|' '2|debug' '30|gpu';;
*cluster=here*onlydefaults*) echo '50|';;
*) printf '%s\n' '1|' '40|' '50|';;
esac`)
	for _, c := range []struct {
		partition, partitionSet, account, accountSet string
		minutes, submit                              int
	}{
		{"", "", "", "", 30, 50},
		{"gpu", "", "physics", "", 1440, 30},
		{"", "gpu", "", "physics", 1440, 30},
		{"gpu,long", "debug", "physics", "none", 4320, 30},
		{"long", "", "physics", "", 4320, 40},
		{"gpu,free", "", "", "", 0, 50},
		{"none", "", "", "", 0, 50},
	} {
		t.Setenv("SBATCH_PARTITION", c.partitionSet)
		t.Setenv("SBATCH_ACCOUNT", c.accountSet)
		cluster := quick()
		cluster.site.Partition, cluster.site.Account = c.partition, c.account
		limits, err := cluster.Limits(t.Context())
		if got := cluster.LongestMinutes(t.Context(), c.partition); got != c.minutes || limits.MaxSubmit != c.submit || err != nil {
			t.Errorf("%+v: %d minutes, %d jobs, %v", c, got, limits.MaxSubmit, err)
		}
	}
}
