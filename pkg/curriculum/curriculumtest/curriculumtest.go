// Package curriculumtest is the conformance suite of curricula: what a run relies
// on, whatever the method.
package curriculumtest

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The size of the runs of the suite.
const (
	Tasks      = 12 // training tasks
	Prompts    = 5  // of an iteration's plan
	Group      = 4  // responses to a prompt
	Iterations = 8
)

// Subject is a curriculum under test.
type Subject struct {
	// New makes it, with settings under which all of it is in use within a few
	// iterations.
	New func(seed uint64) curriculum.Curriculum
	// Rows is the most rows, entries and statistics together, that its state has
	// after so many iterations.
	Rows func(iterations int) int
	// Adapt adds to a response what the curriculum needs beside outcomes, rewards
	// and roles; nil for nothing.
	Adapt func(r *curriculum.Response)
}

// Conform tests that a curriculum does what [curriculum.Curriculum],
// [curriculum.Explainer] and [curriculum.Measurer] promise: the same result for the
// same seed, in whatever order responses arrive and from a state that was written
// and read; selections of known tasks and entries, each with a probability that is
// explained; and that in iterations in which everything fails, one response
// succeeds, or all do.
func Conform(t *testing.T, s Subject) {
	t.Helper()
	for name, outcome := range outcomes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newRun(t, s, outcome).iterate(Iterations)
		})
	}
	t.Run("bounded state", func(t *testing.T) {
		t.Parallel()
		r := newRun(t, s, outcomes["mixed"])
		for range 6 * Iterations {
			r.next(r.plan())
			if rows, most := len(r.state.Entries)+len(r.state.Stats), s.Rows(r.state.Iteration); rows > most {
				t.Fatalf("the state of iteration %d has %d rows, want at most %d", r.state.Iteration, rows, most)
			}
		}
	})
	t.Run("draws depend on the seed", func(t *testing.T) {
		t.Parallel()
		other := s
		other.New = func(seed uint64) curriculum.Curriculum { return s.New(seed + 1) }
		a, b := newRun(t, s, outcomes["mixed"]), newRun(t, other, outcomes["mixed"])
		for range Iterations {
			if plan := a.plan(); !cmp.Equal(plan, b.plan()) {
				return
			}
			a.next(a.plan())
			b.next(b.plan())
		}
		t.Error("two seeds select the same")
	})
	t.Run("wrong calls", func(t *testing.T) {
		t.Parallel()
		newRun(t, s, outcomes["mixed"]).wrongCalls()
	})
}

// outcomes are what responses come to, by name: the outcome of a response and its
// quality, from a number in [0, 1) drawn for it.
var outcomes = map[string]func(draw float64, iteration, prompt, sample int) (shard.Outcome, float64){
	"mixed": func(draw float64, _, _, _ int) (shard.Outcome, float64) {
		switch {
		case draw < .15:
			return shard.OutcomeInfra, 0
		case draw < .3:
			return shard.OutcomeTimeout, 0
		case draw < .6:
			return shard.OutcomeWrong, math.Round(4*draw) / 8
		}
		return shard.OutcomeOK, 1
	},
	"no response": nil,
	"no valid response": func(float64, int, int, int) (shard.Outcome, float64) {
		return shard.OutcomePreempted, math.NaN()
	},
	"none solved": func(float64, int, int, int) (shard.Outcome, float64) { return shard.OutcomeWrong, 0 },
	"one solved": func(_ float64, iteration, prompt, sample int) (shard.Outcome, float64) {
		if iteration == 2 && prompt == 0 && sample == 1 {
			return shard.OutcomeOK, 1
		}
		return shard.OutcomeWrong, 0
	},
	"all solved": func(float64, int, int, int) (shard.Outcome, float64) { return shard.OutcomeOK, 1 },
}

// run is a run of a curriculum so far.
type run struct {
	*testing.T
	subject Subject
	outcome func(draw float64, iteration, prompt, sample int) (shard.Outcome, float64)
	state   curriculum.State
	late    []curriculum.Group // of the iteration before
}

const seed = 7

func newRun(t *testing.T, s Subject, outcome func(draw float64, iteration, prompt, sample int) (shard.Outcome, float64)) *run {
	return &run{T: t, subject: s, outcome: outcome}
}

func taskIDs() []string {
	ids := make([]string, Tasks)
	for i := range ids {
		ids[i] = fmt.Sprintf("task-%02d", i)
	}
	return ids
}

