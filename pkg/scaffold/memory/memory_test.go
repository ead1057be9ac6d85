package memory

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lathe-rl/lathe/pkg/pysource"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
	"pgregory.net/rapid"
)

// span is the fingerprint of the shapes from one to another, 20 of them in most
// tests: spans that are shifted by one have 19 in common, a similarity of 0.95; by
// two 18, and 0.9.
func span(from, to uint64) pysource.Fingerprint {
	var f pysource.Fingerprint
	for h := from; h < to; h++ {
		f = append(f, pysource.Shape{Hash: h, Count: 1})
	}
	return f
}

// solution is of sample n of the first instance; from is where its span of 20
// begins.
func solution(n int32, score float64, from uint64) Solution {
	return Solution{Ref: shard.Ref{Iteration: 1, Sample: n}, Score: score, Fingerprint: span(from, from+20)}
}

// TestPush: each case pushes solutions one behind the other into an empty pool of
// three with a threshold of 0.9.
func TestPush(t *testing.T) {
	t.Parallel()
	strict := Settings{Capacity: 3, Threshold: .9, AboveMinimum: true}
	for _, c := range []struct {
		what     string
		settings Settings
		scores   []float64 // of samples 0, 1, …
		from     []uint64
		outcomes []Outcome
		held     []int32 // samples, in the pool's order
	}{
		{"room", Evaluation(), []float64{.5, .1, .3}, []uint64{0, 100, 200}, []Outcome{Inserted, Inserted, Inserted}, []int32{0, 1, 2}},
		{
			"the lowest leaves for a higher", Evaluation(),
			[]float64{.5, .1, .3, .2},
			[]uint64{0, 100, 200, 300},
			[]Outcome{Inserted, Inserted, Inserted, Replaced},
			[]int32{0, 2, 3},
		},
		{
			"not for an equal", Evaluation(),
			[]float64{.5, .1, .3, .1},
			[]uint64{0, 100, 200, 300},
			[]Outcome{Inserted, Inserted, Inserted, TooLow},
			[]int32{0, 1, 2},
		},
		{
			"of the lowest the oldest", Evaluation(),
			[]float64{.1, .5, .1, .2},
			[]uint64{0, 100, 200, 300},
			[]Outcome{Inserted, Inserted, Inserted, Replaced},
			[]int32{1, 2, 3},
		},
		{"one like it, lower", Evaluation(), []float64{.5, .6}, []uint64{0, 1}, []Outcome{Inserted, Improved}, []int32{1}},
		{"one like it, equal", Evaluation(), []float64{.5, .5}, []uint64{0, 1}, []Outcome{Inserted, Similar}, []int32{0}},
		{"one like it, higher", Evaluation(), []float64{.5, .4}, []uint64{0, 0}, []Outcome{Inserted, Similar}, []int32{0}},
		// 18 of 20 shapes: 2·18/(20 + 20) = 0.9, which does not exceed the threshold.
		{"at the threshold", Evaluation(), []float64{.5, .4}, []uint64{0, 2}, []Outcome{Inserted, Inserted}, []int32{0, 1}},
		// The third is like both others, which are not like each other.
		{"all that are like it leave", Evaluation(), []float64{.5, .4, .6}, []uint64{0, 2, 1}, []Outcome{Inserted, Inserted, Improved}, []int32{2}},
		{"and for a higher member too", Evaluation(), []float64{.5, .4, .45}, []uint64{0, 2, 1}, []Outcome{Inserted, Inserted, Similar}, []int32{0}},
		{"of two members the oldest", Evaluation(), []float64{.5, .5, .5}, []uint64{0, 2, 1}, []Outcome{Inserted, Inserted, Similar}, []int32{0}},
		{
			"in a full pool it takes the place of one like it, not of the lowest", Evaluation(),
			[]float64{.5, .1, .3, .6},
			[]uint64{0, 100, 200, 1},
			[]Outcome{Inserted, Inserted, Inserted, Improved},
			[]int32{1, 2, 3},
		},
		{"below the minimum there is room by default", Evaluation(), []float64{.5, .1}, []uint64{0, 100}, []Outcome{Inserted, Inserted}, []int32{0, 1}},
		{"and none above it", strict, []float64{.5, .1, .5, .6}, []uint64{0, 100, 200, 300}, []Outcome{Inserted, TooLow, TooLow, Inserted}, []int32{0, 3}},
		{"losses are scores below zero", Evaluation(), []float64{-2, -1}, []uint64{0, 1}, []Outcome{Inserted, Improved}, []int32{1}},
	} {
		var all []Solution
		for i, score := range c.scores {
			all = append(all, solution(int32(i), score, c.from[i]))
		}
		pool, pushed, err := Pool{}.Push(c.settings, all)
		if err != nil {
			t.Fatal(err)
		}
		var outcomes []Outcome
		for _, p := range pushed {
			outcomes = append(outcomes, p.Outcome)
		}
		var held []int32
		for _, m := range pool.Solutions {
			held = append(held, m.Ref.Sample)
		}
		if !slices.Equal(outcomes, c.outcomes) || !slices.Equal(held, c.held) {
			t.Errorf("%s: got %v and %v, want %v and %v", c.what, outcomes, held, c.outcomes, c.held)
		}
	}
}

