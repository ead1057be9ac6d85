package credit

import (
	_ "embed"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shard"
)

//go:embed valuable.go
var valuableSource string

var _ = []any{config.Docs[BelowPercentile](valuableSource), config.Docs[NotImproved](valuableSource)}

// The reasons of the choices here, as they stand in the ledger.
const (
	ReasonBelowPercentile = "below_percentile"
	ReasonNotImproved     = "not_improved"
)

func init() {
	SelectAxis.Register(registry.Choice[Select]{
		Name: ReasonBelowPercentile, Summary: "drops segments whose score is not above a percentile of the task's first submissions (MLE-RL §4.1: τ_abs)",
		Settings: func() any { return &BelowPercentile{Percentile: 70, Submissions: 16} },
		Validate: func(c *config.Checker, settings any) {
			s := settings.(*BelowPercentile)
			c.AtLeast("select.below_percentile.submissions", s.Submissions, 1)
			if !(s.Percentile > 0 && s.Percentile < 100) {
				c.Add("select.below_percentile.percentile", s.Percentile, "must be above 0 and below 100")
			}
		},
		Make: func(settings any) (Select, error) { return settings.(*BelowPercentile), nil },
	})
	SelectAxis.Register(registry.Choice[Select]{
		Name: ReasonNotImproved, Summary: "drops segments whose score does not exceed that of the trace's first valid submission by enough (MLE-RL §4.1: τ_adv)",
		Settings: func() any { return &NotImproved{Threshold: 0.01} },
		Validate: func(c *config.Checker, settings any) {
			s := settings.(*NotImproved)
			if !(math.Abs(s.Threshold) <= 1) {
				c.Add("select.not_improved.threshold", s.Threshold, "must be from -1 to 1")
			}
		},
		Make: func(settings any) (Select, error) { return *settings.(*NotImproved), nil },
	})
}

// BelowPercentile is τ_abs of MLE-RL: a threshold for each task, above which 100 less
// the percentile percent of its scores lie. The paper takes them of the policy that
// training starts from. A run takes the scores of the task's first valid submissions,
// in their order; until there are as many, nothing of the task is kept. Then its
// threshold stays (reading mlerl-threshold).
type BelowPercentile struct {
	Percentile  float64 `yaml:"percentile"`  // of a task's first scores, interpolated linearly; its threshold, which a score must exceed. MLE-RL keeps the best 30 %: 70
	Submissions int     `yaml:"submissions"` // so many first scores make it
}

// aboveThreshold keeps what exceeds the threshold of its task, of those that are made.
type aboveThreshold map[string]float64

// The statistics of a task's threshold, or of the scores that will make it.
const (
	scopeThreshold = "threshold"
	nameScore      = "first score"
	nameThreshold  = "threshold"
)

// When is before the advantage: what is not kept is as if it had not been sampled.
func (*BelowPercentile) When() When { return Before }

// Drop knows no threshold: Prepare makes them.
func (*BelowPercentile) Drop(Group, []Segment, int) string { return ReasonBelowPercentile }

// Prepare makes the thresholds of tasks that have enough submissions now.
func (p *BelowPercentile) Prepare(iteration int, stats []shard.Stat, groups []Group, segments [][]Segment) (Select, []shard.Stat, error) {
	thresholds := aboveThreshold{}
	scores := map[string][]shard.Stat{}
	var next []shard.Stat
	var order []string // tasks without a threshold so far
	add := func(s shard.Stat) {
		if scores[s.Key] == nil {
			order = append(order, s.Key)
		}
		scores[s.Key] = append(scores[s.Key], s)
	}
	for _, s := range stats {
		switch {
		case s.Scope == scopeThreshold && s.Name == nameScore:
			add(s)
			continue
		case s.Scope == scopeThreshold:
			thresholds[s.Key] = s.Value
		}
		next = append(next, s)
	}
	for g, group := range groups {
		task := group.Instance.TaskID
		if _, made := thresholds[task]; made {
			continue
		}
		for _, s := range segments[g] {
			trace := group.Traces[s.Trace]
			if trace.Valid() && trace.endsSubmitted(s) && len(scores[task]) < p.Submissions {
				add(shard.Stat{Scope: scopeThreshold, Key: task, Name: nameScore, Iteration: int32(iteration), Value: s.Raw})
			}
		}
	}
	for _, task := range order {
		own := scores[task]
		if len(own) < p.Submissions {
			next = append(next, own...)
			continue
		}
		values := make([]float64, len(own))
		for i, s := range own {
			values[i] = s.Value
		}
		thresholds[task] = percentile(values, p.Percentile)
		next = append(next, shard.Stat{Scope: scopeThreshold, Key: task, Name: nameThreshold, Iteration: int32(iteration), Value: thresholds[task]})
	}
	return thresholds, next, nil
}

// percentile interpolates linearly between the two nearest of the sorted values
// (NumPy's default).
func percentile(values []float64, p float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := p / 100 * float64(len(sorted)-1)
	below := int(at)
	if below+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[below] + (at-float64(below))*(sorted[below+1]-sorted[below])
}

func (aboveThreshold) When() When { return Before }

// Drop compares a score with its task's threshold.
func (a aboveThreshold) Drop(g Group, segments []Segment, at int) string {
	threshold, made := a[g.Instance.TaskID]
	if made && segments[at].Raw > threshold {
		return ""
	}
	return ReasonBelowPercentile
}

// NotImproved is τ_adv of MLE-RL: a segment is kept where its score exceeds that of
// the first valid submission of its trace by more than a threshold. The first one
// never does (reading mlerl-first-submission).
type NotImproved struct {
	Threshold   float64 `yaml:"threshold"`    // τ_adv: by how much a score must exceed it (MLE-RL Fig. 3: 0.01)
	ExemptFirst bool    `yaml:"exempt_first"` // keep the first valid submission of each trace
}

// When is before the advantage.
func (NotImproved) When() When { return Before }

// Drop looks for the first valid submission of the trace. Before it there is nothing
// to improve on.
func (n NotImproved) Drop(g Group, segments []Segment, at int) string {
	own := segments[at]
	for i, s := range segments {
		if s.Trace != own.Trace || !g.Traces[s.Trace].endsSubmitted(s) {
			continue
		}
		if i == at && n.ExemptFirst || i != at && own.Raw-s.Raw > n.Threshold {
			return ""
		}
		break
	}
	return ReasonNotImproved
}