// plan selects the next iteration's prompts.
func (r *run) plan() []curriculum.Selection {
	r.Helper()
	selections, err := curriculum.Next(r.subject.New(seed), r.state, r.state.Iteration+1, Prompts, taskIDs())
	if err != nil {
		r.Fatal(err)
	}
	return selections
}

// next samples a plan and folds it in. Of every plan the last prompt is late by an
// iteration.
func (r *run) next(plan []curriculum.Selection) {
	r.Helper()
	groups := r.groups(plan)
	last := len(groups) - 1
	r.state = r.update(r.state, slices.Concat(groups[:last], r.late))
	r.late = groups[last:]
}

func (r *run) update(state curriculum.State, groups []curriculum.Group) curriculum.State {
	r.Helper()
	next, err := curriculum.Update(r.subject.New(seed), state, state.Iteration+1, groups, taskIDs())
	if err != nil {
		r.Fatal(err)
	}
	return next
}

// iterate runs iterations with all checks.
func (r *run) iterate(iterations int) {
	r.Helper()
	for range iterations {
		before := clone(r.state)
		plan := r.plan()
		if diff := cmp.Diff(plan, r.plan()); diff != "" {
			r.Fatalf("two plans from one state differ:\n%s", diff)
		}
		r.check(plan)

		groups := r.groups(plan)
		next := r.update(r.state, groups)
		if next.Iteration != r.state.Iteration+1 {
			r.Fatalf("the new state is of iteration %d, want %d", next.Iteration, r.state.Iteration+1)
		}
		for i := range groups { // the responses arrive in another order
			slices.Reverse(groups[i].Responses)
		}
		if diff := cmp.Diff(next, r.update(r.state, groups)); diff != "" {
			r.Fatalf("the order in which responses arrive changes the state:\n%s", diff)
		}
		if diff := cmp.Diff(before, r.state); diff != "" {
			r.Fatalf("the old state has changed:\n%s", diff)
		}
		r.checkState(next)
		r.next(plan)
	}
	kept := r.written(r.state)
	for _, what := range []struct {
		name string
		got  func(curriculum.State) any
	}{
		{"plan", func(s curriculum.State) any { r.state = s; return r.plan() }},
		{"next state", func(s curriculum.State) any { r.state = s; return r.update(s, r.groups(r.plan())) }},
	} {
		if diff := cmp.Diff(what.got(clone(r.state)), what.got(kept), cmpopts.EquateEmpty()); diff != "" {
			r.Errorf("the %s from a state that was written and read differs:\n%s", what.name, diff)
		}
	}
}

func clone(s curriculum.State) curriculum.State {
	s.Entries, s.Stats = slices.Clone(s.Entries), slices.Clone(s.Stats)
	return s
}

// written is a state as the next iteration reads it.
func (r *run) written(s curriculum.State) curriculum.State {
	r.Helper()
	folder := r.TempDir()
	state, stats := filepath.Join(folder, "state.parquet"), filepath.Join(folder, "stats.parquet")
	kept := curriculum.State{Iteration: s.Iteration}
	_, err := shard.Write(state, s.Entries, nil, seal.Attempt{}, seal.Manifest{})
	if err == nil {
		_, err = shard.Write(stats, s.Stats, nil, seal.Attempt{}, seal.Manifest{})
	}
	if err == nil {
		kept.Entries, _, err = shard.Read[shard.Entry](r.Context(), state, seal.Options{})
	}
	if err == nil {
		kept.Stats, _, err = shard.Read[shard.Stat](r.Context(), stats, seal.Options{})
	}
	if err != nil {
		r.Fatal(err)
	}
	return kept
}

