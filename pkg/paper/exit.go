package paper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// exitPaper is Jiang, Lupu and Bachrach, Bootstrapping Task Spaces for
// Self-Improvement. Tables 3 to 6 are settings, and Figure 2 is a diagram.
var exitPaper = paper{
	name: "exit", title: "ExIt: Bootstrapping Task Spaces for Self-Improvement",
	queries: []query{
		{
			name: "table-1", title: "Table 1",
			caption: "Held-out score after K self-improvement steps, and Δ_K, that score less the one of first answers: by set of problems, and over all sets, by the policy that each run began with and by its last one.",
			of:      firstAndLast,
		},
		{
			name: "table-2", title: "Table 2",
			caption: "Mean distance of pairs of distinct prompts that go on from an earlier response, by embeddings of hashed character n-grams (at most 2,000 prompts of a run, every n-th of more).",
			of: func(ctx context.Context, s *source) ([]value, error) {
				prompts, err := s.promptsOf(ctx, goesOn)
				if err != nil {
					return nil, err
				}
				return distanceValues(prompts, "it never goes on from two different responses")
			},
		},
		{
			name: "table-7", title: "Table 7",
			caption: "Mean distance of pairs of distinct prompts of training, as in Table 2, of those that go on from a response and of those that do not.",
			of: func(ctx context.Context, s *source) ([]value, error) {
				prompts, err := s.distinct(ctx)
				if err != nil {
					return nil, err
				}
				return distanceValues(prompts, "it has one prompt alone")
			},
		},
		{
			name: "figure-1", title: "Figure 1", axis: "iteration",
			caption: "Mean reward of first answers in training, by task where a run trains on at most 12, else by kind of task: what a task alone does not teach beside what it does among others needs a method of each.",
			of:      rewardOfFirstAnswers,
		},
		{
			name: "figure-3", title: "Figure 3", axis: "self-improvement step",
			caption: "Held-out score by self-improvement step, by set and over all sets, of the policy before training and of the last one.",
			at:      scoreByStep,
		},
		{
			name: "figure-3-first-turn", title: "Figure 3, center", axis: "self-improvement step",
			caption: "Share of held-out episodes whose first turn is right, by self-improvement step and set, of both policies.",
			at:      firstTurn,
		},
		{
			name: "figure-4", title: "Figure 4", axis: "self-improvement step",
			caption: "Net corrections by both policies, over all sets: answers that are right and were wrong at first, less those that are wrong and were right at first, of all sampled chains. Net improvements: those with a better score than at first, less those with a worse one, which says more where answers are seldom right altogether.",
			at: func(ctx context.Context, s *source, version int) ([]value, error) {
				return s.corrections(ctx, version, false)
			},
		},
		{
			name: "figure-5-left", title: "Figure 5, left", axis: "iteration",
			caption: "Means over the sampled instances that go on from an earlier response: recency, the iterations since that was sampled, and starting depth, the self-iterations that led to it.",
			of:      recency,
		},
		{
			name: "figure-5-right", title: "Figure 5, right", axis: "greedy steps",
			caption: "Best normalised score up to each step of both policies, over all held-out tasks, the best chosen by the validation score that programs print.",
			at: func(ctx context.Context, s *source, version int) ([]value, error) {
				return s.greedy(ctx, version, func(trace) string { return "" })
			},
		},
		{
			name: "figure-6", title: "Figure 6", axis: "iteration",
			caption: "Means over all sampled instances: depth, the self-iterations before; start turn, the policy's messages in the history; and the level of their tasks, which stands for the steps of their solutions.",
			of:      properties,
		},
		{
			name: "figure-7", title: "Figure 7, left and middle",
			caption: "Distinct training instances (distinct last messages of prompts): their number, as a share of the training set, and as a share of all sampled instances.",
			of:      distinctInstances,
		},
		{
			name: "figure-7-projection", title: "Figure 7, right", axis: "first component", scatter: true,
			caption: "Distinct training instances of each method's first seed (at most 300), by embeddings of hashed character n-grams, on the two principal components of all of them together. (The paper projects by UMAP.)",
			all:     projection,
		},
		{
			name: "figure-8", title: "Figure 8", axis: "self-improvement step",
			caption: "Net corrections and improvements by both policies, as in Figure 4, by set of held-out problems.",
			at: func(ctx context.Context, s *source, version int) ([]value, error) {
				return s.corrections(ctx, version, true)
			},
		},
		{
			name: "figure-9", title: "Figure 9", axis: "greedy steps",
			caption: "Best normalised score up to each step, as in Figure 5, by set of tasks.",
			at: func(ctx context.Context, s *source, version int) ([]value, error) {
				return s.greedy(ctx, version, func(t trace) string { return t.set })
			},
		},
		{
			name: "figure-10", title: "Figure 10", axis: "greedy steps",
			caption: "Best normalised score up to each step, as in Figure 5, by task.",
			at: func(ctx context.Context, s *source, version int) ([]value, error) {
				return s.greedy(ctx, version, func(t trace) string { return t.task })
			},
		},
	},
}

func distanceValues(prompts []string, otherwise absent) ([]value, error) {
	cosine, euclidean, known := distances(prompts)
	if !known {
		return nil, otherwise
	}
	return []value{
		{"", "prompts", nil, float64(len(prompts))}, {"", "cosine distance", nil, cosine}, {"", "L2 distance", nil, euclidean},
	}, nil
}

// fewTasks is how many tasks can be told apart in a figure.
const fewTasks = 12

