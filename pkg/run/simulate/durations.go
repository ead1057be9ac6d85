package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Durations are how long tasks take, measured or given.
type Durations struct {
	samples map[graph.Stage][]sample // of tasks that were measured
	goesOn  map[graph.Stage]float64  // share of those that a trace goes on in

	stages   map[graph.Stage]taskWork
	rate     float64 // bytes a second that a task reads or writes; 0: they take no time of their own
	start    wait    // of each attempt
	gate     wait
	queue    wait
	turnover wait
}

// taskWork is what a task of a stage takes, beside what it reads and writes.
type taskWork struct {
	fixed, unit float64 // seconds of a task, and of each unit in it
	goesOn      float64
	spread
	alone *sample // the middle of the tasks that were measured, where all are of about one size
}

// sample is a task that was done.
type sample struct {
	units   float64
	bytes   float64 // read and written
	seconds float64
}

// Measured is a run whose tasks are measured.
type Measured struct {
	*rundir.Run
	Sizes Sizes
}

// Measure reads how long the tasks of runs took, from the manifests of what they
// sealed, and what passed between them: the start of a task where a driver started
// it; a gate, the wait in the queue and the turnover of places where that was Slurm.
func Measure(ctx context.Context, runs []Measured) (Durations, error) {
	d := Durations{samples: map[graph.Stage][]sample{}, goesOn: map[graph.Stage]float64{}}
	on, ended := map[graph.Stage]int{}, map[graph.Stage]int{}
	var all pauses
	for _, r := range runs {
		var tasks []finished
		for _, n := range r.Graph.Nodes() {
			for number := range r.Graph.Shards(n) {
				t := graph.Task{Node: n, Shard: number}
				f, m, sealed, err := read(ctx, r.Graph, t)
				if err != nil {
					return d, err
				}
				if !sealed {
					continue // pruned, of a wave that was not needed, or not done yet
				}
				tasks = append(tasks, f)
				moved := r.Sizes.trafficOf(r.Graph, t)
				d.samples[n.Stage] = append(d.samples[n.Stage], sample{
					loadOf(r.Graph, n).of(number, r.Graph.Shards(n)), float64(moved.read + moved.written), f.ended.Sub(f.started).Seconds(),
				})
				if n.Judges() && n.Wave+1 < r.Graph.Waves(n.Stage) {
					ended[n.Stage]++
					if m.Metrics[shard.MetricWaiting] > 0 {
						on[n.Stage]++
					}
				}
			}
		}
		submitted, err := submissions(r.Run)
		if err != nil {
			return d, err
		}
		p := paused(r.Graph, tasks, submitted)
		all.starts, all.gates = append(all.starts, p.starts...), append(all.gates, p.gates...)
		all.queues, all.turnovers = append(all.queues, p.queues...), append(all.turnovers, p.turnovers...)
	}
	for stage, tasks := range ended {
		d.goesOn[stage] = float64(on[stage]) / float64(tasks)
	}
	d.start, d.gate, d.queue, d.turnover = seen(all.starts), seen(all.gates), seen(all.queues), seen(all.turnovers)
	return d, nil
}

// finished is a task that was done, by the clock of its node.
type finished struct {
	graph.Task
	started, ended time.Time
}

// read finds out when a task was done, from its first start to its last seal, and
// returns the manifest of its first output.
func read(ctx context.Context, g graph.Graph, t graph.Task) (f finished, m seal.Manifest, sealed bool, err error) {
	f.Task = t
	for i, path := range g.Outputs(t) {
		is, sealed, err := seal.Check(ctx, path, g.ReadingAs(t, 0))
		if err != nil || !sealed {
			return f, m, false, err
		}
		if i == 0 {
			m, f.started, f.ended = is, is.Started, is.Ended
		}
		if is.Started.Before(f.started) {
			f.started = is.Started
		}
		if is.Ended.After(f.ended) {
			f.ended = is.Ended
		}
	}
	return f, m, true, nil
}

// submissions are the times at which arrays were first handed to Slurm; none for a run
// whose tasks a driver started.
func submissions(r *rundir.Run) (map[graph.Node]time.Time, error) {
	all, err := advance.ReadSubmissions(r.Dir)
	first := map[graph.Node]time.Time{}
	for _, s := range all {
		if at, known := first[s.Node()]; !known || s.Submitted.Before(at) {
			first[s.Node()] = s.Submitted
		}
	}
	return first, err
}

// pauses are seconds between tasks.
type pauses struct {
	starts    []float64 // of a driver: from when a core was free, and all that a task reads was sealed, until it began
	gates     []float64 // from when what an array reads was sealed until it was submitted
	queues    []float64 // from then until its first task began
	turnovers []float64 // from when a core was free, while an array waited for it, until a task of the array began
}

