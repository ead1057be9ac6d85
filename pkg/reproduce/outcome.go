package reproduce

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/compare"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Format names the layout of reproduction.json. Keys are added, never renamed.
const Format = "lathe-reproduction/1.0"

// Verdicts on a claim. One comes out where Student's 95 % interval of the difference
// over seeds lies wholly on its side of 0, and does not where it lies wholly on the
// other; where 0 is inside, these runs are too few or too small to say.
const (
	CameOut    = "came out"
	DidNot     = "did not come out"
	TooSmall   = "too small to say"
	Unmeasured = "not measured"
	NotRun     = "not run"
)

// Reproduction is what came out of a plan so far.
type Reproduction struct {
	Format      string   `json:"format"`
	Description string   `json:"description"`
	Results     []Result `json:"experiments"`
}

// Result is what came out of an experiment.
type Result struct {
	Name   string    `json:"name"`
	Title  string    `json:"title"`
	Folder string    `json:"-"` // of its sweep
	Runs   []Run     `json:"runs"`
	Claims []Outcome `json:"claims"`
}

// Run is a run of an experiment.
type Run struct {
	Name          string  `json:"name"`
	Method        string  `json:"method"`
	Seed          uint64  `json:"seed"`
	Done          bool    `json:"done"`
	RecipeSHA256  string  `json:"recipe_sha256"`  // empty before the run is made
	BinaryVersion string  `json:"binary_version"` // that made the run
	PolicySHA256  *string `json:"policy_sha256"`  // of the weights of its last version; null before it is done
	WallSeconds   float64 `json:"wall_seconds"`
	// Timeouts counts responses whose last program ran out of time. A faster machine may
	// let it end, and a run learns from other verdicts then.
	Timeouts int `json:"timeouts"`
}

// Outcome is a claim and the numbers that speak for or against it.
type Outcome struct {
	Says      string `json:"says"`
	Source    string `json:"source"`
	Paper     string `json:"paper"` // its numbers; empty for none
	Metric    string `json:"metric"`
	Method    string `json:"method"`
	Against   string `json:"against"`
	Direction string `json:"direction"`

	Seeds  []uint64        `json:"seeds"`  // with which both methods were measured
	Values []float64       `json:"values"` // of the method, by seed
	Others []float64       `json:"others"` // of the one that it is compared with; null without
	Spread *compare.Spread `json:"difference"`

	Verdict string `json:"verdict"`
	Why     string `json:"why"` // where nothing could be measured
}

// With takes experiments that are not done here, and whose claims are those of the plan,
// from a reproduction of another machine or time in which they are, and says which.
func (r *Reproduction) With(other Reproduction) (taken []string) {
	for i, e := range r.Results {
		for _, o := range other.Results {
			if o.Name == e.Name && !e.Done() && o.Done() && slices.EqualFunc(e.Claims, o.Claims, Outcome.sameClaim) {
				r.Results[i] = o
				for j := range o.Claims {
					o.Claims[j].Source, o.Claims[j].Paper = e.Claims[j].Source, e.Claims[j].Paper // what is cited is the plan's, whatever was cited then
				}
				taken = append(taken, o.Name)
			}
		}
	}
	return taken
}

// Without leaves experiments out.
func (r Reproduction) Without(names []string) Reproduction {
	r.Results = slices.DeleteFunc(slices.Clone(r.Results), func(e Result) bool { return slices.Contains(names, e.Name) })
	return r
}

// sameClaim reports whether two outcomes are of one claim, whatever they cite.
func (o Outcome) sameClaim(other Outcome) bool {
	key := func(o Outcome) [5]string {
		return [5]string{o.Says, o.Metric, o.Method, o.Against, o.Direction}
	}
	return key(o) == key(other)
}

// Read measures what is done of the experiments of a plan, in the folder that holds
// their sweeps.
func Read(ctx context.Context, folder string, p Plan) (Reproduction, error) {
	all := Reproduction{Format: Format, Description: p.Description, Results: []Result{}}
	for _, e := range p.Experiments {
		result, err := e.read(ctx, folder)
		if err != nil {
			return all, fmt.Errorf("experiment %q: %w", e.Name, err)
		}
		all.Results = append(all.Results, result)
	}
	return all, nil
}