// taskNames are what tasks of training are shown as: themselves where they are few,
// else their kinds.
func (s *source) taskNames(ctx context.Context) (func(task string) string, error) {
	rows, err := s.taskRows(ctx)
	if err != nil {
		return nil, err
	}
	kinds := map[string]string{}
	for _, row := range rows {
		if row.Split == string(env.Train) {
			kinds[row.TaskID] = row.Kind
		}
	}
	return func(task string) string {
		if len(kinds) <= fewTasks {
			return task
		}
		return kinds[task]
	}, nil
}

// rewardOfFirstAnswers is by iteration and by task or kind.
func rewardOfFirstAnswers(ctx context.Context, s *source) ([]value, error) {
	name, err := s.taskNames(ctx)
	if err != nil {
		return nil, err
	}
	traces, err := s.traces(ctx)
	if err != nil {
		return nil, err
	}
	byName := map[string]series{}
	for _, t := range traces {
		if t.instance.Kind == string(shard.KindInitial) {
			group := name(t.instance.TaskID)
			if byName[group] == nil {
				byName[group] = series{}
			}
			byName[group].add(int(t.instance.Iteration), t.Reward)
		}
	}
	var values []value
	for group, s := range byName {
		values = append(values, s.values(group, "reward")...)
	}
	if len(values) == 0 {
		return nil, absent("no first answer was sampled")
	}
	return sortedBy(values), nil
}

// firstTurn is by set and step, in percent.
func firstTurn(ctx context.Context, s *source, version int) ([]value, error) {
	rows, err := s.answers(ctx, version)
	if err != nil {
		return nil, err
	}
	reached, some := map[string]series{}, false
	for _, row := range rows {
		if reached[row.Set] == nil {
			reached[row.Set] = series{}
		}
		share := 0.
		if slices.Contains(row.Milestones, "first_turn") {
			share, some = 100, true
		}
		reached[row.Set].add(int(row.Step), share)
	}
	if !some {
		return nil, absent("no answer has the milestone first_turn, which episodes of several requests alone can have")
	}
	var values []value
	for _, set := range s.sets() {
		values = append(values, reached[set].values(set, "first turn right (%)")...)
	}
	return values, nil
}

// recency is of the instances that go on from a response: the iterations since that
// was planned, and the depth that it has.
func recency(ctx context.Context, s *source) ([]value, error) {
	plans, err := s.plans(ctx)
	if err != nil {
		return nil, err
	}
	planned := map[string]int32{}
	for _, p := range plans {
		planned[p.InstanceID] = p.Iteration
	}
	since, depth := series{}, series{}
	for _, p := range plans {
		parent, _, _ := strings.Cut(p.ParentID, "/") // entries are named by the instance whose response they go on from
		if was, known := planned[parent]; known && goesOn(p) {
			since.add(int(p.Iteration), float64(p.Iteration-was))
			depth.add(int(p.Iteration), float64(p.Depth))
		}
	}
	if len(since) == 0 {
		return nil, absent("no instance goes on from an earlier response")
	}
	return append(since.values("", "recency (iterations)"), depth.values("", "starting depth")...), nil
}

// properties are those of all sampled instances.
func properties(ctx context.Context, s *source) ([]value, error) {
	plans, err := s.plans(ctx)
	if err != nil {
		return nil, err
	}
	tasks, err := s.taskRows(ctx)
	if err != nil {
		return nil, err
	}
	levels, leveled := map[string]int32{}, false
	for _, t := range tasks {
		levels[t.TaskID] = t.Level
		leveled = leveled || t.Level > 0
	}
	depth, turn, level := series{}, series{}, series{}
	for _, p := range plans {
		depth.add(int(p.Iteration), float64(p.Depth))
		turn.add(int(p.Iteration), float64(p.Turn))
		level.add(int(p.Iteration), float64(levels[p.TaskID]))
	}
	values := append(depth.values("", "depth"), turn.values("", "start turn")...)
	if !leveled {
		return values, absent("its tasks have no level")
	}
	return append(values, level.values("", "level of the task")...), nil
}

// distinctInstances are those of the whole training.
func distinctInstances(ctx context.Context, s *source) ([]value, error) {
	prompts, err := s.distinct(ctx)
	if err != nil {
		return nil, err
	}
	plans, err := s.plans(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := s.taskRows(ctx)
	if err != nil {
		return nil, err
	}
	train := 0
	for _, row := range rows {
		if row.Split == string(env.Train) {
			train++
		}
	}
	n := float64(len(prompts))
	return []value{
		{"", "distinct instances", nil, n}, {"", "relative to the training set", nil, n / float64(train)}, {"", "share of the sampled", nil, n / float64(len(plans))},
	}, nil
}

// greedy is the mean over tasks and samples of the best normalised score up to each
// step, in percent: that of the valid submission with the best validation score, the
// earliest of equals, and 0 before there is one.
func (s *source) greedy(ctx context.Context, version int, groupOf func(trace) string) ([]value, error) {
	const unguided = absent("no held-out answer says a validation score, by which a greedy search goes on; Figure 3 has the score of the last answer")
	byGroup := map[string]series{}
	valid, guided := false, false
	err := s.chosen(ctx, version, func(t trace, attempt int, best program) {
		_, says := part(best.parts, env.PartValidation)
		valid, guided = valid || best.valid, guided || says
		group := groupOf(t)
		if byGroup[group] == nil {
			byGroup[group] = series{}
		}
		byGroup[group].add(attempt, 100*best.quality)
	})
	switch {
	case errors.Is(err, errUngraded) || err == nil && valid && !guided:
		return nil, unguided
	case err != nil:
		return nil, err
	case len(byGroup) > fewTasks:
		return nil, absent(fmt.Sprintf("there are %d held-out tasks: a figure tells at most %d apart", len(byGroup), fewTasks))
	}
	var values []value
	for group, s := range byGroup {
		values = append(values, s.values(group, "best score (%)")...)
	}
	return sortedBy(values), nil
}
