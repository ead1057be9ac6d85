package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/site"
)

// Cluster is a Slurm cluster that is looked at.
type Cluster struct {
	Slurm     *slurm.Cluster
	Site      site.Profile // what is known of it already: partition, account and so on
	Folder    string       // in which runs are to lie
	Binary    string       // lathe, as nodes see it
	Partition Partition    // of Look: the one that jobs go to
}

// Partition is what sinfo says of one.
type Partition struct {
	Name     string
	Default  bool
	Minutes  int // longest time limit; 0 for no bound
	Nodes    int
	AllCPUs  int // of all nodes
	CPUs     int // of the largest node
	MemoryMB int // of the largest node
	GPUs     int // of all nodes
	GPUType  string
}

// Look asks the cluster about itself: its configuration, its partitions, this
// user's limits, and which flags it takes. A question that has no answer is a finding, and
// the others are asked all the same. It reports whether a cluster answers at all.
func (c *Cluster) Look(ctx context.Context, r *Report) (answers bool) {
	config, err := c.Slurm.Hasty().Config(ctx)
	if err != nil {
		r.add("Slurm", Problem, err.Error(), "scontrol show config; to inspect only this machine: --local")
	}
	if errors.Is(err, slurm.ErrNoCluster) {
		// Each of the other questions would wait as long for the same answer.
		for _, about := range []string{"partitions", "your limits", "a job", "between nodes"} {
			r.add(about, Unknown, "not checked: no cluster answers", "the line about Slurm")
		}
		return false
	}
	if err == nil {
		c.reportConfig(r, config)
	}
	if err := c.lookAtPartitions(ctx, r); err != nil {
		r.add("partitions", Problem, strings.Join(append([]string{err.Error()}, exitcode.Hints(err)...), "; "), "sinfo")
	}
	c.reportUser(ctx, r, config)
	c.tryFlags(ctx, r)
	return true
}

func (c *Cluster) lookAtPartitions(ctx context.Context, r *Report) error {
	out, err := c.Slurm.Ask(ctx, nil, "sinfo", "-h", "-e", "-o", "%P|%a|%l|%D|%c|%m|%G")
	if err != nil {
		return err
	}
	partitions, err := parsePartitions(out)
	if err != nil {
		return err
	}
	return c.choosePartition(r, partitions)
}

// reportConfig says what of slurm.conf matters.
func (c *Cluster) reportConfig(r *Report, config map[string]string) {
	value := func(key string) string { return config[key] }
	from := func(key string) string {
		return fmt.Sprintf("scontrol show config: %s = %s", key, cmp.Or(value(key), "none"))
	}
	number := func(key string) int {
		digits, _, _ := strings.Cut(value(key), " ")
		n, err := strconv.Atoi(digits)
		if err != nil {
			return 0
		}
		return n
	}
	r.add("Slurm", OK, value("SLURM_VERSION"), from("SLURM_VERSION"))
	accounting := value("AccountingStorageType") != "" && !strings.HasSuffix(value("AccountingStorageType"), "none")
	if accounting {
		r.add("accounting", OK, "on: sacct reports jobs that the queue has forgotten", from("AccountingStorageType"))
	} else {
		r.add("accounting", Note, "off: for jobs that ended longer than MinJobAge ago, only Lathe's files tell the cause", from("AccountingStorageType"))
	}
	if size := number("MaxArraySize"); size > 0 {
		r.add("array size", OK, fmt.Sprintf("indices up to %d; longer arrays are split", size-1), from("MaxArraySize"), fmt.Sprintf("max_array_size: %d", size))
	}
	r.add("jobs of the controller", OK, value("MaxJobCount"), from("MaxJobCount"))
	for option := range strings.SplitSeq(value("SchedulerParameters"), ",") {
		if tasks, found := strings.CutPrefix(option, "max_array_tasks="); found {
			r.add("tasks of an array", OK, "at most "+tasks, "scontrol show config: SchedulerParameters has "+option)
		}
	}
	level := OK
	if number("MinJobAge") < 120 {
		level = Note
	}
	r.add("memory of the queue", level, fmt.Sprintf("the queue forgets jobs %d s after their end", number("MinJobAge")), from("MinJobAge"))
	level = OK
	if number("KillWait") < 20 {
		level = Note
	}
	r.add("time to stop", level, fmt.Sprintf("%d s from SIGTERM to SIGKILL; tasks need up to 20 s", number("KillWait")), from("KillWait"))
	r.add("preemption", OK, cmp.Or(value("PreemptType"), "none")+", "+cmp.Or(value("PreemptMode"), "none"), "scontrol show config: PreemptType, PreemptMode")
	if strings.Contains(value("SlurmctldParameters")+","+value("PreemptParameters"), "send_user_signal") {
		r.add("signal before preemption", OK, "the user's signal, then SIGTERM", "scontrol show config: send_user_signal among its parameters")
	} else {
		r.add("signal before preemption", OK, "only SIGTERM, which tasks handle in the same way", "scontrol show config: no send_user_signal among its parameters")
	}
	if value("JobRequeue") == "1" {
		r.add("requeueing", OK, "on", from("JobRequeue"), "requeue: true")
	} else {
		r.add("requeueing", Note, "off by default; Lathe's jobs request it, otherwise a preempted task would be submitted again", from("JobRequeue"), "requeue: true")
	}
	if codes := value("RequeueExit"); codes != "" && codes != "(null)" {
		r.add("exit codes that requeue", Note, codes, from("RequeueExit"))
	}
	expiry := "120"
	for option := range strings.SplitSeq(value("AuthInfo"), ",") {
		if seconds, found := strings.CutPrefix(option, "cred_expire="); found {
			expiry = seconds
		}
	}
	r.add("start after requeueing", OK, fmt.Sprintf("not before %s s", expiry), from("AuthInfo")+": cred_expire, or 120")
	r.add("generic resources", OK, cmp.Or(strings.Trim(value("GresTypes"), "()"), "none"), from("GresTypes"))
}

