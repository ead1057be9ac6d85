// Package reproduce checks what papers claim, in miniature: experiments are sweeps of
// recipes and seeds, and a claim is about a number that two of their methods differ in,
// with the direction that the paper reports. What is run, measured and counted as an
// outcome is written down before anything is run.
package reproduce

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/pool"
	"github.com/lathe-rl/lathe/pkg/run/sweep"
)

//go:embed plan.go
var source string

var _ = config.Docs[Plan](source)

// Plan is a file of experiments.
type Plan struct {
	Description string       `yaml:"description"`
	Experiments []Experiment `yaml:"experiments"`
}

// Experiment is a sweep, and what is claimed of its methods.
type Experiment struct {
	Name    string   `yaml:"name"`    // of its folder
	Title   string   `yaml:"title"`   // for people
	Seeds   string   `yaml:"seeds"`   // such as 1-5
	Recipes []string `yaml:"recipes"` // files, relative to that of the plan; a method is called after its recipe
	Set     []string `yaml:"set"`     // settings over each recipe, as --set takes them
	// Own are more settings, of single methods. In these {METHOD} is the folder of the
	// run of another method with the same seed, which has to be done before.
	Own  map[string][]string `yaml:"own"`
	Pool *Pool               `yaml:"pool"` // what the runs of an earlier experiment said, for these to learn from; null for nothing
	// Arms say what must be seen in the data of the methods.
	Arms   []Arm   `yaml:"arms"`
	Claims []Claim `yaml:"claims"`
}

// Arm is what must be seen in the data of a method.
type Arm struct {
	Method string  `yaml:"method"`
	Checks []Check `yaml:"checks"`
}

// Pool is gathered once all seeds of a method of an earlier experiment are done: a file
// SELECT.parquet for each selection, in the folder of that experiment, which the variable
// LATHE_RUNS names to the recipes.
type Pool struct {
	Experiment string   `yaml:"experiment"`
	Method     string   `yaml:"method"`
	Select     []string `yaml:"select"` // all, valid, selected
}

// RunsVariable names the folder of the runs that recipes begin with or learn from.
const RunsVariable = "LATHE_RUNS"

// Claim says in which direction a number of a method differs from that of another.
type Claim struct {
	Says   string `yaml:"says"`   // the claim
	Source string `yaml:"source"` // paper and table or figure
	Paper  string `yaml:"paper"`  // the paper's own numbers, such as 29.0 against 24.6, or that it prints none; empty for the direction alone
	// Numbers are the paper's of method and against, in its units, from which the size of
	// its effect is known; empty where it prints none, or none of two methods.
	Numbers   []float64 `yaml:"numbers"`
	Measure   `yaml:",inline"`
	Method    string `yaml:"method"`
	Against   string `yaml:"against"` // method that it is compared with, seed by seed; empty compares with 0
	Direction string `yaml:"direction" choices:"higher,lower"`
}

// Measure is a number of a run.
type Measure struct {
	// Metric is the name of a measure, as lathe compare --measure takes it: a key of a run's
	// summary.json, such as delta_k, corrections.net or accuracy_by_step.4; a column of a
	// table, such as transitions.f2s; or STAGE/NAME of the metrics of tasks: the sum over
	// its shards, averaged over iterations, or, as STAGE/NAME per STAGE/NAME, the quotient
	// of two sums.
	Metric     string `yaml:"metric"`
	Iterations string `yaml:"iterations"` // of a metric, such as 16-20; empty for all from 1
	// AtEqual is the STAGE/NAME of a cost, such as score/execute_seconds: of each seed, the
	// measure is taken of both methods where they have spent as much of it, all that the run
	// spends that spends less, over the last OverLast iterations up to there. What is spent is
	// that of training, later waves included; a number of held-out problems is that of the last
	// policy version evaluated by then. For claims with against.
	AtEqual  string `yaml:"at_equal"`
	OverLast int    `yaml:"over_last"` // iterations, with at_equal
}

// key is how a measure is called in results.
func (m Measure) key() string {
	switch {
	case m.AtEqual != "":
		return fmt.Sprintf("%s, last %s at equal %s", m.Metric, plural.Count(m.OverLast, "iteration"), m.AtEqual)
	case m.Iterations != "":
		return m.Metric + ", iterations " + m.Iterations
	}
	return m.Metric
}

