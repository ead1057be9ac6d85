package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/site"
)

// dryRun shows what a run would start.
func (o LaunchOptions) dryRun(ctx context.Context, out io.Writer) error {
	g, policyFolder, err := o.planned(ctx)
	if err != nil {
		return err
	}
	found, err := o.profile(genericSite)
	if err != nil {
		return err
	}
	if err := checkNodes(g, found.Site); err != nil {
		return err
	}
	if err := o.printArrays(out, g); err != nil {
		return err
	}
	if err := o.printAsked(out, g, policyFolder, found.Site); err != nil {
		return err
	}
	if o.Executor == "slurm" {
		return dryRunSlurm(ctx, out, g, found)
	}
	if err := checkHost(g.Recipe); err != nil {
		printNotes(os.Stderr, []string{"this machine cannot run it: " + err.Error()})
	}
	return nil
}

// printArrays writes the arrays of a run: one line for each stage, or with --verbose for
// each array.
func (o LaunchOptions) printArrays(out io.Writer, g graph.Graph) error {
	nodes := g.Nodes()
	arrays, total, most := map[graph.Stage]int{}, map[graph.Stage]int{}, ""
	for _, n := range nodes {
		arrays[n.Stage]++
		total[n.Stage] += g.Shards(n)
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "ARRAY\tTASKS\tCORES\tGPUS\tMINUTES\tCOMMAND")
	shown := map[graph.Stage]bool{}
	for _, n := range nodes {
		tasks := g.Shards(n)
		count := fmt.Sprint(tasks)
		if n.Wave > 0 { // as many as have something that waits
			count, most = fmt.Sprintf("0 to %d", tasks), " at most"
		}
		if shown[n.Stage] && !o.Verbose {
			continue
		}
		name := n.String()
		if more := arrays[n.Stage] - 1; more > 0 && !o.Verbose {
			name += fmt.Sprintf(" and %d more", more)
		}
		shown[n.Stage] = true
		q := g.Request(n.Stage)
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%s\n", name, count, q.CPUs, q.GPUs, q.Minutes, strings.Join(g.Command("", n), " "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	sum := 0
	fmt.Fprintf(out, "total%s:", most)
	for _, s := range graph.Stages() {
		if total[s] > 0 {
			fmt.Fprintf(out, " %d %s,", total[s], s)
			sum += total[s]
		}
	}
	_, err := fmt.Fprintf(out, " %s in %s\n", plural.Count(sum, "task"), plural.Count(len(nodes), "array"))
	return err
}

// rehearsalLimits are those of the cluster, which is nil where there is none to ask: then
// they are the site profile's and Slurm's own defaults (slurm.conf(5)).
func rehearsalLimits(ctx context.Context, site site.Profile) (slurm.Limits, *slurm.Cluster) {
	cluster, err := slurm.Open(site)
	if err == nil {
		var limits slurm.Limits
		if limits, err = cluster.Hasty().Limits(ctx); err == nil {
			return limits, cluster
		}
	}
	fmt.Fprintf(os.Stderr, "lathe: the cluster's limits are unknown, so Slurm's defaults are used: %v\n", err)
	return simulatedLimits(site), nil
}

// simulatedLimits are those of a cluster that is not asked: the site profile's, and
// where it says nothing Slurm's own defaults (slurm.conf(5)).
func simulatedLimits(site site.Profile) slurm.Limits {
	limits := slurm.Limits{MaxArraySize: 1001, MaxJobCount: 10000, MaxSubmit: site.MaxSubmit}
	if site.MaxArraySize > 0 {
		limits.MaxArraySize = site.MaxArraySize
	}
	return limits
}

// dryRunSlurm shows the job scripts that the first arrays would be submitted
// with.
func dryRunSlurm(ctx context.Context, out io.Writer, g graph.Graph, resolved *site.Resolved) error {
	profile := resolved.Site
	limits, cluster := rehearsalLimits(ctx, profile)
	binaries, err := binaryFolder()
	if err != nil {
		return err
	}
	planned := &rundir.Run{Dir: g.Dir, Identity: rundir.Identity{RunID: "RUN"}, Recipe: g.Recipe, Graph: g}
	if cluster != nil {
		if err := advance.TryStages(ctx, cluster, planned, *resolved, limits, binaries); err != nil {
			return err
		}
	}
	shown := map[graph.Stage]bool{}
	for _, n := range g.Nodes() {
		shards := make([]int, g.Shards(n))
		for i := range shards {
			shards[i] = i
		}
		array := drive.ArrayOf(planned, n, shards, 0, binaries, profile.Monitor)
		chunks, err := slurm.Plan(array, limits, profile.Throttle)
		if err != nil {
			return err
		}
		if shown[n.Stage] {
			continue
		}
		shown[n.Stage] = true
		script, err := slurm.Script(array, chunks[0], profile)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\n# %s: %s in %s; the first:\n%s", n, plural.Count(len(shards), "task"), plural.Count(len(chunks), "job array"), script)
	}
	return nil
}