// paused finds what passed between tasks, by when each array was submitted; none is
// where a driver started the tasks. How many cores there were is how many were in use
// at once.
func paused(g graph.Graph, tasks []finished, submitted map[graph.Node]time.Time) pauses {
	slices.SortFunc(tasks, func(a, b finished) int { return a.started.Compare(b.started) })
	cpus := func(t finished) int { return max(1, g.Request(t.Stage).CPUs) }
	cores := 1
	for i, t := range tasks {
		used := 0
		for _, other := range tasks[max(0, i-maxBeside) : i+1] {
			if other.ended.After(t.started) {
				used += cpus(other)
			}
		}
		cores = max(cores, used)
	}
	var p pauses
	note := func(to *[]float64, from, until time.Time) {
		if !from.IsZero() && !until.Before(from) && until.Sub(from) < interrupted {
			*to = append(*to, until.Sub(from).Seconds())
		}
	}
	freeSince := make([]time.Time, cores) // ascending; zero for what was never used
	ends := map[graph.Node]map[int]time.Time{}
	for _, t := range tasks {
		n := min(cpus(t), cores)
		free := freeSince[n-1]
		switch at, throughSlurm := submitted[t.Node]; {
		case !throughSlurm:
			note(&p.starts, later(free, lastEnd(g, t, ends, t.started, t.OfTraces() || t.Stage == graph.StageEvaluate)), t.started)
		case len(ends[t.Node]) == 0: // the first of its array
			note(&p.gates, lastEnd(g, t, ends, at, false), at)
			note(&p.queues, later(at, free), t.started)
		case free.After(at):
			note(&p.turnovers, free, t.started)
		}
		for i := range n {
			freeSince[i] = t.ended
		}
		slices.SortFunc(freeSince, time.Time.Compare)
		if ends[t.Node] == nil {
			ends[t.Node] = map[int]time.Time{}
		}
		ends[t.Node][t.Shard] = t.ended
	}
	return p
}

// lastEnd is when the last of what a task reads was sealed, of what was so at a time.
// ends are those of tasks, by node and shard. Of traces it is that of the task's own
// shard alone, where it waits for no other: a search through all of them for each of
// them would take hours for large arrays.
func lastEnd(g graph.Graph, t finished, ends map[graph.Node]map[int]time.Time, at time.Time, ofShard bool) time.Time {
	var last time.Time
	note := func(ended time.Time) {
		if !ended.After(at) {
			last = later(last, ended)
		}
	}
	for _, need := range reads(g, t.Node) {
		if ofShard && need.OfTraces() {
			note(ends[need][t.Shard])
			continue
		}
		for _, ended := range ends[need] {
			note(ended)
		}
	}
	return last
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// maxBeside bounds how many tasks that began before are looked at for whether they
// still run.
const maxBeside = 1000

// reads are the nodes whose tasks a node waits for, with the scores behind a closing.
func reads(g graph.Graph, n graph.Node) []graph.Node {
	var all []graph.Node
	for _, need := range g.Needs(n) {
		if need.Stage == graph.StageClose {
			all = append(all, g.Needs(need)...)
			continue
		}
		all = append(all, need)
	}
	return all
}

// interrupted is a time without work after which a run is taken to have been stopped.
const interrupted = time.Hour

// seen is a wait of which some were seen.
func seen(seconds []float64) wait {
	m := mean(seconds)
	if m == 0 {
		return wait{}
	}
	w := wait{Seconds: m}
	for _, s := range seconds {
		w.Seen = append(w.Seen, s/m)
	}
	return w
}

// fit finds seconds and seconds for each unit by least squares, neither below 0, of
// what tasks took beside their bytes. Tasks of about one size cannot tell the two
// apart: then all is taken to be of the units, if there are any.
func fit(all []sample, rate float64) taskWork {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b sample) int { // so that the order of runs is nothing
		return cmp.Or(cmp.Compare(a.units, b.units), cmp.Compare(a.seconds, b.seconds))
	})
	var w taskWork
	var x, y, bytes []float64
	for _, s := range all {
		x, y, bytes = append(x, s.units), append(y, max(0, s.seconds-secondsOf(s.bytes, rate))), append(bytes, s.bytes)
	}
	mx, my := mean(x), mean(y)
	switch least, most := x[0], x[len(x)-1]; {
	case most == 0:
		w.fixed, w.alone = my, &sample{0, mean(bytes), my}
	case 2*most < 3*least || most == least:
		w.unit, w.alone = my/mx, &sample{most, mean(bytes), my}
	default:
		var xy, xx float64
		for i := range x {
			xy += (x[i] - mx) * (y[i] - my)
			xx += (x[i] - mx) * (x[i] - mx)
		}
		w.unit = min(max(0, xy/xx), my/mx)
		w.fixed = my - w.unit*mx
	}
	for i := range x {
		if expected := w.fixed + w.unit*x[i]; expected > 0 {
			w.Seen = append(w.Seen, y[i]/expected)
		}
	}
	return w
}

