package reproduce

import (
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/recipe"
)

// Taken are the runs of an experiment that another reproduction has, by name.
type Taken map[string]map[string]bool // by experiment

// All reports whether every run of a result is taken.
func (t Taken) All(e Result) bool {
	return len(e.Runs) > 0 && !slices.ContainsFunc(e.Runs, func(r Run) bool { return !t[e.Name][r.Name] })
}

// With takes runs that are not done here from a reproduction of another machine or time in
// which they are, with all measures that the plan looks at and of the same recipe, and
// decides the claims again. refused says why others are not taken.
func (r *Reproduction) With(p Plan, folder string, other Reproduction) (taken Taken, refused []string, err error) {
	taken = Taken{}
	for i, result := range r.Results {
		e := p.Named(result.Name)
		there := map[string]Run{}
		for _, o := range other.Results {
			for _, run := range o.Runs {
				if o.Name == e.Name && run.Done {
					there[run.Name] = run
				}
			}
		}
		prints, err := e.fingerprints(folder)
		if err != nil {
			return nil, nil, err
		}
		own := map[string]bool{}
		for _, run := range result.Runs {
			theirs, has := there[run.Name]
			if run.Done || !has {
				continue
			}
			if why := e.unusable(theirs, prints[run.Name]); why != "" {
				refused = append(refused, fmt.Sprintf("%s/%s is not taken: %s", e.Name, run.Name, why))
				continue
			}
			own[run.Name] = true
		}
		e.keepWhatOthersNeed(result.Runs, own)
		for j, run := range result.Runs {
			if own[run.Name] {
				r.Results[i].Runs[j] = there[run.Name]
			}
		}
		if len(own) > 0 {
			taken[e.Name] = own
			e.decide(&r.Results[i])
		}
	}
	return taken, refused, nil
}

// unusable says why a run of elsewhere cannot stand for one of the plan; empty if it can.
// fingerprints are those of the recipe of the plan, empty where it depends on the folder.
func (e Experiment) unusable(r Run, fingerprints []string) string {
	if len(fingerprints) > 0 && !slices.Contains(fingerprints, r.Fingerprint) {
		return fmt.Sprintf("its recipe has the fingerprint %.12s, and the plan's %.12s", r.Fingerprint, fingerprints[0])
	}
	for _, m := range e.measures() {
		if _, has := r.Measures[m.key()]; !has && r.Curves[m.key()] == nil && r.Lacking[m.key()] == "" {
			return "it was not asked for " + m.key()
		}
	}
	return ""
}

// keepWhatOthersNeed takes out of names those runs that runs here begin with.
func (e Experiment) keepWhatOthersNeed(runs []Run, names map[string]bool) {
	for _, r := range runs {
		if r.Done || names[r.Name] {
			continue
		}
		for _, needed := range runs {
			if needed.Seed == r.Seed && slices.Contains(e.needs(r.Method), needed.Method) {
				delete(names, needed.Name)
			}
		}
	}
}

// fingerprints are those of the recipes of runs, by name; runs that begin with others have
// theirs from the folder.
func (e Experiment) fingerprints(folder string) (map[string][]string, error) {
	index, err := e.Runs(folder)
	if err != nil {
		return nil, err
	}
	prints := map[string][]string{}
	for _, r := range index.Runs {
		if len(e.needs(methodOf(r.Recipe))) > 0 {
			continue
		}
		resolved, err := recipe.Load(r.Recipe, r.Set)
		if err != nil {
			return nil, err
		}
		prints[r.Name] = resolved.Recipe.Fingerprints()
	}
	return prints, nil
}

// WithoutTaken leaves out the runs that are from elsewhere.
func (r Reproduction) WithoutTaken(t Taken) Reproduction {
	own := r
	own.Results = nil
	for _, e := range r.Results {
		e.Runs = slices.DeleteFunc(slices.Clone(e.Runs), func(run Run) bool { return t[e.Name][run.Name] })
		own.Results = append(own.Results, e)
	}
	return own
}
