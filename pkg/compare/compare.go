// Package compare sets the runs of several methods, with several seeds each, against
// each other.
//
// Runs are of one method when their recipes differ in the seed alone. Methods are
// compared with a baseline on the same held-out problems: those of runs with the same
// seed, since a recipe may draw them from it.
package compare

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// Format names the layout of compare.json. Keys are added, never renamed.
const Format = "lathe-compare/1.0"

// Options are those of a comparison.
type Options struct {
	Baseline  string   // label of the method that others are compared with; empty for the first
	Resamples int      // of the bootstrap
	Seed      uint64   // of the bootstrap
	Steps     *int     // revisions that are compared, from 0; nil for all, of which runs must have as many
	Measures  []string // names of package measure, such as corrections.net: taken of each run too
}

// Comparison is what was found. Scores are means in [0, 1].
type Comparison struct {
	Format      string   `json:"format"`
	Environment string   `json:"environment"`
	Problems    int      `json:"evaluation_problems"`
	Samples     int      `json:"evaluation_samples"`
	Steps       int      `json:"evaluation_steps"` // K
	Temperature float64  `json:"evaluation_temperature"`
	Baseline    string   `json:"baseline"`
	Resamples   int      `json:"resamples"`
	Seed        uint64   `json:"seed"`
	Methods     []Method `json:"methods"`
	// Settings are those in which the recipes differ; null in older comparisons.
	Settings   []Setting `json:"differing_settings"`
	Unfinished []string  `json:"unfinished"` // folders of runs that are not done, and were left out
}

// Setting is a field of recipes with its value in each method, in the order of the
// methods; empty where a recipe has no such field.
type Setting struct {
	Path   string   `json:"path"`
	Values []string `json:"values"`
}

// Method is the runs of one recipe.
type Method struct {
	Label string `json:"label"`
	// Composition is what the recipe chooses on every axis; null in older comparisons.
	Composition []recipe.Choice `json:"composition"`
	Seeds       []uint64        `json:"seeds"`
	Runs        []string        `json:"runs"` // folders, in the order of the seeds

	// By revision, from 0: the mean score of the answers, up to the last step
	// that every seed has answers at.
	Before []Spread `json:"by_step_before"` // of policy v000000
	After  []Spread `json:"by_step_after"`  // of the last version
	Gain   Spread   `json:"gain"`           // of first answers: after - before
	Delta  *Spread  `json:"delta_k"`        // after step K less at step 0, of the last version; null without steps, or without an answer after step K

	DeltaBefore *Spread `json:"delta_k_before"`
	Seconds     *Spread `json:"wall_seconds"` // in which at least one task ran: no pauses; null where a run took the scores of another
	Curve       []Point `json:"curve"`
	// BySeed are the seeds by themselves, in their order; null in older comparisons.
	BySeed []SeedScores `json:"by_seed"`

	// Against the baseline, with the seeds that both have; null for the baseline,
	// and where they have none in common.
	FirstAnswers *Difference `json:"first_answers_difference"`
	LastAnswers  *Difference `json:"last_answers_difference"` // after step K
	DeltaK       *Difference `json:"delta_k_difference"`

	Measures []Measured `json:"measures,omitempty"` // those that were asked for
}

// Measured is a measure of a method over its seeds.
type Measured struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Spread *Spread `json:"spread"` // null where a run does not have it
	// Difference is over the seeds that both have: method - baseline. It is null for the
	// baseline, and where either lacks the measure.
	Difference *Spread `json:"difference"`
	Missing    string  `json:"missing,omitempty"` // why a run does not have it
}

// SeedScores are the mean scores of one run, by revision from 0.
type SeedScores struct {
	Seed   uint64    `json:"seed"`
	Before []float64 `json:"by_step_before"`
	After  []float64 `json:"by_step_after"`
	// Of the last version; null without steps or without an answer after step K, the error
	// over problems with fewer than two too.
	DeltaK              *float64 `json:"delta_k"`
	DeltaKStandardError *float64 `json:"delta_k_standard_error"`
}

// Point is the first answers of a policy version that every seed was measured with.
type Point struct {
	Iteration int    `json:"iteration"`
	Score     Spread `json:"score"`
	// Sampled in training so far, and the time in which at least one task of the
	// iterations so far ran; null where a run has lost manifests of these, and the time
	// where one took the scores of another.
	Tokens  *Spread `json:"tokens"`
	Seconds *Spread `json:"seconds"`
	// That the GPUs took in these iterations; null where a monitor did not see them all.
	Joules *Spread `json:"joules"`
}