// check checks a plan that was made from the state.
func (r *run) check(plan []curriculum.Selection) {
	r.Helper()
	if len(plan) != Prompts {
		r.Fatalf("%d selections, want %d", len(plan), Prompts)
	}
	c := r.subject.New(seed)
	kinds := []shard.Kind{shard.KindInitial}
	if asking, ok := c.(curriculum.Asking); ok {
		kinds = append(kinds, asking.Kinds()...)
	}
	for i, s := range plan {
		switch {
		case !slices.Contains(taskIDs(), s.TaskID):
			r.Errorf("%+v is of no training task", s)
		case !slices.Contains(kinds, s.Kind):
			r.Errorf("%+v is of none of the kinds %v", s, kinds)
		case s.SelectedBy == "":
			r.Errorf("%+v names no rule", s)
		case s.Origin == shard.OriginBase && (s.ParentID != "" || !s.Ref.IsZero() || s.Depth != 0 || s.Turn != 0):
			r.Errorf("%+v is of a training task and has a parent", s)
		}
		held := func(id string, ref shard.Ref) bool {
			at := slices.IndexFunc(r.state.Entries, func(e shard.Entry) bool { return e.EntryID == id })
			return at >= 0 && r.state.Entries[at].Ref == ref && r.state.Entries[at].TaskID == s.TaskID
		}
		if s.Origin == shard.OriginBuffer && !held(s.ParentID, s.Ref) {
			r.Errorf("%+v is of no entry of the state", s)
		}
		if joins := s.Kind == shard.KindCrossover; joins != (s.PartnerID != "") || joins && (!held(s.PartnerID, s.PartnerRef) || s.PartnerID == s.ParentID) {
			r.Errorf("%+v joins no two entries of the state", s)
		}
		r.explained(c, s, i == 0)
	}
}

// explained checks the probability of a selection. A curriculum that does not state
// it in the plan, because that is costly, is asked for the first of a plan alone.
func (r *run) explained(c curriculum.Curriculum, s curriculum.Selection, first bool) {
	r.Helper()
	probability := s.Probability
	if explainer, ok := c.(curriculum.Explainer); ok && (first || probability != 0) {
		terms, err := explainer.Explain(r.state, r.state.Iteration+1, Prompts, s)
		if err != nil {
			r.Fatal(err)
		}
		last := terms[len(terms)-1]
		if last.Name != "probability" || s.Probability != 0 && last.Value != s.Probability {
			r.Errorf("%+v is explained by %+v", s, terms)
		}
		probability = last.Value
	} else if !ok && probability == 0 {
		r.Errorf("%+v has no probability, and nothing explains it", s)
	}
	// Rounding may take a sum of probabilities above 1.
	if (first || s.Probability != 0) && !(probability > 0 && probability < 1+1e-9) {
		r.Errorf("%+v has the probability %v", s, probability)
	}
}

// checkState checks a state that Update made.
func (r *run) checkState(s curriculum.State) {
	r.Helper()
	entries, stats := map[string]bool{}, map[shard.Stat]bool{}
	for _, e := range s.Entries {
		if entries[e.EntryID] || math.IsNaN(e.Potential) || math.IsNaN(e.BaseScore) {
			r.Errorf("entry %+v is there twice, or has no number", e)
		}
		entries[e.EntryID] = true
	}
	for _, stat := range s.Stats {
		if math.IsNaN(stat.Value) {
			r.Errorf("statistic %+v has no number", stat)
		}
		stat.Value = 0
		if stats[stat] {
			r.Errorf("statistic %+v is there twice", stat)
		}
		stats[stat] = true
	}
	if measurer, ok := r.subject.New(seed).(curriculum.Measurer); ok {
		for name, value := range measurer.Metrics(s) {
			if math.IsNaN(value) || math.IsInf(value, 0) {
				r.Errorf("metric %s is %v", name, value)
			}
		}
	}
}

// wrongCalls checks what is refused, and a plan of no prompts.
func (r *run) wrongCalls() {
	groups := r.groups(r.plan())
	c := r.subject.New(seed)
	for _, wrong := range []struct {
		name      string
		iteration int
		groups    []curriculum.Group
	}{
		{"an iteration twice", 0, nil},
		{"an instance twice", 1, slices.Concat(groups, groups[:1])},
	} {
		if _, err := curriculum.Update(c, r.state, wrong.iteration, wrong.groups, taskIDs()); exitcode.Code(err) != exitcode.Bug {
			r.Errorf("%s: %v", wrong.name, err)
		}
	}
	if _, err := curriculum.Next(c, r.state, 1, Prompts, nil); exitcode.Code(err) != exitcode.Data {
		r.Errorf("no tasks: %v", err)
	}
	for range 3 {
		if none, err := curriculum.Next(c, r.state, r.state.Iteration+1, 0, taskIDs()); err != nil || len(none) != 0 {
			r.Errorf("a plan of no prompts: %v, %v", none, err)
		}
		r.next(r.plan())
	}
}
