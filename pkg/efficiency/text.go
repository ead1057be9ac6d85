package efficiency

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/webpage"
)

// meterWidth is the width of jobstats' bars.
const meterWidth = 50

// meter is a bar of jobstats (jobstats, output_formatters.py): two percent a mark,
// and the number at its end.
func meter(share *float64) string {
	if share == nil {
		const unknown = "unknown"
		left := (meterWidth - len(unknown)) / 2
		return "[" + strings.Repeat(" ", left) + unknown + strings.Repeat(" ", meterWidth-len(unknown)-left) + "]"
	}
	percent := int(100**share + 0.5)
	text := fmt.Sprintf("%d%%", percent)
	bars := min(max(0, percent/2), meterWidth-len(text))
	return "[" + strings.Repeat("|", bars) + strings.Repeat(" ", meterWidth-bars-len(text)) + text + "]"
}

// Text prints the report for people.
func (r *Report) Text(out io.Writer) error {
	var b bytes.Buffer
	r.head(&b)
	if !r.Sampled {
		fmt.Fprintf(&b, "\nNothing was sampled: %s.\n", r.Reason)
		_, err := out.Write(b.Bytes())
		return err
	}
	fmt.Fprintf(&b, "\nOverall utilization\n")
	fmt.Fprintf(&b, "  CPU utilization  %s\n", meter(r.Total.CPUShare))
	fmt.Fprintf(&b, "  CPU memory usage %s\n", meter(r.Total.MemoryShare))
	if len(r.GPUs) > 0 {
		fmt.Fprintf(&b, "  GPU utilization  %s\n", meter(r.Total.GPUShare))
		fmt.Fprintf(&b, "  GPU memory usage %s\n", meter(r.Total.GPUMemoryShare))
	}
	for _, t := range r.tables() {
		fmt.Fprintf(&b, "\n%s\n", t.Title)
		webpage.Columns(&b, "  ", 2, append([][]string{t.Head}, t.Rows...))
		if t.Legend != "" {
			fmt.Fprintf(&b, "  %s\n", wrap(t.Legend, 2))
		}
	}
	if len(r.Notes) > 0 {
		fmt.Fprintf(&b, "\nNotes\n")
		for _, n := range r.Notes {
			mark := "*"
			if n.Urgent {
				mark = "!"
			}
			fmt.Fprintf(&b, "  %s %s\n", mark, wrap(n.Text, 4))
		}
	}
	for _, f := range r.Faults {
		fmt.Fprintf(&b, "\nNot read: %s (%s%s, %s)", f.Text, f.Host, blankBefore(f.Device), plural.Count(f.Attempts, "attempt"))
	}
	if len(r.Faults) > 0 {
		b.WriteByte('\n')
	}
	_, err := out.Write(b.Bytes())
	return err
}

func blankBefore(text string) string {
	if text == "" {
		return ""
	}
	return " " + text
}

// wrap breaks a text into lines of at most 78 characters, the later ones indented.
func wrap(text string, indent int) string {
	var b strings.Builder
	width := indent
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case width+1+len(word) > 78:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			width = indent
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += len(word)
	}
	return b.String()
}

// head is that of seff, for a run.
func (r *Report) head(b *bytes.Buffer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(b, "%-26s %s\n", name+":", fmt.Sprintf(format, args...))
	}
	for _, f := range r.facts() {
		line(f[0], "%s", f[1])
	}
}

