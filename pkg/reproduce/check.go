package reproduce

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// Check is what must be seen in the data of every run of a method for its comparisons to
// mean anything: that what a method is called is what it did.
type Check struct {
	Sees    string `yaml:"sees"` // what is seen, in words
	Measure `yaml:",inline"`
	Equals  *float64 `yaml:"equals"` // the measure is this
	Above   *float64 `yaml:"above"`  // the measure is above this
	Below   *float64 `yaml:"below"`  // the measure is below this
	Absent  bool     `yaml:"absent"` // no run of the method has the measure
}

// want says what the measure must be.
func (c Check) want() string {
	if c.Absent {
		return "absent"
	}
	var words []string
	for _, bound := range []struct {
		word  string
		value *float64
	}{{"is", c.Equals}, {"above", c.Above}, {"below", c.Below}} {
		if bound.value != nil {
			words = append(words, fmt.Sprintf("%s %g", bound.word, *bound.value))
		}
	}
	return strings.Join(words, " and ")
}

// holds reports whether a value is what is wanted.
func (c Check) holds(value float64) bool {
	return (c.Equals == nil || value == *c.Equals) && (c.Above == nil || value > *c.Above) && (c.Below == nil || value < *c.Below)
}

// Checked is a check with what the runs of a method show.
type Checked struct {
	Method  string    `json:"method"`
	Sees    string    `json:"sees"`
	Measure string    `json:"measure"`
	Want    string    `json:"want"`
	Seeds   []uint64  `json:"seeds"`  // that have the measure
	Values  []float64 `json:"values"` // by seed
	Fails   string    `json:"fails"`  // why it fails; empty where it holds for every run that is done
}

// failure says what was to be seen, and what was.
func (c Checked) failure() string {
	return fmt.Sprintf("%s (%s wanted: %s): %s", c.Sees, c.Measure, c.Want, c.Fails)
}

// against looks for what must be seen in the runs of a method. A measure that no run of
// the experiment has is a name that nothing has, and not 0.
func (c Check) against(method string, runs []Run) Checked {
	key := c.key()
	checked := Checked{Method: method, Sees: c.Sees, Measure: key, Want: c.want(), Seeds: []uint64{}, Values: []float64{}}
	happened := slices.ContainsFunc(runs, func(r Run) bool {
		_, has := r.Measures[key]
		return has && !slices.Contains(r.Never, key)
	})
	var fails []string
	for _, r := range runs {
		if r.Method != method || !r.Done {
			continue
		}
		value, has := r.Measures[key]
		switch {
		case c.Absent && (!has || slices.Contains(r.Never, key)):
			checked.Seeds, checked.Values = append(checked.Seeds, r.Seed), append(checked.Values, 0)
			continue
		case !has:
			fails = append(fails, fmt.Sprintf("seed %d: %s", r.Seed, cmp.Or(r.Lacking[key], "it was not measured")))
			continue
		case c.Absent:
			fails = append(fails, fmt.Sprintf("seed %d has it: %s", r.Seed, number(value)))
		case !happened:
			fails = append(fails, fmt.Sprintf("seed %d: no run has %s", r.Seed, key))
		case !c.holds(value):
			fails = append(fails, fmt.Sprintf("seed %d: %s", r.Seed, number(value)))
		}
		checked.Seeds, checked.Values = append(checked.Seeds, r.Seed), append(checked.Values, value)
	}
	checked.Fails = strings.Join(fails, "; ")
	return checked
}

// validate checks the checks of the methods of an experiment: each method that a claim is
// about has at least one.
func (e Experiment) validate(check *config.Checker, at string, methods []string) {
	for _, arm := range e.Arms {
		check.OneOf(at+".arms", arm.Method, methods)
		for _, c := range arm.Checks {
			if c.Sees == "" || c.want() == "" {
				check.Add(at+".arms", arm.Method, "must say what is seen and what its measure must be: sees, and equals, above or below")
			}
			c.Measure.validate(check, at+".arms")
			if c.AtEqual != "" {
				check.Add(at+".arms", arm.Method, "must not have at_equal: a check is of one method")
			}
		}
	}
	for _, c := range e.Claims {
		for _, method := range []string{c.Method, c.Against} {
			if method != "" && len(e.checks(method)) == 0 {
				check.Add(at+".arms", method, "has no check: say what must be seen in its data for a claim about it to mean anything")
			}
		}
	}
}

// checks are those of a method.
func (e Experiment) checks(method string) []Check {
	for _, arm := range e.Arms {
		if arm.Method == method {
			return arm.Checks
		}
	}
	return nil
}

// CheckArms refuses a plan in which two methods of an experiment are one: their recipes
// differ in name and description alone.
func (p Plan) CheckArms(folder string) error {
	for _, e := range p.Experiments {
		index, err := e.Runs(folder)
		if err != nil {
			return err
		}
		type arm struct {
			folder string // of the recipe
			text   []byte
		}
		arms := map[string]arm{} // by method, of its first seed
		for _, r := range index.Runs {
			method := methodOf(r.Recipe)
			if arms[method].text != nil {
				continue
			}
			resolved, err := recipe.Load(r.Recipe, r.Set)
			if err != nil {
				return err
			}
			own := arm{filepath.Dir(r.Recipe), resolved.YAML}
			for other, its := range arms {
				changes, err := recipe.Differences(its.text, own.text)
				if err != nil {
					return err
				}
				if !slices.ContainsFunc(changes, func(c config.Change) bool { return !sameFiles(c, its.folder, own.folder) }) {
					first, second := min(method, other), max(method, other)
					return exitcode.Usagef("experiment %q: the methods %s and %s are the same: their recipes choose the same on every axis and have the same settings. Nothing was started", e.Name, first, second)
				}
			}
			arms[method] = own
		}
	}
	return nil
}

// sameFiles reports whether a change is no more than another way from the folders of two
// recipes to the same files.
func sameFiles(c config.Change, was, now string) bool {
	if c.Was == nil || c.Now == nil {
		return false
	}
	from := func(folder, value string) string {
		paths := strings.Split(strings.Trim(value, "[]"), ", ")
		for i, path := range paths {
			paths[i] = filepath.Join(folder, strings.Trim(path, `"`))
		}
		return strings.Join(paths, "\n")
	}
	return strings.Contains(*c.Was, "/") && strings.Contains(*c.Now, "/") && from(was, *c.Was) == from(now, *c.Now)
}
