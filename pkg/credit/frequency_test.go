package credit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// A world of one state and four actions, each of a declared duration and reward,
// and a softmax policy over them: the slowest action is the best, and is seldom
// chosen.
var world = struct {
	policy  []float64
	seconds []int
	reward  []float64
}{
	policy:  []float64{.4, .3, .2, .1},
	seconds: []int{1, 2, 5, 20},
	reward:  []float64{.2, .5, .3, .9},
}

// advantage is A(x) = r(x) - Σ π r.
func worldAdvantage(x int) float64 {
	value := 0.0
	for y, p := range world.policy {
		value += p * world.reward[y]
	}
	return world.reward[x] - value
}

// gradient is Σ_x share_x·weight_x·A(x)·∇log π(x), by the logits.
func gradient(share, weight func(x int) float64) []float64 {
	g := make([]float64, len(world.policy))
	for x := range world.policy {
		for j, p := range world.policy {
			score := -p
			if j == x {
				score++
			}
			g[j] += share(x) * weight(x) * worldAdvantage(x) * score
		}
	}
	return g
}

func same(int) float64 { return 1 }

// pick draws an action from the policy.
func pick(u float64) int {
	for x, p := range world.policy {
		if u -= p; u < 0 {
			return x
		}
	}
	return len(world.policy) - 1
}

// schedule is a way to observe actions under a budget of time: observed are the
// completed actions of a cluster of workers that depend on each other, of which
// there are many, and expected is the number of each action that a cluster
// completes on average.
type schedule struct {
	name     string
	clusters int
	observed func(stream rng.Stream) []int
	expected func(x int) float64
}

// repeated is the paper's arithmetic, n_x = π(x)·T/Δt_x (RL-MLE §3.1): a worker draws
// an action and repeats it for T seconds.
func repeated(budget int) schedule {
	return schedule{
		fmt.Sprintf("a worker repeats one action for %d s", budget), 6000,
		func(stream rng.Stream) []int {
			x := pick(stream.Float64(0))
			done := make([]int, budget/world.seconds[x])
			for i := range done {
				done[i] = x
			}
			return done
		},
		func(x int) float64 { return world.policy[x] * float64(budget) / float64(world.seconds[x]) },
	}
}

// renewed is a worker that draws an action whenever it is free, for T seconds; what
// it has not completed then is lost. It starts an action at second t with
// probability m(t) = Σ_x π(x)·m(t - Δt_x), m(0) = 1, and completes what it starts by
// T - Δt_x.
func renewed(budget int) schedule {
	starts := make([]float64, budget+1)
	starts[0] = 1
	for t := 1; t <= budget; t++ {
		for x, p := range world.policy {
			if t >= world.seconds[x] {
				starts[t] += p * starts[t-world.seconds[x]]
			}
		}
	}
	return schedule{
		fmt.Sprintf("a worker draws whenever it is free, for %d s", budget), 3000,
		func(stream rng.Stream) []int {
			var done []int
			for t, i := 0, uint64(0); ; i++ {
				x := pick(stream.Float64(i))
				if t += world.seconds[x]; t > budget {
					return done
				}
				done = append(done, x)
			}
		},
		func(x int) float64 {
			sum := 0.0
			for t := 0; t+world.seconds[x] <= budget; t++ {
				sum += starts[t]
			}
			return world.policy[x] * sum
		},
	}
}

// first is RL-MLE Alg. 1: m·B actions start together, and the batch is the B of them
// that are completed first; what is late is lost. The faster actions among them are
// binomial in number.
func first(batch int, multiplier float64) schedule {
	started := int(multiplier * float64(batch))
	upTo := func(x int) float64 { // expected number in the batch of actions up to x, which are sorted by duration
		p := 0.0
		for y := range x + 1 {
			p += world.policy[y]
		}
		number, sum := distuv.Binomial{N: float64(started), P: min(p, 1)}, 0.0
		for n := range started + 1 {
			sum += number.Prob(float64(n)) * float64(min(n, batch))
		}
		return sum
	}
	return schedule{
		fmt.Sprintf("the first %d of %d that start together", batch, started), 1000,
		func(stream rng.Stream) []int {
			counts := make([]int, len(world.policy))
			for i := range started {
				counts[pick(stream.Float64(uint64(i)))]++
			}
			var done []int
			for x, n := range counts {
				for range min(n, batch-len(done)) {
					done = append(done, x)
				}
			}
			return done
		},
		func(x int) float64 {
			if x == len(world.policy)-1 {
				return float64(batch) - upTo(x-1)
			}
			if x == 0 {
				return upTo(0)
			}
			return upTo(x) - upTo(x-1)
		},
	}
}

// ratio estimates Σ a / Σ b over clusters, with its standard error.
type ratio struct{ a, b []float64 }

