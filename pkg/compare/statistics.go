package compare

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/lathe-rl/lathe/pkg/rng"
)

// Spread is a number over the seeds of a method.
type Spread struct {
	Seeds int     `json:"seeds"`
	Mean  float64 `json:"mean"`
	// Std is the sample standard deviation over seeds (n - 1); null for one seed,
	// as are the ends of the interval.
	Std *float64 `json:"std"`
	// Low and High are the ends of Student's 95 % interval of the mean over seeds.
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
}

// Confidence of every interval.
const Confidence = 0.95

// student is Student's distribution of the mean over seeds less the true one, over its
// standard error.
func student(seeds int) distuv.StudentsT {
	return distuv.StudentsT{Sigma: 1, Nu: float64(seeds - 1)}
}

// SpreadOf sums up one value for each seed, of which there is at least one.
func SpreadOf(values []float64) Spread {
	s := Spread{Seeds: len(values), Mean: stat.Mean(values, nil)}
	if len(values) < 2 {
		return s
	}
	std := stat.StdDev(values, nil)
	half := student(s.Seeds).Quantile((1+Confidence)/2) * std / math.Sqrt(float64(s.Seeds))
	low, high := s.Mean-half, s.Mean+half
	s.Std, s.Low, s.High = &std, &low, &high
	return s
}

// p is the two-sided p of Student's t-test of the mean 0; nil for one seed, and where
// the seeds do not differ, of which t is not defined.
func (s Spread) p() *float64 {
	if s.Std == nil || *s.Std == 0 {
		return nil
	}
	t := s.Mean / (*s.Std / math.Sqrt(float64(s.Seeds)))
	p := 2 * student(s.Seeds).CDF(-math.Abs(t))
	return &p
}

// Difference compares a method with the baseline, on the same held-out problems with
// the same seeds.
type Difference struct {
	Seeds    int     `json:"seeds"`    // that both have
	Problems int     `json:"problems"` // of all seeds together, each once
	Mean     float64 `json:"mean"`     // method - baseline: the mean over seeds of the mean over problems
	// OverSeeds are the means over problems by seed, and POverSeeds is p of the paired
	// t-test of them; null for one seed, for seeds that do not differ, and in older
	// comparisons, as is OverSeeds.
	OverSeeds  *Spread  `json:"over_seeds"`
	POverSeeds *float64 `json:"p_over_seeds"`
	// Low and High are the 2.5 and 97.5 % points of the differences of the
	// resamples, and P is twice the share of these on the other side of 0, at
	// least 2/(resamples + 1) and at most 1.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	P    float64 `json:"p"`
	// EffectSize is Cohen's d of paired differences (d_z): their mean over their
	// sample standard deviation, over the problems of all seeds, or over their means
	// where all seeds have the same ones; null where these do not differ.
	EffectSize *float64 `json:"effect_size"`
	// Dominance is Cliff's delta over seeds: the share of pairs of a seed of the
	// method and one of the baseline in which the method is better, less the
	// share in which it is worse, in [-1, 1].
	Dominance float64 `json:"dominance"`
}

// overSeeds is a spread of paired differences, and its p.
func (d *Difference) overSeeds(bySeed []float64) {
	s := SpreadOf(bySeed)
	d.OverSeeds, d.POverSeeds = &s, s.p()
}

// bootstrap resamples paired differences: bySeed[s] are those of the problems of one
// seed. Seeds are drawn with replacement, and then problems: with one seed it is the
// plain paired bootstrap of a mean, with percentile intervals (Efron and Tibshirani,
// An Introduction to the Bootstrap, 1993, chapters 8 and 13).
//
// Where all seeds have the same problems, in the same order, shared is true: what a
// problem adds is then in every seed, and further seeds do not make it more certain.
// So problems are drawn once in a resample, for all seeds that are drawn in it (Owen,
// The Pigeonhole Bootstrap, Annals of Applied Statistics 1, 2007, whose variance is
// not too small for such a crossed design); and d_z is that of the problems' means over
// seeds. Otherwise problems are drawn anew for each seed that is drawn.
func bootstrap(bySeed [][]float64, shared bool, resamples int, stream rng.Stream) Difference {
	d := Difference{Seeds: len(bySeed)}
	var units []float64 // that are drawn: problems
	for _, problems := range bySeed {
		d.Mean += stat.Mean(problems, nil) / float64(len(bySeed))
		if !shared {
			units = append(units, problems...)
		}
	}
	if shared {
		units = make([]float64, len(bySeed[0]))
		for _, problems := range bySeed {
			floats.AddScaled(units, 1/float64(len(bySeed)), problems)
		}
	}
	d.Problems = len(units)
	if std := stat.StdDev(units, nil); len(units) > 1 && std > 0 {
		size := stat.Mean(units, nil) / std
		d.EffectSize = &size
	}
	means := make([]float64, resamples)
	var drawn uint64 // numbers of 32 bits, of which a block has four
	var block [4]uint32
	draw := func(n int) int {
		if drawn%4 == 0 {
			block = stream.Block(drawn / 4)
		}
		drawn++
		return int(uint64(block[(drawn-1)%4]) * uint64(n) >> 32)
	}
	picked := make([]int, len(bySeed[0])) // where they are shared
	for i := range means {
		for p := 0; shared && p < len(picked); p++ {
			picked[p] = draw(len(picked))
		}
		for range bySeed {
			problems := bySeed[0]
			if len(bySeed) > 1 {
				problems = bySeed[draw(len(bySeed))]
			}
			sum := 0.0
			for p := range problems {
				if shared {
					sum += problems[picked[p]]
				} else {
					sum += problems[draw(len(problems))]
				}
			}
			means[i] += sum / float64(len(problems)) / float64(len(bySeed))
		}
	}
	slices.Sort(means)
	d.Low, d.High = quantile(means, (1-Confidence)/2), quantile(means, (1+Confidence)/2)
	below, _ := slices.BinarySearch(means, 0)
	atMost, _ := slices.BinarySearchFunc(means, 0, func(mean float64, _ int) int {
		if mean <= 0 {
			return -1
		}
		return 1
	})
	d.P = min(1, 2*(float64(min(atMost, resamples-below))+1)/float64(resamples+1))
	return d
}

// quantile is the p-quantile of sorted values by linear interpolation, as numpy and
// scipy have it.
func quantile(sorted []float64, p float64) float64 {
	at := p * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// dominance is Cliff's delta of two lists.
func dominance(method, baseline []float64) float64 {
	sum := 0
	for _, m := range method {
		for _, b := range baseline {
			switch {
			case m > b:
				sum++
			case m < b:
				sum--
			}
		}
	}
	return float64(sum) / float64(len(method)*len(baseline))
}
