package simulate

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/advance"
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
	Sizes     Sizes  // of what tasks hand on
	Cores     int    // that tasks may use together; not 0: they are started in the foreground, without Slurm
	Seed      uint64 // of what is drawn
}

// most is the time after which a simulated run is given up.
const most = 100 * 365 * 24 * 3600.0

// simulation is a run that is run.
type simulation struct {
	Options
	ctx      context.Context
	surveyor *survey.Surveyor
	agenda   agenda
	now      float64
	room     *room

	stages map[graph.Stage]stage
	nodes  map[graph.Node]*node // of which not all tasks are done
	last   *node                // that was asked for
	began  map[int]time.Time    // first start among the sealed rollouts of an iteration
	asked  map[int]time.Time    // what was said of that

	queue       [2][]*array // of Slurm, for cores and for GPUs, in the order of submission
	queued      int         // tasks that wait or run
	running     int         // of those, that run
	cores       int         // in use, in the foreground
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

// Run runs a run and says what it took.
func Run(ctx context.Context, o Options) (Outcome, error) {
	o.Cluster = o.Cluster.on(o.Site)
	if err := o.Durations.check(o.Graph); err != nil {
		return Outcome{}, err
	}
	s := &simulation{
		Options: o, ctx: ctx, surveyor: survey.Of(survey.NewTold(o.Graph)), room: newRoom(o.Cluster),
		stages: map[graph.Stage]stage{}, nodes: map[graph.Node]*node{},
		began: map[int]time.Time{}, asked: map[int]time.Time{}, watchers: map[graph.Task][]*gate{},
	}
	for _, name := range graph.Stages() {
		s.stages[name] = s.stageOf(name)
	}
	s.surveyor.GaveUp = func(t graph.Task) bool {
		n := s.nodes[t.Node]
		if n == nil {
			return false
		}
		before := n.troubled[t.Shard]
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
		if len(s.agenda.list) == 0 {
			return exitcode.Bugf("after %.0f simulated seconds nothing of the run is under way, and it is not done", s.now)
		}
		if handled%1024 == 0 && s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		e := s.agenda.next()
		s.tally.pass(s.now, e.at, s.running)
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
	case placeIsFree:
		s.vacate(e.run)
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
	case s.queued == 0 && len(found.Ready) == 0:
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
				if run := sub.attempts[shard]; run == nil || run.array != a {
					continue // it is done, or under way in an array that came later
				}
				if late, err := s.surveyor.Dropped(s.ctx, graph.Task{Node: sub.Node, Shard: shard}); err != nil {
					return err
				} else if late {
					s.cancel(a, i)
				}
			}
		}
	}
	if s.Cores == 0 {
		return nil
	}
	for _, run := range s.agenda.attempts() {
		if late, err := s.surveyor.Dropped(s.ctx, run.task()); err != nil {
			return err
		} else if late {
			s.stop(run, executor.CauseCancelled)
		}
	}
	return nil
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
		if asks := s.stages[n.Stage]; s.Cores == 0 && !s.room.fits(asks.cpus, asks.gpus) {
			return exitcode.Usagef("a task of %s asks for %s and %s, which the cluster does not have for one: %s of %s, %s",
				n.Stage, plural.Count(asks.cpus, "core"), plural.Count(asks.gpus, "GPU"), plural.Count(s.Cluster.Nodes, "node"), plural.Count(s.Cluster.NodeCPUs, "core"), plural.Count(s.Cluster.GPUs, "GPU"))
		}
	}
	return nil
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

// attempt is a task that runs.
type attempt struct {
	*node
	shard   int
	traffic traffic
	array   *array // nil in the foreground
	index   int    // in its array
	started float64
	ends    float64
	cause   executor.Cause // of the end that it comes to by itself
	place   int            // the number of the cluster's node
	over    bool
}

func (run *attempt) task() graph.Task { return graph.Task{Node: run.Node, Shard: run.shard} }

// start lets a task run, and draws how it ends. limit is its time limit in seconds, 0
// for none.
func (s *simulation) start(n *node, shard int, limit float64) *attempt {
	at, again := uint64(shard)*draws, n.stream
	again.Sample = uint32(n.troubled[shard].tries)
	run := &attempt{node: n, shard: shard, started: s.now, cause: executor.CauseOK, traffic: s.traffic(n, shard)}
	seconds := (n.work.fixed+n.work.unit*n.load.of(shard, len(n.attempts)))*n.work.at(n.stream, at+drawWork) +
		s.Durations.secondsOf(run.traffic) + s.Durations.start.at(again, at+drawStart)
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
	n.attempts[shard] = run
	s.running++
	s.agenda.note(event{at: run.ends, what: attemptEnds, run: run})
	return run
}

// finish is the end of an attempt that it came to by itself.
func (s *simulation) finish(run *attempt) {
	n, t := run.node, run.task()
	if run.cause == executor.CauseOK {
		more := n.work.goesOn > 0 && n.stream.Bool(uint64(run.shard)*draws+drawGoesOn, n.work.goesOn)
		s.surveyor.Tell(t, more)
		if n.Stage == graph.StageRollout {
			if from := timeAt(run.started); s.began[n.Iteration].IsZero() || from.Before(s.began[n.Iteration]) {
				s.began[n.Iteration] = from
			}
		}
		delete(n.troubled, run.shard)
		s.tally.sealed(run.started, s.now, s.Graph, t, run.traffic)
		if s.Cores > 0 {
			s.tally.outcome.Files.gates(sealedOperations)
		}
		if n.done++; n.done == len(n.attempts) {
			delete(s.nodes, n.Node)
		}
	}
	s.stop(run, run.cause)
}

// stop is the end of an attempt.
func (s *simulation) stop(run *attempt, cause executor.Cause) {
	n := run.node
	run.over = true
	s.running--
	s.tally.attempted(run, cause, s.now-run.started)
	if cause != executor.CauseOK && cause != executor.CauseCancelled {
		n.troubles(run.shard, cause)
	}
	if run.array == nil {
		s.cores -= n.cpus
		s.queued--
		n.attempts[run.shard] = nil
		return
	}
	if s.Durations.turnover.Seconds > 0 {
		s.agenda.note(event{at: s.now + s.draw(s.Durations.turnover, "turnover"), what: placeIsFree, run: run})
	} else {
		s.vacate(run)
	}
	s.left(run, cause)
}

// vacate gives back the place of an attempt, on the cluster and in its array.
func (s *simulation) vacate(run *attempt) {
	s.room.give(run.place, run.cpus, run.gpus)
	run.array.runs--
}

// launch starts ready tasks in the foreground as long as there are cores.
func (s *simulation) launch(ready []graph.Task) {
	for _, t := range ready {
		n := s.node(t.Node)
		if n.attempts[t.Shard] != nil {
			continue
		}
		if s.cores > 0 && s.cores+n.cpus > s.Cores {
			return // keep the order of urgency: nothing jumps the queue
		}
		s.start(n, t.Shard, 0)
		s.queued++
		s.cores += n.cpus
	}
}
