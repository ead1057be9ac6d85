package paper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/measure"
)

// exitPaper is Jiang, Lupu and Bachrach, Bootstrapping Task Spaces for
// Self-Improvement. ExIt Tab. 3 to 6 are settings, and ExIt Fig. 2 is a diagram.
var exitPaper = paper{
	name: "exit", title: "ExIt: Bootstrapping Task Spaces for Self-Improvement",
	covered: exitCovered,
	queries: []query{
		{
			name: "table-1", title: "Tab. 1",
			caption: "Held-out score after K revisions, and Δ_K, that score less the one of first answers: by benchmark, and over all of them, by the policy that each run began with and by its last one. Of programs (MLE-bench) it is the best so far by validation score; of tasks of several requests (tool use) the share whose first one is answered right stands beside, which is the paper's column.",
			of:      firstAndLast,
		},
		{
			name: "table-2", title: "Tab. 2",
			caption: "Mean distance of pairs of distinct prompts that start from an earlier response, of programs the starting programs, by embeddings of hashed character n-grams, or of --embedding (at most 2,000 prompts of a run, every n-th of more).",
			view:    view{measure: "distances", by: "prompts", only: "revisions", labels: distances, none: "it never starts from two different responses"},
		},
		{
			name: "table-7", title: "Tab. 7",
			caption: "Mean distance of pairs of distinct prompts of training, as in ExIt Tab. 2, of those that start from a response and of those that do not.",
			view:    view{measure: "distances", by: "prompts", only: "all", labels: distances, none: "it has one prompt alone"},
		},
		{
			name: "figure-1", title: "Fig. 1", axis: "iteration",
			caption: "Mean reward of first answers in training, by task where a run trains on at most 12, else by kind of task: what a task alone does not teach beside what it does among others needs a method of each.",
			view:    view{measure: "first_answers", by: "task", labels: labels{"reward": "reward"}},
		},
		{
			name: "figure-3", title: "Fig. 3", axis: "revision",
			caption: "Held-out score by revision, by benchmark and over all of them, of the policy before training and of the last one.",
			at:      scoreByStep,
		},
		{
			name: "figure-3-first-turn", title: "Fig. 3, center", axis: "revision",
			caption: "Share of held-out episodes whose first turn is right, by revision and set, of both policies.",
			at:      firstTurn,
		},
		{
			name: "figure-4", title: "Fig. 4", axis: "revision",
			caption: "Net corrections by both policies, over the benchmarks: answers that are right and were wrong at first, less those that are wrong and were right at first, of all sampled chains. Net improvements: those with a better score than at first, less those with a worse one, which says more where answers are seldom right altogether.",
			view:    view{measure: "net_corrections", labels: net},
		},
		{
			name: "figure-5-left", title: "Fig. 5, left", axis: "iteration",
			caption: "Means over the sampled instances that start from an earlier response: recency, the iterations since that was sampled, and starting depth, the self-iterations that led to it.",
			view: view{
				measure: "sampled_instances", labels: labels{"recency": "recency (iterations)", "starting_depth": "starting depth"},
				none: "no instance starts from an earlier response",
			},
		},
		{
			name: "figure-5-right", title: "Fig. 5, right", axis: "greedy revisions",
			caption: "Best normalised score up to each revision of both policies, over the tasks of the benchmarks, the best chosen by the validation score that programs print.",
			view:    view{measure: "best_by_step", labels: labels{"quality": "best score (%)"}, few: "there are %d held-out tasks"},
		},
		{
			name: "figure-6", title: "Fig. 6", axis: "iteration",
			caption: "Means over all sampled instances: depth, the self-iterations before; start turn, the policy's messages in the history; the level of their tasks, in exit-math.yaml the sentences of their solutions; and of tool use the reference calls of the turns that training plays.",
			view: view{
				measure: "sampled_instances", labels: labels{"depth": "depth", "start_turn": "start turn", "level": "level of the task", "solution_steps": "reference calls"},
				lacks: map[string]absent{"level": "its tasks have no level"},
			},
		},
		{
			name: "figure-7", title: "Fig. 7, left and middle",
			caption: "Distinct training instances (distinct last messages of prompts, or starting programs): their number, as a share of the training set, and as a share of all sampled instances.",
			view: view{measure: "distinct_instances", labels: labels{
				"distinct_instances": "distinct instances", "relative_to_training_set": "relative to the training set", "share_of_sampled": "share of the sampled",
			}},
		},
		{
			name: "figure-7-projection", title: "Fig. 7, right", axis: "first component", scatter: true,
			caption: "Distinct training instances of each method's first seed (at most 300), by embeddings of hashed character n-grams, or of --embedding, on the two principal components of all of them together. (The paper projects by UMAP.)",
			all:     projection,
		},
		{
			name: "figure-8", title: "Fig. 8", axis: "revision",
			caption: "Net corrections and improvements by both policies, as in ExIt Fig. 4, by set of held-out problems.",
			view:    view{measure: "net_corrections", by: "set", labels: net},
		},
		{
			name: "figure-9", title: "Fig. 9", axis: "greedy revisions",
			caption: "Best normalised score up to each revision, as in ExIt Fig. 5, by set of tasks.",
			view:    view{measure: "best_by_step", by: "set", labels: labels{"quality": "best score (%)"}, few: "there are %d held-out tasks"},
		},
		{
			name: "figure-10", title: "Fig. 10", axis: "greedy revisions",
			caption: "Best normalised score up to each revision, as in ExIt Fig. 5, by task.",
			view:    view{measure: "best_by_step", by: "task", labels: labels{"quality": "best score (%)"}, few: "there are %d held-out tasks"},
		},
		{
			name: "transfer", title: "Transfer",
			caption: "What training on one environment does to others: the share of the training prompts that were of an environment, and the score of first answers to its held-out problems before training and after. A run of several environments measures a set of each, named after it (evaluation.sets). Arms that train on a part of them set curriculum.kinds.",
			of:      transfer,
		},
	},
}

