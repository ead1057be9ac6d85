package run

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/lathe-rl/lathe/pkg/seal"
)

// Closing is close.json: which shards an iteration was closed with. With
// oversampling it depends on what was done first, so the decision is sealed
// and a replay reads it instead of deciding again.
type Closing struct {
	Iteration int          `json:"iteration"`
	Shards    int          `json:"shards"`   // of the iteration's rollout and score arrays
	Included  []int        `json:"included"` // shards of this iteration, in order
	Late      []int        `json:"late"`     // not done yet: carried into a later iteration
	LeftOut   []int        `json:"left_out"` // failed for good
	Carried   []CarriedRef `json:"carried"`  // late shards of earlier iterations that are done now
}

// CarriedRef names a late shard of an earlier iteration.
type CarriedRef struct {
	Iteration int `json:"iteration"`
	Shard     int `json:"shard"`
}

// Survey is what a look at the files of a run found.
type Survey struct {
	Done  bool   // every goal is sealed
	Ready []Task // missing, with everything they read sealed; most urgent first
	// Closable lists iterations whose shards allow closing, with the decision.
	Closable []Closing
	// Stuck lists nodes that can never be done: too many shards gave up.
	Stuck []Stuck
	// Counts says, for each node that was looked at, how many shards are
	// sealed. Nodes that everything later has made unnecessary to look at are
	// left out.
	Counts map[Node]Count
}

// Stuck is a node that can never be done.
type Stuck struct {
	Node   Node
	Shards []int
	Reason string
}

// Count is the number of sealed shards of a node.
type Count struct{ Sealed, Total int }

// Planner finds what is missing from a run. It works backwards from the
// goals, as make does, so a sealed result is never looked behind.
type Planner struct {
	Graph
	// GaveUp reports whether a task has used up its attempts.
	GaveUp func(Task) bool
	// Broken reports whether a task that gave up failed in a way that says
	// nothing about the task: damaged input, a missing device, our bug. No
	// quorum covers that.
	Broken func(Task) bool

	sealed map[string]bool // outputs seen sealed; sealed files do not change
	pruned map[Node]bool   // nodes whose outputs this planner has pruned
}

// NewPlanner returns a planner that believes in every task.
func NewPlanner(g Graph) *Planner {
	never := func(Task) bool { return false }
	return &Planner{Graph: g, GaveUp: never, Broken: never, sealed: map[string]bool{}, pruned: map[Node]bool{}}
}

type survey struct {
	*Planner
	ctx     context.Context
	result  Survey
	visited map[Node]bool // node -> done
	listed  map[Task]bool // among the ready
	err     error
}

// fail keeps the first error.
func (s *survey) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// is is Sealed with the error kept.
func (s *survey) is(t Task) bool {
	ok, err := s.Sealed(s.ctx, t)
	if err != nil {
		s.fail(err)
	}
	return ok
}

// ready lists a task once.
func (s *survey) ready(t Task) {
	if !s.listed[t] {
		s.listed[t] = true
		s.result.Ready = append(s.result.Ready, t)
	}
}

// Survey looks at the files. An error means that a manifest could not be
// read for a reason other than not being there.
func (p *Planner) Survey(ctx context.Context) (Survey, error) {
	s := &survey{
		Planner: p, ctx: ctx, visited: map[Node]bool{}, listed: map[Task]bool{}, result: Survey{Counts: map[Node]Count{}, Done: true},
	}
	for _, goal := range p.Goals() {
		if !s.visit(goal) {
			s.result.Done = false
		}
	}
	s.late()
	if wanted, err := readWanted(p.Dir); err != nil {
		s.fail(err)
	} else if !s.want(wanted) {
		s.result.Done = false
	}
	sort.SliceStable(s.result.Ready, func(i, j int) bool {
		return urgency(s.result.Ready[i]) < urgency(s.result.Ready[j])
	})
	return s.result, s.err
}

// urgency orders ready tasks: older iterations first, the stages nearest to
// the learner first inside one, evaluations last of all.
func urgency(t Task) int {
	rank := map[Stage]int{StageLearn: 0, StageGradient: 1, StageBuffer: 2, StageScore: 3, StageRollout: 4}[t.Stage]
	if t.Stage == StageEvaluate {
		return 1<<30 + t.Iteration
	}
	return t.Iteration*8 + rank
}