// Runs compares the runs that folders are or hold.
func Runs(ctx context.Context, folders []string, o Options) (Comparison, error) {
	c := Comparison{Format: Format, Resamples: o.Resamples, Seed: o.Seed}
	if o.Steps != nil && *o.Steps < 0 {
		return c, exitcode.Usagef("--steps: got %d, want 0 or more", *o.Steps)
	}
	for _, name := range o.Measures {
		if err := measure.CheckPath(name); err != nil {
			return c, err
		}
	}
	opened, unfinished, err := Open(ctx, folders)
	if err != nil {
		return c, err
	}
	c.Unfinished = unfinished
	runs := make([]finished, len(opened))
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0)) // of a long run there are thousands of manifests to read
	for i, run := range opened {
		group.Go(func() (err error) {
			if runs[i], err = read(reading, run, o); err != nil {
				err = fmt.Errorf("reading run %q: %w", run.Folder, err)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return c, err
	}
	for i := range runs {
		for j := range i {
			if why := incomparable(runs[j], runs[i]); why != "" {
				hint := "measure both in one way: lathe eval --recipe RUN/recipe.yaml --policy RUN/policy/vNNNNNN"
				if a, b := runs[j].steps, runs[i].steps; a != b {
					hint = fmt.Sprintf("--steps 0 compares first answers alone, --steps %d all that both have", min(a, b))
				}
				return c, exitcode.WithHint(exitcode.Usagef("%q and %q cannot be compared: %s", runs[j].Folder, runs[i].Folder, why), "%s", hint)
			}
		}
	}
	e := runs[0].Recipe.Evaluation
	c.Environment, c.Problems, c.Samples, c.Steps, c.Temperature = runs[0].Recipe.Env.Name, e.Problems, e.Samples, runs[0].steps, e.Temperature
	return c, c.fill(runs, o)
}

// fill makes the methods.
func (c *Comparison) fill(runs []finished, o Options) error {
	groups, err := Group(runs)
	if err != nil {
		return err
	}
	labels := Labels(groups)
	if c.Settings, err = differingSettings(groups); err != nil {
		return err
	}
	base := 0
	if o.Baseline != "" {
		if base = slices.Index(labels, o.Baseline); base < 0 {
			return exitcode.Usagef("--baseline %q is none of the methods: %s", o.Baseline, strings.Join(labels, ", "))
		}
	}
	c.Baseline = labels[base]
	for i, group := range groups {
		m := summarize(labels[i], group)
		if m.Composition, err = group[0].Recipe.Method(); err != nil {
			return err
		}
		if i != base {
			stream := func(number int) rng.Stream {
				return rng.New(o.Seed, rng.PurposeBootstrap, number, labels[i], 0)
			}
			m.against(group, groups[base], c.Steps, o.Resamples, stream)
		}
		for at, name := range o.Measures {
			m.Measures = append(m.Measures, measuredOver(name, at, group, groups[base], i == base))
		}
		c.Methods = append(c.Methods, m)
	}
	return nil
}

// differingSettings are the fields in which the recipes of methods differ.
func differingSettings(groups [][]finished) ([]Setting, error) {
	all := []Setting{}
	for i, group := range groups {
		changes, err := recipe.Differences([]byte(groups[0][0].method), []byte(group[0].method))
		if err != nil {
			return nil, err
		}
		for _, change := range changes {
			at := slices.IndexFunc(all, func(s Setting) bool { return s.Path == change.Path })
			if at < 0 {
				at = len(all)
				all = append(all, Setting{change.Path, make([]string, len(groups))})
				for j := range groups {
					all[at].Values[j] = orEmpty(change.Was)
				}
			}
			all[at].Values[i] = orEmpty(change.Now)
		}
	}
	return all, nil
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// of is the run that something was read of.
func (r Run) of() Run { return r }

// Group puts the runs of one recipe together, in the order of their names and of what
// they say; those of a group are in the order of their seeds. Two of one seed are a
// usage error.
func Group[R interface{ of() Run }](runs []R) ([][]R, error) {
	slices.SortFunc(runs, func(one, other R) int {
		a, b := one.of(), other.of()
		return cmp.Or(cmp.Compare(a.Recipe.Name, b.Recipe.Name), cmp.Compare(a.method, b.method), cmp.Compare(a.Recipe.Seed, b.Recipe.Seed))
	})
	var groups [][]R
	for i, run := range runs {
		r := run.of()
		if i == 0 || r.method != runs[i-1].of().method || r.Recipe.Name != runs[i-1].of().Recipe.Name {
			groups = append(groups, nil)
		}
		last := &groups[len(groups)-1]
		if n := len(*last); n > 0 && (*last)[n-1].of().Recipe.Seed == r.Recipe.Seed {
			return nil, exitcode.Usagef("%q and %q are of one recipe and seed: name one of them", (*last)[n-1].of().Folder, r.Folder)
		}
		*last = append(*last, run)
	}
	return groups, nil
}

// Labels names methods by their recipes, and those of one name by the settings in
// which they differ from the first of them.
func Labels[R interface{ of() Run }](groups [][]R) []string {
	labels := make([]string, len(groups))
	first := map[string]string{}
	for i, group := range groups {
		r := group[0].of()
		labels[i] = r.Recipe.Name
		if method, taken := first[r.Recipe.Name]; taken {
			labels[i] = fmt.Sprintf("%s (%s)", r.Recipe.Name, settings(method, r.method))
			continue
		}
		first[r.Recipe.Name] = r.method
	}
	return labels
}

// settings says which fields of a recipe have other values than another's.
func settings(from, to string) string {
	changes, err := config.Changes([]byte(from), []byte(to))
	if err != nil {
		return "other settings"
	}
	var fields []string
	for _, c := range changes {
		if c.Was != nil && c.Now != nil {
			fields = append(fields, c.Path+"="+config.Shorten(*c.Now))
		}
	}
	const most = 3
	if len(fields) > most {
		fields = append(fields[:most], "…")
	}
	return cmp.Or(strings.Join(fields, ", "), "other settings")
}

// summarize takes the numbers of a method over its seeds.
func summarize(label string, group []finished) Method {
	m := Method{Label: label}
	var before, after [][]float64
	var gain, delta, deltaBefore, seconds []float64
	for _, r := range group {
		first, last := r.first().AccuracyByStep, r.last().AccuracyByStep
		m.Seeds, m.Runs = append(m.Seeds, r.Recipe.Seed), append(m.Runs, r.Folder)
		before, after = append(before, first), append(after, last)
		gain = append(gain, last[0]-first[0])
		own := SeedScores{Seed: r.Recipe.Seed, Before: first, After: last}
		if d := r.first().Version.DeltaK; d != nil {
			deltaBefore = append(deltaBefore, *d)
		}
		if d := r.last().Version.DeltaK; d != nil {
			delta = append(delta, *d)
			own.DeltaK, own.DeltaKStandardError = d, r.last().DeltaKStandardError
		}
		m.BySeed = append(m.BySeed, own)
		if s := r.costs.Seconds; s != nil {
			seconds = append(seconds, *s)
		}
	}
	m.Before, m.After = byStep(before), byStep(after)
	m.Gain, m.Delta, m.DeltaBefore, m.Seconds = SpreadOf(gain), ofAll(group, delta), ofAll(group, deltaBefore), ofAll(group, seconds)
	m.Curve = curveOf(group)
	return m
}

// measuredOver is a measure of the runs of a method, the at-th that was asked for.
func measuredOver(name string, at int, group, baseline []finished, isBaseline bool) Measured {
	m := Measured{Name: name}
	if of, known := measure.Named(name); known {
		m.Unit = of.Unit
	}
	var values, differences []float64
	for _, r := range group {
		if why := r.numbers[at].why; why != "" {
			m.Missing = fmt.Sprintf("seed %d: %s", r.Recipe.Seed, why)
			continue
		}
		values = append(values, r.numbers[at].value)
		for _, other := range baseline {
			if other.Recipe.Seed == r.Recipe.Seed && other.numbers[at].why == "" && !isBaseline {
				differences = append(differences, r.numbers[at].value-other.numbers[at].value)
			}
		}
	}
	m.Spread = ofAll(group, values)
	if m.Spread != nil && len(differences) > 0 {
		d := SpreadOf(differences)
		m.Difference = &d
	}
	return m
}

// ofAll is null where a run of the group has no value.
func ofAll(group []finished, values []float64) *Spread {
	if len(values) == 0 || len(values) < len(group) {
		return nil
	}
	s := SpreadOf(values)
	return &s
}

// byStep takes the numbers of each step over seeds, as far as all have them.
func byStep(bySeed [][]float64) []Spread {
	shortest := slices.MinFunc(bySeed, func(a, b []float64) int { return cmp.Compare(len(a), len(b)) })
	spreads := make([]Spread, len(shortest))
	for step := range spreads {
		values := make([]float64, len(bySeed))
		for i, steps := range bySeed {
			values[i] = steps[step]
		}
		spreads[step] = SpreadOf(values)
	}
	return spreads
}

// curveOf is the learning curve of a method at the versions that were measured.
func curveOf(group []finished) []Point {
	curve := []Point{}
	for _, version := range slices.Sorted(maps.Keys(group[0].measured)) {
		var scores, tokens, seconds, joules []float64
		for _, r := range group {
			scores = append(scores, r.measured[version].AccuracyByStep[0])
			if c, known := r.costs.Versions[version]; known {
				tokens = append(tokens, float64(c.Tokens))
				if c.Seconds != nil {
					seconds = append(seconds, *c.Seconds)
				}
			}
			if sum, known := r.joulesUntil(version); known {
				joules = append(joules, sum)
			}
		}
		curve = append(curve, Point{
			Iteration: version, Score: SpreadOf(scores), Tokens: ofAll(group, tokens), Seconds: ofAll(group, seconds), Joules: ofAll(group, joules),
		})
	}
	return curve
}

// against compares a method with the baseline, seed by seed and problem by problem.
func (m *Method) against(group, baseline []finished, steps, resamples int, stream func(int) rng.Stream) {
	lacks := func(r finished) bool { return len(r.last().AccuracyByStep) <= steps }
	first := func(r finished) map[string][]float64 { return r.last().first }
	all := func(r finished) map[string][]float64 { return r.last().problems }
	for number, metric := range []struct {
		scores scores
		of     func(byStep []float64) float64
		into   **Difference
	}{
		{first, func(s []float64) float64 { return s[0] }, &m.FirstAnswers},
		{all, func(s []float64) float64 { return s[steps] }, &m.LastAnswers},
		{all, func(s []float64) float64 { return s[steps] - s[0] }, &m.DeltaK},
	} {
		if number > 0 && (slices.ContainsFunc(group, lacks) || slices.ContainsFunc(baseline, lacks)) {
			break // no answer after step K
		}
		var own, others []float64
		bySeed, shared := paired(group, baseline, metric.scores, metric.of)
		if len(bySeed) == 0 {
			continue
		}
		for _, a := range group {
			own = append(own, meanOf(metric.scores(a), metric.of))
		}
		for _, b := range baseline {
			others = append(others, meanOf(metric.scores(b), metric.of))
		}
		d := bootstrap(bySeed, shared, resamples, stream(number))
		d.Dominance = dominance(own, others)
		var means []float64
		for _, problems := range bySeed {
			means = append(means, stat.Mean(problems, nil))
		}
		d.overSeeds(means)
		*metric.into = &d
	}
}

// scores are those of a run's held-out problems by step.
type scores func(finished) map[string][]float64

// paired are the differences of the seeds that both have, by problem. Where all of
// these runs have the same held-out tasks, the problems are shared: those that each of
// the runs has answered.
func paired(group, baseline []finished, scores scores, of func([]float64) float64) (bySeed [][]float64, shared bool) {
	shared, first := true, ""
	var seeds []map[string]float64
	for _, a := range group {
		for _, b := range baseline {
			if a.Recipe.Seed == b.Recipe.Seed {
				if first == "" {
					first = a.tasks
				}
				shared = shared && a.tasks == first && b.tasks == first
				seeds = append(seeds, pairs(scores(a), scores(b), of))
			}
		}
	}
	for _, differences := range seeds {
		var values []float64
		for _, task := range slices.Sorted(maps.Keys(differences)) {
			lacks := func(seed map[string]float64) bool { _, there := seed[task]; return !there }
			if !shared || !slices.ContainsFunc(seeds, lacks) {
				values = append(values, differences[task])
			}
		}
		if len(values) > 0 {
			bySeed = append(bySeed, values)
		}
	}
	return bySeed, shared
}

// pairs are the differences of the problems that both have, by their ids.
func pairs(a, b map[string][]float64, of func([]float64) float64) map[string]float64 {
	differences := map[string]float64{}
	for task := range a {
		if other, both := b[task]; both {
			differences[task] = of(a[task]) - of(other)
		}
	}
	return differences
}

func meanOf(scores map[string][]float64, of func([]float64) float64) float64 {
	var values []float64
	for _, task := range slices.Sorted(maps.Keys(scores)) {
		values = append(values, of(scores[task]))
	}
	if len(values) == 0 {
		return 0
	}
	return stat.Mean(values, nil)
}
