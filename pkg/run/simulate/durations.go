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
	stages map[graph.Stage]taskWork
	start  wait // of each attempt
	gate   wait
	queue  wait
}

// taskWork is what a task of a stage takes.
type taskWork struct {
	fixed, unit float64 // seconds of a task, and of each unit in it
	goesOn      float64
	spread
	alone int // units of the only kind of task that was measured; 0 where several were, or times are given
}

// sample is a task that was done.
type sample struct {
	units   int
	seconds float64
}

// Measure reads how long the tasks of runs took, from the manifests of what they
// sealed, and what passed between them: the start of a task where a driver started
// it, a gate and the wait in the queue where that was Slurm.
func Measure(ctx context.Context, runs []*rundir.Run) (Durations, error) {
	d := Durations{stages: map[graph.Stage]taskWork{}}
	samples := map[graph.Stage][]sample{}
	on, ended := map[graph.Stage]int{}, map[graph.Stage]int{}
	var starts, gates, queues []float64
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
				samples[n.Stage] = append(samples[n.Stage], sample{units(r.Graph, t), f.ended.Sub(f.started).Seconds()})
				if n.Judges() && n.Wave+1 < r.Graph.Waves(n.Stage) {
					ended[n.Stage]++
					if m.Metrics[shard.MetricWaiting] > 0 {
						on[n.Stage]++
					}
				}
			}
		}
		submitted, err := submissions(r)
		if err != nil {
			return d, err
		}
		p := paused(r.Graph, tasks, submitted)
		starts, gates, queues = append(starts, p.starts...), append(gates, p.gates...), append(queues, p.queues...)
	}
	for stage, all := range samples {
		w := fit(all)
		if ended[stage] > 0 {
			w.goesOn = float64(on[stage]) / float64(ended[stage])
		}
		d.stages[stage] = w
	}
	starts, queues = apart(starts, queues)
	d.start, d.gate, d.queue = seen(starts), seen(gates), seen(queues)
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
	gates  []float64 // from when what an array reads was sealed until it was submitted
	queues []float64 // from then until its first task began
	starts []float64 // from when a core was free, and all that a task reads was sealed, until it began
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
	ends := map[graph.Node][]finished{}
	for _, t := range tasks {
		n := min(cpus(t), cores)
		free := freeSince[n-1]
		switch at, throughSlurm := submitted[t.Node]; {
		case !throughSlurm:
			note(&p.starts, later(free, lastEnd(g, t, ends, t.started, t.OfTraces())), t.started)
		case len(ends[t.Node]) == 0: // the first of its array
			note(&p.gates, lastEnd(g, t, ends, at, false), at)
			note(&p.queues, later(at, free), t.started)
		case free.After(at):
			note(&p.starts, free, t.started)
		}
		for i := range n {
			freeSince[i] = t.ended
		}
		slices.SortFunc(freeSince, time.Time.Compare)
		ends[t.Node] = append(ends[t.Node], t)
	}
	return p
}

// apart takes the start of a task out of what passed between the submission of an array
// and its first task. Where no task was seen to start on a core that was waited for,
// the shortest tenth of those waits is taken to be no more than a start.
func apart(starts, queues []float64) (start, queue []float64) {
	if len(queues) == 0 {
		return starts, queues
	}
	if len(starts) == 0 {
		sorted := slices.Sorted(slices.Values(queues))
		starts = []float64{sorted[len(sorted)/10]}
	}
	launch := mean(starts)
	for _, q := range queues {
		queue = append(queue, max(0, q-launch))
	}
	return starts, queue
}

// lastEnd is when the last of what a task reads was sealed, of what was so at a time:
// of its own shard alone, where it is of traces and waits for no other.
func lastEnd(g graph.Graph, t finished, ends map[graph.Node][]finished, at time.Time, ofShard bool) time.Time {
	var last time.Time
	for _, need := range reads(g, t.Node) {
		for _, made := range ends[need] {
			if (!ofShard || !need.OfTraces() || made.Shard == t.Shard) && !made.ended.After(at) {
				last = later(last, made.ended)
			}
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

// fit finds seconds and seconds for each unit by least squares, neither below 0. Tasks
// of about one size cannot tell the two apart: then all is taken to be of the units.
func fit(all []sample) taskWork {
	slices.SortFunc(all, func(a, b sample) int { // so that the order of runs is nothing
		return cmp.Or(cmp.Compare(a.units, b.units), cmp.Compare(a.seconds, b.seconds))
	})
	var w taskWork
	var x, y []float64
	for _, s := range all {
		x, y = append(x, float64(s.units)), append(y, s.seconds)
	}
	mx, my := mean(x), mean(y)
	if least, most := all[0].units, all[len(all)-1].units; 2*most < 3*least || most == least {
		w.unit, w.alone = my/mx, most
	} else {
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

// Given lays what a cluster says over what was measured.
func (d Durations) Given(c Cluster) Durations {
	g := Durations{stages: map[graph.Stage]taskWork{}, start: d.start, gate: d.gate, queue: d.queue}
	for _, stage := range graph.Stages() {
		w := d.stages[stage]
		if t, _ := config.Find[TaskTimes](&c.Stages, string(stage)); t != (TaskTimes{}) {
			w = taskWork{t.Seconds, t.UnitSeconds, t.GoesOn, spread{Sigma: t.Spread}, 0}
		}
		if w.fixed+w.unit > 0 {
			g.stages[stage] = w
		}
	}
	if c.Start != (Times{}) {
		g.start = c.Start.wait()
	}
	if c.Gate != (Times{}) {
		g.gate = c.Gate.wait()
	}
	if c.Queue != (Times{}) {
		g.queue = c.Queue.wait()
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

// check refuses a run of which some stage's times are not known.
func (d Durations) check(g graph.Graph) error {
	var missing []string
	for _, n := range g.Nodes() {
		if _, known := d.of(n.Stage); !known && !slices.Contains(missing, string(n.Stage)) {
			missing = append(missing, string(n.Stage))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return exitcode.WithHint(exitcode.Usagef("how long tasks of %s take is not known", strings.Join(missing, ", ")),
		"--from RUN measures a run that has them; --durations FILE or --set cluster.stages.%s.seconds=60 says it", missing[0])
}

// Notes are what of the measured times does not fit the run that they are taken for.
func (d Durations) notes(g graph.Graph) []string {
	var notes []string
	noted := map[graph.Stage]bool{}
	for _, n := range g.Nodes() {
		w, _ := d.of(n.Stage)
		if now := units(g, graph.Task{Node: n}); w.alone > 0 && (2*now > 3*w.alone || 3*now < 2*w.alone) && !noted[n.Stage] {
			noted[n.Stage] = true
			notes = append(notes, fmt.Sprintf("%s: only tasks of %d units were measured, and others are taken in proportion; --from a second run with other shards tells more", n.Stage, w.alone))
		}
	}
	return notes
}

// units is how much work is in a task.
func units(g graph.Graph, t graph.Task) int {
	switch {
	case t.OfTraces(), t.Stage == graph.StageEvaluate:
		first, last := g.Rows(t)
		return max(1, last-first)
	case t.Stage == graph.StageGradient:
		first, last := graph.ShardRange(g.Recipe.Schedule.GradientUnits, t.Shard, g.Shards(t.Node))
		return max(1, last-first)
	}
	return 1
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
