package credit

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// noProgram stands for the seconds of a message without a program.
const noProgram = -1

// ran is a trace whose messages' programs ran for so many seconds.
func ran(outcome shard.Outcome, seconds ...float64) Trace {
	tokens := make([]int, len(seconds))
	for i := range tokens {
		tokens[i] = 2
	}
	t := said(outcome, .5, tokens...)
	for i, s := range seconds {
		if s != noProgram {
			t.Score.Turns[i].ExecuteSeconds, t.Score.Turns[i].Extracted = s, "print()"
			t.Score.ExecuteSeconds += s
		}
	}
	return t
}

// weights are what the factor makes of groups: of each message of each trace.
func weights(t testing.TB, d Duration, groups ...Group) [][][]float64 {
	t.Helper()
	c := plain(t, func(r *sections) { r.Advantage.Baseline = "none" })
	factor, err := FactorAxis.Make("duration", &d)
	if err != nil {
		t.Fatal(err)
	}
	c.Factors = []Factor{factor}
	all := make([][][]float64, len(groups))
	for g, segments := range assign(t, c, groups...) {
		for _, s := range segments {
			var own []float64
			for turn := s.First; turn <= s.Last; turn++ {
				own = append(own, s.FactorOf(turn))
			}
			all[g] = append(all[g], own)
		}
	}
	return all
}

// RL-MLE Eq. 3 by hand.
func TestDuration(t *testing.T) {
	t.Parallel()
	ok, failed, late, infra := shard.OutcomeOK, shard.OutcomeInvalid, shard.OutcomeTimeout, shard.OutcomeInfra
	paper := Duration{Mean: "batch", AllZero: 1, NoProgram: 1}
	with := func(change func(*Duration)) Duration {
		d := paper
		change(&d)
		return d
	}
	group := func(traces ...Trace) Group { return Group{Traces: traces} }
	for _, c := range []struct {
		what   string
		spec   Duration
		groups []Group
		want   [][][]float64
	}{
		// 1, 2 and 9 s: the mean is 4, over both groups.
		{"mean of the batch", paper, []Group{group(ran(ok, 1), ran(ok, 2)), group(ran(ok, 9))}, [][][]float64{{{.25}, {.5}}, {{2.25}}}},
		// A program that failed after 1 s, one that was stopped after 10, and one that ended after 1: the mean is 4.
		{"failed and stopped runs count", paper, []Group{group(ran(failed, 1), ran(late, 10), ran(ok, 1))}, [][][]float64{{{.25}, {2.5}, {.25}}}},
		// The mean is of the two that ran: 3.
		{"no program", paper, []Group{group(ran(ok, 2), ran(failed, noProgram), ran(ok, 4))}, [][][]float64{{{2. / 3}, {1}, {4. / 3}}}},
		{"no program weighs nothing", with(func(d *Duration) { d.NoProgram = 0 }), []Group{group(ran(ok, 2), ran(failed, noProgram), ran(ok, 4))}, [][][]float64{{{2. / 3}, {0}, {4. / 3}}}},
		// A program of 0 s is one: the mean of 0 and 4 is 2.
		{"0 s", paper, []Group{group(ran(failed, 0), ran(ok, 4))}, [][][]float64{{{0}, {2}}}},
		{"all 0 s", paper, []Group{group(ran(ok, 0), ran(ok, 0), ran(failed, noProgram))}, [][][]float64{{{1}, {1}, {1}}}},
		{"all 0 s weigh nothing", with(func(d *Duration) { d.AllZero = 0 }), []Group{group(ran(ok, 0), ran(failed, noProgram))}, [][][]float64{{{0}, {1}}}},
		{"no program at all", paper, []Group{group(ran(ok, noProgram), ran(ok, noProgram))}, [][][]float64{{{1}, {1}}}},
		{"one action", paper, []Group{group(ran(ok, 7))}, [][][]float64{{{1}}}},
		// What we failed to score enters no mean: of 1 and 3 that is 2.
		{"infra", paper, []Group{group(ran(ok, 1), ran(infra, 100), ran(ok, 3))}, [][][]float64{{{.5}, {1}, {1.5}}}},
		{"all infra", paper, []Group{group(ran(infra, 100), ran(infra, 1))}, [][][]float64{{{1}, {1}}}},
		{"nothing said", paper, []Group{group(said(failed, 0))}, [][][]float64{{nil}}},
		{"no group", paper, []Group{}, [][][]float64{}},
		// Four actions of 1, 3, 4 and 8 s: each keeps its own seconds over the mean of 4.
		{"turns", paper, []Group{group(ran(ok, 1, 3), ran(ok, 4, 8))}, [][][]float64{{{.25, .75}, {1, 2}}}},
		// Over the mean of their own trace, 2 and 6; a trace of one action has 1, and one of 0 s too.
		{"mean of the trajectory", with(func(d *Duration) { d.Mean = "trajectory" }), []Group{group(ran(ok, 1, 3), ran(ok, 4, 8)), group(ran(ok, 5), ran(ok, 0, 0), ran(failed, noProgram, 2))}, [][][]float64{{{.5, 1.5}, {2. / 3, 4. / 3}}, {{1}, {1, 1}, {1, 1}}}},
	} {
		if diff := cmp.Diff(c.want, weights(t, c.spec, c.groups...), cmpopts.EquateApprox(1e-15, 0)); diff != "" {
			t.Errorf("%s: weights (-want +got):\n%s", c.what, diff)
		}
	}
}

