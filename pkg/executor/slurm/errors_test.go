package slurm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// TestPatterns: what Slurm's words mean. Those behind "Batch job submission failed" are
// of slurm_errno.c, those before of sbatch.c and of the reasons of jobs.
func TestPatterns(t *testing.T) {
	t.Parallel()
	const policy = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
	for words, want := range map[string]refusal{
		policy:                                     overLimit,
		"QOSMaxSubmitJobPerUserLimit; " + policy:   overLimit,
		"AssocMaxSubmitJobLimit; " + policy:        overLimit,
		"AssocGrpSubmitJobsLimit; " + policy:       full,
		"QOSGrpSubmitJobsLimit; " + policy:         full,
		"MaxSubmitJobPerAccount; " + policy:        full,
		"QOSMaxWallDurationPerJobLimit; " + policy: refused,
		"AssocMaxCpuPerJobLimit; " + policy:        refused,
		"QOSMaxGRESPerUser; " + policy:             refused,
		"QOSMinGRES; " + policy:                    refused,
		"QOSMaxMemoryPerJob; " + policy:            refused,
		"Slurm temporarily unable to accept job, sleeping and retrying; Resource temporarily unavailable": full,
		"Slurm job queue full, sleeping and retrying; Unable to create job record, try again":             full,
		"Unexpected message received": busy, "Message send failure": busy, "Message receive failure": busy, "Insane message length": busy,
		"I/O error writing script/environment to file": busy, "Socket timed out on send/recv operation": busy, "Zero Bytes were transmitted or received": busy,
		"Unable to contact slurm controller (connect failure)": busy, "Slurm backup controller in standby mode": busy, "Connection reset by peer": busy,
		"RPC rate limit exceeded, please retry your request": busy, "Requested nodes are busy": busy, "Slurm internal error, contact system administrator": busy,
		"resolve_ctls_from_dns_srv: res_nsearch error: Unknown host; fatal: Could not establish a configuration source":              noCluster,
		"error: If munged is up, restart with --num-threads=10; Munge encode failed: Failed to access \"/run/munge/munge.socket.2\"": noCluster,
		"Protocol authentication error": noCluster, "Incompatible versions of client and server code": noCluster,
		"Invalid job id specified": gone, "Job/step already completing or completed": gone,
		"Required partition not available (inactive or drain)": closed, "System submissions disabled": closed,
		"allocation failure: Required node not available (down, drained or reserved)": closed, "Requested partition configuration not available now": closed,
		"Memory specification can not be satisfied; Requested node configuration is not available": refused,
		"invalid partition specified: x; Invalid partition name specified":                         refused,
		"Invalid account or account/partition combination specified":                               refused,
		"Requested time limit is invalid (missing or exceeds some limit)":                          refused,
		"Invalid generic resource (gres) specification":                                            refused,
		"User's group not permitted to use this partition":                                         refused,
		"More processors requested than permitted":                                                 refused,
		"sbatch: unrecognized option '--fast'":                                                     refused,
		"Pathname of a file, directory or other parameter too long":                                refused,
		"Slurm accounting storage is disabled":                                                     refused,
		"Unspecified error":                                                                        unknown, "": unknown, "error: this site wants a project code": unknown,
	} {
		if got := (&commandError{name: "sbatch", stderr: words}).means(); got != want {
			t.Errorf("%q means %d, want %d", words, got, want)
		}
	}
}

// TestRefusedSubmissions: what becomes of a submission that Slurm refuses a number of
// times, by what else is queued.
func TestRefusedSubmissions(t *testing.T) {
	const (
		failed = "sbatch: error: Batch job submission failed: "
		policy = failed + "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
	)
	for name, c := range map[string]struct {
		says    string
		queued  string // names of what squeue lists
		refuses int    // times; more than any number of attempts where it is 9
		code    int
		full    bool
		asked   int
	}{
		"a limit, nothing queued":              {policy, "", 9, exitcode.Usage, false, 1},
		"a limit, the controller job alone":    {policy, "lathe-first-0123abcd-gate", 9, exitcode.Usage, false, 1},
		"a limit, tasks queued":                {policy, "lathe-first-0123abcd-gate\nlathe-first-0123abcd-rollout-000001", 9, exitcode.Failed, true, 1},
		"a limit of one job, tasks queued":     {"sbatch: error: QOSMaxWallDurationPerJobLimit\n" + policy, "lathe-a-0123abcd-score-000001", 9, exitcode.Usage, false, 1},
		"a limit of one job, nothing queued":   {"sbatch: error: QOSMaxWallDurationPerJobLimit\n" + policy, "", 9, exitcode.Usage, false, 1},
		"a limit that an account fills":        {"sbatch: error: AssocGrpSubmitJobsLimit\n" + policy, "", 9, exitcode.Failed, true, 1},
		"a protocol error, once":               {failed + "Unexpected message received", "", 1, exitcode.OK, false, 2},
		"a protocol error, always":             {failed + "Message receive failure", "", 9, exitcode.Unavailable, false, 6},
		"the controller's disk, twice":         {failed + "I/O error writing script/environment to file", "", 2, exitcode.OK, false, 3},
		"words that nobody knows, three times": {failed + "Unspecified error", "", 3, exitcode.OK, false, 4},
		"words that nobody knows, always":      {failed + "Unspecified error", "", 9, exitcode.Usage, false, 4},
		"a node that no cluster has":           {failed + "Requested node configuration is not available", "", 9, exitcode.Usage, false, 1},
		"a partition that is drained, for now": {failed + "Required partition not available (inactive or drain)", "", 9, exitcode.Unavailable, false, 1},
		"no cluster, as on a laptop":           {"sbatch: fatal: Could not establish a configuration source", "", 9, exitcode.Unavailable, false, 1},
	} {
		folder := t.TempDir()
		asked, queue := filepath.Join(folder, "asked"), filepath.Join(folder, "queue")
		for path, content := range map[string]string{queue: c.queued, filepath.Join(folder, "says"): c.says} {
			if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		fakeCommand(t, "sbatch", `cat >/dev/null; echo >>`+asked+`; [[ $(wc -l <`+asked+`) -gt `+string(rune('0'+c.refuses))+` ]] && { echo 12; exit; }; cat `+folder+`/says >&2; exit 1`)
		fakeCommand(t, "squeue", `case "$*" in *--name*) exit 1;; esac; cat `+queue)
		cluster := quick()
		cluster.delays = append(cluster.delays, cluster.delays[0], cluster.delays[0], cluster.delays[0])
		_, err := cluster.Submit(t.Context(), []byte("x"), "name", Dependency{})
		content, readErr := os.ReadFile(asked)
		if readErr != nil {
			t.Fatal(readErr)
		}
		if exitcode.Code(err) != c.code || errors.Is(err, ErrQueueFull) != c.full || len(content) != c.asked {
			t.Errorf("%s: %v (code %d), asked %d times; want code %d, %d times", name, err, exitcode.Code(err), len(content), c.code, c.asked)
		}
		last := c.says[strings.LastIndex(c.says, ": ")+2:]
		if err != nil && !strings.Contains(err.Error(), last) {
			t.Errorf("%s: %v lacks Slurm's words", name, err)
		}
	}
}