// Sealed reports whether every output of a task is sealed.
func (p *Planner) Sealed(ctx context.Context, t Task) (bool, error) {
	for _, path := range p.Outputs(t) {
		if p.sealed[path] {
			continue
		}
		_, err := seal.Read(ctx, path, seal.Options{})
		switch {
		case err == nil:
			p.sealed[path] = true
		case errors.Is(err, seal.ErrNotSealed), errors.Is(err, seal.ErrDamaged):
			return false, nil
		default:
			return false, err
		}
	}
	return true, nil
}

func (s *survey) visit(n Node) bool {
	if done, seen := s.visited[n]; seen {
		return done
	}
	s.visited[n] = false // a cycle would be a bug; this keeps it from recursing for ever
	done := s.look(n)
	s.visited[n] = done
	return done
}

func (s *survey) look(n Node) bool {
	total := s.Shards(n)
	var missing []int
	for shard := range total {
		if !s.is(Task{n, shard}) {
			missing = append(missing, shard)
		}
	}
	if n.Stage != StageClose {
		s.result.Counts[n] = Count{Sealed: total - len(missing), Total: total}
	}
	if len(missing) == 0 {
		return true
	}
	ready := true
	for _, need := range s.Needs(n) {
		ready = s.visit(need) && ready
	}
	switch {
	case ready && n.Stage == StageBuffer && n.Iteration > 0:
		ready = s.closed(n.Iteration)
	case n.Stage == StageGradient || n.Stage == StageLearn:
		ready = s.samplers(n.Iteration) && ready
	}
	if n.Stage == StageClose {
		s.close(n.Iteration)
		return false
	}
	for _, shard := range missing {
		t := Task{n, shard}
		switch {
		case s.GaveUp(t):
			// Only rollouts and scores may be left out, by the quorum.
			if n.Stage != StageRollout && n.Stage != StageScore {
				s.result.Stuck = append(s.result.Stuck, Stuck{
					Node: n, Shards: []int{shard}, Reason: "its attempts are used up",
				})
			}
		case ready, n.Stage == StageScore && s.scorable(t):
			s.ready(t)
		}
	}
	return false
}

// samplers reports whether the policies that sampled the late shards of a batch
// are there, if the learner asks them for log-probabilities that a server may
// not have given.
func (s *survey) samplers(k int) bool {
	if s.Recipe.Rollout.Remote == nil || s.Recipe.Schedule.Oversample <= 1 {
		return true
	}
	closing, err := ReadClosing(s.ctx, s.Dir, k)
	switch {
	case errors.Is(err, seal.ErrNotSealed), errors.Is(err, seal.ErrDamaged):
		return true // what makes it again is looked at with the batch
	case err != nil:
		s.fail(err)
		return false
	}
	there := true
	for _, ref := range closing.Carried {
		there = s.visit(s.lastLearn(s.RolloutVersion(ref.Iteration))) && there
	}
	return there
}

// scorable reports whether what a score task reads is sealed: one rollout
// shard and the plan. It need not wait for the other shards.
func (s *survey) scorable(t Task) bool {
	return s.is(Task{Node{Stage: StageRollout, Iteration: t.Iteration}, t.Shard}) && s.visit(s.planner(t.Iteration))
}