// parsePartitions reads the output of sinfo: NAME|STATE|LIMIT|NODES|CPUS|MB|GRES, a
// line for each kind of node.
func parsePartitions(text string) ([]Partition, error) {
	var all []Partition
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 7 {
			return nil, exitcode.Unavailablef("sinfo printed an invalid line: %q", line)
		}
		if fields[1] != "up" {
			continue
		}
		p := Partition{Name: strings.TrimSuffix(fields[0], "*"), Default: strings.HasSuffix(fields[0], "*"), Minutes: slurm.ParseMinutes(fields[2])}
		p.Nodes, _ = strconv.Atoi(fields[3]) // what is no number counts as 0
		p.CPUs, _ = strconv.Atoi(strings.TrimSuffix(fields[4], "+"))
		p.MemoryMB, _ = strconv.Atoi(strings.TrimSuffix(fields[5], "+"))
		p.AllCPUs = p.Nodes * p.CPUs
		gpus, kind := parseGRES(fields[6])
		p.GPUs, p.GPUType = gpus*p.Nodes, kind
		if last := len(all) - 1; last >= 0 && all[last].Name == p.Name {
			was := &all[last]
			was.Nodes, was.AllCPUs, was.GPUs = was.Nodes+p.Nodes, was.AllCPUs+p.AllCPUs, was.GPUs+p.GPUs
			was.CPUs, was.MemoryMB = max(was.CPUs, p.CPUs), max(was.MemoryMB, p.MemoryMB)
			was.GPUType = cmp.Or(was.GPUType, p.GPUType)
			continue
		}
		all = append(all, p)
	}
	return all, nil
}

// parseGRES reads the GPUs of a node out of its generic resources: gpu:2,
// gpu:h100:8(S:0-1).
func parseGRES(text string) (count int, kind string) {
	for part := range strings.SplitSeq(text, ",") {
		part, _, _ = strings.Cut(part, "(")
		words := strings.Split(part, ":")
		if words[0] != "gpu" || len(words) < 2 {
			continue
		}
		n, err := strconv.Atoi(words[len(words)-1])
		if err != nil {
			continue
		}
		count += n
		if len(words) == 3 {
			kind = words[1]
		}
	}
	return count, kind
}

// choosePartition takes the one that the site names, or the default.
func (c *Cluster) choosePartition(r *Report, all []Partition) error {
	var names []string
	found := -1
	for i, p := range all {
		names = append(names, p.Name)
		if c.Site.Partition == p.Name || c.Site.Partition == "" && p.Default {
			found = i
		}
	}
	if found < 0 {
		if c.Site.Partition != "" {
			return exitcode.WithHint(exitcode.Usagef("no partition %q is up", c.Site.Partition), "partitions: %s", strings.Join(names, ", "))
		}
		return exitcode.WithHint(exitcode.Usagef("this cluster has no default partition"), "name one with --partition: %s", strings.Join(names, ", "))
	}
	p := all[found]
	c.Partition = p
	const from = "sinfo"
	r.add("partitions", OK, strings.Join(names, ", "), from)
	how := "the default"
	if c.Site.Partition != "" {
		how = "as requested"
	}
	r.add("partition", OK, p.Name+", "+how, from, "partition: "+strconv.Quote(p.Name))
	limit := "no limit"
	if p.Minutes > 0 {
		limit = plural.Count(p.Minutes, "minute")
		r.add("time limit", OK, limit, from+": "+p.Name, fmt.Sprintf("max_minutes: %d", p.Minutes))
	} else {
		r.add("time limit", OK, limit, from+": "+p.Name)
	}
	// Where nodes differ, plans count as many of the largest as make up the cores of all.
	whole := p.Nodes
	if p.CPUs > 0 {
		whole = max(1, p.AllCPUs/p.CPUs)
	}
	r.add("nodes", OK, fmt.Sprintf("%d, of %s together", p.Nodes, plural.Count(p.AllCPUs, "core")), from+": "+p.Name, fmt.Sprintf("nodes: %d", whole))
	r.add("cores of a node", OK, fmt.Sprintf("%d, of the largest", p.CPUs), from+": "+p.Name, fmt.Sprintf("node_cpus: %d", p.CPUs))
	r.add("memory of a node", OK, fmt.Sprintf("%d MiB, of the largest", p.MemoryMB), from+": "+p.Name, fmt.Sprintf("node_memory_gb: %.4g", math.Floor(float64(p.MemoryMB)/1024*100)/100))
	if p.GPUs > 0 {
		r.add("GPUs", OK, fmt.Sprintf("%d of type %s", p.GPUs, cmp.Or(p.GPUType, "none")), from+": "+p.Name, fmt.Sprintf("gpus: %d", p.GPUs))
	} else {
		r.add("GPUs", OK, "none", from+": "+p.Name)
	}
	return nil
}

