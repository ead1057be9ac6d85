package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/site"
)

// Options say what is simulated.
type Options struct {
	Graph     graph.Graph
	Site      site.Profile
	Limits    slurm.Limits // of the cluster, where tasks go through Slurm
	Cluster   Cluster
	Durations Durations
	Cores     int    // that tasks may use together; not 0: they are started in the foreground, without Slurm
	Seed      uint64 // of what is drawn
}

// most is the time after which a simulated run is given up.
const most = 100 * 365 * 24 * 3600.0

// simulation is a run that is carried out.
type simulation struct {
	Options
	ctx      context.Context
	surveyor *survey.Surveyor
	agenda   agenda
	now      float64
	room     *room

	live     map[graph.Task]bool // that wait or run
	troubled map[graph.Task]trouble
	streams  map[graph.Node]rng.Stream
	byShard  map[graph.Stage]bool // shards of a node do not wait for the rest of its array
	work     map[graph.Stage]taskWork
	requests map[graph.Stage]recipe.Request
	began    map[int]time.Time // first start among the sealed rollouts of an iteration
	asked    map[int]time.Time // what was said of that

	queue       [2][]*array // of Slurm, for cores and for GPUs, in the order of submission
	queued      int         // tasks that wait or run
	cores       int         // in use, in the foreground
	running     map[graph.Task]*attempt
	watchers    map[graph.Task][]*gate
	gatesWait   int
	lastGate    *gate // that follows no submission of its own
	alarmed     bool
	submissions []*submission
	drawn       uint64 // waits

	tally tally
	ended bool
	stuck string
}

// trouble is what became of attempts at a task that is not done.
type trouble struct {
	tries    int // that have ended without a result
	failures int // of those, that count
	overruns int // of the time limit
}

// epoch is when a simulated run begins: what the survey compares are times.
var epoch = time.Unix(0, 0)

func (s *simulation) clock() time.Time { return timeAt(s.now) }

// timeAt is what the clock says after so many seconds.
func timeAt(seconds float64) time.Time {
	return epoch.Add(time.Duration(seconds * float64(time.Second)))
}

// by is the first moment at which the clock says a time: one that is rounded to
// seconds may come a nanosecond before it, and nothing would be due then.
func by(t time.Time) float64 {
	seconds := t.Sub(epoch).Seconds()
	for timeAt(seconds).Before(t) {
		seconds = math.Nextafter(seconds, math.Inf(1))
	}
	return seconds
}

// Run carries a run out and says what it took.
func Run(ctx context.Context, o Options) (Outcome, error) {
	o.Cluster = o.Cluster.on(o.Site)
	if err := o.Durations.check(o.Graph); err != nil {
		return Outcome{}, err
	}
	s := &simulation{
		Options: o, ctx: ctx, surveyor: survey.Of(survey.NewTold(o.Graph)), room: newRoom(o.Cluster),
		live: map[graph.Task]bool{}, troubled: map[graph.Task]trouble{},
		streams: map[graph.Node]rng.Stream{}, byShard: map[graph.Stage]bool{}, work: map[graph.Stage]taskWork{},
		requests: map[graph.Stage]recipe.Request{},
		began:    map[int]time.Time{}, asked: map[int]time.Time{}, running: map[graph.Task]*attempt{}, watchers: map[graph.Task][]*gate{},
	}
	for _, stage := range graph.Stages() {
		s.byShard[stage] = advance.GoesByShard(o.Graph, graph.Node{Stage: stage})
		s.work[stage], _ = o.Durations.of(stage)
		s.requests[stage] = o.Graph.Request(stage)
	}
	s.surveyor.GaveUp = func(t graph.Task) bool {
		before := s.troubled[t]
		return before.failures >= o.Graph.Recipe.Schedule.MaxAttempts || before.tries >= advance.MaxAttemptsAtAll
	}
	s.surveyor.Clock = survey.Clock{Now: s.clock, Began: s.beganAt}
	s.tally.begin(o.Graph)
	if err := s.carryOut(); err != nil {
		return Outcome{}, err
	}
	return s.outcome(), nil
}

// carryOut goes from event to event until the run is done.
func (s *simulation) carryOut() error {
	if err := s.fits(); err != nil {
		return err
	}
	if err := s.advance(); err != nil {
		return err
	}
	for handled := 0; !s.ended; handled++ {
		if s.agenda.Len() == 0 {
			return exitcode.Bugf("after %.0f simulated seconds nothing of the run is under way, and it is not done", s.now)
		}
		if handled%1024 == 0 && s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		e := s.agenda.next()
		s.tally.pass(s.now, e.at, len(s.running))
		if s.now = e.at; s.now > most {
			s.end("it takes more than a hundred years")
			return nil
		}
		if err := s.handle(e); err != nil {
			return err
		}
	}
	return nil
}

