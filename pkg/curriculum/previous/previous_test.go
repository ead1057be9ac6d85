package previous

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/curriculumtest"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

var taskIDs = []string{"leaf", "pizza", "spooky"}

// response is one of one message, to a prompt of two.
func response(row int32, sample int, outcome shard.Outcome, quality float64) curriculum.Response {
	return curriculum.Response{
		Sample: sample, Ref: shard.Ref{Iteration: 1, Row: row, Sample: int32(sample), Messages: 3},
		Roles: []string{"system", "user", "assistant"}, PromptMessages: 2, Turns: 1,
		Score: shard.Score{Outcome: string(outcome), NormalizedScore: quality},
	}
}

func group(row int32, task string, depth int32, responses ...curriculum.Response) curriculum.Group {
	return curriculum.Group{Instance: shard.Instance{InstanceID: fmt.Sprintf("i%d", row), TaskID: task, Depth: depth}, Responses: responses}
}

// stateOf is a state of iteration 1 with n solutions.
func stateOf(t testing.TB, n int) curriculum.State {
	t.Helper()
	var groups []curriculum.Group
	for i := range n {
		groups = append(groups, group(int32(i), taskIDs[i%3], 0, response(int32(i), 0, shard.OutcomeOK, float64(i)/float64(n))))
	}
	state, err := New(*DefaultSettings(), 1).Update(curriculum.State{}, 1, groups, taskIDs)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestConform(t *testing.T) {
	t.Parallel()
	curriculumtest.Conform(t, curriculumtest.Subject{
		New:  func(seed uint64) curriculum.Curriculum { return New(*DefaultSettings(), seed) },
		Rows: func(int) int { return curriculumtest.Prompts * curriculumtest.Group },
	})
}

// Of eight responses four are valid: they replace what the iteration before left,
// in the order of the plan and of the samples, whatever order they come in.
func TestUpdate(t *testing.T) {
	t.Parallel()
	p := New(*DefaultSettings(), 1)
	groups := []curriculum.Group{
		group(0, "pizza", 0,
			response(0, 3, shard.OutcomeOK, .5), response(0, 0, shard.OutcomeTimeout, 0),
			response(0, 1, shard.OutcomeOK, .25), response(0, 2, shard.OutcomeInvalid, 0)),
		group(1, "leaf", 2, response(1, 0, shard.OutcomeOK, 1)), // an improve step's, in a group of one
		group(2, "leaf", 0, response(2, 0, shard.OutcomeInfra, 0), response(2, 1, shard.OutcomePreempted, 0)),
		group(3, "pizza", 0, response(3, 0, shard.OutcomeOK, .25)),
	}
	got, err := curriculum.Update(p, curriculum.State{Iteration: 6, Entries: stateOf(t, 2).Entries}, 7, groups, taskIDs)
	if err != nil {
		t.Fatal(err)
	}
	entry := func(row, sample int32, task string, depth int32, quality float64) shard.Entry {
		return shard.Entry{
			EntryID: fmt.Sprintf("i%d/%d/0/3", row, sample), TaskID: task, Kind: "improve", ParentID: fmt.Sprintf("i%d", row), Depth: depth, Turn: 1,
			Ref: shard.Ref{Iteration: 1, Row: row, Sample: sample, Messages: 3}, BaseScore: quality,
		}
	}
	want := curriculum.State{Iteration: 7, Entries: []shard.Entry{
		entry(0, 1, "pizza", 1, .25), entry(0, 3, "pizza", 1, .5), entry(1, 0, "leaf", 3, 1), entry(3, 0, "pizza", 1, .25),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the state (-want +got):\n%s", diff)
	}
	// (1/4 + 1/2 + 1 + 1/4)/4 = 1/2, and (0 + 0 + 2 + 0)/4 = 1/2.
	metrics := map[string]float64{"solutions": 4, "tasks": 2, "score_mean": .5, "score_best": 1, "improved_mean": .5}
	if diff := cmp.Diff(metrics, p.Metrics(got)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// An iteration without a valid solution leaves nothing to improve, and says so:
// its prompts are those of the uniform curriculum.
func TestNothingIsValid(t *testing.T) {
	t.Parallel()
	for _, exact := range []bool{false, true} {
		p := New(Settings{Improve: .5, Exact: exact, BaseTasks: uniform.Epochs}, 5)
		state, err := p.Update(stateOf(t, 3), 2, []curriculum.Group{group(0, "leaf", 0, response(0, 0, shard.OutcomeInfra, 0), response(0, 1, shard.OutcomeTimeout, 0))}, taskIDs)
		if err != nil || len(state.Entries) != 0 || len(state.Notes) != 1 || !strings.Contains(state.Notes[0], "no solution of iteration 2 is valid") {
			t.Fatalf("%+v, %v", state, err)
		}
		for _, state := range []curriculum.State{{}, state} {
			got, err := p.Next(state, 3, 8, taskIDs)
			if err != nil {
				t.Fatal(err)
			}
			want, err := uniform.New(uniform.Settings{BaseTasks: uniform.Epochs}, 5).Next(curriculum.State{}, 3, 8, taskIDs)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("prompts (-want +got): %v\n%s", err, diff)
			}
		}
		if diff := cmp.Diff(map[string]float64{"solutions": 0}, p.Metrics(state)); diff != "" {
			t.Error(diff)
		}
	}
}

// What lathe explain says is what was drawn, over 4000 iterations of 5 prompts and
// four solutions, within four standard deviations of a binomial: half of the
// prompts improve, each solution is an eighth of all, and no prompt differs from
// another. With exact, two or three of five prompts improve, half of the time each.
func TestDraws(t *testing.T) {
	t.Parallel()
	const iterations, n = 4000, 5
	state := stateOf(t, 4)
	for _, exact := range []bool{false, true} {
		p := New(Settings{Improve: .5, Exact: exact, BaseTasks: uniform.Independent}, 17)
		drawn, places, three := map[string]float64{}, make([]float64, n), 0.0
		for k := range iterations {
			selections, err := p.Next(state, 2+k, n, taskIDs)
			if err != nil {
				t.Fatal(err)
			}
			improve := 0
			for i, s := range selections {
				terms, err := p.Explain(state, 2+k, n, s)
				if err != nil || terms[len(terms)-1].Name != "probability" || terms[len(terms)-1].Value != s.Probability {
					t.Fatalf("%+v is explained by %+v, %v", s, terms, err)
				}
				if s.Kind == shard.KindInitial {
					if s.Probability != .5 || !s.Ref.IsZero() || s.SelectedBy != uniform.SelectedBy {
						t.Fatalf("from scratch: %+v", s)
					}
					continue
				}
				at := slices.IndexFunc(state.Entries, func(e shard.Entry) bool { return e.EntryID == s.ParentID })
				e := state.Entries[at]
				if s.Kind != shard.KindImprove || s.Origin != shard.OriginBuffer || s.Ref != e.Ref || s.BaseScore != e.BaseScore || s.TaskID != e.TaskID || s.Probability != .125 {
					t.Fatalf("%+v of entry %+v", s, e)
				}
				improve++
				drawn[s.ParentID]++
				places[i]++
			}
			if exact && improve != 2 && improve != 3 {
				t.Fatalf("%d of 5 prompts improve", improve)
			}
			if improve == 3 {
				three++
			}
		}
		within := func(what string, got, trials, probability float64) {
			if sigma := math.Sqrt(trials * probability * (1 - probability)); math.Abs(got-trials*probability) > 4*sigma {
				t.Errorf("exact %v: %s: %g of %g, want %g within %.1f", exact, what, got, trials, trials*probability, 4*sigma)
			}
		}
		for _, e := range state.Entries {
			within(e.EntryID, drawn[e.EntryID], n*iterations, .125)
		}
		for i, improve := range places {
			within(fmt.Sprintf("prompt %d", i), improve, iterations, .5)
		}
		if exact {
			within("three of five", three, iterations, .5)
		}
	}
}

// With exact the share of prompts that improve is that of any p.
func TestExactShare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		spec := Settings{Improve: rapid.Float64Range(0, 1).Draw(rt, "p"), Exact: true, BaseTasks: uniform.Epochs}
		seed, n := rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(0, 20).Draw(rt, "prompts")
		state := stateOf(t, rapid.IntRange(1, 6).Draw(rt, "solutions"))
		selections, err := New(spec, seed).Next(state, 2, n, taskIDs)
		if err != nil {
			rt.Fatal(err)
		}
		improve := 0
		for _, s := range selections {
			if s.Kind == shard.KindImprove {
				improve++
			}
		}
		if want := float64(n) * spec.Improve; math.Abs(float64(improve)-want) >= 1 {
			rt.Fatalf("%d of %d prompts improve with exactly %g", improve, n, spec.Improve)
		}
	})
}

