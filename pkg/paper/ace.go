package paper

import (
	"context"
	"slices"

	"github.com/lathe-rl/lathe/pkg/measure"
)

// acePaper is AceGRPO. AceGRPO Tab. 3 to 5 are settings; AceGRPO Fig. 1 and 2 are diagrams.
var acePaper = paper{
	name: "ace", title: "AceGRPO: Adaptive Curriculum Enhanced Group Relative Policy Optimization for Autonomous Machine Learning Engineering",
	covered: aceCovered,
	queries: []query{
		{
			name: "table-1", title: "Tab. 1", errors: true,
			caption: "Held-out submissions, the best of all attempts of a sample by the validation score that programs print: means over tasks, then over samples. HumanRank is 1 − p/N; MLE-Dojo's is (N − p + 1)/N. ± is the standard error.",
			of:      submitted(func(s *source, set string) bool { return slices.Contains(s.Recipe.Evaluation.Counted(), set) }, false),
		},
		{
			name: "table-2", title: "Tab. 2", errors: true, against: "any medal (%)",
			caption: "Any-medal rate of the last policy on the test set, chosen as in AceGRPO Tab. 1, and its difference to a method's. ± is the standard error.",
			of: func(ctx context.Context, s *source) ([]value, error) {
				return view{measure: "submissions", by: measure.AllAttempts, only: s.Recipe.Evaluation.Counted()[0], labels: withDeviations(labels{"any_medal": "any medal (%)"})}.of(ctx, s, s.Last())
			},
		},
		{
			name: "figure-3", title: "Fig. 3",
			caption: "First valid submissions of held-out traces: the share that wins a medal, of all traces; their mean HumanRank; the mean number of the program that is the first valid one, from 1; and the share of traces that have one.",
			of: view{measure: "first_valid", by: "set", only: measure.AllSets, labels: labels{
				"medal": "medal (%)", "humanrank": "HumanRank (%)", "number": "number of the program", "with_valid": "traces with one (%)",
			}}.atMoments(beforeTraining),
		},
		{
			name: "figure-4", title: "Fig. 4", axis: "attempts",
			caption: "Any-medal rate and HumanRank on held-out tasks after each attempt, of the best program so far by validation score, of the policy before training and of the last one.",
			view:    view{measure: "best_by_attempt", labels: labels{"any_medal": "any medal (%)", "humanrank": "HumanRank (%)"}},
		},
		{
			name: "figure-4-seconds", title: "Fig. 4, over time", axis: "seconds",
			caption: "The same any-medal rate by the wall-clock seconds of a trace: those in which the policy wrote and its programs ran.",
			view:    view{measure: "best_by_seconds", labels: labels{"any_medal": "any medal (%)"}},
		},
		{
			name: "figure-5", title: "Fig. 5, left and middle", axis: "iteration",
			caption: "Training by what was asked for (initial: draft): the share of valid submissions, the mean score that the environment gives, and the mean reward that the recipe makes of it (AceGRPO Eq. 6).",
			view: view{
				measure: "kinds", by: "kind", labels: labels{"ok": "valid (%)", "reward": "score", "learned_reward": "reward"}, sorted: true,
				lacks: map[string]absent{"learned_reward": "its ledgers hold no rewards, which they do not where a run is older than that column"},
			},
		},
		{
			name: "figure-5-right", title: "Fig. 5, right", axis: "iteration",
			caption: "Mean reward of all that an iteration decided on, as the recipe gives it.",
			view:    view{measure: "sampling_dynamics", labels: labels{"reward": "reward"}, none: "no iteration decided on a response"},
		},
	},
}
