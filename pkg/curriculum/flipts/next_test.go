package flipts

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The warm-up samples as the uniform curriculum does.
func TestWarmUpIsUniform(t *testing.T) {
	t.Parallel()
	f := New(settings(), 9)
	tasks := questions(30)
	for iteration := 1; iteration <= 2; iteration++ {
		got, err := f.Next(curriculum.State{Iteration: iteration - 1}, iteration, 16, tasks)
		if err != nil {
			t.Fatal(err)
		}
		want, err := uniform.New(uniform.Settings{BaseTasks: uniform.Epochs}, 9).Next(curriculum.State{}, iteration, 16, tasks)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("iteration %d: %+v, want %+v (%v)", iteration, got, want, err)
		}
	}
}

// stateOf is a state with a pool of given beliefs, q0 and on.
func stateOf(beliefs ...beta) curriculum.State {
	b := belief{prior: beta{1, 1}}
	for i, q := range beliefs {
		id := questions(len(beliefs))[i]
		b.posterior.put(id, q, 3)
		b.pool = append(b.pool, candidate{question: id, joined: 2})
	}
	return curriculum.State{Iteration: 3, Stats: b.stats()}
}

// FlipTS Eq. 4: the n draws that are nearest to the target, nearest first, and ties in
// pool order: Beta(α, 0) is always 1, which is as far from 1/2 as 0 is.
func TestNearestDrawsAreSelected(t *testing.T) {
	t.Parallel()
	f := New(settings(), 11)
	state := stateOf(beta{1, 0}, beta{0, 1}, beta{1000, 1000}, beta{1, 0}, beta{1e6, 1e6})
	got, err := f.Next(state, 4, 4, nil)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i, s := range got {
		ids = append(ids, s.TaskID)
		if s.Kind != shard.KindInitial || s.Origin != shard.OriginBase || s.SelectedBy != SelectedBy || !s.Ref.IsZero() {
			t.Errorf("%+v", s)
		}
		if i > 0 && f.miss(s.Potential) < f.miss(got[i-1].Potential) {
			t.Errorf("draw %v comes after %v", s.Potential, got[i-1].Potential)
		}
	}
	slices.Sort(ids[:2])
	if want := []string{"q2", "q4", "q0", "q1"}; !slices.Equal(ids, want) {
		t.Errorf("selected %q, want %q", ids, want)
	}
}