var (
	distances = labels{"prompts": "prompts", "cosine": "cosine distance", "l2": "L2 distance"}
	net       = labels{"net_corrections": "net corrections", "net_improvements": "net improvements"}
)

// firstTurn is by set and step, in percent (reading exit-first-turn).
func firstTurn(ctx context.Context, s *source, version int) ([]value, error) {
	values, err := view{measure: "accuracy_by_step", by: "set", labels: labels{"first_turn": "first turn right (%)"}}.of(ctx, s, version)
	if err == nil && !slices.ContainsFunc(values, func(v value) bool { return v.y > 0 }) {
		return nil, absent("no answer has the milestone first_turn, which episodes of several requests alone can have")
	}
	return values, err
}

// firstAndLast are, for the policy that a run began with and its last one, the scores
// of first answers and of those after the last step, and their difference, in percent.
func firstAndLast(ctx context.Context, s *source) ([]value, error) {
	if traits, err := s.Recipe.Traits(); err != nil || traits.Programs {
		return s.searched(ctx)
	}
	var values []value
	for _, when := range s.moments(beforeTraining) {
		scores, err := s.benchmarks(ctx, when.version)
		if err != nil {
			return nil, err
		}
		for _, of := range scores {
			k := len(of.Score) - 1
			if k > 0 {
				values = append(values, value{group: of.Set, measure: when.name + ": first answer (%)", y: 100 * of.Score[0]})
			}
			values = append(values, value{group: of.Set, measure: fmt.Sprintf("%s: revision %d (%%)", when.name, k), y: 100 * of.Last()})
			if k > 0 {
				values = append(values, value{group: of.Set, measure: fmt.Sprintf("%s: Δ_%d", when.name, k), y: 100 * of.Delta[k]})
			}
		}
		turns, err := firstTurn(ctx, s, when.version)
		var none absent // of episodes of one request
		if err != nil && !errors.As(err, &none) {
			return nil, err
		}
		counted := s.Recipe.Evaluation.Counted()
		turns = slices.DeleteFunc(turns, func(v value) bool { return !slices.Contains(counted, v.group) })
		values = append(values, ends(turns, when.name, ", first turn")...)
	}
	if s.stepless() {
		return values, absent("evaluation.steps is 0: no revision was measured, and there is no Δ")
	}
	return values, nil
}