func (e Experiment) read(ctx context.Context, all string) (Result, error) {
	folder := filepath.Join(all, e.Name)
	result := Result{Name: e.Name, Title: e.Title, Folder: folder, Runs: []Run{}, Claims: []Outcome{}}
	index, err := e.Runs(all)
	if err != nil {
		return result, err
	}
	done := map[string]map[uint64]*measured{}
	for _, planned := range index.Runs {
		run := Run{Name: planned.Name, Method: methodOf(planned.Recipe), Seed: planned.Seed}
		opened, err := rundir.Open(ctx, graph.Dir(filepath.Join(folder, planned.Name)))
		switch {
		case errors.Is(err, seal.ErrNotSealed):
		case err != nil:
			return result, err
		default:
			m, err := read(ctx, opened)
			if err != nil {
				return result, fmt.Errorf("run %q: %w", planned.Name, err)
			}
			run.RecipeSHA256, run.BinaryVersion, run.Done = m.summary.RecipeSHA256, m.summary.BinaryVersion, m.summary.State == "done"
			if run.Done {
				if run.Timeouts, err = m.timeouts(ctx); err != nil {
					return result, fmt.Errorf("run %q: %w", planned.Name, err)
				}
				if done[run.Method] == nil {
					done[run.Method] = map[uint64]*measured{}
				}
				done[run.Method][run.Seed] = m
				run.PolicySHA256 = m.summary.PolicySHA256
			}
			if m.summary.WallSeconds != nil {
				run.WallSeconds = *m.summary.WallSeconds
			}
		}
		result.Runs = append(result.Runs, run)
	}
	for _, c := range e.Claims {
		outcome, err := c.judge(ctx, result.Runs, done)
		if err != nil {
			return result, err
		}
		result.Claims = append(result.Claims, outcome)
	}
	return result, nil
}

// Done reports whether every run of the experiment is done.
func (e Result) Done() bool {
	return !slices.ContainsFunc(e.Runs, func(r Run) bool { return !r.Done })
}

// judge compares the methods of a claim, seed by seed.
func (c Claim) judge(ctx context.Context, runs []Run, done map[string]map[uint64]*measured) (Outcome, error) {
	o := Outcome{
		Says: c.Says, Source: c.Source, Paper: c.Paper, Metric: c.Metric, Method: c.Method, Against: c.Against, Direction: c.Direction,
		Seeds: []uint64{}, Values: []float64{}, Verdict: NotRun,
	}
	if c.Iterations != "" {
		o.Metric += ", iterations " + c.Iterations
	}
	var differences []float64
	var lacking []string // seeds without the number, and why
	happened := false    // in some run
	for _, r := range runs {
		own := done[c.Method][r.Seed]
		if r.Method != c.Method || own == nil || c.Against != "" && done[c.Against][r.Seed] == nil {
			continue
		}
		of := c.Method
		value, in, err := own.value(ctx, c)
		happened = happened || in
		other := 0.0
		if err == nil && c.Against != "" {
			of = c.Against
			other, in, err = done[c.Against][r.Seed].value(ctx, c)
			happened = happened || in
		}
		if errors.Is(err, errUnmeasured) {
			lacking = append(lacking, fmt.Sprintf("seed %d of %s: %v", r.Seed, of, err))
			continue
		}
		if err != nil {
			return o, err
		}
		o.Seeds, o.Values = append(o.Seeds, r.Seed), append(o.Values, value)
		if c.Against != "" {
			o.Others = append(o.Others, other)
		}
		differences = append(differences, value-other)
	}
	switch {
	case len(lacking) > 0:
		// No seed is left out of a verdict; what the others have is said beside it.
		o.Verdict, o.Why = Unmeasured, strings.Join(lacking, "; ")
		if len(differences) > 0 {
			o.Why += "; measured: " + o.bySeed()
		}
		return o, nil
	case len(differences) == 0:
		return o, nil
	case !happened:
		o.Verdict, o.Why = Unmeasured, "no run has "+c.Metric
		return o, nil
	}
	spread := compare.SpreadOf(differences)
	o.Spread, o.Verdict = &spread, verdict(spread, c.Direction)
	return o, nil
}

// verdict says on which side of 0 the interval of a difference lies.
func verdict(s compare.Spread, direction string) string {
	if s.Low == nil { // one seed
		return TooSmall
	}
	low, high := *s.Low, *s.High
	if direction == Lower {
		low, high = -high, -low
	}
	switch {
	case low > 0:
		return CameOut
	case high < 0:
		return DidNot
	}
	return TooSmall
}

// Same counts the policies that have the weights that an earlier reproduction found,
// and names the runs that do not, with the time limits that one of both has met. Runs
// that only one of both has are not counted.
func (r Reproduction) Same(earlier Reproduction) (same int, others []string) {
	key := func(experiment Result, run Run) string { return experiment.Name + "/" + run.Name }
	was := map[string]Run{}
	for _, experiment := range earlier.Results {
		for _, run := range experiment.Runs {
			if run.PolicySHA256 != nil {
				was[key(experiment, run)] = run
			}
		}
	}
	for _, experiment := range r.Results {
		for _, run := range experiment.Runs {
			before, known := was[key(experiment, run)]
			if !known || run.PolicySHA256 == nil {
				continue
			}
			if *before.PolicySHA256 == *run.PolicySHA256 {
				same++
				continue
			}
			other := key(experiment, run)
			if n := max(before.Timeouts, run.Timeouts); n > 0 {
				other += fmt.Sprintf(" (programs of %d responses ran out of time, which depends on the machine)", n)
			}
			others = append(others, other)
		}
	}
	return same, others
}