func (r ratio) estimate() (value, deviation float64) {
	var sumA, sumB, squares float64
	for i := range r.a {
		sumA, sumB = sumA+r.a[i], sumB+r.b[i]
	}
	value = sumA / sumB
	for i := range r.a {
		squares += (r.a[i] - value*r.b[i]) * (r.a[i] - value*r.b[i])
	}
	return value, math.Sqrt(squares) / sumB
}

// TestFrequencyBias measures what RL-MLE §3.1 and App. A.2 say of actions of different
// durations: the shares with which they are observed, and the gradient with and
// without the weights of RL-MLE Eq. 3, against what is expected of each schedule. All
// must agree within four standard errors.
//
// The paper's claim holds where its arithmetic does: under n_x = π(x)·T/Δt_x actions
// are observed with probability C·π(x)/Δt_x, C = 1/Σ(π/Δt), the plain gradient
// points elsewhere, and the weighted one is the true gradient, its length included,
// since the mean duration of what is observed is C.
//
// It is not so under other schedules. Workers that draw an action whenever they are
// free observe every action that they start but the last: the shares come near π as
// the budget grows, the plain gradient near the true one, and the weights of
// RL-MLE Eq. 3 then make the bias that they were to take away. And where late actions
// are lost (RL-MLE Alg. 1, read so), those that are hardly ever observed are not made
// good by the weights.
//
// go test ./pkg/credit -run TestFrequencyBias -v prints the numbers.
func TestFrequencyBias(t *testing.T) {
	t.Parallel()
	truth := gradient(func(x int) float64 { return world.policy[x] }, same)
	t.Logf("π %s, Δt %v s, true gradient %s", text(world.policy), world.seconds, text(truth))
	cosines := map[string][2]float64{}
	for number, s := range []schedule{repeated(20), renewed(20), renewed(400), first(32, 1.25)} {
		all, counts := s.batch(number)
		weights := eq3(t, all)
		total, seconds := 0.0, 0.0
		for x := range world.policy {
			total += s.expected(x)
			seconds += s.expected(x) * float64(world.seconds[x])
		}
		share := func(x int) float64 { return s.expected(x) / total }
		mean := seconds / total // Δt of what is observed
		within := func(what string, r ratio, want float64) float64 {
			got, deviation := r.estimate()
			if math.Abs(got-want) > 4*deviation+1e-12 {
				t.Errorf("%s: %s: %.5f, want %.5f within %.5f", s.name, what, got, want, 4*deviation)
			}
			return got
		}
		n := counts.of(func(int) float64 { return 1 })
		var shares, wanted, plain, weighted []float64
		for x := range world.policy {
			shares = append(shares, within(fmt.Sprintf("share of action %d", x), ratio{counts.of(func(y int) float64 { return indicator(x == y) }), n}, share(x)))
			wanted = append(wanted, share(x))
		}
		wantPlain := gradient(share, same)
		wantWeighted := gradient(share, func(x int) float64 { return float64(world.seconds[x]) / mean })
		run := counts.of(func(x int) float64 { return float64(world.seconds[x]) })
		for j := range world.policy {
			slope := func(x int) float64 { return worldAdvantage(x) * (indicator(x == j) - world.policy[j]) }
			plain = append(plain, within(fmt.Sprintf("plain gradient %d", j), ratio{counts.of(slope), n}, wantPlain[j]))
			// Σ w·g / n with w = Δt / (Σ Δt / n) is Σ Δt·g / Σ Δt, here with the factor's own weights.
			within(fmt.Sprintf("weighted gradient %d", j), ratio{counts.of(func(x int) float64 { return float64(world.seconds[x]) * slope(x) }), run}, wantWeighted[j])
			sum := 0.0
			for i, x := range all {
				sum += weights[i] * slope(x)
			}
			weighted = append(weighted, sum/float64(len(all)))
		}
		for j, want := range wantWeighted {
			_, deviation := (ratio{counts.of(func(x int) float64 {
				return float64(world.seconds[x]) * worldAdvantage(x) * (indicator(x == j) - world.policy[j])
			}), run}).estimate()
			if math.Abs(weighted[j]-want) > 4*deviation+1e-12 {
				t.Errorf("%s: the factor's gradient %d: %.5f, want %.5f within %.5f", s.name, j, weighted[j], want, 4*deviation)
			}
		}
		cosines[s.name] = [2]float64{cosine(plain, truth), cosine(weighted, truth)}
		t.Logf("%s: %d completions\n  shares            %s  expected %s\n  plain gradient    %s  expected %s  cosine with the true one %.4f\n  with equation 3   %s  expected %s  cosine with the true one %.4f",
			s.name, len(all), text(shares), text(wanted), text(plain), text(wantPlain), cosines[s.name][0], text(weighted), text(wantWeighted), cosines[s.name][1])
		if number == 0 { // the paper's: exactly the truth
			inverse := 0.0
			for x, p := range world.policy {
				inverse += p / float64(world.seconds[x])
			}
			for x, p := range world.policy {
				if want := p / float64(world.seconds[x]) / inverse; math.Abs(share(x)-want) > 1e-12 {
					t.Errorf("share of action %d: %g, C·π/Δt is %g", x, share(x), want)
				}
				if math.Abs(wantWeighted[x]-truth[x]) > 1e-12 {
					t.Errorf("expected gradient %d with equation 3: %g, the true one is %g", x, wantWeighted[x], truth[x])
				}
			}
		}
	}
	paper, long := cosines[repeated(20).name], cosines[renewed(400).name]
	if paper[0] > .9 || paper[1] < .99 || long[0] < .99 || long[1] > .9 {
		t.Errorf("cosines with the true gradient: %v under the paper's schedule, %v under a long one", paper, long)
	}
}