// transfer is, by environment, its share of the training prompts, and the scores of first
// answers to its held-out problems by the policy before training and by the last one.
func transfer(ctx context.Context, s *source) (values []value, err error) {
	if s.Recipe.Env.Mix() == nil {
		return nil, absent("it has one environment")
	}
	planned, err := view{measure: "environments", by: "environment", labels: labels{"prompts": "prompts"}}.of(ctx, s, s.Last())
	if err != nil {
		return nil, err
	}
	prompts, all := map[string]float64{}, 0.0
	for _, v := range planned {
		prompts[v.group] += v.y
		all += v.y
	}
	first := map[string][]float64{} // score by moment
	moments := s.moments(beforeTraining)
	for _, when := range moments {
		scores, err := s.Scores(ctx, when.version)
		if err != nil {
			return nil, err
		}
		for _, of := range scores {
			first[of.Set] = append(first[of.Set], 100*of.Score[0])
		}
	}
	for _, name := range s.Recipe.Env.Names() {
		if all > 0 {
			values = append(values, value{group: name, measure: "share of training (%)", y: 100 * prompts[name] / all})
		}
		for i, score := range first[name] {
			values = append(values, value{group: name, measure: moments[i].name + ": first answer (%)", y: score})
		}
		if n := len(first[name]); n == 2 {
			values = append(values, value{group: name, measure: "gain", y: first[name][1] - first[name][0]})
		}
	}
	return values, nil
}

// searched is firstAndLast of programs, which are searched for: the result after K revisions
// is the best program so far (reading exit-search-result).
func (s *source) searched(ctx context.Context) ([]value, error) {
	var values []value
	counted := s.Recipe.Evaluation.Counted()
	for _, when := range s.moments(beforeTraining) {
		for _, by := range []string{"set", ""} {
			best, err := view{measure: "best_by_step", by: by, labels: labels{"quality": "score"}}.of(ctx, s, when.version)
			if err != nil {
				return nil, err
			}
			if by == "" && len(counted) > 1 {
				for i := range best {
					best[i].group = measure.AllSets
				}
			}
			best = slices.DeleteFunc(best, func(v value) bool { return v.group != measure.AllSets && !slices.Contains(counted, v.group) })
			values = append(values, ends(best, when.name, ", best so far")...)
		}
	}
	return values, nil
}

// ends are the first and the last value by step of each group, and their difference. Those
// of a group stand together, in the order of their steps.
func ends(values []value, when, of string) (all []value) {
	for len(values) > 0 {
		n := slices.IndexFunc(values, func(v value) bool { return v.group != values[0].group })
		if n < 0 {
			n = len(values)
		}
		first, last := values[0], values[n-1]
		all = append(all, value{group: first.group, measure: fmt.Sprintf("%s: first answer%s (%%)", when, of), y: first.y})
		if k := *last.x; k > 0 {
			all = append(all, value{group: first.group, measure: fmt.Sprintf("%s: revision %g%s (%%)", when, k, of), y: last.y},
				value{group: first.group, measure: fmt.Sprintf("%s: Δ_%g%s", when, k, of), y: last.y - first.y})
		}
		values = values[n:]
	}
	return all
}

// scoreByStep are the scores of a version's answers by step, in percent.
func scoreByStep(ctx context.Context, s *source, version int) (values []value, err error) {
	if s.stepless() {
		return nil, absent("evaluation.steps is 0: there are first answers alone")
	}
	scores, err := s.benchmarks(ctx, version)
	for _, of := range scores {
		for step, score := range of.Score {
			values = append(values, value{of.Set, "score (%)", measure.On(step), 100 * score})
		}
	}
	return values, err
}

// stepless reports whether no benchmark is measured after a revision.
func (s *source) stepless() bool {
	return !slices.ContainsFunc(s.Recipe.Evaluation.Counted(), func(set string) bool { return s.Steps(set) > 0 })
}