// TestRefused: what no pool takes.
func TestRefused(t *testing.T) {
	t.Parallel()
	pool, pushed, err := Pool{}.Push(Training(), []Solution{{Ref: shard.Ref{Iteration: 1}, Score: 1}})
	if err != nil || len(pool.Solutions) != 0 || pushed[0].Outcome != Unreadable {
		t.Errorf("what does not parse: %v, %v, %v", pool, pushed, err)
	}
	for what, bad := range map[string][]Solution{
		"NaN": {solution(0, math.NaN(), 0)}, "infinity": {solution(0, math.Inf(-1), 0)},
		"two of one turn": {solution(0, 1, 0), solution(1, 1, 50), solution(0, 2, 100)},
	} {
		if got, _, err := (Pool{}).Push(Training(), bad); err == nil || len(got.Solutions) != 0 {
			t.Errorf("%s: got %v", what, got)
		}
	}
	for _, s := range []Settings{{}, {Capacity: 1, Threshold: 1.1}, {Capacity: 1, ResetRatio: -.1}, {Capacity: 1, Threshold: math.NaN()}} {
		if s.Check() == nil {
			t.Errorf("%+v is taken", s)
		}
	}
	for _, s := range []Settings{Training(), Evaluation(), {Capacity: 1}, {Capacity: 1, Threshold: 1, ResetRatio: 1}} {
		if err := s.Check(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// TestGet: nothing from an empty pool; of 20000 draws with p = 0.7 near 6000 are
// members, each of three near 2000 (five standard deviations: 324 and 212).
func TestGet(t *testing.T) {
	t.Parallel()
	s := Training()
	stream := rng.New(1, rng.PurposeTest, 1, "competition", 0)
	if _, ok := (Pool{}).Get(Settings{Capacity: 1}, stream, 0); ok {
		t.Error("an empty pool gives something")
	}
	pool, _, err := Pool{}.Push(s, []Solution{solution(0, 1, 0), solution(1, 2, 100), solution(2, 3, 200)})
	if err != nil {
		t.Fatal(err)
	}
	var counts [3]int
	for n := range 20000 {
		got, ok := pool.Get(s, stream, uint64(2*n))
		again, same := pool.Get(s, stream, uint64(2*n))
		if ok != same || !cmp.Equal(got, again) || ok == stream.Bool(uint64(2*n), .7) {
			t.Fatalf("draw %d: %v and %v", n, got, again)
		}
		if ok {
			counts[got.Ref.Sample]++
		}
	}
	total := 0
	for _, n := range counts {
		total += n
		if n < 2000-212 || n > 2000+212 {
			t.Errorf("members are drawn %v times", counts)
		}
	}
	if total < 6000-324 || total > 6000+324 {
		t.Errorf("%d of 20000 draws are members", total)
	}
	for n := range 100 {
		if _, ok := pool.Get(Settings{ResetRatio: 1}, stream, uint64(n)); ok {
			t.Error("a trace that always resets has a member")
		}
		if _, ok := pool.Get(Settings{}, stream, uint64(n)); !ok {
			t.Error("a trace that never resets has none")
		}
	}
}

// drawSolutions draws an iteration's solutions; scores are few, so that ties are
// many, and spans overlap by all measures.
func drawSolutions(t *rapid.T, iteration int32) []Solution {
	var all []Solution
	for n := range rapid.IntRange(0, 12).Draw(t, "solutions") {
		from := uint64(rapid.IntRange(0, 30).Draw(t, "from"))
		all = append(all, Solution{
			Ref:         shard.Ref{Iteration: iteration, Row: int32(n / 6), Sample: int32(n / 3 % 2), Step: int32(n / 2 % 2)},
			Turn:        int32(n),
			Score:       float64(rapid.IntRange(0, 4).Draw(t, "score")),
			Fingerprint: span(from, from+uint64(rapid.IntRange(0, 20).Draw(t, "length"))),
		})
	}
	return all
}

// TestAnyPushes: over iterations of any solutions and settings, the pool keeps its
// capacity, holds no two that are more similar than the threshold, never loses its
// best score, is the same in whatever order shards arrive, and is read as it was
// written; and what was got is held.
func TestAnyPushes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := Settings{
			Capacity: rapid.IntRange(1, 5).Draw(t, "capacity"), Threshold: rapid.SampledFrom([]float64{0, .5, .9, 1}).Draw(t, "threshold"),
			ResetRatio: rapid.SampledFrom([]float64{0, .5}).Draw(t, "p"), AboveMinimum: rapid.Bool().Draw(t, "above minimum"),
		}
		var pool Pool
		best := math.Inf(-1)
		for iteration := range int32(4) {
			solutions := drawSolutions(t, iteration+1)
			before := fmt.Sprint(pool)
			next, pushed, err := pool.Push(s, solutions)
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(pool) != before {
				t.Fatal("the pool was changed")
			}
			shuffled, again, err := pool.Push(s, rapid.Permutation(solutions).Draw(t, "arrival"))
			if err != nil || !cmp.Equal(next, shuffled) || !cmp.Equal(pushed, again) {
				t.Fatalf("in another order of arrival:\n%s", cmp.Diff(next, shuffled))
			}
			pool = next
			if err := pool.check(s); err != nil {
				t.Fatal(err)
			}
			now := math.Inf(-1)
			for _, m := range pool.Solutions {
				now = max(now, m.Score)
			}
			if now < best {
				t.Fatalf("the best score was %v and is %v", best, now)
			}
			best = now
			text, err := pool.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			read, err := Unmarshal(text, s)
			if err != nil || fmt.Sprint(read) != fmt.Sprint(pool) {
				t.Fatalf("%s is read as %v: %v", text, read, err)
			}
			got, ok := pool.Get(s, rng.New(1, rng.PurposeTest, int(iteration), "x", 0), 0)
			if ok && !slices.ContainsFunc(pool.Solutions, func(m Solution) bool { return cmp.Equal(m, got) }) {
				t.Fatalf("%v is not held", got)
			}
		}
	})
}

