package restarts

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/curriculumtest"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/pysource"
	"github.com/lathe-rl/lathe/pkg/shard"
)

var taskIDs = []string{"leaf", "pizza"}

// print is a program of ten shapes, the first of which it has in common with those
// of the same kind: Dice's coefficient of two is 1 within a kind and 0 between.
func print(t testing.TB, kind uint64) string {
	t.Helper()
	text, err := pysource.Fingerprint{{Hash: kind, Count: 10}}.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// turn is a valid submission of a kind with a score; NaN is one that is not valid.
func turn(t testing.TB, kind uint64, score float64) shard.TurnScore {
	t.Helper()
	if math.IsNaN(score) {
		return shard.TurnScore{Outcome: string(shard.OutcomeInvalid), Fingerprint: print(t, kind)}
	}
	return shard.TurnScore{
		Outcome: string(shard.OutcomeOK), NormalizedScore: score / 100, Fingerprint: print(t, kind),
		RewardParts: []shard.RewardPart{{Name: "score", Value: score}, {Name: "bonus", Value: 1}},
	}
}

// response is one attempt of a sample; its prompt is one message.
func response(row int32, sample int, turns ...shard.TurnScore) curriculum.Response {
	r := curriculum.Response{
		Sample: sample, Ref: shard.Ref{Iteration: 1, Row: row, Sample: int32(sample)}, Roles: []string{"user"}, PromptMessages: 1, Turns: len(turns),
		Score: shard.Score{Turns: turns},
	}
	for range turns {
		r.Roles = append(r.Roles, "assistant", "user")
	}
	r.Roles = r.Roles[:max(1, len(r.Roles)-1)]
	r.Ref.Messages = int32(len(r.Roles))
	return r
}

func group(row int32, task string, responses ...curriculum.Response) curriculum.Group {
	return curriculum.Group{Instance: shard.Instance{InstanceID: fmt.Sprintf("i%d", row), TaskID: task, Depth: 3}, Responses: responses}
}

// held lists what is held as TASK:ROW/SAMPLE/TURN=SCORE.
func held(s curriculum.State) (all []string) {
	for _, e := range s.Entries {
		all = append(all, fmt.Sprintf("%s:%d/%d/%d=%v", e.TaskID, e.Ref.Row, e.Ref.Sample, e.Turn-1, e.Potential))
	}
	return all
}

func TestConform(t *testing.T) {
	t.Parallel()
	curriculumtest.Conform(t, curriculumtest.Subject{
		New: func(seed uint64) curriculum.Curriculum { return New(*DefaultSettings(), seed) },
		// A program has one shape, so each solution is an entry and a statistic.
		Rows: func(int) int { return 2 * DefaultSettings().Capacity * curriculumtest.Tasks },
		Adapt: func(r *curriculum.Response) {
			for i := range r.Score.Turns {
				r.Score.Turns[i].Fingerprint = print(t, uint64(r.Ref.Iteration*100+r.Ref.Row*10+r.Ref.Sample))
			}
		},
	})
}

// TestUpdate: MLE-RL §4.2, with room for two solutions, T_ast = 0.9 and two
// instances of one task. By places: row 0, sample 0 pushes 30 of kind 1 (inserted); its
// second turn 20 of kind 1 (like it, and lower: refused); sample 1 pushes 40 of kind
// 2 (inserted). Row 1 pushes 35 of kind 1 (like 30, and higher: takes its place, last),
// then 10 of kind 3 (the pool is full, and its lowest is 35: refused), then 37 of
// kind 3 (replaces 35).
func TestUpdate(t *testing.T) {
	t.Parallel()
	spec := *DefaultSettings()
	spec.Capacity = 2
	r := New(spec, 1)
	groups := []curriculum.Group{
		group(1, "pizza", response(1, 0, turn(t, 1, 35), turn(t, 3, 10), turn(t, 3, math.NaN()), turn(t, 3, 37))),
		group(0, "pizza", response(0, 1, turn(t, 2, 40)), response(0, 0, turn(t, 1, 30), turn(t, 1, 20))),
		group(2, "leaf", response(2, 0)),
	}
	state, err := r.Update(curriculum.State{}, 1, groups, taskIDs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"pizza:0/1/0=40", "pizza:1/0/3=37"}, held(state)); diff != "" {
		t.Errorf("what is held (-want +got):\n%s", diff)
	}
	want := shard.Entry{
		EntryID: "i1/0/0/3", TaskID: "pizza", Kind: "improve", ParentID: "i1", Depth: 4, Turn: 4,
		Ref: shard.Ref{Iteration: 1, Row: 1, Messages: 8}, BaseScore: .37, Potential: 37,
	}
	if diff := cmp.Diff(want, state.Entries[1]); diff != "" {
		t.Errorf("an entry (-want +got):\n%s", diff)
	}
	// The pools come back from the state: 36 of kind 2 is like 40, and lower; 38 of
	// kind 3 takes the place of 37.
	later := group(0, "pizza", response(0, 0, turn(t, 2, 36), turn(t, 3, 38)))
	later.Responses[0].Ref.Iteration = 2
	state, err = r.Update(state, 2, []curriculum.Group{later}, taskIDs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"pizza:0/1/0=40", "pizza:0/0/1=38"}, held(state)); diff != "" {
		t.Errorf("what is held after two iterations (-want +got):\n%s", diff)
	}
	// (0.40 + 0.38)/2, and 0.40 of the one task that has any.
	metrics := map[string]float64{"solutions": 2, "tasks": 1, "score_mean": .39, "score_best": .4}
	if diff := cmp.Diff(metrics, r.Metrics(state)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	state.Stats[0].Name = "no shape"
	if _, err := r.Update(state, 3, nil, taskIDs); err == nil || !strings.Contains(err.Error(), "no shape of a program") {
		t.Errorf("a foreign statistic: %v", err)
	}
	state.Stats = nil
	if _, err := r.Update(state, 3, nil, taskIDs); err == nil || !strings.Contains(err.Error(), "no shape of the program of entry") {
		t.Errorf("no statistics: %v", err)
	}
}

