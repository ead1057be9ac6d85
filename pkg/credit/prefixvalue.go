package credit

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shard"
)

//go:embed prefixvalue.go
var prefixValueSource string

var _ = config.Docs[PrefixValue](prefixValueSource)

// PrefixValue gives turns credit by what the policy makes of where they led. A curriculum
// that continues earlier traces samples a group from a prefix of one: the mean reward of
// that group, V, estimates the value of the prefix, and costs nothing. Of a trace with the
// prefixes P_1, P_2 … that were sampled from, each longer than the one before, and the
// prompt P_0, the turns between P_(k−1) and P_k get
//
//	A = (V(P_k) − V(P_(k−1))) / σ
//
// where V(P_0) and σ are the mean and the standard deviation of the rewards of the trace's
// own group. The responses of the iteration get (r − V)/σ of their group beside them, which
// is the credit of what comes after the last prefix.
//
// The turns are of an earlier policy: they are learned from with the log-probabilities that
// they were sampled with, once for each prefix. Values are of the policies of their
// iterations, so a turn is also credited with what the policy has learned meanwhile.
type PrefixValue struct {
	Scale  string `yaml:"scale" choices:"std,none"` // what advantages are divided by: std, the deviation of the rewards of the group, or of the group that an earlier trace is of; or none
	MaxAge int    `yaml:"max_age"`                  // iterations after which a trace gets no more credit
}

func init() {
	const section = "advantage.prefix_value"
	AdvantageAxis.Register(registry.Choice[Advantage]{
		Name: "prefix_value", Summary: "(reward - mean) / scale of the group, and for the turns of an earlier trace the difference between the mean rewards of groups sampled from its prefixes",
		Settings: func() any { return &PrefixValue{Scale: "std", MaxAge: 16} },
		Validate: func(c *config.Checker, settings any) {
			s := settings.(*PrefixValue)
			c.Choice(section+".scale", s.Scale)
			c.AtLeast(section+".max_age", s.MaxAge, 1)
			if waits, ok := config.Find[any](c.Settings(), "schedule.batch_segments"); ok && fmt.Sprint(waits) != "0" {
				c.Add("schedule.batch_segments", nil, "must be 0 for advantage.name prefix_value, whose earlier turns are learned from in the iteration that credits them")
			}
		},
		Make: func(settings any) (Advantage, error) { return prefixValue{*settings.(*PrefixValue)}, nil },
	})
}

type prefixValue struct{ PrefixValue }

func (prefixValue) Critic() bool { return false }

// Advantage is that of the group statistic.
func (p prefixValue) Advantage(g Group, segments []Segment) error {
	return groupStatistic{AdvantageSettings{Baseline: "mean", Scale: p.Scale, ZeroScale: "keep", GroupOfOne: "zero"}}.Advantage(g, segments)
}

// The statistics: the mean and the deviation of the rewards of a group, by instance; and the
// value of a prefix, by its trace, named by the number of its messages.
const (
	scopeGroup  = "group"
	scopePrefix = "prefix"
	nameMean    = "mean"
	nameStd     = "std"
)

// Earlier credits the traces whose prefixes the iteration's groups were sampled from.
// Statistics are kept for as long as the traces of their iteration may get credit.
func (p prefixValue) Earlier(iteration int, stats []shard.Stat, groups []Group, segments [][]Segment) ([]Earlier, []shard.Stat) {
	next := slices.DeleteFunc(slices.Clone(stats), func(s shard.Stat) bool {
		return (s.Scope == scopeGroup || s.Scope == scopePrefix) && int(s.Iteration) < iteration-p.MaxAge
	})
	start := map[string]moments{}          // of the groups of instances
	values := map[string]map[int]float64{} // of prefixes, by trace and messages
	rewards := map[string][]float64{}      // of the groups sampled from an entry
	entries := map[string]shard.Entry{}    // that were sampled from
	for _, s := range next {
		switch m := start[s.Key]; {
		case s.Scope == scopeGroup && s.Name == nameMean:
			start[s.Key] = moments{s.Value, m.std}
		case s.Scope == scopeGroup && s.Name == nameStd:
			start[s.Key] = moments{m.mean, s.Value}
		case s.Scope == scopePrefix:
			if messages, err := strconv.Atoi(s.Name); err == nil {
				note(values, s.Key, messages, s.Value)
			}
		}
	}
	for g, group := range groups {
		own := countedRewards(group, segments[g])
		if len(own) < 2 {
			continue
		}
		at := group.Instance.Iteration
		next = append(next,
			shard.Stat{Scope: scopeGroup, Key: group.Instance.InstanceID, Name: nameMean, Iteration: at, Value: mean(own)},
			shard.Stat{Scope: scopeGroup, Key: group.Instance.InstanceID, Name: nameStd, Iteration: at, Value: std(own, 0)})
		if e := group.From; !e.Ref.IsZero() {
			entries[e.EntryID], rewards[e.EntryID] = e, append(rewards[e.EntryID], own...)
		}
	}
	var credits []Earlier
	for _, e := range slices.SortedFunc(maps.Values(entries), byTrace) {
		trace, messages := traceOf(e), int(e.Ref.Messages)
		if _, before := values[trace][messages]; before || iteration-int(e.Ref.Iteration) > p.MaxAge {
			continue
		}
		value := mean(rewards[e.EntryID])
		next = append(next, shard.Stat{Scope: scopePrefix, Key: trace, Name: strconv.Itoa(messages), Iteration: e.Ref.Iteration, Value: value})
		if of, known := start[e.ParentID]; known {
			after, base := longestBefore(values[trace], messages, of.mean)
			if a := (value - base) / p.divisor(of.std); a != 0 {
				credits = append(credits, Earlier{Entry: e, After: int32(after), Value: value, Advantage: a})
			}
		}
		note(values, trace, messages, value)
	}
	return credits, next
}

// moments are the mean and the deviation of a group's rewards.
type moments struct{ mean, std float64 }

// divisor is σ; 1 where all rewards of the group were equal.
func (p prefixValue) divisor(std float64) float64 {
	if p.Scale == "none" || std == 0 {
		return 1
	}
	return std
}

// note adds the value of a prefix.
func note(values map[string]map[int]float64, trace string, messages int, value float64) {
	if values[trace] == nil {
		values[trace] = map[int]float64{}
	}
	values[trace][messages] = value
}

// longestBefore is the longest prefix of a trace below a number of messages that has a
// value, with that; 0 messages and the value of the trace's group for none.
func longestBefore(values map[int]float64, below int, ofGroup float64) (messages int, value float64) {
	value = ofGroup
	for m, v := range values {
		if m < below && m > messages {
			messages, value = m, v
		}
	}
	return messages, value
}

// countedRewards are those of the segments that are compared with each other.
func countedRewards(g Group, segments []Segment) []float64 {
	var rewards []float64
	for _, s := range segments {
		if g.counts(s) {
			rewards = append(rewards, s.Reward)
		}
	}
	return rewards
}

// traceOf names the trace that an entry continues.
func traceOf(e shard.Entry) string {
	return fmt.Sprintf("%s/%d/%d", e.ParentID, e.Ref.Sample, e.Ref.Step)
}

// byTrace puts the entries of a trace one after the other, the shortest first.
func byTrace(a, b shard.Entry) int {
	return cmp.Or(cmp.Compare(traceOf(a), traceOf(b)), cmp.Compare(a.Ref.Messages, b.Ref.Messages), cmp.Compare(a.EntryID, b.EntryID))
}