// rateOf finds the bytes a second of tasks that add up or apply gradients, and so
// differ in nothing but how many: by least squares around the middle of their stage. It
// is 0 where all read about as much, or more bytes take no longer.
func rateOf(samples map[graph.Stage][]sample) float64 {
	var xy, xx float64
	for _, stage := range []graph.Stage{graph.StageReduce, graph.StageLearn} {
		var x, y []float64
		for _, s := range samples[stage] {
			if s.units == 0 {
				x, y = append(x, s.bytes), append(y, s.seconds)
			}
		}
		if len(x) == 0 || 2*slices.Max(x) < 3*slices.Min(x) {
			continue
		}
		mx, my := mean(x), mean(y)
		for i := range x {
			xy += (x[i] - mx) * (y[i] - my)
			xx += (x[i] - mx) * (x[i] - mx)
		}
	}
	if xy <= 0 {
		return 0
	}
	return xx / xy
}

// secondsOf is how long bytes take at a rate; nothing at one that is not known.
func secondsOf(bytes, rate float64) float64 {
	if rate == 0 {
		return 0
	}
	return bytes / rate
}

// secondsOf is how long the bytes of a task take.
func (d Durations) secondsOf(t traffic) float64 { return secondsOf(float64(t.read+t.written), d.rate) }

// Given lays what a cluster says over what was measured. Where runs do not tell how
// fast bytes are read and written, the cluster's file system is taken to be theirs.
func (d Durations) Given(c Cluster) Durations {
	theirs := cmp.Or(rateOf(d.samples), c.FileSystem.BytesPerSecond)
	g := Durations{
		samples: d.samples, goesOn: d.goesOn, stages: map[graph.Stage]taskWork{}, rate: cmp.Or(c.FileSystem.BytesPerSecond, theirs),
		start: d.start, gate: d.gate, queue: d.queue, turnover: d.turnover,
	}
	for _, stage := range graph.Stages() {
		t, _ := config.Find[TaskTimes](&c.Stages, string(stage))
		switch samples := d.samples[stage]; {
		case t.Seconds+t.UnitSeconds > 0:
			g.stages[stage] = taskWork{fixed: t.Seconds, unit: t.UnitSeconds, goesOn: t.GoesOn, spread: spread{Sigma: t.Spread}}
		case len(samples) > 0:
			w := fit(samples, theirs)
			w.goesOn = cmp.Or(t.GoesOn, d.goesOn[stage])
			if t.Spread > 0 {
				w.spread = spread{Sigma: t.Spread}
			}
			g.stages[stage] = w
		}
	}
	for _, of := range []struct {
		wait  *wait
		given Times
	}{{&g.start, c.Start}, {&g.gate, c.Gate}, {&g.queue, c.Queue}, {&g.turnover, c.Turnover}} {
		if of.given != (Times{}) {
			*of.wait = of.given.wait()
		}
	}
	return g
}

// of is what tasks of a stage take.
func (d Durations) of(s graph.Stage) (taskWork, bool) {
	w, known := d.stages[s]
	if !known {
		w, known = d.stages[like[s]]
	}
	return w, known
}

// check refuses a run of which some stage's times are not known, those of a task that
// learns among them where only ones that apply gradients were measured, or the other
// way round.
func (d Durations) check(g graph.Graph) error {
	var missing []string
	for _, n := range g.Nodes() {
		w, known := d.of(n.Stage)
		if w.alone != nil && (w.alone.units == 0) != (loadOf(g, n).units == 0) {
			known = false
		}
		if !known && !slices.Contains(missing, string(n.Stage)) {
			missing = append(missing, string(n.Stage))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return exitcode.WithHint(exitcode.Usagef("how long tasks of %s take is not known", strings.Join(missing, ", ")),
		"--from RUN measures a run that has them; --durations FILE or --set cluster.stages.%s.seconds=60 says it", missing[0])
}

// notes are what of the measured times does not fit the run that they are taken for.
func (d Durations) notes(g graph.Graph, sizes Sizes) []string {
	var notes []string
	if sizes == (Sizes{}) {
		notes = append(notes, "bytes are not counted: policy.path is not there, and it says how large the policy is")
	}
	noted := map[graph.Stage]bool{}
	for _, n := range g.Nodes() {
		w, _ := d.of(n.Stage)
		if w.alone == nil || noted[n.Stage] {
			continue
		}
		now, moved := loadOf(g, n).of(0, g.Shards(n)), sizes.trafficOf(g, graph.Task{Node: n})
		switch before := *w.alone; {
		case 2*now > 3*before.units || 3*now < 2*before.units:
			notes = append(notes, fmt.Sprintf("%s: only tasks of %s units were measured, and others are taken in proportion, larger ones as slower and smaller ones as faster than they are; --from a second run with other shards tells more", n.Stage, number(before.units)))
		case d.rate == 0 && before.bytes > 0 && float64(moved.read+moved.written) > 1.5*before.bytes:
			notes = append(notes, fmt.Sprintf("%s: only tasks that read and write %s were measured, and here it is %s, which takes no time of its own; cluster.file_system.bytes_per_second says how fast that is, and --from a second run with other gradient shards tells it",
				n.Stage, size(before.bytes), size(float64(moved.read+moved.written))))
		default:
			continue
		}
		noted[n.Stage] = true
	}
	return notes
}

func mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
