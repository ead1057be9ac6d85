package measure

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// Submissions is how good the submissions of a policy version are, in an
// environment whose tasks have leaderboards. A sample is one run over all tasks;
// shares are means over tasks, then over samples.
type Submissions struct {
	Version int `json:"version"`
	Tasks   int `json:"tasks"`
	Samples int `json:"samples"`
	// Rows are choices of one submission for each task and sample. All but the
	// oracle choose by the validation score that programs print; a task without a
	// valid submission counts as 0.
	Rows []SubmissionRow `json:"rows"`
	// ByAttempt is the share of attempts of a kind with a valid submission.
	ByAttempt []AttemptShare `json:"by_attempt"`
}

// SubmissionRow is one way to choose.
type SubmissionRow struct {
	Chosen           string `json:"chosen"`
	Valid            Spread `json:"valid"`
	AboveMedian      Spread `json:"above_median"`
	Bronze           Spread `json:"bronze"`
	Silver           Spread `json:"silver"`
	Gold             Spread `json:"gold"`
	AnyMedal         Spread `json:"any_medal"`
	HumanRank        Spread `json:"humanrank_paper"`
	HumanRankMLEDojo Spread `json:"humanrank_mledojo"`
	Quality          Spread `json:"quality"` // normalised score
}

// Spread is a mean over samples with both errors that papers print.
type Spread struct {
	Mean              float64  `json:"mean"`
	StandardDeviation float64  `json:"population_standard_deviation"`
	StandardError     *float64 `json:"standard_error"` // sample standard deviation / √n; null of one sample
}

// AttemptShare counts the attempts of a kind.
type AttemptShare struct {
	Kind     string  `json:"kind"` // initial, improve, debug …
	Attempts int     `json:"attempts"`
	Valid    float64 `json:"valid"`
}

// SubmissionsOf makes the tables of the rows of one policy; nil where no task has a
// leaderboard. budget is that of a trace in seconds, 0 for none.
func SubmissionsOf(rows []shard.EvaluationRow, budget float64) *Submissions {
	answers := make([]Answer, len(rows))
	for i, r := range rows {
		answers[i] = Answer{
			TaskID: r.TaskID, Set: r.Set, Sample: r.Sample, Step: r.Step, Score: r.Score, Outcome: r.Outcome, AttemptKind: r.AttemptKind,
			RawScore: r.RawScore, RewardParts: r.RewardParts, ExecuteSeconds: r.ExecuteSeconds, GenerateSeconds: r.GenerateSeconds, EarlierTurns: r.EarlierTurns,
		}
	}
	return submissions(0, answers, budget)
}

// submissions makes the tables of a version's sampled attempts, those without room for an
// answer too; nil where no task has a leaderboard. budget is that of a trace in seconds, 0
// for none.
func submissions(version int, answers []Answer, budget float64) *Submissions {
	answers = filtered(answers, func(a Answer) bool { return a.Sample >= 0 && (a.Counts() || a.Outcome == string(shard.OutcomeNoRoom)) })
	chains := chainsOf(answers)
	if !slices.ContainsFunc(chains, func(c chain) bool { return c.programs.has(partHumanRank) }) {
		return nil
	}
	steps, most := 0, 0 // attempts and programs of a chain
	bySample := map[int32][]chain{}
	for i, c := range chains {
		if budget > 0 { // what ended after it does not count
			c.programs = c.programs.within(budget)
			chains[i].programs = c.programs
		}
		bySample[c.sample] = append(bySample[c.sample], c)
		if n := len(c.programs); n > 0 {
			most, steps = max(most, n), max(steps, c.programs[n-1].Attempt+1)
		}
	}
	_, tasks := byTask(chains)
	s := &Submissions{Version: version, Tasks: len(tasks), Samples: len(bySample)}
	choose := func(name string, by func(programs) Program) {
		var samples [][]Program
		for _, own := range bySample {
			var picked []Program
			for _, c := range own {
				picked = append(picked, by(c.programs))
			}
			samples = append(samples, picked)
		}
		s.Rows = append(s.Rows, rowOf(name, samples))
	}
	choose("first attempt", func(c programs) Program { return c.attempts(1).best() })
	for k := 2; k <= steps; k *= 2 {
		choose(fmt.Sprintf("best of %d attempts", k), func(c programs) Program { return c.attempts(k).best() })
	}
	if steps&(steps-1) != 0 { // no power of 2
		choose(fmt.Sprintf("best of %d attempts", steps), programs.best)
	}
	for quarter := 1.0; quarter <= 4 && budget > 0; quarter++ {
		seconds := budget * quarter / 4
		choose(fmt.Sprintf("best after %.0f s", seconds), func(c programs) Program { return c.within(seconds).best() })
	}
	if most > 1 {
		choose("first valid", func(c programs) Program { return c.valid().first(1).best() })
		for _, k := range []int{2, 4, 8} {
			if k < most {
				choose(fmt.Sprintf("best of the first %d valid", k), func(c programs) Program { return c.valid().first(k).best() })
			}
		}
	}
	var oracle []Program // what no choice can see
	byTask, tasks := byTask(chains)
	for _, task := range tasks {
		oracle = append(oracle, byTask[task].bestGraded())
	}
	s.Rows = append(s.Rows, rowOf(fmt.Sprintf("oracle: best of %d samples by test grade", len(bySample)), [][]Program{oracle}))
	s.byAttempt(answers)
	return s
}