// close decides whether iteration k can be closed with what is sealed.
func (s *survey) close(k int) {
	if decided, was, err := s.decided(k); err != nil || was {
		if err != nil {
			s.fail(err)
			return
		}
		s.result.Closable = append(s.result.Closable, decided)
		return
	}
	// Iterations that overlap are closed in their order, so that no late shard
	// is carried into two of them.
	if before := (Node{Stage: StageClose, Iteration: k - 1}); s.Recipe.Schedule.Oversample > 1 && k > 1 && !s.is(Task{Node: before}) {
		s.visit(before)
		return
	}
	score, rollout := Node{Stage: StageScore, Iteration: k}, Node{Stage: StageRollout, Iteration: k}
	shards, rows := s.Shards(score), s.PlanRows()
	closing := Closing{Iteration: k, Shards: shards, Included: []int{}, Late: []int{}, LeftOut: []int{}, Carried: []CarriedRef{}}
	doneRows := 0
	for shard := range shards {
		sealed, err := s.Sealed(s.ctx, Task{score, shard})
		if err != nil {
			return // recorded by look
		}
		first, last := ShardRange(rows, shard, shards)
		switch {
		case sealed:
			closing.Included = append(closing.Included, shard)
			doneRows += last - first
		case s.Broken(Task{score, shard}) || s.Broken(Task{rollout, shard}):
			s.result.Stuck = append(s.result.Stuck, Stuck{Node: score, Shards: []int{shard}, Reason: "it would fail again the same way"})
			return
		case s.GaveUp(Task{score, shard}) || s.GaveUp(Task{rollout, shard}):
			closing.LeftOut = append(closing.LeftOut, shard)
		default:
			closing.Late = append(closing.Late, shard)
		}
	}
	quorum := s.Recipe.Schedule.Quorum
	if float64(shards-len(closing.LeftOut)) < quorum*float64(shards) {
		s.result.Stuck = append(s.result.Stuck, Stuck{Node: score, Shards: closing.LeftOut, Reason: fmt.Sprintf(
			"%d of %d shards used up their attempts, more than schedule.quorum %g allows", len(closing.LeftOut), shards, quorum)})
		return
	}
	enough := doneRows >= s.Recipe.Rollout.Prompts && len(closing.Included) > 0
	if !enough && len(closing.Late) > 0 {
		return
	}
	closing.Carried = s.carriable(k)
	s.result.Closable = append(s.result.Closable, closing)
}

// carriable lists late shards of earlier iterations that are sealed now and
// that no iteration has carried yet.
func (s *survey) carriable(k int) []CarriedRef {
	carried := []CarriedRef{}
	for _, ref := range s.outstanding(k) {
		if s.is(Task{Node{Stage: StageScore, Iteration: ref.Iteration}, ref.Shard}) {
			carried = append(carried, ref)
		}
	}
	return carried
}

// outstanding lists the late shards of iterations before k that no closed
// iteration before k has carried.
func (s *survey) outstanding(k int) []CarriedRef {
	if s.Recipe.Schedule.Oversample <= 1 {
		return nil
	}
	var late []CarriedRef
	taken := map[CarriedRef]bool{}
	for i := 1; i < k; i++ {
		closing, err := ReadClosing(s.ctx, s.Dir, i)
		if errors.Is(err, seal.ErrNotSealed) {
			if s.is(Task{Node: Node{Stage: StageBuffer, Iteration: i}}) {
				s.visit(Node{Stage: StageClose, Iteration: i}) // it was closed: its record comes first
			}
			break
		}
		if err != nil {
			s.fail(err)
			break
		}
		for _, shard := range closing.Late {
			late = append(late, CarriedRef{i, shard})
		}
		for _, ref := range closing.Carried {
			taken[ref] = true
		}
	}
	var out []CarriedRef
	for _, ref := range late {
		if !taken[ref] {
			out = append(out, ref)
		}
	}
	return out
}

// late adds the tasks of late shards as long as there is an iteration left to
// carry them into. They go before what is newer, else a machine that is never
// idle would never do them.
func (s *survey) late() {
	last := s.Recipe.Schedule.Iterations
	if s.result.Done || s.is(Task{Node: Node{Stage: StageClose, Iteration: last}}) {
		return
	}
	for _, ref := range s.outstanding(last) {
		policy := s.visit(s.lastLearn(s.RolloutVersion(ref.Iteration)))
		rollout := Task{Node{Stage: StageRollout, Iteration: ref.Iteration}, ref.Shard}
		score := Task{Node{Stage: StageScore, Iteration: ref.Iteration}, ref.Shard}
		for _, t := range []Task{rollout, score} {
			if s.is(t) {
				continue
			}
			if !s.GaveUp(t) && (policy || t == score) {
				s.ready(t)
			}
			break // a score task becomes ready once its rollout is sealed
		}
	}
}

// ReadClosing reads close.json of an iteration.
func ReadClosing(ctx context.Context, d Dir, k int) (Closing, error) {
	return readClosing(ctx, d, k, seal.Options{})
}

func readClosing(ctx context.Context, d Dir, k int, o seal.Options) (Closing, error) {
	var closing Closing
	_, err := seal.ReadJSON(ctx, d.Close(k), o, &closing)
	return closing, err
}