func (m Measure) validate(check *config.Checker, at string) {
	if err := measure.CheckPath(m.Metric); err != nil {
		check.Add(at+".metric", m.Metric, "is not valid: %v", err)
	}
	if _, err := m.over(); err != nil {
		check.Add(at+".iterations", m.Iterations, "must be iterations such as 16-20")
	}
	m.validateEqual(check, at)
}

// measures are those that the claims and the checks of an experiment look at, each once.
func (e Experiment) measures() []Measure {
	var all []Measure
	add := func(m Measure) {
		if !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	for _, c := range e.Claims {
		add(c.Measure)
	}
	for _, arm := range e.Arms {
		for _, c := range arm.Checks {
			add(c.Measure)
		}
	}
	return all
}

// Directions of a claim.
const (
	Higher = "higher"
	Lower  = "lower"
)

var nameOK = lazyregexp.New(`^[a-z0-9][a-z0-9-]*$`)

// Load reads a plan and checks it: names, seeds, and that the methods of each claim are
// recipes of its experiment. The paths of recipes come back absolute.
func Load(path string) (Plan, error) {
	var p Plan
	doc, err := config.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, exitcode.Usagef("there is no plan %q", path)
	}
	if err == nil {
		err = doc.Fill(&p, config.Options{})
	}
	if err != nil {
		return p, err
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return p, err
	}
	check := config.NewChecker(&p)
	names := map[string]bool{}
	methodsOf := map[string][]string{} // by experiment
	for i := range p.Experiments {
		e, at := &p.Experiments[i], fmt.Sprintf("experiments.%d", i)
		if !nameOK().MatchString(e.Name) || names[e.Name] {
			check.Add(at+".name", e.Name, "must be lower-case letters, digits and hyphens, and of this experiment alone")
		}
		names[e.Name] = true
		if _, err := sweep.ParseSeeds(e.Seeds); err != nil {
			check.Add(at+".seeds", e.Seeds, "must be seeds such as 1-5")
		}
		if e.Recipes, err = config.ResolvePaths(e.Recipes, folder); err != nil {
			return p, err
		}
		var methods []string
		for _, file := range e.Recipes {
			methods = append(methods, methodOf(file))
		}
		methodsOf[e.Name] = methods
		for _, method := range slices.Sorted(maps.Keys(e.Own)) {
			check.OneOf(at+".own", method, methods)
			for _, other := range e.needs(method) {
				check.OneOf(at+".own."+method, other, slices.DeleteFunc(slices.Clone(methods), func(m string) bool { return len(e.needs(m)) > 0 }))
			}
		}
		if e.Pool != nil {
			check.OneOf(at+".pool.experiment", e.Pool.Experiment, slices.Sorted(maps.Keys(methodsOf)))
			check.OneOf(at+".pool.method", e.Pool.Method, methodsOf[e.Pool.Experiment])
			for j, selection := range e.Pool.Select {
				check.OneOf(fmt.Sprintf("%s.pool.select.%d", at, j), selection, pool.Names())
			}
		}
		for j, c := range e.Claims {
			at := fmt.Sprintf("%s.claims.%d", at, j)
			check.OneOf(at+".method", c.Method, methods)
			check.OneOf(at+".against", c.Against, append([]string{""}, methods...))
			check.OneOf(at+".direction", c.Direction, []string{Higher, Lower})
			if c.Says == "" || c.Source == "" {
				check.Add(at, nil, "must say what is claimed, and where: says, source")
			}
			c.Measure.validate(check, at)
			if c.AtEqual != "" && c.Against == "" {
				check.Add(at+".at_equal", c.AtEqual, "compares two methods: say which in against")
			}
			if n := len(c.Numbers); n != 0 && n != 2 {
				check.Add(at+".numbers", nil, "must be two: the paper's of method and against")
			}
		}
		e.validate(check, at, methods)
	}
	return p, check.Err("plan " + path)
}

// over are the iterations that a metric is taken over.
func (m Measure) over() (measure.Span, error) {
	if m.Iterations == "" {
		return measure.Span{First: 1}, nil
	}
	of, err := sweep.ParseSeeds(m.Iterations)
	if err != nil {
		return measure.Span{}, err
	}
	return measure.Span{First: int(slices.Min(of)), Last: int(slices.Max(of))}, nil
}