func (s *simulation) handle(e event) error {
	switch e.what {
	case attemptEnds:
		if e.run.over {
			return nil // it was cancelled before
		}
		s.finish(e.run)
		if s.Cores > 0 {
			return s.advance()
		}
		s.startQueued()
		return nil
	case arrayMayStart:
		s.startQueued()
		return nil
	case gateStarts:
		s.gatesWait--
		e.gate.started = true
	case alarmRings:
		s.alarmed = false
	}
	return s.advance()
}

// advance looks at what is done and starts what is ready, as a gate or a driver does.
func (s *simulation) advance() error {
	found, err := s.closeAll()
	if err != nil {
		return err
	}
	s.tally.looked(found, s.Cores > 0)
	switch {
	case found.Done:
		s.end("")
		return nil
	case len(s.live) == 0 && len(found.Ready) == 0:
		if len(found.Stuck) == 0 {
			return exitcode.Bugf("after %.0f simulated seconds the run is not done and nothing in it is ready", s.now)
		}
		stuck := found.Stuck[0]
		s.end(fmt.Sprintf("%s, shard %d: %s", stuck.Node, stuck.Shards[0], stuck.Reason))
		return nil
	}
	if !found.Due.IsZero() && !s.alarmed {
		s.alarmed = true
		s.agenda.note(event{at: max(s.now, by(found.Due)), what: alarmRings})
	}
	if err := s.cancelLate(); err != nil {
		return err
	}
	if s.Cores > 0 {
		s.launch(found.Ready)
		return nil
	}
	return s.submitReady(found.Ready)
}

// closeAll surveys and closes until there is nothing left to close.
func (s *simulation) closeAll() (survey.Result, error) {
	for {
		found, err := s.surveyor.Survey(s.ctx)
		if err != nil || len(found.Closable) == 0 {
			return found, err
		}
		for _, c := range found.Closable {
			s.surveyor.TellClosing(c)
			s.tally.closed(s.Graph, c)
		}
	}
}

// cancelLate takes back what its iteration was closed without for good.
func (s *simulation) cancelLate() error {
	if !s.Graph.MayBeLate() || s.Graph.Carries() {
		return nil
	}
	for _, sub := range s.submissions {
		for _, a := range sub.arrays {
			for i, shard := range a.shards {
				t := graph.Task{Node: sub.node, Shard: shard}
				if !s.live[t] {
					continue
				}
				if late, err := s.surveyor.Dropped(s.ctx, t); err != nil {
					return err
				} else if late {
					s.cancel(a, i, t)
				}
			}
		}
	}
	if s.Cores == 0 {
		return nil
	}
	for _, t := range slices.SortedFunc(maps.Keys(s.running), byPlace) {
		if late, err := s.surveyor.Dropped(s.ctx, t); err != nil {
			return err
		} else if late {
			s.stop(s.running[t], executor.CauseCancelled)
		}
	}
	return nil
}

// byPlace orders tasks.
func byPlace(a, b graph.Task) int {
	return cmp.Or(cmp.Compare(a.Iteration, b.Iteration), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Wave, b.Wave), cmp.Compare(a.Shard, b.Shard))
}

// beganAt is when the first rollout of an iteration began, of those that were sealed
// when it was first asked for.
func (s *simulation) beganAt(_ context.Context, k int) (time.Time, error) {
	if at, said := s.asked[k]; said {
		return at, nil
	}
	at := s.began[k]
	if !at.IsZero() {
		s.asked[k] = at
	}
	return at, nil
}

func (s *simulation) end(stuck string) { s.ended, s.stuck = true, stuck }

// fits refuses a run of which some task has no room on the cluster.
func (s *simulation) fits() error {
	for _, n := range s.Graph.Nodes() {
		if cpus, gpus := s.asks(n.Stage); s.Cores == 0 && !s.room.fits(cpus, gpus) {
			return exitcode.Usagef("a task of %s asks for %d cores and %d GPUs, which the cluster does not have for one: %d nodes of %d cores, %d GPUs",
				n.Stage, cpus, gpus, s.Cluster.Nodes, s.Cluster.NodeCPUs, s.Cluster.GPUs)
		}
	}
	return nil
}

