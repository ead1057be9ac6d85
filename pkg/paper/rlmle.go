package paper

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// rlmlePaper is Reinforcement Learning for Machine Learning Engineering Agents. Tables 2
// and 5 are of other agents, Table 3 has settings; Figures 1 to 6 are diagrams and examples.
var rlmlePaper = paper{
	name: "rlmle", title: "RL for MLE agents: Reinforcement Learning for Machine Learning Engineering Agents",
	queries: []query{
		{
			name: "table-1", title: "Table 1",
			caption: "Best score of the grader, in each training task's own unit, among its first programs and among its last ones (128, or half of them where there are fewer than 256).",
			of:      bestOfTask,
		},
		{
			name: "table-1-held-out", title: "Table 1, held out",
			caption: "Best score of the grader, in each held-out task's own unit, among all samples, by the policy that a run began with and by its last one. The choice sees the test grade.",
			of:      bestHeldOut,
		},
		{
			name: "table-4", title: "Table 4",
			caption: "Best score of the grader among the last programs of each training task, of those from scratch, and of those that were asked to improve a previous one. Methods with and without such prompts are compared by Table 1.",
			of:      bestByPrompt,
		},
		{
			name: "table-6", title: "Table 6",
			caption: "Best score of the grader among the last n programs of each training task.",
			of:      bestOfSamples,
		},
		{
			name: "table-7", title: "Table 7",
			caption: "Mean score of the grader of valid programs, in each held-out task's own unit, by the policy that a run began with: where its recipe has warm_start.pool, one that learned from filtered samples by supervision.",
			of:      meanHeldOut,
		},
		{
			name: "figure-7", title: "Figure 7", axis: "iteration",
			caption: "Best score of the grader so far in training, in each task's own unit.",
			of:      bestSoFar,
		},
		{
			name: "figure-7-seconds", title: "Figure 7, over time", axis: "seconds of training",
			caption: "The same by the seconds in which at least one task of training had worked; pauses of a run are not in them. What the shorter runs of a method reached stays until its longest one ends.",
			all:     bestOverTime,
		},
		{
			name: "figure-8", title: "Figure 8", axis: "iteration",
			caption: "Mean seconds that programs of training ran, and those of valid ones.",
			of:      durations,
		},
		{
			name: "figure-9", title: "Figure 9", axis: "iteration",
			caption: "Mean score of programs of training, more is better and −10 for what is not valid, over all tasks. Partial credit is not in it.",
			of: func(ctx context.Context, s *source) ([]value, error) {
				return s.meanScore(ctx, func(string) string { return "" })
			},
		},
		{
			name: "figure-10", title: "Figure 10", axis: "iteration",
			caption: "The same by task.",
			of: func(ctx context.Context, s *source) ([]value, error) {
				return s.meanScore(ctx, func(task string) string { return task })
			},
		},
	},
}

// invalidScore is that of a program without a valid submission.
const invalidScore = -10

// byTask are the programs of training by task, in the order of the iterations, and the
// tasks sorted.
func (s *source) byTask(ctx context.Context) (programs map[string][]program, tasks []string, err error) {
	traces, err := s.trained(ctx)
	if err != nil {
		return nil, nil, err
	}
	programs = map[string][]program{}
	for _, t := range traces { // which are in the order of the iterations
		if programs[t.task] == nil {
			tasks = append(tasks, t.task)
		}
		programs[t.task] = append(programs[t.task], t.programs...)
	}
	slices.Sort(tasks)
	return programs, tasks, nil
}

// bestScore is the raw score of the valid program that the grader likes best.
func bestScore(programs []program) (float64, bool) {
	at := -1
	for i, p := range programs {
		if p.valid && (at < 0 || p.value(partScore) > programs[at].value(partScore)) {
			at = i
		}
	}
	if at < 0 {
		return 0, false
	}
	return programs[at].raw, true
}

// sampleSize is how many of so many programs are the first ones, or the last.
func sampleSize(n int) int { return min(128, max(1, n/2)) }

func bestOfTask(ctx context.Context, s *source) ([]value, error) {
	programs, tasks, err := s.byTask(ctx)
	if err != nil {
		return nil, err
	}
	var values []value
	var without []string
	for _, task := range tasks {
		own := programs[task]
		n := sampleSize(len(own))
		found := 0
		for _, c := range []struct {
			name string
			of   []program
		}{{"first programs", own[:n]}, {"last programs", own[len(own)-n:]}} {
			if score, ok := bestScore(c.of); ok {
				values = append(values, value{task, c.name, nil, score})
				found++
			}
		}
		values = append(values, value{task, "programs each", nil, float64(n)})
		if found < 2 {
			without = append(without, task)
		}
	}
	return values, lacking(without, "no valid program among the first or the last of %s")
}

