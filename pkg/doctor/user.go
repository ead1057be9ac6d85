package doctor

import (
	"context"
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// association is what sacctmgr says of one account of a user, or of one partition of
// it. 0 is no bound.
type association struct {
	account, partition string
	submitted, running int    // jobs in the queue, jobs that run
	qos                string // that its jobs have which name none
}

// parseAssociations reads the output of sacctmgr: ACCOUNT|PARTITION|MAXSUBMITJOBS|
// MAXJOBS|QOS|DEFAULTQOS.
func parseAssociations(text string) (all []association) {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 6 {
			continue
		}
		a := association{account: fields[0], partition: fields[1], submitted: jobs(fields[2]), running: jobs(fields[3]), qos: fields[5]}
		switch {
		case a.qos != "":
		case fields[4] != "" && !strings.Contains(fields[4], ","):
			a.qos = fields[4]
		default:
			a.qos = "normal" // as Slurm has it
		}
		all = append(all, a)
	}
	return all
}

// jobs reads a bound on jobs; empty and -1 are none.
func jobs(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// bound is one bound on jobs and where it stands.
type bound struct {
	jobs int
	from string
}

// bounds are those on the jobs of a user. Slurm takes the first that is set of the
// partition's QOS, the job's and the association; the least of them is never too much.
type bounds struct{ submitted, running []bound }

func (b *bounds) add(submitted, running int, suffix, of string) {
	if submitted > 0 {
		b.submitted = append(b.submitted, bound{submitted, fmt.Sprintf("MaxSubmitJobs%s = %d of %s", suffix, submitted, of)})
	}
	if running > 0 {
		b.running = append(b.running, bound{running, fmt.Sprintf("MaxJobs%s = %d of %s", suffix, running, of)})
	}
}

// addQOS adds what sacctmgr says of QOS: NAME|MAXSUBMITJOBSPERUSER|MAXJOBSPERUSER.
func (b *bounds) addQOS(text string) {
	for line := range strings.Lines(text) {
		if fields := strings.Split(strings.TrimSpace(line), "|"); len(fields) == 3 {
			b.add(jobs(fields[1]), jobs(fields[2]), "PerUser", "QOS "+fields[0])
		}
	}
}

// reportUser says what this user may have in the queue.
func (c *Cluster) reportUser(ctx context.Context, r *Report, config map[string]string) {
	const about = "your limits"
	if strings.HasSuffix(config["AccountingStorageType"], "none") || config["AccountingStorageType"] == "" {
		r.add(about, Unknown, "no accounting, so no limits per user", "scontrol show config: AccountingStorageType")
		return
	}
	me, err := user.Current()
	if err != nil {
		r.add(about, Unknown, err.Error(), "the user of this process")
		return
	}
	from := "sacctmgr list associations user=" + me.Username
	out, err := c.Slurm.Ask(ctx, nil, "sacctmgr", "-n", "-P", "list", "associations", "user="+me.Username, "cluster="+config["ClusterName"], "format=Account,Partition,MaxSubmitJobs,MaxJobs,QOS,DefaultQOS")
	if err != nil {
		r.add(about, Unknown, err.Error(), from)
		return
	}
	var found bounds
	var accounts, qos []string
	for _, a := range parseAssociations(out) {
		if !slices.Contains(accounts, a.account) {
			accounts = append(accounts, a.account)
		}
		if c.Site.Account != "" && a.account != c.Site.Account || a.partition != "" && a.partition != c.Partition.Name {
			continue // of other jobs
		}
		found.add(a.submitted, a.running, "", "account "+a.account)
		qos = append(qos, a.qos)
	}
	if len(accounts) == 0 {
		r.add("your accounts", Note, "none", from)
	} else {
		r.add("your accounts", OK, strings.Join(accounts, ", "), from)
	}
	if c.Site.QOS != "" {
		qos = []string{c.Site.QOS}
	}
	if out, err := c.Slurm.Ask(ctx, nil, "scontrol", "-o", "show", "partition", c.Partition.Name); err == nil {
		qos = append(qos, partitionQOS(out)...)
	}
	slices.Sort(qos)
	if qos = slices.Compact(qos); len(qos) > 0 {
		list := []string{"list", "qos", "name=" + strings.Join(qos, ","), "format=Name,MaxSubmitJobsPerUser,MaxJobsPerUser"}
		from += "; sacctmgr " + strings.Join(list[:3], " ")
		if out, err = c.Slurm.Ask(ctx, nil, "sacctmgr", append([]string{"-n", "-P"}, list...)...); err != nil {
			r.add("your QOS", Unknown, err.Error(), "sacctmgr list qos")
		}
		found.addQOS(out) // nothing after a failure
	}
	reportBounds(r, "your jobs in the queue", "max_submit", "MaxSubmitJobs", from, found.submitted)
	reportBounds(r, "your running jobs", "throttle", "MaxJobs", from, found.running)
}

// partitionQOS is the QOS of a partition, if it has one, as scontrol shows it.
func partitionQOS(text string) []string {
	for word := range strings.FieldsSeq(text) {
		if name, is := strings.CutPrefix(word, "QoS="); is && name != "" && name != "N/A" {
			return []string{name}
		}
	}
	return nil
}

// reportBounds says the least of the bounds and where each stands.
func reportBounds(r *Report, about, field, limit, from string, all []bound) {
	if len(all) == 0 {
		r.add(about, OK, "no limit of your own", from+": no "+limit)
		return
	}
	least, places := all[0].jobs, []string{}
	for _, b := range all {
		least, places = min(least, b.jobs), append(places, b.from)
	}
	r.add(about, OK, fmt.Sprintf("at most %d, each array task counts", least), from+": "+strings.Join(places, ", "), fmt.Sprintf("%s: %d", field, least))
}
