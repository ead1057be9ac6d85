// Package deepmind makes problems in the phrasing of the arithmetic and
// comparison modules of DeepMind's Mathematics Dataset (Saxton et al.,
// "Analysing Mathematical Reasoning Abilities of Neural Models", ICLR 2019,
// https://github.com/google-deepmind/mathematics_dataset): the same templates,
// and numbers drawn by the same rules from the same amount of entropy, but as
// many as wanted.
//
// A number of entropy e is one of about 10^e. The dataset trains on entropies
// from 3 to 10 and tests ("interpolate") at 8; add_or_sub has half as much
// again. Left out are functions that are given as a derivative or by other
// functions, which one of eighty composed problems has.
package deepmind

import (
	"slices"

	"github.com/lathe-rl/lathe/pkg/rng"
)

// Problem is a question, the reference answer in the dataset's form, and
// nothing else.
type Problem struct{ Question, Answer string }

// Limits of the dataset, in bytes.
const (
	maxQuestion = 160
	maxAnswer   = 30
)

// maker makes the problems of a module. The entropy is that of a whole problem.
type maker struct {
	name string
	make func(d *drawer, entropy float64) Problem
}

var modules = []maker{
	{"arithmetic__add_or_sub", func(d *drawer, entropy float64) Problem { return addOrSub(d, 1.5*entropy) }},
	{"arithmetic__add_or_sub_in_base", addOrSubInBase},
	{"arithmetic__add_sub_multiple", func(d *drawer, entropy float64) Problem { return calculate(d, entropy, sums) }},
	{"arithmetic__div", div},
	{"arithmetic__mixed", func(d *drawer, entropy float64) Problem { return calculate(d, entropy, sums|products) }},
	{"arithmetic__mul", mul},
	{"arithmetic__mul_div_multiple", func(d *drawer, entropy float64) Problem { return calculate(d, entropy, products) }},
	{"arithmetic__nearest_integer_root", nearestIntegerRoot},
	{"arithmetic__simplify_surd", simplifySurd},
	{"comparison__closest", func(d *drawer, entropy float64) Problem { return closest(d, pure(entropy)) }},
	{"comparison__closest_composed", func(d *drawer, entropy float64) Problem { return closest(d, composed(d, entropy)) }},
	{"comparison__kth_biggest", func(d *drawer, entropy float64) Problem { return kthBiggest(d, pure(entropy)) }},
	{"comparison__kth_biggest_composed", func(d *drawer, entropy float64) Problem { return kthBiggest(d, composed(d, entropy)) }},
	{"comparison__pair", func(d *drawer, entropy float64) Problem { return pair(d, pure(entropy)) }},
	{"comparison__pair_composed", func(d *drawer, entropy float64) Problem { return pair(d, composed(d, entropy)) }},
	{"comparison__sort", func(d *drawer, entropy float64) Problem { return sorted(d, pure(entropy)) }},
	{"comparison__sort_composed", func(d *drawer, entropy float64) Problem { return sorted(d, composed(d, entropy)) }},
}

// Modules lists the modules by the dataset's names.
func Modules() []string {
	var names []string
	for _, m := range modules {
		names = append(names, m.name)
	}
	return names
}

// Make draws a problem of a module from the stream, and is a function of its
// arguments. Its entropy is drawn evenly from [level, level+1). It panics for
// a module that is not in [Modules].
func Make(module string, level int, stream rng.Stream) Problem {
	at := slices.IndexFunc(modules, func(m maker) bool { return m.name == module })
	d := &drawer{stream: stream}
	for {
		d.failed = false
		p := modules[at].make(d, d.uniform(float64(level), float64(level+1)))
		if !d.failed && len(p.Question) <= maxQuestion && len(p.Answer) <= maxAnswer {
			return p
		}
	}
}