// lacking is an absence where something lacks.
func lacking(of []string, format string) error {
	if len(of) == 0 {
		return nil
	}
	return absent(fmt.Sprintf(format, strings.Join(of, ", ")))
}

// heldOutByTask are the programs of an evaluation by task, and the tasks sorted.
func (s *source) heldOutByTask(ctx context.Context, version int) (map[string][]program, []string, error) {
	traces, err := s.heldOutTraces(ctx, version)
	if err != nil {
		return nil, nil, err
	}
	programs := map[string][]program{}
	var tasks []string
	for _, t := range traces {
		if programs[t.task] == nil {
			tasks = append(tasks, t.task)
		}
		programs[t.task] = append(programs[t.task], t.programs...)
	}
	slices.Sort(tasks)
	return programs, tasks, nil
}

func bestHeldOut(ctx context.Context, s *source) ([]value, error) {
	var values []value
	var without []string
	for _, when := range s.moments(beforeTraining) {
		programs, tasks, err := s.heldOutByTask(ctx, when.version)
		if err != nil {
			return values, err
		}
		for _, task := range tasks {
			if score, ok := bestScore(programs[task]); ok {
				values = append(values, value{task, when.name, nil, score})
			} else {
				without = append(without, task+" "+when.name)
			}
		}
	}
	return values, lacking(without, "no valid program for %s")
}

func bestByPrompt(ctx context.Context, s *source) ([]value, error) {
	programs, tasks, err := s.byTask(ctx)
	if err != nil {
		return nil, err
	}
	var values []value
	improves := false
	for _, task := range tasks {
		last := programs[task]
		last = last[len(last)-sampleSize(len(last)):]
		kinds := map[bool][]program{}
		for _, p := range last {
			scratch := p.kind == string(shard.KindInitial)
			kinds[scratch] = append(kinds[scratch], p)
			improves = improves || !scratch
		}
		if score, ok := bestScore(kinds[true]); ok {
			values = append(values, value{task, "from scratch", nil, score})
		}
		if score, ok := bestScore(kinds[false]); ok {
			values = append(values, value{task, "improve previous", nil, score})
		}
	}
	if !improves {
		return values, absent("its last programs are from scratch alone")
	}
	return values, nil
}

func bestOfSamples(ctx context.Context, s *source) ([]value, error) {
	programs, tasks, err := s.byTask(ctx)
	if err != nil {
		return nil, err
	}
	var values []value
	fewest := -1
	for _, task := range tasks {
		own := programs[task]
		if fewest < 0 || len(own) < fewest {
			fewest = len(own)
		}
		for _, n := range []int{8, 64, 128, 256} {
			if n > len(own) {
				break
			}
			if score, ok := bestScore(own[len(own)-n:]); ok {
				values = append(values, value{task, fmt.Sprintf("%d programs", n), nil, score})
			}
		}
	}
	if fewest < 256 {
		return values, absent(fmt.Sprintf("the task with the fewest programs has %d", fewest))
	}
	return values, nil
}

func meanHeldOut(ctx context.Context, s *source) ([]value, error) {
	programs, tasks, err := s.heldOutByTask(ctx, 0)
	if err != nil {
		return nil, err
	}
	var values []value
	var without []string
	for _, task := range tasks {
		var scores []float64
		for _, p := range programs[task] {
			if p.valid {
				scores = append(scores, p.raw)
			}
		}
		if m, known := mean(scores); known {
			values = append(values, value{task, "mean score", nil, m})
		} else {
			without = append(without, task)
		}
	}
	return values, lacking(without, "no valid program for %s before training")
}

func durations(ctx context.Context, s *source) ([]value, error) {
	traces, err := s.trained(ctx)
	if err != nil {
		return nil, err
	}
	all, valid := series{}, series{}
	for _, t := range traces {
		for _, p := range t.programs {
			all.add(t.iteration, p.seconds)
			if p.valid {
				valid.add(t.iteration, p.seconds)
			}
		}
	}
	return append(all.values("", "seconds"), valid.values("", "seconds of valid programs")...), nil
}

func (s *source) meanScore(ctx context.Context, groupOf func(task string) string) ([]value, error) {
	traces, err := s.trained(ctx)
	if err != nil {
		return nil, err
	}
	scores := map[string]series{}
	for _, t := range traces {
		group := groupOf(t.task)
		if scores[group] == nil {
			scores[group] = series{}
		}
		for _, p := range t.programs {
			score := float64(invalidScore)
			if p.valid {
				score = p.value(partScore)
			}
			scores[group].add(t.iteration, score)
		}
	}
	if len(scores) > fewTasks {
		return nil, absent(fmt.Sprintf("it trains on %d tasks: a figure tells at most %d apart", len(scores), fewTasks))
	}
	var values []value
	for group, own := range scores {
		values = append(values, own.values(group, "score, −10 if not valid")...)
	}
	return sortedBy(values), nil
}