// facts are the lines of the head.
func (r *Report) facts() [][2]string {
	facts := [][2]string{{"Run ID", r.RunID}, {"Run name", r.Name}}
	add := func(name, format string, args ...any) {
		facts = append(facts, [2]string{name, fmt.Sprintf(format, args...)})
	}
	if r.User != "" {
		add("User", "%s", r.User)
	}
	switch {
	case r.Exit != nil:
		add("State", "%s (exit code %d)", r.State, *r.Exit)
	case r.State != "":
		add("State", "%s", r.State)
	}
	add("Policy updates", "%d", r.Made.PolicyUpdates)
	if !r.Sampled {
		return facts
	}
	add("Sampled", "%s at %s, from %s", plural.Count(r.Attempts, "attempt"), plural.Count(r.Tasks, "task"), r.Start.Format(time.DateTime+" UTC"))
	add("Nodes", "%d: %s", len(r.Nodes), strings.Join(firstOf(r.Nodes, 8), ", "))
	if n := len(r.GPUs); n > 0 {
		add("GPUs", "%d: %s", n, strings.Join(namesOf(r.GPUs), ", "))
	}
	u := r.Total
	add("CPU Utilized", "%s", humanSeconds(u.CPUSeconds))
	add("CPU Efficiency", "%s%% of %s core-walltime", percent(u.CPUShare), humanSeconds(u.CoreSeconds))
	add("Job Wall-clock time", "%s", humanSeconds(r.WallClockSeconds))
	add("Memory Utilized", "%s (of the task that used most)", humanBytes(u.MemoryMaxBytes))
	given := "what the tasks were given"
	if r.unbounded() {
		given = "the memory of their hosts: the tasks have no limit"
	}
	add("Memory Efficiency", "%s%% of %s", percent(u.MemoryShare), given)
	if len(r.GPUs) > 0 {
		add("GPU Efficiency", "%s%% of %s GPU-walltime", percent(u.GPUShare), humanSeconds(u.GPUSeconds))
	}
	lost := "Core time lost"
	if len(r.GPUs) > 0 {
		lost = "GPU time lost"
	}
	unexplained := ""
	if r.LostTo.Unexplained > 0 {
		unexplained = fmt.Sprintf(" (%.1f%% for an unknown reason)", 100*r.LostTo.Unexplained)
	}
	add(lost, "%.1f%% to preemption, %.1f%% to retries%s, %.1f%% to stragglers", 100*r.LostTo.Preemption, 100*r.LostTo.Retries, unexplained, 100*r.LostTo.Stragglers)
	if u.EnergyJoules != nil {
		add("GPU Energy", "%.4g kWh (%.4g J)", *u.EnergyJoules/3.6e6, *u.EnergyJoules)
	}
	return facts
}

func firstOf(names []string, most int) []string {
	if len(names) <= most {
		return names
	}
	return append(names[:most:most], fmt.Sprintf("and %d more", len(names)-most))
}

// unbounded reports whether no task has a bound on its memory.
func (r *Report) unbounded() bool {
	return !slices.ContainsFunc(r.Each, func(a Attempt) bool { return !a.MemoryOfHost })
}

// shortSeconds is a time of a table.
func shortSeconds(seconds float64) string {
	if seconds < 60 {
		return fmt.Sprintf("%.1fs", seconds)
	}
	return humanSeconds(seconds)
}

// namesOf lists the kinds of devices.
func namesOf(gpus []GPU) []string {
	var names []string
	counts := map[string]int{}
	for _, g := range gpus {
		if counts[g.Name] == 0 {
			names = append(names, g.Name)
		}
		counts[g.Name]++
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%d × %s", counts[name], name)
	}
	return names
}

// table is one table, of the text and of the page.
type table struct {
	Title string
	webpage.Table
	Legend string // what the rows mean, below them; empty where they say it
}

// significant is a share in percent with three digits: some are tiny.
func significant(share *float64) string {
	if share == nil {
		return "-"
	}
	return fmt.Sprintf("%.3g", 100**share)
}

func number(v *float64, format string) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}

// tables are those that there is something for.
func (r *Report) tables() []table {
	gpus := len(r.GPUs) > 0
	all := r.stageTables(gpus)
	if len(r.Phases) > 0 {
		all = append(all, r.phaseTable(gpus))
	}
	if gpus {
		all = append(all, r.gpuTable())
	}
	all = append(all, r.costTable(gpus)...)
	if len(r.Tails) > 0 {
		t := table{Title: "Arrays that waited longest for their slowest task", Table: webpage.Table{Head: []string{"SLOWEST TASK", "OF", "MEDIAN_S", "SLOWEST_S", "NODE"}}}
		if r.Tail != nil {
			t.Title += fmt.Sprintf(" (all arrays: %.1f%% of the wall clock)", 100**r.Tail)
		}
		for _, tail := range r.Tails[:min(5, len(r.Tails))] {
			t.Rows = append(t.Rows, []string{
				tail.SlowestTask, fmt.Sprint(tail.Tasks), fmt.Sprintf("%.1f", tail.MedianSeconds), fmt.Sprintf("%.1f", tail.LastSeconds), tail.SlowestHost,
			})
		}
		all = append(all, t)
	}
	return all
}