// Before whitening it is the advantage that is multiplied: rewards 0.5 and weights
// 1/2 and 3/2, and the mean of a segment's weights where it has several. On weights
// each turn has its own.
func TestDurationPlaces(t *testing.T) {
	t.Parallel()
	early, err := FactorAxis.Make("duration", &Duration{Mean: "batch", AllZero: 1, NoProgram: 1, BeforeWhitening: true})
	if err != nil {
		t.Fatal(err)
	}
	late, err := FactorAxis.Make("duration", nil)
	if err != nil {
		t.Fatal(err)
	}
	if early.AfterWhitening() || !late.AfterWhitening() {
		t.Error("the equation's factor acts after whitening, unless the settings say otherwise")
	}
	c := plain(t, func(r *sections) { r.Advantage.Baseline = "none" })
	c.Factors, c.Weights = []Factor{early}, []Factor{late}
	two := Group{Traces: []Trace{ran(shard.OutcomeOK, 1), ran(shard.OutcomeOK, 3)}}
	for i, s := range assign(t, c, two)[0] {
		if want := []float64{.5, 1.5}[i]; s.Advantage != .5*want || s.FactorOf(0) != 1 || s.WeightOf(0) != want {
			t.Errorf("trace %d: %+v", i, s)
		}
	}
	// 1, 2 and 6 s: the mean is 3, the weights 1/3, 2/3 and 2, the mean of the first two 1/2.
	turns := Group{Traces: []Trace{ran(shard.OutcomeOK, 1, 2), ran(shard.OutcomeOK, 6)}}
	got := assign(t, c, turns)[0]
	if math.Abs(got[0].Advantage-.25) > 1e-15 || got[1].Advantage != 1 || math.Abs(got[0].WeightOf(1)-2./3) > 1e-15 || got[1].WeightOf(0) != 2 {
		t.Errorf("%+v", got)
	}
	// Two factors multiply.
	c.Weights = []Factor{late, late}
	if got = assign(t, c, turns)[0]; math.Abs(got[0].WeightOf(1)-4./9) > 1e-15 || got[1].WeightOf(0) != 4 {
		t.Errorf("twice: %+v", got)
	}
	c.Weights = []Factor{late}
	// What counts as not sampled enters no mean and weighs 1, as what said nothing does.
	silent := Group{Traces: append(turns.Traces, said(shard.OutcomeInvalid, 0))}
	silent.Traces[2].Contexts[0].TurnTokens = nil
	factors, err := early.Factor([]Group{silent}, [][]Segment{{{Last: 1, Dropped: "x"}, {Trace: 1}, {Trace: 2, Last: -1}}})
	if diff := cmp.Diff([][]float64{{1, 1, 1}}, factors); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	// A segment for each turn is an action of its own.
	if c.Segments, err = SegmentsAxis.Make("turn", nil); err != nil {
		t.Fatal(err)
	}
	got = assign(t, c, turns)[0]
	if math.Abs(got[0].WeightOf(0)-1./3) > 1e-15 || math.Abs(got[1].WeightOf(1)-2./3) > 1e-15 || got[2].WeightOf(0) != 2 {
		t.Errorf("%+v", got)
	}
}

// The unit of time does not matter, nor the order of the groups; the mean weight of
// the actions that ran is 1.
func TestDurationScale(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		seconds := rapid.SliceOfN(rapid.Float64Range(0.001, 1000), 1, 20).Draw(rt, "seconds")
		unit := rapid.Float64Range(0.01, 100).Draw(rt, "unit")
		var groups, scaled, reversed []Group
		for _, s := range seconds {
			groups = append(groups, Group{Traces: []Trace{ran(shard.OutcomeOK, s)}})
			scaled = append(scaled, Group{Traces: []Trace{ran(shard.OutcomeOK, s*unit)}})
			reversed = append([]Group{groups[len(groups)-1]}, reversed...)
		}
		d := Duration{Mean: "batch", AllZero: 1, NoProgram: 1}
		got, inUnit, backwards := weights(t, d, groups...), weights(t, d, scaled...), weights(t, d, reversed...)
		near := cmpopts.EquateApprox(1e-12, 0)
		if diff := cmp.Diff(got, inUnit, near); diff != "" {
			rt.Fatalf("in another unit (-want +got):\n%s", diff)
		}
		sum := 0.0
		for i := range got {
			sum += got[i][0][0]
			if math.Abs(got[i][0][0]-backwards[len(got)-1-i][0][0]) > 1e-12*got[i][0][0] {
				rt.Fatalf("in reverse order: %v, want %v", backwards, got)
			}
		}
		if math.Abs(sum/float64(len(got))-1) > 1e-12 {
			rt.Fatalf("the mean weight is %g", sum/float64(len(got)))
		}
	})
}

// What is no duration is an error of the data.
func TestDurationOfNothing(t *testing.T) {
	t.Parallel()
	for _, seconds := range []float64{-2, math.NaN(), math.Inf(1)} {
		c := plain(t, nil)
		factor, err := FactorAxis.Make("duration", nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Factors = []Factor{factor}
		_, _, err = c.Assign(1, nil, []Group{{Instance: shard.Instance{InstanceID: "i"}, Traces: []Trace{ran(shard.OutcomeOK, 1), ran(shard.OutcomeOK, seconds)}}})
		if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), `instance "i" sample 0, message 0`) {
			t.Errorf("%v seconds: %v", seconds, err)
		}
	}
}
