package beliefs

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/curriculumtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

var near = cmpopts.EquateApprox(0, 1e-12)

const bufferSize = 6

// small is a buffer that is full and selected from within a few groups.
func small() Settings {
	return Settings{BufferSize: bufferSize, MinBufferSize: 2, SelectProbability: 0.5, DivergeProbability: 0.25, Decay: 0.9}
}

func TestConform(t *testing.T) {
	t.Parallel()
	curriculumtest.Conform(t, curriculumtest.Subject{
		New:  func(seed uint64) curriculum.Curriculum { return New(small(), seed) },
		Rows: func(int) int { return 3 * bufferSize },
	})
}

// Sizes and probabilities are those of ExIt Tab. 4, λ is FlipTS's.
func TestDefaults(t *testing.T) {
	t.Parallel()
	if got := *DefaultSettings(); got != (Settings{512, 128, 0.5, 0.2, 0.9}) {
		t.Errorf("%+v", got)
	}
}

// group is of a base task, or of the entry that it was selected from, with qualities.
func group(id, parent string, qualities ...float64) curriculum.Group {
	g := curriculum.Group{Instance: shard.Instance{InstanceID: id, TaskID: "task", ParentID: parent, Kind: string(shard.KindInitial), Iteration: 1}}
	for i, q := range qualities {
		outcome := shard.OutcomeOK
		if math.IsNaN(q) {
			outcome = shard.OutcomeInfra
		}
		g.Responses = append(g.Responses, curriculum.Response{
			Sample: i, Ref: shard.Ref{Iteration: 1, Sample: int32(i), Messages: 2}, Roles: []string{"user", "assistant"}, PromptMessages: 1, Turns: 1,
			Score: shard.Score{Outcome: string(outcome), NormalizedScore: q},
		})
	}
	return g
}

// By hand, with λ = 0.9. One success of four: Beta(1 + 0.9, 3 + 0.9), S = 1.9·3.9 / (5.8·6.8).
// Then two of four of that entry: Beta(2 + 1.71, 2 + 3.51). A group with one valid response
// changes nothing, and half a success is 0.5 of each.
func TestUpdate(t *testing.T) {
	t.Parallel()
	b := New(small(), 1)
	first, err := curriculum.Update(b, curriculum.State{}, 1, []curriculum.Group{group("a", "", 0, 1, 0, 0)}, []string{"task"})
	if err != nil || len(first.Entries) != 1 {
		t.Fatalf("%d entries, %v", len(first.Entries), err)
	}
	id := first.Entries[0].EntryID
	for name, c := range map[string]struct {
		qualities   []float64
		alpha, beta float64
	}{
		"not sampled":        {nil, 1.9, 3.9},
		"two of four":        {[]float64{1, 0, 1, 0}, 3.71, 5.51},
		"none":               {[]float64{0, 0, 0, 0}, 1.71, 7.51},
		"halves":             {[]float64{0.5, 0.5}, 2.71, 4.51},
		"one valid response": {[]float64{math.NaN(), 1}, 1.9, 3.9},
	} {
		t.Run(name, func(t *testing.T) {
			var groups []curriculum.Group
			if c.qualities != nil {
				groups = append(groups, group("b", id, c.qualities...))
			}
			state, err := curriculum.Update(b, first, 2, groups, []string{"task"})
			if err != nil {
				t.Fatal(err)
			}
			n := c.alpha + c.beta
			got := []float64{state.Stats[0].Value, state.Stats[1].Value, state.Entries[0].Potential}
			if diff := cmp.Diff([]float64{c.alpha, c.beta, c.alpha * c.beta / (n * (n + 1))}, got, near); diff != "" {
				t.Errorf("α, β and S (-want +got):\n%s", diff)
			}
		})
	}
}

// A response of an entry's group begins with that group and the prior, not with the
// entry's belief. Beta(4.9, 0.9) has mean 4.9/5.8, and S = 4.9·0.9/(5.8·6.8).
func TestChildren(t *testing.T) {
	t.Parallel()
	b := New(small(), 1)
	state, err := curriculum.Update(b, curriculum.State{}, 1, []curriculum.Group{group("a", "", 1, 1, 1, 1)}, []string{"task"})
	if err != nil {
		t.Fatal(err)
	}
	state, err = curriculum.Update(b, state, 2, []curriculum.Group{group("b", state.Entries[0].EntryID, 0, 0, 0, 0)}, []string{"task"})
	if err != nil {
		t.Fatal(err)
	}
	want := []float64{4.9 * .9, .9*.9 + 4, .9, 4.9}
	got := []float64{state.Stats[0].Value, state.Stats[1].Value, state.Stats[2].Value, state.Stats[3].Value}
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Errorf("beliefs of the entry and of what came of it (-want +got):\n%s", diff)
	}
	s := []float64{4.41 * 4.81 / (9.22 * 10.22), .9 * 4.9 / (5.8 * 6.8)}
	want2 := map[string]float64{"mean": (4.41/9.22 + .9/5.8) / 2, "weight": (9.22 + 5.8) / 2, "score_mean": (s[0] + s[1]) / 2}
	if diff := cmp.Diff(want2, b.Metrics(state), near); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// entries have the given beliefs.