// TestContinued: the turns of the attempts that a trace continues are scored with its own,
// and before them; they are pushed by the trace that sampled them. A program without a
// shape cannot be compared and is not pushed.
func TestContinued(t *testing.T) {
	t.Parallel()
	r := New(*DefaultSettings(), 1)
	for earlier := range 3 {
		own := response(0, 0, turn(t, 0xfedcba9876543210, 50), shard.TurnScore{Outcome: string(shard.OutcomeOK)}, turn(t, 2, 60))
		for i := range earlier {
			own.Roles = slices.Insert(own.Roles, 1, "assistant", "user")
			own.PromptMessages += 2
			own.Score.Turns = slices.Insert(own.Score.Turns, 0, turn(t, uint64(10+i), 90))
		}
		state, err := r.Update(curriculum.State{}, 1, []curriculum.Group{group(0, "pizza", own), group(1, "leaf", response(1, 0, turn(t, 3, 20)))}, taskIDs)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"leaf:1/0/0=20", "pizza:0/0/0=50", "pizza:0/0/2=60"}, held(state)); diff != "" {
			t.Errorf("after %d earlier attempts (-want +got):\n%s", earlier, diff)
		}
		first := int32(2 * (earlier + 1)) // message of its own
		if a, b := state.Entries[1].Ref.Messages, state.Entries[2].Ref.Messages; a != first || b != first+4 {
			t.Errorf("after %d earlier attempts: up to messages %d and %d, want %d and %d", earlier, a, b, first, first+4)
		}
		// The best of pizza is 0.60, of leaf 0.20; the mean is of 0.20, 0.50 and 0.60.
		metrics := map[string]float64{"solutions": 3, "tasks": 2, "score_mean": 1.3 / 3, "score_best": .4}
		if diff := cmp.Diff(metrics, r.Metrics(state), cmpopts.EquateApprox(0, 1e-15)); diff != "" {
			t.Errorf("metrics (-want +got):\n%s", diff)
		}
		again, err := r.Update(state, 2, nil, taskIDs)
		if diff := cmp.Diff(state.Stats, again.Stats); err != nil || diff != "" {
			t.Errorf("kept for an iteration (-before +after), %v:\n%s", err, diff)
		}
	}
	if metrics := r.Metrics(curriculum.State{}); !maps.Equal(metrics, map[string]float64{"solutions": 0, "tasks": 0}) {
		t.Errorf("metrics of nothing: %v", metrics)
	}
}

