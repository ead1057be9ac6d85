package paper

import (
	"context"
	"fmt"
	"strings"

	"github.com/lathe-rl/lathe/pkg/measure"
)

// source is a run with its rows, and the method that it is of.
type source struct {
	*measure.Rows
	label   string
	reached []reached // kept for what compares runs over time
}

// labels are what an item calls the columns of a measure.
type labels map[string]string

// view is what an item has of a measure: of held-out problems by the policy before training
// and by the last one.
type view struct {
	measure string
	by      string // of which groups
	only    string // of one group alone, which is not shown
	labels  labels
	none    absent            // why there may be no value at all
	lacks   map[string]absent // why a column may have none
	few     string            // says how many groups there are, where a figure tells few apart
	sorted  bool              // by group, measure and X
}

// asked are the functions of a query that ask for the view.
func (v view) asked() (of func(context.Context, *source) ([]value, error), at func(context.Context, *source, int) ([]value, error)) {
	if m, _ := measure.Named(v.measure); m.HeldOut() {
		return nil, v.of
	}
	return func(ctx context.Context, s *source) ([]value, error) { return v.of(ctx, s, s.Last()) }, nil
}

// of takes the view of a policy version, or of training.
func (v view) of(ctx context.Context, s *source, version int) ([]value, error) {
	m, _ := measure.Named(v.measure)
	all, err := m.Of(ctx, s.Rows, version)
	var values []value
	groups, columns := map[string]bool{}, map[string]bool{}
	for _, n := range all {
		label, asked := v.labels[n.Column]
		if !asked || n.By != v.by || v.only != "" && n.Group != v.only {
			continue
		}
		groups[n.Group], columns[n.Column] = true, true
		if v.only != "" {
			n.Group = ""
		}
		values = append(values, value{n.Group, label, n.X, n.Y})
	}
	if err == nil && v.few != "" && len(groups) > fewTasks {
		return nil, absent(fmt.Sprintf(v.few+": a figure tells at most %d apart", len(groups), fewTasks))
	}
	if err == nil && len(values) == 0 && v.none != "" {
		err = v.none
	}
	for column, why := range v.lacks {
		if err == nil && !columns[column] {
			err = why
		}
	}
	if v.sorted {
		sortedBy(values)
	}
	return values, err
}

// fewTasks is how many tasks can be told apart in a figure.
const fewTasks = 12

// lacking is an absence where something lacks.
func lacking(of []string, format string) error {
	if len(of) == 0 {
		return nil
	}
	return absent(fmt.Sprintf(format, strings.Join(of, ", ")))
}

// moment is when held-out problems were answered.
type moment struct {
	name    string
	version int // of the policy
}

// The names of moments.
const (
	beforeTraining = "before training"
	afterTraining  = "after"
)

// moments are before training, as a paper calls it, and after. A run without iterations
// has one alone: after, where it learned by supervision from a pool or from data, which is
// then all of its training, else before.
func (s *source) moments(before string) []moment {
	switch {
	case s.Last() > 0:
		return []moment{{before, 0}, {afterTraining, s.Last()}}
	case s.Recipe.WarmStart.Pool != "", s.Recipe.WarmStart.Data != nil:
		return []moment{{afterTraining, 0}}
	}
	return []moment{{before, 0}}
}

// atMoments is a view at each moment, with the moment's name put into its labels or, where
// they have no place for it, as its group.
func (v view) atMoments(before string) func(ctx context.Context, s *source) ([]value, error) {
	return func(ctx context.Context, s *source) ([]value, error) {
		var values []value
		for _, when := range s.moments(before) {
			own, err := v.of(ctx, s, when.version)
			if err != nil {
				return values, err
			}
			for _, n := range own {
				if !strings.Contains(n.measure, "{when}") {
					n.group = when.name
				}
				n.measure = strings.ReplaceAll(n.measure, "{when}", when.name)
				values = append(values, n)
			}
		}
		return values, nil
	}
}

// medals are what items call the columns of submissions.
var medals = labels{
	"valid": "valid (%)", "above_median": "above median (%)", "bronze": "bronze (%)", "silver": "silver (%)", "gold": "gold (%)",
	"any_medal": "any medal (%)", "humanrank": "HumanRank (%)", "humanrank_mledojo": "HumanRank of MLE-Dojo (%)",
}

// withDeviations asks for the deviations and the standard errors over samples too.
func withDeviations(of labels) labels {
	all := labels{}
	for column, label := range of {
		for _, suffix := range []string{"", measure.SampleDeviation, measure.SampleError} {
			all[column+suffix] = label + suffix
		}
	}
	return all
}

// submitted are the submissions of the policy that a run began with and of its last one, on
// some sets: the best of all attempts by validation score, and the first attempt alone.
func submitted(sets func(s *source, set string) bool, firstToo bool) func(ctx context.Context, s *source) ([]value, error) {
	return func(ctx context.Context, s *source) ([]value, error) {
		var values []value
		for _, set := range s.Sets() {
			if !sets(s, set) {
				continue
			}
			for _, when := range s.moments(beforeTraining) {
				for _, chosen := range []string{measure.FirstAttempt, measure.AllAttempts} {
					if chosen == measure.FirstAttempt && !firstToo {
						continue
					}
					own, err := view{measure: "submissions", by: chosen, only: set, labels: withDeviations(medals)}.of(ctx, s, when.version)
					if err != nil {
						return nil, err
					}
					for _, n := range own {
						n.group = set + ", " + when.name
						if chosen == measure.FirstAttempt {
							n.group += ", first attempt alone"
						}
						values = append(values, n)
					}
				}
			}
		}
		if len(values) == 0 {
			return nil, absent("its recipe measures no such set: evaluation.sets names none")
		}
		return values, nil
	}
}