// asks is what a task of a stage is given.
func (s *simulation) asks(stage graph.Stage) (cpus, gpus int) {
	q := s.requests[stage]
	cpus = max(1, q.CPUs)
	if s.Cores > 0 {
		return min(cpus, s.Cores), 0
	}
	return cpus, q.GPUs
}

// What is drawn for a task stands at positions of its own in the stream of its node.
const (
	drawWork    = iota // how long it takes, the same in each attempt
	drawGoesOn         // whether a trace in it goes on
	drawFails          // whether an attempt fails
	drawFailsAt        // when
	drawPreempted
	drawStart
	draws // how many there are
)

// stream is that of a node's tasks.
func (s *simulation) stream(n graph.Node) rng.Stream {
	stream, known := s.streams[n]
	if !known {
		stream = rng.New(s.Seed, rng.PurposeSimulate, n.Iteration, fmt.Sprintf("%s/%d/%d", n.Stage, n.Step, n.Wave), 0)
		s.streams[n] = stream
	}
	return stream
}

// attempt is a task that runs.
type attempt struct {
	graph.Task
	array   *array // nil in the foreground
	index   int    // in its array
	started float64
	ends    float64
	cause   executor.Cause // of the end that it comes to by itself
	node    int
	over    bool
}

// start lets a task run, and draws how it ends. limit is its time limit in seconds, 0
// for none.
func (s *simulation) start(t graph.Task, limit float64) *attempt {
	w, stream, at := s.work[t.Stage], s.stream(t.Node), uint64(t.Shard)*draws
	again := stream
	again.Sample = uint32(s.troubled[t].tries)
	seconds := (w.fixed+w.unit*float64(units(s.Graph, t)))*w.at(stream, at+drawWork) + s.Durations.start.at(again, at+drawStart)
	run := &attempt{Task: t, started: s.now, cause: executor.CauseOK}
	if limit > 0 && seconds > limit {
		seconds, run.cause = limit, executor.CauseTimeout
	}
	if p := s.Cluster.FailureShare; p > 0 && again.Bool(at+drawFails, p) {
		seconds, run.cause = seconds*again.Float64(at+drawFailsAt), executor.CauseFailed
	}
	if rate := s.Cluster.PreemptionsPerHour; rate > 0 {
		if after := -math.Log(1-again.Float64(at+drawPreempted)) * 3600 / rate; after < seconds {
			seconds, run.cause = after, executor.CausePreempted
		}
	}
	run.ends = s.now + seconds
	s.running[t] = run
	s.agenda.note(event{at: run.ends, what: attemptEnds, run: run})
	return run
}

// finish is the end of an attempt that it came to by itself.
func (s *simulation) finish(run *attempt) {
	t := run.Task
	if run.cause == executor.CauseOK {
		w := s.work[t.Stage]
		more := w.goesOn > 0 && s.stream(t.Node).Bool(uint64(t.Shard)*draws+drawGoesOn, w.goesOn)
		s.surveyor.Tell(t, more)
		if t.Stage == graph.StageRollout {
			if from := timeAt(run.started); s.began[t.Iteration].IsZero() || from.Before(s.began[t.Iteration]) {
				s.began[t.Iteration] = from
			}
		}
		delete(s.troubled, t)
		s.tally.sealed(s.now, s.Graph, t)
		if s.Cores > 0 {
			s.tally.outcome.Files.gates(sealedOperations)
		}
	}
	s.stop(run, run.cause)
}

// stop is the end of an attempt.
func (s *simulation) stop(run *attempt, cause executor.Cause) {
	t := run.Task
	run.over = true
	delete(s.running, t)
	cpus, gpus := s.asks(t.Stage)
	s.tally.attempted(t.Stage, cause, s.now-run.started, cpus, gpus)
	if cause != executor.CauseOK && cause != executor.CauseCancelled {
		before := s.troubled[t]
		before.tries++
		if cause == executor.CauseTimeout {
			before.overruns++
		}
		if drive.Classify(cause) == drive.Counted {
			before.failures++
		}
		s.troubled[t] = before
	}
	if run.array == nil {
		s.cores -= cpus
		delete(s.live, t)
		return
	}
	s.room.give(run.node, cpus, gpus)
	s.left(run, cause)
}

// launch starts ready tasks in the foreground as long as there are cores.
func (s *simulation) launch(ready []graph.Task) {
	for _, t := range ready {
		if s.live[t] {
			continue
		}
		cpus, _ := s.asks(t.Stage)
		if s.cores > 0 && s.cores+cpus > s.Cores {
			return // keep the order of urgency: nothing jumps the queue
		}
		s.start(t, 0)
		s.live[t] = true
		s.cores += cpus
	}
}