// TestCarriedActionsAreObserved: under schedule.oversample an iteration of m·B
// actions closes when B of them are done, and each that is late comes into the first
// iteration that closes after it is done. Of 2000 iterations of 40 actions, closed
// with 32, all but those that are late when the run ends are observed, so the shares
// of the run are π within four standard deviations, while those of what an iteration
// observes of its own actions are not. There are as many workers as actions.
func TestCarriedActionsAreObserved(t *testing.T) {
	t.Parallel()
	const iterations, batch, started = 2000, 32, 40
	var own, all [4]float64
	type action struct{ x, done int }
	var late []action
	now, total := 0, 0.0
	for k := range iterations {
		stream := rng.New(3, rng.PurposeTest, k, "carried", 0)
		var running []action
		for i := range started {
			x := pick(stream.Float64(uint64(i)))
			running = append(running, action{x, now + world.seconds[x]})
		}
		slices.SortStableFunc(running, func(a, b action) int { return a.done - b.done })
		now = running[batch-1].done
		for _, a := range running[:batch] {
			own[a.x]++
			all[a.x]++
		}
		late = slices.DeleteFunc(append(late, running[batch:]...), func(a action) bool {
			if a.done > now {
				return false
			}
			all[a.x]++
			return true
		})
	}
	for _, n := range all {
		total += n
	}
	if total+float64(len(late)) != iterations*started {
		t.Errorf("%g observed and %d late of %d", total, len(late), iterations*started)
	}
	for x, p := range world.policy {
		share, ofOwn := all[x]/total, own[x]/(iterations*batch)
		t.Logf("action of %2d s: π %.3f, share of the run %.4f, of the iterations' own %.4f", world.seconds[x], p, share, ofOwn)
		if math.Abs(share-p) > 4*math.Sqrt(p*(1-p)/total)+float64(len(late))/total {
			t.Errorf("action %d: share %g, want %g", x, share, p)
		}
	}
	if slow := own[3] / (iterations * batch); slow > .01 {
		t.Errorf("%g of what iterations observe of their own actions are slow: the test shows little", slow)
	}
}

// counted is how often each cluster has completed each action.
type counted [][]float64

// of sums a number of each completed action, by cluster.
func (c counted) of(number func(x int) float64) []float64 {
	sums := make([]float64, len(c))
	for i, counts := range c {
		for x, n := range counts {
			sums[i] += n * number(x)
		}
	}
	return sums
}

// batch is what one iteration observes.
func (s schedule) batch(number int) (all []int, counts counted) {
	for cluster := range s.clusters {
		counts = append(counts, make([]float64, len(world.policy)))
		for _, x := range s.observed(rng.New(3, rng.PurposeTest, number, "schedule", cluster)) {
			counts[cluster][x]++
			all = append(all, x)
		}
	}
	return all, counts
}

// eq3 is what the factor makes of completed actions, through a whole composition.
func eq3(t *testing.T, actions []int) []float64 {
	t.Helper()
	groups := make([]Group, len(actions))
	for i, x := range actions {
		groups[i].Traces = []Trace{ran(shard.OutcomeOK, float64(world.seconds[x]))}
	}
	all := make([]float64, len(actions))
	for i, w := range weights(t, Duration{Mean: meanOfBatch, AllZero: 1, NoProgram: 1}, groups...) {
		all[i] = w[0][0]
	}
	return all
}

func indicator(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func cosine(a, b []float64) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab, aa, bb = ab+a[i]*b[i], aa+a[i]*a[i], bb+b[i]*b[i]
	}
	return ab / math.Sqrt(aa*bb)
}

func text(x []float64) string {
	var parts []string
	for _, v := range x {
		parts = append(parts, fmt.Sprintf("%7.4f", v))
	}
	return "[" + strings.Join(parts, " ") + "]"
}