func entries(of ...belief) curriculum.State {
	state := curriculum.State{Iteration: 1}
	for i, b := range of {
		id := string(rune('a' + i))
		state.Entries = append(state.Entries, shard.Entry{EntryID: id, TaskID: "task", Kind: string(shard.KindImprove), Depth: 1, Turn: 1})
		state.Stats = append(state.Stats, shard.Stat{Scope: scopeEntry, Key: id, Name: nameAlpha, Value: b.Alpha}, shard.Stat{Scope: scopeEntry, Key: id, Name: nameBeta, Value: b.Beta})
	}
	return state
}

// Of Beta(1, 1) and a belief without mass but at the ends the first is always nearer to one
// half. Of two uniform ones each is in half of the draws. How often Next draws an entry is
// the share that Explain states.
func TestDraws(t *testing.T) {
	t.Parallel()
	spec := small()
	spec.SelectProbability, spec.DivergeProbability = 1, 0
	for name, state := range map[string]curriculum.State{
		"uniform and settled": entries(belief{Alpha: 1, Beta: 1}, belief{Alpha: 0, Beta: 9}),
		"two alike":           entries(belief{Alpha: 1, Beta: 1}, belief{Alpha: 1, Beta: 1}),
		"sure and unsure":     entries(belief{Alpha: 50, Beta: 50}, belief{Alpha: 1, Beta: 9}, belief{Alpha: 9, Beta: 1}, belief{Alpha: 1, Beta: 1}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 4000
			b := New(spec, 3)
			drawn, err := curriculum.Next(b, state, 2, n, []string{"task"})
			if err != nil {
				t.Fatal(err)
			}
			count := map[string]float64{}
			for _, s := range drawn {
				count[s.ParentID]++
			}
			sum := 0.0
			for _, entry := range state.Entries {
				terms, err := b.Explain(state, 2, n, curriculum.Selection{ParentID: entry.EntryID, Origin: shard.OriginBuffer, Kind: shard.KindImprove})
				if err != nil {
					t.Fatal(err)
				}
				p := terms[len(terms)-1].Value
				sum += p
				if error := 4 * math.Sqrt(p*(1-p)/n); math.Abs(count[entry.EntryID]/n-p) > error+1e-3 {
					t.Errorf("entry %s is %g of the draws, explained as %g", entry.EntryID, count[entry.EntryID]/n, p)
				}
			}
			if math.Abs(sum-1) > 1e-2 {
				t.Errorf("the shares add up to %g", sum)
			}
		})
	}
}

// Whatever was seen, S is a variance, and the belief's weight is bounded by the groups'
// sizes: α + β ≤ G/(1 − λ) + 2.
func TestBeliefs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		decay := rapid.Float64Range(0, 0.99).Draw(t, "decay")
		of := prior
		for _, qualities := range rapid.SliceOfN(rapid.SliceOfN(rapid.Float64Range(0, 1), 2, 8), 1, 50).Draw(t, "groups") {
			of = of.after(group("g", "", qualities...), decay)
			if s := of.learnability(); !(s >= 0 && s <= 0.25) {
				t.Fatalf("S is %g of %+v", s, of)
			}
			if of.Alpha+of.Beta > 8/(1-decay)+2+1e-9 {
				t.Fatalf("the weight of %+v", of)
			}
		}
	})
}

func TestForeignState(t *testing.T) {
	t.Parallel()
	missing, foreign := entries(belief{Alpha: 1, Beta: 1}), entries(belief{Alpha: 1, Beta: 1})
	missing.Stats = nil
	foreign.Stats[0].Name = "score"
	for name, state := range map[string]curriculum.State{"no belief": missing, "another statistic": foreign} {
		if _, err := curriculum.Next(New(small(), 1), state, 2, 1, []string{"task"}); exitcode.Code(err) != exitcode.Data {
			t.Errorf("%s: %v", name, err)
		}
	}
}
