package paper

import (
	"context"
	"slices"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// acePaper is AceGRPO. Tables 3 to 5 are settings; Figures 1 and 2 are diagrams.
var acePaper = paper{
	name: "ace", title: "AceGRPO: Adaptive Curriculum Enhanced Group Relative Policy Optimization for Autonomous Machine Learning Engineering",
	queries: []query{
		{
			name: "table-1", title: "Table 1",
			caption: "Held-out submissions, the best of all attempts of a sample by the validation score that programs print: means over tasks, then over samples. HumanRank is 1 − p/N; MLE-Dojo's is (N − p + 1)/N.",
			of: func(ctx context.Context, s *source) ([]value, error) {
				return s.beforeAndAfter(ctx, func(string) bool { return true }, false)
			},
		},
		{
			name: "table-2", title: "Table 2", against: "any medal (%)",
			caption: "Any-medal rate of the last policy on the test set, chosen as in Table 1, and its difference to a method's.",
			of: func(ctx context.Context, s *source) ([]value, error) {
				table, err := s.submissions(ctx, s.last(), s.sets()[0])
				if err != nil {
					return nil, err
				}
				return []value{{"", "any medal (%)", nil, 100 * final(table).AnyMedal.Mean}}, nil
			},
		},
		{
			name: "figure-3", title: "Figure 3",
			caption: "First valid submissions of held-out traces: the share that wins a medal, of all traces; their mean HumanRank; the mean number of the program that is the first valid one, from 1; and the share of traces that have one.",
			of:      firstValid,
		},
		{
			name: "figure-4", title: "Figure 4", axis: "attempts",
			caption: "Any-medal rate and HumanRank on held-out tasks after each attempt, of the best program so far by validation score, of the policy before training and of the last one.",
			at:      overAttempts,
		},
		{
			name: "figure-4-seconds", title: "Figure 4, over time", axis: "seconds of programs",
			caption: "The same any-medal rate by the seconds that a trace's programs have run.",
			at:      overSeconds,
		},
		{
			name: "figure-5", title: "Figure 5, left and middle", axis: "iteration",
			caption: "Training by what was asked for (initial: draft): the share of valid submissions, and the mean reward of the environment.",
			of:      byAsked,
		},
		{
			name: "figure-5-right", title: "Figure 5, right", axis: "iteration",
			caption: "Mean reward of all that an iteration decided on, as the recipe gives it.",
			of: func(ctx context.Context, s *source) ([]value, error) {
				folded, err := s.reductions(ctx)
				if err != nil {
					return nil, err
				}
				var values []value
				for i, m := range folded {
					if reward, has := m["reward_mean"]; has {
						values = append(values, value{"", "reward", on(i + 1), reward})
					}
				}
				if len(values) == 0 {
					return nil, absent("no iteration decided on a response")
				}
				return values, nil
			},
		},
	},
}

// firstValid is of held-out traces, before training and after.
func firstValid(ctx context.Context, s *source) ([]value, error) {
	var values []value
	for _, when := range s.moments(beforeTraining) {
		traces, err := s.heldOutTraces(ctx, when.version)
		if err != nil {
			return values, err
		}
		var medal, rank, number []float64
		for _, t := range traces {
			i := slices.IndexFunc(t.programs, func(p program) bool { return p.valid })
			if i < 0 {
				medal = append(medal, 0)
				continue
			}
			medal = append(medal, 100*t.programs[i].medal())
			rank, number = append(rank, 100*t.programs[i].value(partHumanRank)), append(number, float64(i+1))
		}
		for _, m := range []struct {
			name   string
			values []float64
		}{{"medal (%)", medal}, {"HumanRank (%)", rank}, {"number of the program", number}} {
			if mean, known := mean(m.values); known {
				values = append(values, value{when.name, m.name, nil, mean})
			}
		}
		values = append(values, value{when.name, "traces with one (%)", nil, 100 * float64(len(rank)) / float64(len(traces))})
	}
	return values, nil
}

// byAsked is of training, by kind of instance.
func byAsked(ctx context.Context, s *source) ([]value, error) {
	traces, err := s.traces(ctx)
	if err != nil {
		return nil, err
	}
	valid, reward := map[string]series{}, map[string]series{}
	for _, t := range traces {
		kind := t.instance.Kind
		if valid[kind] == nil {
			valid[kind], reward[kind] = series{}, series{}
		}
		share := 0.
		if t.Outcome == string(shard.OutcomeOK) {
			share = 100
		}
		valid[kind].add(int(t.instance.Iteration), share)
		reward[kind].add(int(t.instance.Iteration), t.Reward)
	}
	if len(valid) == 0 {
		return nil, absent("no response was sampled that counts")
	}
	var values []value
	for kind := range valid {
		values = append(values, valid[kind].values(kind, "valid (%)")...)
		values = append(values, reward[kind].values(kind, "reward")...)
	}
	return sortedBy(values), nil
}
