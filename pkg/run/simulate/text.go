package simulate

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lathe-rl/lathe/pkg/plural"
)

// Text says what a simulated run took.
func (o Outcome) Text(out io.Writer) error {
	var b strings.Builder
	if o.Stuck != "" {
		fmt.Fprintf(&b, "the run fails after %s: %s\n", span(o.WallSeconds), o.Stuck)
	} else {
		fmt.Fprintf(&b, "wall time  %s for %s, %s each; in %.0f %% of it nothing runs\n", span(o.WallSeconds), plural.Count(o.Iterations, "iteration"), span(o.SecondsEachIteration), 100*o.NothingRuns)
	}
	fmt.Fprintf(&b, "used       %s core-hours, %s GPU-hours; %s and %s of them in attempts that made nothing\n", number(o.CoreHours), number(o.GPUHours), number(o.LostCoreHours), number(o.LostGPUHours))
	fmt.Fprintf(&b, "idle       %s of the cores, %s of the GPUs\n", percent(o.IdleCores), percent(o.IdleGPUs))
	fmt.Fprintf(&b, "tasks      %d done, at most %d at once, %d queued; %s, %s\n", o.TasksSimulated, o.MostRunning, o.MostQueued, plural.Count(o.JobArrays, "job array"), plural.Count(o.Gates, "controller job"))
	fmt.Fprintf(&b, "learned    from the responses to %s; %s late, %d of them carried, %d left out\n", plural.Count(o.Prompts, "prompt"), plural.Count(o.LateShards, "shard"), o.CarriedShards, o.LeftOutShards)
	fmt.Fprintf(&b, "files      %d made, at most %d in a folder; about %s metadata operations, %.0f %% of them to see what is done, %s a second\n",
		o.Files.Files, o.Files.InFolder, number(o.Files.MetadataOperations), 100*o.Files.OfGates/max(1, o.Files.MetadataOperations), number(o.Files.MetadataOperations/max(1, o.WallSeconds)))
	if f := o.Files; f.BytesWritten > 0 {
		fmt.Fprintf(&b, "bytes      %s read and %s written of policies, optimizers and gradients; %s and %s an iteration\n",
			size(float64(f.BytesRead)), size(float64(f.BytesWritten)), size(float64(f.BytesReadEachIteration)), size(float64(f.BytesWrittenEachIteration)))
	}
	b.WriteByte('\n')
	table := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "stage\ttasks\tattempts\tfailed\ttimed out\tpreempted\tcancelled\tcore-hours\tGPU-hours\tread\twritten\twaits for the slowest")
	for _, s := range o.Stages {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", s.Stage, s.Tasks, s.Attempts, s.Failed, s.TimedOut, s.Preempted, s.Cancelled, number(s.CoreHours), number(s.GPUHours), size(float64(s.BytesRead)), size(float64(s.BytesWritten)), span(s.SlowestSeconds))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, note := range o.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// Table shows rows one below the other.
func Table(out io.Writer, rows []Row) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "settings\t\twall\tan iteration\tcore-hours\tGPU-hours\tlost\tidle cores\tidle GPUs\tslowest rollout\tprompts\tlate\tleft out\tfiles\tmetadata/s\tread each iteration\twritten")
	charged := "core-hours"
	if useGPUs(rows) {
		charged = "GPU-hours"
	}
	notes := map[string]bool{}
	var inOrder []string
	for _, r := range rows {
		o := r.Outcome
		wall, mark := span(o.WallSeconds), ""
		if r.Unbeaten {
			mark = "*"
		}
		if o.Stuck != "" {
			wall = "fails after " + wall
		}
		slowest := 0.0
		for _, s := range o.Stages {
			if s.Stage == "rollout" {
				slowest = s.SlowestSeconds
			}
		}
		lost := 0.0
		if o.CoreHours > 0 {
			lost = o.LostCoreHours / o.CoreHours
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", strings.Join(r.Set, " "), mark, wall, span(o.SecondsEachIteration), number(o.CoreHours), number(o.GPUHours),
			percent(&lost), percent(o.IdleCores), percent(o.IdleGPUs), span(slowest), o.Prompts, o.LateShards, o.LeftOutShards, o.Files.Files, number(o.Files.MetadataOperations/max(1, o.WallSeconds)),
			size(float64(o.Files.BytesReadEachIteration)), size(float64(o.Files.BytesWrittenEachIteration)))
		for _, note := range o.Notes {
			if !notes[note] {
				notes[note] = true
				inOrder = append(inOrder, note)
			}
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "* no other takes less time and no more %s, or fewer and no more time\n", charged); err != nil {
		return err
	}
	for _, note := range inOrder {
		if _, err := fmt.Fprintf(out, "note: %s\n", note); err != nil {
			return err
		}
	}
	return nil
}

// span words a time.
func span(seconds float64) string {
	switch {
	case seconds < 100:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 48*3600:
		return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
	}
	return fmt.Sprintf("%.1f days", seconds/86400)
}

func percent(share *float64) string {
	if share == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100**share)
}

// size words a number of bytes.
func size(n float64) string {
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if n < 1000 {
			return number(n) + " " + unit
		}
		n /= 1000
	}
	return number(n) + " TB"
}

func number(x float64) string {
	if x >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}
