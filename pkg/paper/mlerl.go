package paper

import (
	"context"
	"errors"

	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// mlerlPaper is MLE-RL. MLE-RL Fig. 1 and 2 are diagrams.
var mlerlPaper = paper{
	name: "mlerl", title: "MLE-RL: Reinforcement Learning for Self-Improvement in Machine Learning Agents",
	covered: mlerlCovered,
	queries: []query{
		{
			name: "tables-1-3-5-6", title: "Tab. 1, 3, 5 and 6", errors: true,
			caption: "Held-out submissions on the first benchmark, the best of all attempts of a sample by validation score, and the first attempt alone (MLE-RL Tab. 1, w/o agent): means over tasks, then over samples. Self-distillation (MLE-RL Tab. 3), which has no iterations and is measured after its supervision, the signed reward (MLE-RL Tab. 5) and scaffolds (MLE-RL Tab. 6) are methods of their own. HumanRank is 1 − p/N; MLE-Dojo's is (N − p + 1)/N. ± is the standard error.",
			of:      submitted(firstBenchmark, true),
		},
		{
			name: "table-2", title: "Tab. 2", errors: true,
			caption: "The same on the other benchmarks and the sets with the role ood.",
			of: submitted(func(s *source, set string) bool {
				return !firstBenchmark(s, set) && s.role(set) != recipe.RoleValidation && s.role(set) != recipe.RoleTrain
			}, false),
		},
		{
			name: "table-4", title: "Tab. 4", errors: true,
			caption: "Share of segments that were learned from, and what came of it on the test set, as in MLE-RL Tab. 1: of the segments of training, or, where a run learned from a pool by supervision alone (the paper's rows), of those of the runs that the pool is of. ± is the standard error.",
			of:      selection,
		},
		{
			name: "table-7", title: "Tab. 7", errors: true,
			caption: "Held-out submissions by competition, the best of all attempts of a sample by validation score, of the policy before training and of the last one: means over samples. ± is the standard error.",
			of:      byCompetition,
		},
		{
			name: "figure-3-a", title: "Fig. 3 (a)", axis: "HumanRank from (%)",
			caption: "Distribution of the HumanRank of all valid submissions of training, in tenths.",
			view:    view{measure: "rank_distribution", labels: labels{"submissions": "submissions (%)"}},
		},
		{
			name: "figure-3-b", title: "Fig. 3 (b)", axis: "gain from (points)",
			caption: "Distribution of the gain in quality of valid submissions of training on the first one of their trace, in steps of ten points.",
			view:    view{measure: "gain_distribution", labels: labels{"submissions": "submissions (%)"}},
		},
		{
			name: "figure-3-shares", title: "Fig. 3, its thresholds",
			caption: "Shares of valid submissions of training that are not above the median of their board, that win no medal, and, of later ones of a trace, that do not gain more than 0.01 on its first.",
			view: view{measure: "thresholds", labels: labels{
				"not_above_median": "not above the median (%)", "no_medal": "no medal (%)", "gain_at_most_0_01": "gain at most 0.01 (%)",
			}},
		},
		{
			name: "figure-4-left", title: "Fig. 4, left", axis: "attempts",
			caption: "HumanRank of the best program so far by validation score, of a trace's attempts from an earlier program (memory) and of those from scratch (reset), by the policy before training and by the last one: means over samples of the held-out tasks for which both have a valid submission, 0 before there is one.",
			view:    view{measure: "memory_and_reset", by: "start", labels: labels{"humanrank": "HumanRank (%)"}},
		},
		{
			name: "figure-4-middle", title: "Fig. 4, middle", axis: "attempts",
			caption: "HumanRank and any-medal rate after each attempt, of the best program so far, of both policies: methods with and without memory.",
			view:    view{measure: "best_by_attempt", labels: labels{"any_medal": "any medal (%)", "humanrank": "HumanRank (%)"}},
		},
		{
			name: "figure-4-middle-seconds", title: "Fig. 4, middle, over time", axis: "seconds",
			caption: "The same by the wall-clock seconds of a trace: those in which the policy wrote and its programs ran.",
			view:    view{measure: "best_by_seconds", labels: labels{"any_medal": "any medal (%)", "humanrank": "HumanRank (%)"}},
		},
		{
			name: "figure-4-right", title: "Fig. 4, right", axis: "valid submissions",
			caption: "HumanRank of the best of the first k valid submissions of a held-out trace by validation score (of all where there are fewer, 0 where there is none), of both policies.",
			view:    view{measure: "best_by_valid", labels: labels{"humanrank": "HumanRank (%)"}},
		},
	},
}

// byCompetition are the HumanRank and medals of the best submission of each sample by task.
func byCompetition(ctx context.Context, s *source) ([]value, error) {
	var values []value
	for _, when := range s.moments(beforeTraining) {
		own, err := view{
			measure: "submissions_by_task", by: "task", labels: withDeviations(labels{"humanrank": "HumanRank (%)", "any_medal": "any medal (%)"}), sorted: true,
		}.of(ctx, s, when.version)
		if err != nil {
			return nil, err
		}
		for _, n := range own {
			n.group += ", " + when.name
			values = append(values, n)
		}
	}
	return values, nil
}

// firstBenchmark reports whether a set is the first benchmark.
func firstBenchmark(s *source, set string) bool { return set == s.Recipe.Evaluation.Counted()[0] }

// role is that of a set.
func (s *source) role(set string) string {
	m, _ := s.Recipe.Evaluation.Of(set) // sets are those of the recipe
	return m.Role
}

// selection has the paper's columns; the share of data is the last policy's.
func selection(ctx context.Context, s *source) ([]value, error) {
	scores := view{measure: "submissions", by: measure.AllAttempts, only: s.Recipe.Evaluation.Counted()[0]}
	var values []value
	var why error
	for _, when := range s.moments(beforeTraining) {
		for _, column := range []string{"humanrank", "above_median", "any_medal"} {
			scores.labels = withDeviations(labels{column: medals[column]})
			own, err := scores.of(ctx, s, when.version)
			switch {
			case errors.Is(err, measure.ErrUngraded):
				why = err
			case err != nil:
				return nil, err
			}
			for _, v := range own {
				v.group = when.name
				values = append(values, v)
			}
		}
	}
	data, err := view{measure: "selection", labels: labels{"data": "data (%)"}}.of(ctx, s, s.Last())
	if err != nil {
		return values, err
	}
	for _, v := range data {
		v.group = afterTraining
		values = append(values, v)
	}
	return values, why
}