// rowOf averages over the tasks of each sample, and over samples.
func rowOf(name string, samples [][]Program) SubmissionRow {
	spread := func(of func(Program) float64) Spread {
		means := make([]float64, len(samples))
		for i, picked := range samples {
			for _, p := range picked {
				if p.Valid {
					means[i] += of(p) / float64(len(picked))
				}
			}
		}
		slices.Sort(means) // sums do not depend on the order of a map
		s := Spread{Mean: stat.Mean(means, nil), StandardDeviation: math.Sqrt(stat.PopVariance(means, nil))}
		if n := float64(len(means)); n > 1 {
			e := stat.StdErr(stat.StdDev(means, nil), n)
			s.StandardError = &e
		}
		return s
	}
	value := func(name string) Spread { return spread(func(p Program) float64 { return p.value(name) }) }
	medal := func(least, most float64) Spread {
		return spread(func(p Program) float64 { return oneIf(p.value(partMedal) >= least && p.value(partMedal) <= most) })
	}
	return SubmissionRow{
		Chosen: name, Valid: spread(func(Program) float64 { return 1 }), AboveMedian: value(partMedian),
		Bronze: medal(1, 1), Silver: medal(2, 2), Gold: medal(3, 3), AnyMedal: medal(1, 3),
		HumanRank: value(partHumanRank), HumanRankMLEDojo: value("humanrank_mledojo"),
		Quality: spread(func(p Program) float64 { return p.Quality }),
	}
}

// byAttempt counts attempts by what they were asked for.
func (s *Submissions) byAttempt(answers []Answer) {
	valid := map[string][]float64{}
	for _, a := range answers {
		if a.Counts() {
			valid[a.AttemptKind] = append(valid[a.AttemptKind], oneIf(len(a.programs().valid()) > 0))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(valid)) {
		share, _ := meanOf(valid[kind])
		s.ByAttempt = append(s.ByAttempt, AttemptShare{kind, len(valid[kind]), share})
	}
}

// final is the row that chooses among all attempts of a sample.
func (s *Submissions) final() SubmissionRow {
	chosen := s.Rows[0]
	for _, row := range s.Rows {
		if strings.HasPrefix(row.Chosen, "best of ") && strings.HasSuffix(row.Chosen, " attempts") {
			chosen = row
		}
	}
	return chosen
}

// The choices that the measure submissions has: which one of a sample is taken.
const (
	FirstAttempt = "first attempt"
	AllAttempts  = "all attempts"
)

// SampleDeviation and SampleError end the names of columns of submissions that are the sample
// standard deviation of another one over the samples of an evaluation, and the standard error
// of its mean over them.
const (
	SampleDeviation = "_sample_std"
	SampleError     = "_sample_error"
)

// submissionsBySet are the submissions of a version on each set, of the first attempt alone
// and of all: means over tasks, then over samples, in percent.
func submissionsBySet(ctx context.Context, r *Rows, version int) ([]Value, error) {
	answers, err := r.attempts(ctx, version)
	if err != nil {
		return nil, err
	}
	var values []Value
	for _, set := range r.Sets() {
		own := filtered(answers, func(a Answer) bool { return a.Set == set })
		table := submissions(version, own, r.Recipe.Evaluation.Seconds)
		if table == nil {
			if _, err := graded(chainsOf(own)); err != nil {
				continue
			}
			table = &Submissions{Rows: make([]SubmissionRow, 1)} // none is valid
		}
		for _, c := range []struct {
			chosen string
			row    SubmissionRow
		}{{FirstAttempt, table.Rows[0]}, {AllAttempts, table.final()}} {
			for _, m := range []struct {
				column string
				of     Spread
			}{
				{"valid", c.row.Valid},
				{"above_median", c.row.AboveMedian},
				{"bronze", c.row.Bronze},
				{"silver", c.row.Silver},
				{"gold", c.row.Gold},
				{"any_medal", c.row.AnyMedal},
				{"humanrank", c.row.HumanRank},
				{"humanrank_mledojo", c.row.HumanRankMLEDojo},
			} {
				values = append(values, Value{By: c.chosen, Group: set, Column: m.column, Y: 100 * m.of.Mean})
				if e := m.of.StandardError; e != nil {
					values = append(values,
						Value{By: c.chosen, Group: set, Column: m.column + SampleDeviation, Y: 100 * *e * math.Sqrt(float64(table.Samples))},
						Value{By: c.chosen, Group: set, Column: m.column + SampleError, Y: 100 * *e})
				}
			}
		}
	}
	if len(values) == 0 {
		return nil, ErrUngraded
	}
	return values, nil
}

// submissionsByTask are the best submission of each sample of a task by validation score, of
// the benchmarks: HumanRank and medals in percent, means over samples with their spread.
func submissionsByTask(ctx context.Context, r *Rows, version int) ([]Value, error) {
	chains, err := r.countedChains(ctx, version)
	if err != nil {
		return nil, err
	}
	ranks, medals := map[string][]float64{}, map[string][]float64{}
	for _, c := range chains {
		best := c.programs.best()
		ranks[c.task] = append(ranks[c.task], 100*best.value(partHumanRank))
		medals[c.task] = append(medals[c.task], 100*best.medal())
	}
	var values []Value
	for _, task := range slices.Sorted(maps.Keys(ranks)) {
		values = append(values, overSamples(task, "humanrank", ranks[task])...)
		values = append(values, overSamples(task, "any_medal", medals[task])...)
	}
	return values, nil
}

// overSamples are the mean of a task's samples and, of more than one, its deviation and error.
func overSamples(task, column string, samples []float64) []Value {
	mean, _ := meanOf(samples)
	values := []Value{{"task", task, column, nil, mean}}
	if n := float64(len(samples)); n > 1 {
		deviation := stat.StdDev(samples, nil)
		values = append(values, Value{"task", task, column + SampleDeviation, nil, deviation}, Value{"task", task, column + SampleError, nil, stat.StdErr(deviation, n)})
	}
	return values
}
