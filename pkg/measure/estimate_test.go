package measure

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// With one value per problem the clustered error is the usual one of a mean:
// of 1, 2, 3, 4 it is sqrt(5/3) / 2.
func TestEstimate(t *testing.T) {
	t.Parallel()
	var tl tally
	for i, x := range []float64{1, 2, 3, 4} {
		tl.add(fmt.Sprint(i), x)
	}
	e := tl.estimate()
	if e == nil || e.Mean != 2.5 || e.Problems != 4 || e.Responses != 4 {
		t.Fatalf("estimate %+v", e)
	}
	near(t, "standard error", e.StandardError, math.Sqrt(5.0/3)/2)
	// Repeating each value adds no information, so no precision either.
	for i, x := range []float64{1, 2, 3, 4} {
		tl.add(fmt.Sprint(i), x)
	}
	e = tl.estimate()
	near(t, "standard error of copies", e.StandardError, math.Sqrt(5.0/3)/2)
	// One problem has no error, nor have two whose values are the same, 0.1, 0.2 and 0.4.
	var same tally
	for i := range 6 {
		same.add(fmt.Sprint(i/3), []float64{.1, .2, .4}[i%3])
		if e := same.estimate(); (e.StandardError != nil) != (i == 3 || i == 4) {
			t.Errorf("after %d values the error is %v", i+1, e.StandardError)
		}
	}
	if new(tally).estimate() != nil {
		t.Error("nothing has an estimate")
	}
}

func TestEstimateInvariances(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		problems := rapid.IntRange(2, 8).Draw(t, "problems")
		shift := float64(rapid.IntRange(-3, 3).Draw(t, "shift"))
		var plain, shifted, reversed tally
		type value struct {
			problem string
			x       float64
		}
		var values []value
		for p := range problems {
			for range rapid.IntRange(1, 5).Draw(t, "samples") {
				values = append(values, value{fmt.Sprint(p), float64(rapid.IntRange(0, 4).Draw(t, "x")) / 4})
			}
		}
		for i, v := range values {
			plain.add(v.problem, v.x)
			shifted.add(v.problem, v.x+shift)
			last := values[len(values)-1-i]
			reversed.add(last.problem, last.x)
		}
		a := plain.estimate()
		b := shifted.estimate()
		c := reversed.estimate()
		if a.StandardError == nil || b.StandardError == nil || c.StandardError == nil { // problems that do not differ
			if math.Abs(b.Mean-a.Mean-shift) > 1e-9 {
				t.Fatalf("shifting by %v turns %v into %v", shift, a.Mean, b.Mean)
			}
			return
		}
		if math.Abs(b.Mean-a.Mean-shift) > 1e-9 || math.Abs(*b.StandardError-*a.StandardError) > 1e-9 {
			t.Fatalf("shifting by %v turns %v ± %v into %v ± %v", shift, a.Mean, *a.StandardError, b.Mean, *b.StandardError)
		}
		if math.Abs(c.Mean-a.Mean) > 1e-9 || math.Abs(*c.StandardError-*a.StandardError) > 1e-9 {
			t.Fatalf("reversing turns %v ± %v into %v ± %v", a.Mean, *a.StandardError, c.Mean, *c.StandardError)
		}
		if *a.StandardError < 0 || math.IsNaN(*a.StandardError) {
			t.Fatalf("standard error %v", *a.StandardError)
		}
	})
}

func TestMerged(t *testing.T) {
	t.Parallel()
	of := func(pairs ...float64) (spans []span) {
		for i := 0; i < len(pairs); i += 2 {
			spans = append(spans, span{second(pairs[i]), second(pairs[i+1])})
		}
		return spans
	}
	union := merged(of(5, 6, 0, 3, 2, 4, 4, 4.5, 1, 2))
	if diff := cmp.Diff(of(0, 4.5, 5, 6), union, cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) }), cmp.AllowUnexported(span{})); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct{ from, to, want float64 }{{0, 10, 5.5}, {4, 5.5, 1}, {4.5, 5, 0}, {7, 9, 0}} {
		if got := covered(span{second(c.from), second(c.to)}, union); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v to %v is covered for %v s, want %v", c.from, c.to, got, c.want)
		}
	}
	// Of work from 0 to 10 seconds, from 4 to 6, from 8 to 12 and, after a pause, from 100 to
	// 110, all that there was at 105 is 12 seconds and 5.
	paused := merged(of(100, 110, 4, 6, 8, 12, 0, 10))
	for _, c := range []struct{ until, want float64 }{{0, 0}, {5, 5}, {50, 12}, {105, 17}, {200, 22}} {
		if got := covered(span{to: second(c.until)}, paused); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v seconds of work until %v, want %v", got, c.until, c.want)
		}
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("nothing has a median")
	}
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}, {[]float64{1, 8}, 4.5}} {
		if m := Median(c.values); m != c.want {
			t.Errorf("the median of %v is %v, want %v", c.values, m, c.want)
		}
	}
}

// Of five texts two are the first and the third, and five are all.
func TestThinned(t *testing.T) {
	t.Parallel()
	for most, want := range map[int][]string{2: {"a", "c"}, 4: {"a", "b", "c", "d"}, 5: {"a", "b", "c", "d", "e"}} {
		if diff := cmp.Diff(want, Thinned([]string{"a", "b", "c", "d", "e"}, most)); diff != "" {
			t.Errorf("%d of five (-want +got):\n%s", most, diff)
		}
	}
}

// What is below the lowest is in the first interval, and the highest and all above in the last.
func TestBins(t *testing.T) {
	t.Parallel()
	want := []Value{{Column: "submissions", X: On(-100), Y: 40}, {Column: "submissions", X: On(-50), Y: 20}, {Column: "submissions", X: On(0), Y: 0}, {Column: "submissions", X: On(50), Y: 40}}
	if diff := cmp.Diff(want, bins([]float64{-2, -1, -.5, 1, 2}, -1, 1, .5)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func near(t *testing.T, name string, got *float64, want float64) {
	t.Helper()
	if got == nil || math.Abs(*got-want) > 1e-12 {
		t.Errorf("%s is %v, want %v", name, got, want)
	}
}

// second is a time of the tests' clock.
func second(n float64) time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(n * float64(time.Second)))
}