// TestOneByOne: pushing an iteration's solutions is pushing each alone.
func TestOneByOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		solutions := drawSolutions(t, 1)
		slices.SortFunc(solutions, order)
		whole, _, err := Pool{}.Push(Training(), solutions)
		if err != nil {
			t.Fatal(err)
		}
		var one Pool
		for _, c := range solutions {
			if one, _, err = one.Push(Training(), []Solution{c}); err != nil {
				t.Fatal(err)
			}
		}
		if fmt.Sprint(whole) != fmt.Sprint(one) {
			t.Fatalf("one by one:\n%v\n%v", one, whole)
		}
	})
}

// TestBadPools: a pool that pushes do not make is refused.
func TestBadPools(t *testing.T) {
	t.Parallel()
	write := func(all ...Solution) string {
		text, err := Pool{Solutions: all}.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	good := write(solution(0, 1, 0), solution(1, 2, 2))
	if _, err := Unmarshal([]byte(good), Evaluation()); err != nil {
		t.Error(err)
	}
	for what, text := range map[string]string{
		"nothing":                        "",
		"no JSON":                        "{",
		"unexpected bytes after its end": good + "{}",
		"another field":                  strings.Replace(good, `"turn"`, `"turns"`, 1),
		"too many":                       write(solution(0, 1, 0), solution(1, 1, 100), solution(2, 1, 200), solution(3, 1, 300)),
		"two that are like":              write(solution(0, 1, 0), solution(1, 2, 1)),
		"no program":                     write(Solution{Score: 1}),
		"no fingerprint":                 strings.Replace(good, `"fingerprint":"`, `"fingerprint":"A`, 1),
	} {
		if got, err := Unmarshal([]byte(text), Evaluation()); err == nil {
			t.Errorf("%s is read as %v", what, got)
		}
	}
}

// FuzzUnmarshal: what is read can be pushed into, got from and written.
func FuzzUnmarshal(f *testing.F) {
	text, err := Pool{Solutions: []Solution{solution(0, 1, 0), solution(1, 2, 2)}}.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"solutions":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		pool, err := Unmarshal(text, Training())
		if err != nil {
			return
		}
		next, _, err := pool.Push(Training(), []Solution{solution(5, 1, 1)})
		if err != nil || next.check(Training()) != nil {
			t.Fatalf("%s: %v, %v", text, err, next.check(Training()))
		}
		pool.Get(Training(), rng.Stream{}, 0)
		if _, err := next.Marshal(); err != nil {
			t.Fatal(err)
		}
	})
}