// TestNext: of 20,000 prompts as many restart, and each from as many solutions, as
// the probabilities say, within four standard deviations; a task of which nothing is
// held always begins from scratch.
func TestNext(t *testing.T) {
	t.Parallel()
	spec := *DefaultSettings()
	spec.BaseTasks = uniform.Independent
	r := New(spec, 7)
	state, err := r.Update(curriculum.State{}, 1, []curriculum.Group{group(0, "pizza", response(0, 0, turn(t, 1, 3), turn(t, 2, 4), turn(t, 3, 5)))}, taskIDs)
	if err != nil {
		t.Fatal(err)
	}
	const n = 20000
	selections, err := r.Next(state, 2, n, taskIDs)
	if err != nil {
		t.Fatal(err)
	}
	counts, probability, ofPizza := map[string]float64{}, map[string]float64{}, 0.0
	for _, s := range selections {
		if s.TaskID == "pizza" {
			ofPizza++
		} else if s.Origin != shard.OriginBase || s.Probability != 1 {
			t.Fatalf("a task of which nothing is held: %+v", s)
		}
		counts[s.TaskID+s.ParentID]++
		probability[s.TaskID+s.ParentID] = s.Probability
		terms, err := r.Explain(state, 2, n, s)
		if err != nil || terms[len(terms)-1].Value != s.Probability {
			t.Fatalf("%+v explained by %+v, %v", s, terms, err)
		}
	}
	if math.Abs(probability["pizza"]-.7) > 1e-15 || math.Abs(probability["pizzai0/0/0/1"]-.1) > 1e-15 || len(counts) != 5 {
		t.Errorf("probabilities %v; want 0.7 from scratch and 0.1 for each of three", probability)
	}
	for key, p := range probability {
		if key == "leaf" {
			continue
		}
		if got, sigma := counts[key], math.Sqrt(ofPizza*p*(1-p)); math.Abs(got-ofPizza*p) > 4*sigma {
			t.Errorf("%q: %v of %v draws, want %v ± %v", key, got, ofPizza, ofPizza*p, sigma)
		}
	}
	gone := selections[slices.IndexFunc(selections, func(s curriculum.Selection) bool { return s.ParentID != "" })]
	gone.ParentID = "elsewhere"
	if _, err := r.Explain(state, 2, n, gone); err == nil {
		t.Error("a solution that is not held was explained")
	}
}

// TestOrder: in whatever order an iteration's groups and responses come, the same is
// held.
func TestOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		spec := *DefaultSettings()
		spec.Capacity = rapid.IntRange(1, 3).Draw(rt, "capacity")
		var groups []curriculum.Group
		for row := range rapid.IntRange(1, 4).Draw(rt, "rows") {
			g := group(int32(row), rapid.SampledFrom(taskIDs).Draw(rt, "task"))
			for sample := range 3 {
				var turns []shard.TurnScore
				for range rapid.IntRange(0, 3).Draw(rt, "turns") {
					turns = append(turns, turn(t, rapid.Uint64Range(1, 4).Draw(rt, "kind"), float64(rapid.IntRange(0, 5).Draw(rt, "score"))))
				}
				g.Responses = append(g.Responses, response(int32(row), sample, turns...))
			}
			groups = append(groups, g)
		}
		want, err := New(spec, 1).Update(curriculum.State{}, 1, groups, taskIDs)
		if err != nil {
			rt.Fatal(err)
		}
		shuffled := slices.Clone(rapid.Permutation(groups).Draw(rt, "order"))
		for i := range shuffled {
			shuffled[i].Responses = rapid.Permutation(shuffled[i].Responses).Draw(rt, "samples")
		}
		got, err := New(spec, 1).Update(curriculum.State{}, 1, shuffled, taskIDs)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			rt.Errorf("%v (-in order +shuffled):\n%s", err, diff)
		}
	})
}
