package credit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// selectOf are the choices of select for the traces of an environment.
func (c Composition) selectOf(environment string) []Select {
	if own, ok := c.SelectOf[environment]; ok {
		return own
	}
	return c.Select
}

// prepare readies the choices of select for an iteration, and returns the statistics that
// the next one starts from. An environment's own choices see its groups alone, and keep
// statistics whose scopes begin with its name and a slash.
func (c *Composition) prepare(iteration int, stats []shard.Stat, groups []Group, segments [][]Segment) ([]shard.Stat, error) {
	own := map[string][]Select{}
	for _, name := range slices.Sorted(maps.Keys(c.SelectOf)) {
		kept, others := ofScope(stats, name+"/")
		its, theirs := among(groups, segments, func(environment string) bool { return environment == name })
		ready, kept, err := prepared(c.SelectOf[name], iteration, kept, its, theirs)
		if err != nil {
			return nil, fmt.Errorf("environment %q: %w", name, err)
		}
		for _, s := range kept {
			s.Scope = name + "/" + s.Scope
			others = append(others, s)
		}
		own[name], stats = ready, others
	}
	rest, segmentsOf := among(groups, segments, func(environment string) bool { _, has := own[environment]; return !has })
	ready, stats, err := prepared(c.Select, iteration, stats, rest, segmentsOf)
	c.Select, c.SelectOf = ready, own
	return stats, err
}

// ofScope parts statistics by a prefix of their scopes, which it takes away.
func ofScope(stats []shard.Stat, prefix string) (own, others []shard.Stat) {
	for _, s := range stats {
		scope, is := strings.CutPrefix(s.Scope, prefix)
		if !is {
			others = append(others, s)
			continue
		}
		s.Scope = scope
		own = append(own, s)
	}
	return own, others
}

// among are the groups of some environments, with their segments.
func among(groups []Group, segments [][]Segment, of func(environment string) bool) (some []Group, theirs [][]Segment) {
	for g, group := range groups {
		if of(group.Instance.Env) {
			some, theirs = append(some, group), append(theirs, segments[g])
		}
	}
	return some, theirs
}

// prepared are the choices of select for an iteration.
func prepared(choices []Select, iteration int, stats []shard.Stat, groups []Group, segments [][]Segment) (ready []Select, next []shard.Stat, err error) {
	ready, next = slices.Clone(choices), stats
	for i, choice := range choices {
		stateful, ok := unmasked(choice).(StatefulSelect)
		if !ok {
			continue
		}
		bound, kept, err := stateful.Prepare(iteration, next, groups, segments)
		if err != nil {
			return nil, nil, fmt.Errorf("choosing what is trained on: %w", err)
		}
		if _, masked := choices[i].(masking); masked {
			bound = masking{bound}
		}
		ready[i], next = bound, kept
	}
	return ready, next, nil
}