// tryFlags asks Slurm, without submitting anything, whether it takes a job with
// certain flags.
func (c *Cluster) tryFlags(ctx context.Context, r *Report) {
	try := func(flags ...string) error {
		args := append(c.BaseFlags(), "--test-only", "--output=/dev/null", "--nodes=1", "--ntasks=1", "--cpus-per-task=1", "--time=1")
		_, err := c.Slurm.Ask(ctx, []byte("#!/bin/sh\ntrue\n"), "sbatch", append(args, flags...)...)
		return err
	}
	const from = "sbatch --test-only with "
	if err := try(); err != nil {
		r.add("a job", Problem, err.Error(), from+strings.Join(append(c.BaseFlags(), "one core"), " "))
		return
	}
	r.add("a job", OK, "is accepted", from+"one core")
	if err := try("--mem=100M"); err != nil {
		r.add("--mem", Note, err.Error(), from+"--mem=100M", "memory_flag: false")
	} else {
		r.add("--mem", OK, "is accepted", from+"--mem=100M", "memory_flag: true")
		usual := fmt.Sprintf("--mem=%dM", recipe.DefaultMemoryGB<<10)
		if err := try(usual); err != nil {
			r.add("memory of a task", Note, fmt.Sprintf("no node has the %d GiB that tasks request by default: set resources.stages.*.memory_gb (%v)", recipe.DefaultMemoryGB, err), from+usual)
		}
	}
	if c.Partition.GPUs == 0 {
		return
	}
	styles := []struct{ name, flag string }{{"gres", "--gres=gpu:1"}, {"gpus-per-node", "--gpus-per-node=1"}, {"gpus-per-task", "--gpus-per-task=1"}, {"gpus", "--gpus=1"}}
	taken := false
	for _, style := range styles {
		err := try(style.flag)
		switch {
		case err != nil:
			r.add("--"+style.name, Note, err.Error(), from+style.flag)
		case taken:
			r.add("--"+style.name, OK, "is accepted", from+style.flag)
		default:
			taken = true
			r.add("--"+style.name, OK, "is accepted", from+style.flag, "gpu_flag: "+style.name)
		}
	}
	if !taken {
		r.add("GPUs", Problem, "no flag to request one is accepted", from+"each of them", "gpu_flag: none")
	}
}

// BaseFlags are what every job gets of what the site names.
func (c *Cluster) BaseFlags() []string {
	var flags []string
	for flag, value := range map[string]string{"partition": c.Partition.Name, "account": c.Site.Account, "qos": c.Site.QOS, "constraint": c.Site.Constraint, "reservation": c.Site.Reservation} {
		if value != "" {
			flags = append(flags, "--"+flag+"="+value)
		}
	}
	return append(flags, c.Site.Extra...)
}

// Given are the settings of the site that were named and not found out.
func (c *Cluster) Given(r *Report) {
	for _, s := range []struct{ field, value string }{{"account", c.Site.Account}, {"qos", c.Site.QOS}, {"constraint", c.Site.Constraint}, {"reservation", c.Site.Reservation}} {
		if s.value != "" {
			r.add(s.field, OK, s.value, "what was asked for", s.field+": "+strconv.Quote(s.value))
		}
	}
}

// trialFolder makes a folder for two nodes to meet in.
func (c *Cluster) trialFolder() (string, error) {
	folder, err := filepath.Abs(c.Folder)
	if err != nil {
		return "", err
	}
	trial, err := os.MkdirTemp(folder, ".lathe-doctor-")
	if err != nil {
		return "", exitcode.IOf("create the folder for the nodes' test files: %w", err)
	}
	return trial, nil
}