// Only keeps the named experiments; without a name, all of them.
func (p Plan) Only(names []string) (Plan, error) {
	if len(names) == 0 {
		return p, nil
	}
	kept := p
	kept.Experiments = nil
	for _, name := range names {
		at := slices.IndexFunc(p.Experiments, func(e Experiment) bool { return e.Name == name })
		if at < 0 {
			return kept, exitcode.Usagef("--only %q: there is no such experiment", name)
		}
		kept.Experiments = append(kept.Experiments, p.Experiments[at])
	}
	return kept, nil
}

// Named is the experiment of a name, which the plan has.
func (p Plan) Named(name string) Experiment {
	return p.Experiments[slices.IndexFunc(p.Experiments, func(e Experiment) bool { return e.Name == name })]
}

// Runs are the runs of an experiment, in the folder that holds those of all.
func (e Experiment) Runs(folder string) (sweep.Index, error) {
	if e.Pool != nil {
		if err := os.Setenv(RunsVariable, filepath.Join(folder, e.Pool.Experiment)); err != nil {
			return sweep.Index{}, err
		}
	}
	seeds, err := sweep.ParseSeeds(e.Seeds)
	if err != nil {
		return sweep.Index{}, err
	}
	all := sweep.Index{Format: sweep.Format, Runs: []sweep.Run{}}
	names := map[string]string{} // of runs, by method and seed
	inOrder := slices.Clone(e.Recipes)
	slices.SortStableFunc(inOrder, func(a, b string) int {
		return min(1, len(e.needs(methodOf(a)))) - min(1, len(e.needs(methodOf(b))))
	})
	for _, recipe := range inOrder {
		method := methodOf(recipe)
		for _, seed := range seeds {
			own := slices.Clone(e.Own[method])
			for i := range own {
				own[i] = otherRun().ReplaceAllStringFunc(own[i], func(other string) string {
					return filepath.Join(folder, e.Name, names[runKey(strings.Trim(other, "{}"), seed)])
				})
			}
			of, err := sweep.Plan([]string{recipe}, []uint64{seed}, nil, slices.Concat(e.Set, own))
			if err == nil {
				err = all.Add(of.Runs...)
			}
			if err != nil {
				return all, err
			}
			names[runKey(method, seed)] = of.Runs[0].Name
		}
	}
	return all, nil
}

// otherRun is, in a setting, the folder of the run of another method.
var otherRun = lazyregexp.New(`\{[a-z0-9][a-z0-9-]*\}`)

// needs are the methods whose runs those of a method begin with.
func (e Experiment) needs(method string) []string {
	var others []string
	for _, setting := range e.Own[method] {
		for _, other := range otherRun().FindAllString(setting, -1) {
			others = append(others, strings.Trim(other, "{}"))
		}
	}
	return others
}

// InOrder parts the runs of an experiment into those that begin with nothing, and those
// that begin with runs of other methods.
func (e Experiment) InOrder(index sweep.Index) (first, then sweep.Index) {
	first, then = index, index
	first.Runs, then.Runs = nil, nil
	for _, r := range index.Runs {
		if len(e.needs(methodOf(r.Recipe))) == 0 {
			first.Runs = append(first.Runs, r)
		} else {
			then.Runs = append(then.Runs, r)
		}
	}
	return first, then
}

// Ready keeps those runs for which the runs that they begin with are done.
func (e Experiment) Ready(ctx context.Context, folder string, index sweep.Index) (sweep.Index, error) {
	ready := index
	ready.Runs = nil
	done := map[string]bool{}
	for _, r := range index.Runs {
		needs := e.needs(methodOf(r.Recipe))
		if len(needs) > 0 && len(done) == 0 {
			result, err := e.read(ctx, folder)
			if err != nil {
				return ready, err
			}
			for _, other := range result.Runs {
				done[runKey(other.Method, other.Seed)] = other.Done
			}
		}
		if !slices.ContainsFunc(needs, func(other string) bool { return !done[runKey(other, r.Seed)] }) {
			ready.Runs = append(ready.Runs, r)
		}
	}
	return ready, nil
}

func runKey(method string, seed uint64) string { return fmt.Sprint(method, " ", seed) }

// methodOf is how a method is called: after the file of its recipe.
func methodOf(recipe string) string {
	return strings.TrimSuffix(filepath.Base(recipe), filepath.Ext(recipe))
}