// stageTables are what stages used of cores and memory, and of GPUs.
func (r *Report) stageTables(gpus bool) []table {
	host := table{Title: "By stage", Table: webpage.Table{Head: []string{"STAGE", "ATTEMPTS", "TIME", "CPU%", "MEM%"}}}
	device := table{
		Title: "By stage: GPUs",
		Table: webpage.Table{Head: []string{"STAGE", "GPU_TIME", "GPU%", "GMEM%", "SM_ACT%", "OCC%", "TENSOR%", "DRAM%", "POWER_W", "SLOWED%", "MFU%"}},
	}
	row := func(name string, attempts int, u Use, mfu *float64) {
		host.Rows = append(host.Rows, []string{name, fmt.Sprint(attempts), shortSeconds(u.Seconds), percent(u.CPUShare), percent(u.MemoryShare)})
		if u.GPUSeconds > 0 {
			device.Rows = append(device.Rows, []string{
				name, shortSeconds(u.GPUSeconds), percent(u.GPUShare), percent(u.GPUMemoryShare), percent(u.SMActiveShare), percent(u.SMOccupancyShare),
				percent(u.TensorShare), percent(u.DRAMShare), number(u.PowerWatts, "%.0f"), percent(u.SlowdownShare), significant(mfu),
			})
		}
	}
	for _, s := range r.Stages {
		row(s.Stage, s.Attempts, s.Use, s.MFU)
	}
	row("all", r.Attempts, r.Total, nil)
	if !gpus {
		return []table{host}
	}
	return []table{host, device}
}

func (r *Report) phaseTable(gpus bool) table {
	t := table{Title: "By phase", Table: webpage.Table{Head: []string{"PHASE", "TIME", "SHARE%", "CPU%", "LONGEST", "IN"}}}
	if gpus {
		t.Head = append(t.Head, "GPU_TIME", "GPU%", "POWER_W")
	}
	for _, p := range r.Phases {
		cells := []string{p.Phase, shortSeconds(p.Seconds), fmt.Sprintf("%.1f", 100*p.Share), percent(p.CPUShare), shortSeconds(p.LongestSeconds), p.LongestTask}
		if gpus {
			cells = append(cells, shortSeconds(p.GPUSeconds), percent(p.GPUShare), number(p.PowerWatts, "%.0f"))
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

func (r *Report) gpuTable() table {
	t := table{Title: "GPUs, over the tasks that held them", Table: webpage.Table{Head: []string{"NODE", "GPU", "HELD", "GPU%", "MEMORY (highest)", "SM_ACT%", "TENSOR%", "POWER_W", "MAX_C", "ERRORS"}}}
	for _, g := range r.GPUs {
		index := fmt.Sprint(g.Index)
		if g.Index < 0 {
			index = "MIG"
		}
		errors := "-"
		if g.ECCUncorrected != nil {
			errors = fmt.Sprintf("%.0f ECC", *g.ECCUncorrected)
		}
		if len(g.XIDs) > 0 {
			errors = fmt.Sprintf("XID %v", g.XIDs)
		}
		memory := "-"
		if g.MemoryTotalBytes > 0 {
			memory = fmt.Sprintf("%s/%s (%s%%)", humanBytes(g.MemoryMaxBytes), humanBytes(g.MemoryTotalBytes), percent(g.GPUMemoryShare))
		}
		t.Rows = append(t.Rows, []string{
			g.Host, index, shortSeconds(g.HeldSeconds), percent(g.GPUShare), memory, percent(g.SMActiveShare), percent(g.TensorShare),
			number(g.PowerWatts, "%.0f"), number(g.TemperatureMax, "%.0f"), errors,
		})
	}
	return t
}

func (r *Report) costTable(gpus bool) []table {
	t := table{Title: "Cost of one, of all that was sampled", Table: webpage.Table{Head: []string{"", "CORE_S", "GPU_S", "JOULES"}}}
	for _, c := range []struct {
		name string
		of   *Unit
	}{{"policy update", r.Cost.PerUpdate}, {"trained response", r.Cost.PerTrained}, {"accepted sample", r.Cost.PerAccepted}} {
		if c.of != nil {
			t.Rows = append(t.Rows, []string{c.name, fmt.Sprintf("%.4g", c.of.CoreSeconds), number(c.of.GPUSeconds, "%.4g"), number(c.of.EnergyJoules, "%.4g")})
		}
	}
	unit := "CORE_S"
	if gpus {
		unit = "GPU_S"
	}
	lost := table{Title: "Lost: attempts that made nothing, and stragglers", Table: webpage.Table{Head: []string{"LOST_TO", "CAUSE", "ATTEMPTS", unit, "SHARE%"}}}
	var meanings []string
	for _, l := range r.Lost {
		lost.Rows = append(lost.Rows, []string{l.To, l.Cause, fmt.Sprint(l.Attempts), fmt.Sprintf("%.1f", l.Seconds), fmt.Sprintf("%.1f", 100*l.Share)})
		meanings = append(meanings, l.Cause+": "+l.Means+".")
	}
	lost.Legend = strings.Join(meanings, " ")
	if len(lost.Rows) == 0 {
		lost.Rows = [][]string{{"nothing", "-", "0", "0.0", "0.0"}}
	}
	if len(t.Rows) == 0 {
		return []table{lost}
	}
	return []table{t, lost}
}