// A seed always gives the same pool and the same draws, or a run could not be repeated.
func TestDrawsOfASeed(t *testing.T) {
	t.Parallel()
	f := New(settings(), 3)
	state := stateOf(beta{1, 1}, beta{2, 8}, beta{.5, .5})
	got, err := f.Next(state, 4, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	said := fmt.Sprint(f.draw(4, questions(9), 4))
	for _, s := range got {
		said += fmt.Sprintf(" %s %.12f", s.TaskID, s.Potential)
	}
	if want := "[q7 q1 q4 q3] q2 0.464674649882 q0 0.561755453448 q1 0.203646141672"; said != want {
		t.Errorf("drawn are %s, want %s", said, want)
	}
}

// What lathe explain says a question's probability is, is the share of 2,000
// iterations in which it is selected, within four standard deviations.
func TestExplainedProbabilities(t *testing.T) {
	t.Parallel()
	const n, iterations = 3, 2000
	f := New(settings(), 13)
	beliefs := []beta{{1, 1}, {1, 1}, {1, 1}, {4.125, 4.375}, {.5, 20}, {30, 10}, {6e-19, 160}, {2, 2}, {1, 1}, {20, 18}}
	state := stateOf(beliefs...)
	selected := map[string]float64{}
	for k := range iterations {
		got, err := f.Next(state, 4+k, n, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range got {
			selected[s.TaskID]++
		}
	}
	var sum float64
	for _, q := range questions(len(beliefs)) {
		terms, err := f.Explain(state, 4, n, curriculum.Selection{TaskID: q})
		if err != nil {
			t.Fatal(err)
		}
		last := terms[len(terms)-1]
		sum += last.Value
		share := selected[q] / iterations
		if sigma := math.Sqrt(last.Value * (1 - last.Value) / iterations); last.Name != "probability" || math.Abs(share-last.Value) > 4*sigma+1e-9 {
			t.Errorf("%s is selected in %.4f of the iterations; its %s is %.4f ± %.4f", q, share, last.Name, last.Value, sigma)
		}
	}
	if math.Abs(sum-n) > 0.01 {
		t.Errorf("the probabilities add up to %v, want %d", sum, n)
	}
	// The draw that it prints is that of the selection.
	got, _ := f.Next(state, 4, n, nil)
	terms, err := f.Explain(state, 4, n, got[1])
	if err != nil || terms[5].Name != "ξ̃" || terms[5].Value != got[1].Potential || terms[6].Value != 2 {
		t.Errorf("%+v (%v) of %+v", terms, err, got[1])
	}
	if _, err := f.Explain(state, 4, n, curriculum.Selection{TaskID: "x"}); err == nil {
		t.Error("a question outside the pool is explained")
	}
}

// FlipTS Thm. 1 (FlipTS App. B): with K observed questions and N ≫ B others that have
// the prior, the expected number of observed questions in a batch goes to 0 as
// K·B/N times the ratio of the densities at the target (FlipTS Eq. 6).
func TestTheorem1(t *testing.T) {
	t.Parallel()
	const observed, batch = 20, 16
	s := settings()
	s.Target = 0.5
	f := New(s, 17)
	informative, prior := beta{8, 8}, beta{1, 3}
	ratio := density(informative, s.Target) / density(prior, s.Target)
	before := math.Inf(1)
	for _, others := range []int{200, 2000} {
		b := belief{prior: prior}
		for i, q := range questions(observed + others) {
			if i < observed {
				b.posterior.put(q, informative, 3)
			}
			b.pool = append(b.pool, candidate{question: q})
		}
		rounds := 200_000 / others
		var found float64
		for k := range rounds {
			for _, d := range f.draws(b, k)[:batch] {
				if _, is := b.posterior.at[d.question]; is {
					found++
				}
			}
		}
		mean, want := found/float64(rounds), observed*batch/float64(others)*ratio
		t.Logf("N = %d: %.3f observed questions in a batch of %d, equation 6 says %.3f", others, mean, batch, want)
		if mean >= before {
			t.Errorf("N = %d: %v observed questions in a batch, before there were %v", others, mean, before)
		}
		before = mean
		if sigma := math.Sqrt(want / float64(rounds)); others > 200 && math.Abs(mean-want) > 3*sigma {
			t.Errorf("N = %d: %v observed questions in a batch, equation 6 says %v", others, mean, want)
		}
	}
}

func density(q beta, x float64) float64 { return distuv.Beta{Alpha: q.alpha, Beta: q.beta}.Prob(x) }

// Over runs of any settings: the pool keeps its size and holds a question once,
// what is observed was sampled, every belief is one, and a state is read as it was
// written.
func TestRunsOfAnySettings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := settings()
		s.WarmUp = rapid.IntRange(1, 3).Draw(t, "W")
		s.PoolSize = rapid.IntRange(4, 12).Draw(t, "M")
		s.Target = rapid.SampledFrom([]float64{0, .2, .5, 1}).Draw(t, "ξ")
		s.Decay = rapid.SampledFrom([]float64{1e-200, .5, .9, 1}).Draw(t, "λ")
		s.RefreshShare = rapid.SampledFrom([]float64{.1, .3, 1}).Draw(t, "η")
		s.CullShare = rapid.SampledFrom([]float64{0, .25, 1}).Draw(t, "γ")
		s.Event = rapid.SampledFrom([]string{EventF2S, EventAdjacentF2S, EventSuccess}).Draw(t, "event")
		f := New(s, rapid.Uint64().Draw(t, "seed"))
		tasks := questions(rapid.IntRange(4, 20).Draw(t, "tasks"))
		var state curriculum.State
		for iteration := 1; iteration <= 8; iteration++ {
			selections, err := f.Next(state, iteration, 4, tasks)
			if err != nil {
				t.Fatal(err)
			}
			var groups []curriculum.Group
			for _, selection := range selections {
				groups = append(groups, group(selection.TaskID, rapid.SliceOfN(rapid.SampledFrom([]string{"ff", "fs", "sf", "ss", "", "fsfs"}), 1, 4).Draw(t, "traces")...))
			}
			next, err := f.Update(state, iteration, groups, tasks)
			if err != nil {
				t.Fatal(err)
			}
			state = next
			b, err := read(state.Stats)
			if err != nil || !slices.Equal(b.stats(), state.Stats) {
				t.Fatalf("iteration %d: read %v of %v, %v", iteration, b.stats(), state.Stats, err)
			}
			if want := min(s.PoolSize, len(tasks)); (iteration >= s.WarmUp) != (len(b.pool) == want) {
				t.Fatalf("iteration %d: a pool of %d, want %d", iteration, len(b.pool), want)
			}
			seen := map[string]bool{}
			for _, c := range b.pool {
				_, sampled := b.posterior.at[c.question]
				if q := b.of(c.question); seen[c.question] || c.observed && !sampled || !(q.alpha >= 0 && q.beta >= 0 && q.mean() >= 0 && q.mean() <= 1) {
					t.Fatalf("iteration %d: %+v with %+v", iteration, c, q)
				}
				seen[c.question] = true
			}
		}
	})
}

// BenchmarkPool is an iteration over 300,000 questions, with pools of M and an
// observed share of 0.3, the most before a refresh: update, refresh and selection.
func BenchmarkPool(b *testing.B) {
	tasks := questions(300_000)
	for _, size := range []int{2000, 20_000, 100_000} {
		s := *DefaultSettings()
		s.PoolSize, s.WarmUp = size, 1
		f := New(s, 19)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			held := belief{prior: beta{1.25, 3.75}}
			for i, q := range f.draw(1, tasks, size) {
				c := candidate{question: q, joined: 1, observed: i < size*3/10-1}
				if c.observed {
					held.posterior.put(q, beta{float64(i%7) + .5, float64(i%11) + .5}, 2)
				}
				held.pool = append(held.pool, c)
			}
			state := curriculum.State{Iteration: 100, Stats: held.stats()}
			var groups []curriculum.Group
			for _, c := range held.pool[size-16:] {
				groups = append(groups, group(c.question, times(16, "fs")...))
			}
			for range b.N {
				next, err := f.Update(state, 101, groups, tasks)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := f.Next(next, 102, 16, tasks); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(state.Stats)), "rows")
		})
	}
}
