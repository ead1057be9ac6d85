package reproduce

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/compare"
	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/plural"
)

// Format names the layout of reproduction.json. Keys are added, never renamed.
const Format = "lathe-reproduction/1.0"

// Outcomes of a claim. It comes out where Student's 95 % interval of the difference
// over seeds lies wholly on its side of 0, and does not where it lies wholly on the
// other. Where 0 is inside, it is smaller than the paper's if the interval excludes the
// paper's relative effect, and else these runs are too few or too small to say. Where
// the data of an arm do not show what it is called there is no outcome, nor before all
// seeds are done.
const (
	CameOut    = "came out"
	DidNot     = "did not come out"
	Smaller    = "smaller than the paper's"
	TooSmall   = "too small to say"
	WrongArm   = "an arm is not what it is called"
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
	Name   string        `json:"name"`
	Title  string        `json:"title"`
	Folder string        `json:"-"` // of its sweep
	Runs   []Run         `json:"runs"`
	Claims []ClaimResult `json:"claims"`
}

// Run is a run of an experiment.
type Run struct {
	Name          string  `json:"name"`
	Method        string  `json:"method"`
	Seed          uint64  `json:"seed"`
	Done          bool    `json:"done"`
	RecipeSHA256  string  `json:"recipe_sha256"`  // empty before the run is made
	Fingerprint   string  `json:"fingerprint"`    // of its recipe, which settings that later versions add leave as it is
	BinaryVersion string  `json:"binary_version"` // that made the run
	PolicySHA256  *string `json:"policy_sha256"`  // of the weights of its last version; null before it is done
	WallSeconds   float64 `json:"wall_seconds"`
	// Timeouts counts responses whose last program ran out of time. A faster machine may
	// let it end, and a run learns from other scores then.
	Timeouts int `json:"timeouts"`

	// Measures are what the claims and checks of the plan look at, by name; Curves are those
	// that are compared at an equal cost, after each iteration. Those in Never are 0 because
	// the run has nothing of that name; those in Lacking it does not have, with the reason.
	Measures map[string]float64         `json:"measures"`
	Curves   map[string][]measure.Point `json:"curves,omitempty"`
	Never    []string                   `json:"never"`
	Lacking  map[string]string          `json:"lacking"`
}

// ClaimResult is a claim and the numbers that speak for or against it.
type ClaimResult struct {
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
	Equal  []SpentAt       `json:"at_equal,omitempty"` // by seed, of a measure at an equal cost

	Power  *Power    `json:"power"`  // null without a spread
	Checks []Checked `json:"checks"` // of both arms

	Outcome string `json:"verdict"`
	Why     string `json:"why"` // where nothing could be measured, or an arm is not what it is called
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
	result := Result{Name: e.Name, Title: e.Title, Folder: folder, Runs: []Run{}, Claims: []ClaimResult{}}
	index, err := e.Runs(all)
	if err != nil {
		return result, err
	}
	for _, planned := range index.Runs {
		run, err := e.readRun(ctx, all, planned)
		if err != nil {
			return result, err
		}
		result.Runs = append(result.Runs, run)
	}
	e.decide(&result)
	return result, nil
}

// decide gives every claim of an experiment its outcome from what its runs measured.
func (e Experiment) decide(result *Result) {
	result.Claims = []ClaimResult{}
	for _, c := range e.Claims {
		o := c.decide(result.Runs)
		for _, method := range []string{c.Method, c.Against} {
			if method == "" {
				continue
			}
			for _, check := range e.checks(method) {
				o.Checks = append(o.Checks, check.against(method, result.Runs))
			}
		}
		o.unlessWrongArm()
		result.Claims = append(result.Claims, o)
	}
}

// unlessWrongArm takes the outcome back where the data of an arm do not show what it is
// called.
func (o *ClaimResult) unlessWrongArm() {
	var why []string
	for _, c := range o.Checks {
		if c.Fails != "" {
			why = append(why, c.Method+": "+c.failure())
		}
	}
	if len(why) > 0 && o.Outcome != NotRun {
		o.Outcome, o.Why = WrongArm, strings.Join(why, "; ")
	}
}

// Done reports whether every run of the experiment is done.
func (e Result) Done() bool {
	return !slices.ContainsFunc(e.Runs, func(r Run) bool { return !r.Done })
}

// decide compares the methods of a claim, seed by seed.
func (c Claim) decide(runs []Run) ClaimResult {
	key := c.key()
	o := ClaimResult{
		Says: c.Says, Source: c.Source, Paper: c.Paper, Metric: key, Method: c.Method, Against: c.Against, Direction: c.Direction,
		Seeds: []uint64{}, Values: []float64{}, Checks: []Checked{}, Outcome: NotRun,
	}
	others := map[uint64]Run{}
	open := 0 // runs that are still to be done
	for _, r := range runs {
		switch {
		case r.Method != c.Method && r.Method != c.Against:
		case !r.Done:
			open++
		case r.Method == c.Against:
			others[r.Seed] = r
		}
	}
	if open > 0 {
		// An outcome of some of the seeds would be a look before the end.
		o.Why = plural.Count(open, "run") + " still to be done"
		return o
	}
	var differences []float64
	var lacking []string // seeds without the number, and why
	happened := false    // in some run
	for _, r := range runs {
		other, paired := others[r.Seed]
		if r.Method != c.Method || !r.Done || c.Against != "" && !paired {
			continue
		}
		n := c.numbers(r, other)
		happened = happened || n.happened
		if n.lacking != "" {
			lacking = append(lacking, fmt.Sprintf("seed %d of %s", r.Seed, n.lacking))
			continue
		}
		o.Seeds, o.Values = append(o.Seeds, r.Seed), append(o.Values, n.value)
		if c.Against != "" {
			o.Others = append(o.Others, n.base)
		}
		if n.at != nil {
			o.Equal = append(o.Equal, *n.at)
		}
		differences = append(differences, n.value-n.base)
	}
	switch {
	case len(lacking) > 0:
		// No seed is left out of an outcome; what the others have stands beside it.
		o.Outcome, o.Why = Unmeasured, strings.Join(lacking, "; ")
		if len(differences) > 0 {
			o.Why += "; measured: " + o.bySeed()
		}
		return o
	case len(differences) == 0:
		return o
	case !happened:
		o.Outcome, o.Why = Unmeasured, "no run has "+key
		return o
	}
	spread := compare.SpreadOf(differences)
	o.Spread, o.Power = &spread, powerOf(spread, c.Numbers, o.Others)
	o.Outcome = outcomeOf(spread, c.Direction, o.Power)
	return o
}

// outcomeOf says on which side of 0 the interval of a difference lies, and where 0 is
// inside, whether the paper's effect is outside.
func outcomeOf(s compare.Spread, direction string, p *Power) string {
	if s.Low == nil { // one seed
		return TooSmall
	}
	low, high, effect := *s.Low, *s.High, 0.0
	if p != nil && p.PaperEffect != nil {
		effect = *p.PaperEffect
	}
	if direction == Lower {
		low, high, effect = -high, -low, -effect
	}
	switch {
	case low > 0:
		return CameOut
	case high < 0:
		return DidNot
	case effect > 0 && high < effect:
		return Smaller
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
				other += fmt.Sprintf(" (programs of %s ran out of time, which depends on the machine)", plural.Count(n, "response"))
			}
			others = append(others, other)
		}
	}
	return same, others
}
