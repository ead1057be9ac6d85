package efficiency

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// Read sums up what the monitors of a run have seen. open is how Slurm is asked what
// became of a run that was handed to it; nil for not at all.
func Read(ctx context.Context, r *rundir.Run, open func() (*advance.Advancer, error)) (*Report, error) {
	report := &Report{
		RunID: r.Identity.RunID, Name: r.Identity.Name, Folder: string(r.Dir),
		Nodes: []string{}, Stages: []StageUse{}, Phases: []PhaseUse{}, GPUs: []GPU{}, Lost: []Loss{}, Tails: []Tail{}, Notes: []Note{}, Faults: []Fault{}, Each: []Attempt{},
	}
	var err error
	if report.Made, err = made(ctx, r); err != nil {
		return nil, err
	}
	attempts, err := readAttempts(ctx, r)
	if err != nil {
		return nil, err
	}
	var advancer *advance.Advancer
	var unasked error
	if open != nil && (advance.HasSubmissions(r.Dir) || slices.ContainsFunc(attempts, Attempt.ofSlurm)) {
		advancer, unasked = open()
	}
	if err := report.readState(ctx, r, advancer, unasked); err != nil {
		return nil, err
	}
	if len(attempts) == 0 {
		report.Reason = "no task of this run was monitored: lathe run --monitor all monitors every task, and monitor: in the site profile selects tasks on a cluster"
		return report, nil
	}
	outputs, err := readOutputs(ctx, r, attempts)
	if err != nil {
		return nil, err
	}
	var reported slurmReport
	if advancer != nil {
		if reported, unasked = ask(ctx, advancer, attempts, outputs); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	report.User = reported.user
	if unasked != nil {
		report.Unasked = unasked.Error()
	}
	if err := decide(ctx, r, attempts, outputs, reported); err != nil {
		return nil, err
	}
	report.sum(attempts)
	for i := range report.Stages {
		s := &report.Stages[i]
		for _, a := range attempts {
			if a.Stage == s.Stage && a.Disposition == dispositionKept {
				s.LongestSeconds = max(s.LongestSeconds, a.Seconds)
			}
		}
		if stage, err := graph.ParseStage(s.Stage); err == nil {
			s.LimitSeconds = 60 * float64(r.Graph.Request(stage).Minutes)
		}
	}
	report.Faults = faultsOf(attempts, func(a Attempt) bool {
		task, known := parseTask(a.Task)
		return known && r.Graph.Request(task.Stage).GPUs > 0
	})
	addFLOPs(ctx, r, attempts, report.Stages)
	report.Cost = costOf(report.Total, len(report.GPUs) > 0, report.Made)
	report.Notes = notes(report)
	return report, nil
}

// sum fills in what follows from the attempts alone.
func (r *Report) sum(attempts []Attempt) {
	r.Sampled, r.Each, r.Attempts = true, attempts, len(jobsOf(attempts))
	start, end := attempts[0].Start, attempts[0].Start
	tasks := map[string]bool{}
	for _, a := range attempts {
		tasks[a.Task] = true
		if a.Start.Before(start) {
			start = a.Start
		}
		if ended := a.end(); ended.After(end) {
			end = ended
		}
	}
	r.Start, r.End, r.Tasks = &start, &end, len(tasks)
	r.WallClockSeconds = end.Sub(start).Seconds()
	r.Nodes = nodesOf(attempts)
	r.Total, r.Stages, r.Phases, r.GPUs = useOf(attempts), byStage(attempts), byPhase(attempts), byGPU(attempts)
	r.Shared = shared(attempts)
	arrays := arraysOf(attempts)
	r.Lost, r.LostTo = losses(attempts, arrays, len(r.GPUs) > 0)
	r.Tails, r.Tail = tails(arrays, r.WallClockSeconds)
	r.Own = ownCost(attempts)
}

// faultsOf gathers what could not be read, the most frequent first. What a kind of
// device does not have is no fault of the run, nor that there is no GPU where none
// was asked for.
func faultsOf(attempts []Attempt, wantsGPU func(Attempt) bool) []Fault {
	type place struct{ text, host, device string }
	counts := map[place]int{}
	for _, a := range attempts {
		for f := range a.parts.faults {
			if strings.HasSuffix(f.text, ": not supported by this device") {
				continue
			}
			if len(a.GPUs) == 0 && !wantsGPU(a) && strings.HasPrefix(f.text, "opening NVML") || strings.HasPrefix(f.text, "finding GPUs") && !wantsGPU(a) {
				continue // a task that was given no GPU has none
			}
			counts[place{f.text, a.Host, f.device}]++
		}
	}
	faults := []Fault{}
	for at, n := range counts {
		faults = append(faults, Fault{Text: at.text, Host: at.host, Device: at.device, Attempts: n})
	}
	slices.SortFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(b.Attempts, a.Attempts), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Text, b.Text))
	})
	return faults
}

// ownCost is what the monitors took.
func ownCost(attempts []Attempt) MonitorCost {
	var c MonitorCost
	var seconds, cpu float64
	for _, a := range attempts {
		c.Samples += a.parts.samples
		c.DiskBytes += a.parts.bytes
		c.MaxBytes = max(c.MaxBytes, a.parts.of("", monitor.MonitorMemoryBytes).max)
		if own := a.parts.of("", monitor.MonitorCPUSeconds); own.count > 1 {
			seconds += a.Seconds
			cpu += own.grown
		}
	}
	c.CPUShare = share(cpu, seconds)
	return c
}

// percent is a share in percent, or a hyphen.
func percent(share *float64) string {
	if share == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100**share)
}
