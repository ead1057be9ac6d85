package slurm

import (
	"cmp"
	"context"
	"math"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Limits is what the cluster says about itself, where the site profile does
// not say otherwise.
type Limits struct {
	Version       string        // of Slurm, for example 22.05.8
	MaxArraySize  int           // array indices stay below it
	MaxArrayTasks int           // tasks of one array; 0 for no bound of its own
	MaxJobCount   int           // jobs that the controller holds, array tasks counted singly
	MaxSubmit     int           // jobs of this user at once; 0 when no bound is known
	MinJobAge     time.Duration // how long squeue knows a job that has ended
	KillWait      time.Duration // from SIGTERM to SIGKILL
	Accounting    bool          // sacct can be asked
	UserSignal    bool          // --signal is sent before a preemption too
	Requeue       bool          // jobs are requeued unless they refuse
}

// Limits asks the cluster for its limits: once for its configuration, and
// once more for the user's limits where there is accounting.
func (c *Cluster) Limits(ctx context.Context) (Limits, error) {
	out, err := c.Ask(ctx, nil, "scontrol", "show", "config")
	if err != nil {
		return Limits{}, explain(err)
	}
	limits, err := parseConfig(out)
	if err != nil {
		return Limits{}, err
	}
	if c.site.MaxArraySize > 0 {
		limits.MaxArraySize = c.site.MaxArraySize
	}
	switch {
	case c.site.MaxSubmit > 0:
		limits.MaxSubmit = c.site.MaxSubmit
	case limits.Accounting:
		limits.MaxSubmit = c.maxSubmit(ctx, parseValues(out)["ClusterName"])
	}
	return limits, nil
}

// parseValues reads lines of KEY = VALUE.
func parseValues(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(line, "=")
		if found {
			values[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return values
}

// parseConfig reads the output of scontrol show config.
func parseConfig(text string) (Limits, error) {
	values := parseValues(text)
	limits := Limits{
		Version:      values["SLURM_VERSION"],
		MaxArraySize: leadingNumber(values["MaxArraySize"]),
		MaxJobCount:  leadingNumber(values["MaxJobCount"]),
		MinJobAge:    time.Duration(leadingNumber(values["MinJobAge"])) * time.Second,
		KillWait:     time.Duration(leadingNumber(values["KillWait"])) * time.Second,
		Accounting:   values["AccountingStorageType"] != "" && !strings.HasSuffix(values["AccountingStorageType"], "none"),
		Requeue:      values["JobRequeue"] == "1",
		UserSignal: strings.Contains(values["SlurmctldParameters"], "preempt_send_user_signal") ||
			strings.Contains(values["PreemptParameters"], "send_user_signal"),
	}
	for option := range strings.SplitSeq(values["SchedulerParameters"], ",") {
		if number, found := strings.CutPrefix(option, "max_array_tasks="); found {
			limits.MaxArrayTasks = leadingNumber(number)
		}
	}
	if limits.MaxArraySize < 1 || limits.MaxJobCount < 1 {
		return Limits{}, exitcode.Unavailablef("scontrol show config printed no MaxArraySize and MaxJobCount; its output begins %q", first(text, 80))
	}
	return limits, nil
}

// leadingNumber reads the number that a value such as "300 sec" begins with;
// 0 when there is none.
func leadingNumber(value string) int {
	rest := strings.TrimLeft(value, "0123456789")
	number, err := strconv.ParseInt(strings.TrimSuffix(value, rest), 10, 32)
	if err != nil {
		return 0
	}
	return int(number)
}

func first(text string, most int) string { return text[:min(most, len(text))] }

// maxSubmit asks the accounting for the least of the limits on submitted jobs
// that bind this user here, in the account and partition that jobs name; 0 when there is
// none or it cannot be told. Slurm enforces its limits in any case: this one only makes
// for fewer refusals.
func (c *Cluster) maxSubmit(ctx context.Context, cluster string) int {
	me, err := user.Current()
	if err != nil {
		return 0
	}
	least := math.MaxInt
	associations := []string{"-n", "-P", "list", "associations", "user=" + me.Username, "cluster=" + cluster, "format=MaxSubmitJobs,Partition"}
	if account := cmp.Or(c.site.Account, os.Getenv("SBATCH_ACCOUNT")); account != "" {
		associations = append(associations, "account="+account)
	} else {
		associations = append(associations, "onlydefaults")
	}
	queries := [][]string{associations}
	if c.site.QOS != "" {
		queries = append(queries, []string{"-n", "-P", "list", "qos", "name=" + c.site.QOS, "format=MaxSubmitJobsPerUser"})
	}
	for _, query := range queries {
		out, err := c.run(ctx, nil, "sacctmgr", query...)
		if err != nil {
			continue // no sacctmgr on this node, or no right to ask
		}
		for line := range strings.Lines(out) {
			limited, partition, _ := strings.Cut(strings.TrimSpace(line), "|")
			if limit := leadingNumber(limited); limit > 0 && (partition == "" || slices.Contains(partitions(c.site.Partition), partition)) {
				least = min(least, limit)
			}
		}
	}
	if least == math.MaxInt {
		return 0
	}
	return least
}