// A selection of what the state does not hold is an error of the data.
func TestExplainUnknown(t *testing.T) {
	t.Parallel()
	_, err := New(*DefaultSettings(), 1).Explain(stateOf(t, 2), 2, 4, curriculum.Selection{Origin: shard.OriginBuffer, ParentID: "i9/0/0/3"})
	if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), `solution "i9/0/0/3" is none of those`) {
		t.Error(err)
	}
}

// What a seed draws never changes. Of 5 prompts with p = 0.5 a coin rounds 2.5.
func TestDrawsStay(t *testing.T) {
	t.Parallel()
	if want := (Settings{Improve: .5, BaseTasks: uniform.Epochs}); *DefaultSettings() != want {
		t.Errorf("RL-MLE §3.3 has %+v, not %+v", want, *DefaultSettings())
	}
	p := New(Settings{Improve: .5, Exact: true, BaseTasks: uniform.Epochs}, 7)
	var got string
	for iteration := range 6 {
		got += " "
		for _, improves := range p.half(iteration, 5, .5) {
			got += map[bool]string{true: "1", false: "0"}[improves]
		}
	}
	if want := " 10010 11001 01110 00111 10001 01101"; got != want {
		t.Errorf("prompts that improve: %q, want %q", got, want)
	}
	terms, err := p.Explain(stateOf(t, 4), 2, 5, curriculum.Selection{Origin: shard.OriginBuffer, ParentID: stateOf(t, 4).Entries[1].EntryID})
	if err != nil || terms[3].Name != "share" || terms[3].Value != .25 {
		t.Errorf("%+v, %v: want a share of 1/4", terms, err)
	}
}
