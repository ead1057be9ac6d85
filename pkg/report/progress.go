package report

import (
	"fmt"
	"strings"

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

// unmeasured is a policy version of which not all shards of the evaluation are sealed.
type unmeasured struct{ version, sealed, shards int }

func (u unmeasured) String() string {
	return fmt.Sprintf("the evaluation of policy v%06d is not done: %d of %d shards are sealed", u.version, u.sealed, u.shards)
}

// toDo says in words what of a run is still to be made.
func (f *findings) toDo() []string {
	if f.State == string(status.StateDone) {
		return nil
	}
	var words []string
	next, last := 1, f.Iterations
	if f.PolicyVersion == nil {
		words = append(words, "The policy that the run starts from.")
	} else {
		next = *f.PolicyVersion + 1
	}
	switch {
	case next < last:
		words = append(words, fmt.Sprintf("Iterations %d to %d.", next, last))
	case next == last:
		words = append(words, fmt.Sprintf("Iteration %d, the last.", next))
	}
	var later []string
	for _, e := range f.unmeasured {
		name := fmt.Sprintf("v%06d", e.version)
		if f.PolicyVersion != nil && e.version <= *f.PolicyVersion {
			words = append(words, fmt.Sprintf("The evaluation of policy %s: %d of %d shards are sealed.", name, e.sealed, e.shards))
		} else {
			later = append(later, name)
		}
	}
	const most = 4
	if n := len(later); n > most {
		later = append(later[:most-1], "…", later[n-1])
	}
	if len(later) > 0 {
		words = append(words, fmt.Sprintf("The evaluation of policies that are not made yet: %s.", strings.Join(later, ", ")))
	}
	return words
}
