package report

import (
	"fmt"
	"strings"

	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/status"
)

// beforeAndAfter are the evaluations that are set against each other, nil for none: of
// policy v000000, and of the run's last version or, while that is not measured, of the
// newest that is. head is the latter's in a table.
func beforeAndAfter(s Summary) (before, after *Version, head string) {
	head = "after"
	for i := range s.AccuracyByVersion {
		v := &s.AccuracyByVersion[i]
		if v.Version == 0 {
			before = v
		}
		if v.Version > 0 || s.Iterations == 0 {
			after = v
		}
	}
	if after != nil && after.Version < s.Iterations {
		head = fmt.Sprintf("v%06d, so far", after.Version)
	}
	return before, after, head
}

// value is a number of an evaluation, nil without one.
func value(v *Version, of func(Version) *float64) *float64 {
	if v == nil {
		return nil
	}
	return of(*v)
}

func accuracyOf(v Version) *float64 { return v.Accuracy }
func errorOf(v Version) *float64    { return v.StandardError }
func greedyOf(v Version) *float64   { return v.GreedyAccuracy }
func deltaOf(v Version) *float64    { return v.DeltaK }

// toDo lists in words what remains to be done of a run.
func toDo(s Summary) []string {
	if s.State == string(status.StateDone) {
		return nil
	}
	var words []string
	next, last := 1, s.Iterations
	if s.PolicyVersion == nil {
		words = append(words, "The policy that the run starts from.")
	} else {
		next = *s.PolicyVersion + 1
	}
	switch {
	case next < last:
		words = append(words, fmt.Sprintf("Iterations %d to %d.", next, last))
	case next == last:
		words = append(words, fmt.Sprintf("Iteration %d, the last.", next))
	}
	var later []string
	for _, e := range s.Unmeasured {
		name := fmt.Sprintf("v%06d", e.Version)
		if s.PolicyVersion != nil && e.Version <= *s.PolicyVersion {
			words = append(words, fmt.Sprintf("The evaluation of policy %s: %s sealed.", name, plural.Of(e.Sealed, e.Shards, "shard")))
		} else {
			later = append(later, name)
		}
	}
	const most = 4
	if n := len(later); n > most {
		later = append(later[:most-1], "…", later[n-1])
	}
	if len(later) > 0 {
		words = append(words, fmt.Sprintf("The evaluation of policies that do not exist yet: %s.", strings.Join(later, ", ")))
	}
	return words
}

// versionOf is the evaluation of a policy version; nil for none.
func versionOf(s SetAccuracy, version int) *Version {
	for i := range s.Versions {
		if s.Versions[i].Version == version {
			return &s.Versions[i]
		}
	}
	return nil
}

// bySet lists the accuracies of the sets as those of kinds are: of first answers,
// and after the last step.
func bySet(s Summary) []KindAccuracy {
	var all []KindAccuracy
	for _, set := range s.AccuracyBySet {
		for step := 0; step <= set.Steps; step += max(1, set.Steps) {
			k := KindAccuracy{Kind: set.Set, Problems: set.Problems}
			if step > 0 {
				k.Kind = fmt.Sprintf("%s, after revision %d", set.Set, step)
			}
			if v := versionOf(set, 0); v != nil && step < len(v.AccuracyByStep) {
				k.Before, k.BeforeStandardError = &v.AccuracyByStep[step], v.StandardErrorByStep[step]
			}
			if v := versionOf(set, s.Iterations); v != nil && step < len(v.AccuracyByStep) {
				k.After, k.AfterStandardError = &v.AccuracyByStep[step], v.StandardErrorByStep[step]
			}
			all = append(all, k)
		}
	}
	return all
}
