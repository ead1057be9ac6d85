package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/webpage"
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

// chain is what one sample of a task came to, message by message: an attempt may
// submit more than once.
type chain []shard.EvaluationRow

// messages are an attempt's verdicts, each as the row of an attempt that ended
// with it.
func messages(attempt shard.EvaluationRow) chain {
	var all chain
	last := attempt
	last.EarlierTurns = nil
	for _, turn := range attempt.EarlierTurns {
		earlier := last
		earlier.Outcome, earlier.Score, earlier.RawScore = turn.Outcome, turn.Score, turn.RawScore
		earlier.RewardParts, earlier.ExecuteSeconds = turn.RewardParts, turn.ExecuteSeconds
		all = append(all, earlier)
		last.ExecuteSeconds -= turn.ExecuteSeconds
	}
	return append(all, last)
}

// SubmissionsOf makes the tables of rows of one policy; nil where no task has a
// leaderboard. budget is that of a trace in seconds, 0 for none.
func SubmissionsOf(rows []shard.EvaluationRow, budget float64) *Submissions {
	return submissions(0, rows, budget)
}

// Print writes the table for people, in percent: mean ± population standard
// deviation (standard error).
func (s Submissions) Print(out io.Writer) error {
	t := textReport{out: out}
	t.table(submissionRows(s))
	return t.err
}

// submissions makes the table of a version's sampled rows; nil where no task has
// a leaderboard. budget is that of a trace in seconds, 0 for none.
func submissions(version int, rows []shard.EvaluationRow, budget float64) *Submissions {
	rows = filtered(rows, func(r shard.EvaluationRow) bool { return r.Sample >= 0 })
	attempts := rows
	rows = nil
	for _, attempt := range attempts {
		rows = append(rows, messages(attempt)...)
	}
	if !slices.ContainsFunc(rows, func(r shard.EvaluationRow) bool { _, ranked := part(r, "humanrank"); return ranked }) {
		return nil
	}
	byKey, keys := chains(rows)
	steps, most, tasks := 0, 0, map[string]bool{} // attempts and messages of a chain
	bySample := map[int32][]chain{}
	for _, key := range keys {
		own := chain(byKey[key])
		bySample[own[0].Sample] = append(bySample[own[0].Sample], own)
		most = max(most, len(own))
		steps, tasks[own[0].TaskID] = max(steps, int(own[len(own)-1].Step)+1), true
	}
	s := &Submissions{Version: version, Tasks: len(tasks), Samples: len(bySample)}
	choose := func(name string, by func(chain) int) {
		s.Rows = append(s.Rows, chosen(name, bySample, by))
	}
	choose("first attempt", func(c chain) int { return c.attempts(1).best() })
	for k := 2; k <= steps; k *= 2 {
		choose(fmt.Sprintf("best of %d attempts", k), func(c chain) int { return c.attempts(k).best() })
	}
	if steps > 1 && steps&(steps-1) != 0 {
		choose(fmt.Sprintf("best of %d attempts", steps), chain.best)
	}
	for quarter := 1.0; quarter <= 4 && budget > 0; quarter++ {
		seconds := budget * quarter / 4
		choose(fmt.Sprintf("best after %.0f s", seconds), func(c chain) int { return c.within(seconds).best() })
	}
	if most > 1 {
		choose("first valid", func(c chain) int { return slices.IndexFunc(c, valid) })
		for _, k := range []int{2, 4, 8} {
			if k < most {
				choose(fmt.Sprintf("best of the first %d valid", k), func(c chain) int { return c.bestOfValid(k) })
			}
		}
	}
	s.Rows = append(s.Rows, oracle(rows, len(bySample)))
	s.byAttempt(attempts)
	return s
}

func valid(r shard.EvaluationRow) bool { return r.Outcome == string(shard.OutcomeOK) }

func part(r shard.EvaluationRow, name string) (float64, bool) {
	i := slices.IndexFunc(r.RewardParts, func(p shard.RewardPart) bool { return p.Name == name })
	if i < 0 {
		return 0, false
	}
	return r.RewardParts[i].Value, true
}

// attempts are the messages of the first k attempts.
func (c chain) attempts(k int) chain {
	if i := slices.IndexFunc(c, func(r shard.EvaluationRow) bool { return int(r.Step) >= k }); i >= 0 {
		return c[:i]
	}
	return c
}

// best is the valid submission with the best validation score, the earliest of
// equals; one that says none is worse than all that do. −1 for none.
func (c chain) best() int {
	best := -1
	for i, r := range c {
		if !valid(r) {
			continue
		}
		if best < 0 {
			best = i
			continue
		}
		now, said := part(r, env.PartValidation)
		before, saidBefore := part(c[best], env.PartValidation)
		if said && (!saidBefore || now > before) {
			best = i
		}
	}
	return best
}

// bestOfValid is the best among the first k valid submissions.
func (c chain) bestOfValid(k int) int {
	end := 0
	for i, r := range c {
		if valid(r) {
			if k--; k >= 0 {
				end = i + 1
			}
		}
	}
	return c[:end].best()
}

// within are the messages whose programs had ended after so many seconds of execution.
func (c chain) within(seconds float64) chain {
	spent := 0.0
	for i, r := range c {
		if spent += r.ExecuteSeconds; spent > seconds {
			return c[:i]
		}
	}
	return c
}

// chosen makes the row of a choice: by says which submission of a chain, −1 for
// none.
func chosen(name string, bySample map[int32][]chain, by func(chain) int) SubmissionRow {
	var samples [][]shard.EvaluationRow
	for _, own := range bySample {
		var picked []shard.EvaluationRow
		for _, c := range own {
			if i := by(c); i >= 0 {
				picked = append(picked, c[i])
			} else {
				picked = append(picked, shard.EvaluationRow{})
			}
		}
		samples = append(samples, picked)
	}
	return rowOf(name, samples)
}

// oracle is the best submission of all samples of a task by its test grade: what
// no selection can see.
func oracle(rows []shard.EvaluationRow, samples int) SubmissionRow {
	best := map[string]shard.EvaluationRow{}
	for _, r := range rows {
		was, known := best[r.TaskID]
		if !known {
			was = shard.EvaluationRow{}
		}
		now, ok := part(r, "score")
		before, had := part(was, "score")
		if valid(r) && ok && (!had || now > before) {
			was = r
		}
		best[r.TaskID] = was
	}
	var picked []shard.EvaluationRow
	for _, task := range slices.Sorted(maps.Keys(best)) {
		picked = append(picked, best[task])
	}
	return rowOf(fmt.Sprintf("oracle: best of %d samples by test grade", samples), [][]shard.EvaluationRow{picked})
}

// rowOf averages over the tasks of each sample, and over samples.
func rowOf(name string, samples [][]shard.EvaluationRow) SubmissionRow {
	spread := func(of func(shard.EvaluationRow) float64) Spread {
		means := make([]float64, len(samples))
		for i, picked := range samples {
			for _, r := range picked {
				if valid(r) {
					means[i] += of(r) / float64(len(picked))
				}
			}
		}
		slices.Sort(means) // sums do not depend on the order of a map
		return spreadOf(means)
	}
	value := func(name string) func(shard.EvaluationRow) float64 {
		return func(r shard.EvaluationRow) float64 { v, _ := part(r, name); return v }
	}
	medal := func(least, most float64) func(shard.EvaluationRow) float64 {
		return func(r shard.EvaluationRow) float64 {
			if v, _ := part(r, "medal"); v >= least && v <= most {
				return 1
			}
			return 0
		}
	}
	return SubmissionRow{
		Chosen: name, Valid: spread(func(shard.EvaluationRow) float64 { return 1 }), AboveMedian: spread(value("above_median")),
		Bronze: spread(medal(1, 1)), Silver: spread(medal(2, 2)), Gold: spread(medal(3, 3)), AnyMedal: spread(medal(1, 3)),
		HumanRank: spread(value("humanrank")), HumanRankMLEDojo: spread(value("humanrank_mledojo")),
		Quality: spread(func(r shard.EvaluationRow) float64 { return r.Score }),
	}
}

func spreadOf(values []float64) Spread {
	n := float64(len(values))
	var s Spread
	for _, v := range values {
		s.Mean += v / n
	}
	squares := 0.0
	for _, v := range values {
		squares += (v - s.Mean) * (v - s.Mean)
	}
	s.StandardDeviation = math.Sqrt(squares / n)
	if n > 1 {
		e := math.Sqrt(squares / (n - 1) / n)
		s.StandardError = &e
	}
	return s
}

// byAttempt counts attempts by what they were asked for.
func (s *Submissions) byAttempt(rows []shard.EvaluationRow) {
	counts := map[string]*AttemptShare{}
	for _, r := range rows {
		if r.Outcome == string(shard.OutcomeNoRoom) {
			continue
		}
		c := counts[r.AttemptKind]
		if c == nil {
			c = &AttemptShare{Kind: r.AttemptKind}
			counts[r.AttemptKind] = c
		}
		c.Attempts++
		if slices.ContainsFunc(messages(r), valid) {
			c.Valid++
		}
	}
	for _, c := range counts {
		c.Valid /= float64(c.Attempts)
		s.ByAttempt = append(s.ByAttempt, *c)
	}
	slices.SortFunc(s.ByAttempt, func(a, b AttemptShare) int { return cmp.Compare(a.Kind, b.Kind) })
}

// submissionRows are the table's lines for people: percent, mean ± population
// standard deviation (standard error).
func submissionRows(s Submissions) [][]string {
	rows := [][]string{{"", "valid", "above median", "any medal", "rank 1−p/N", "MLE-Dojo's", "quality"}}
	show := func(v Spread) string {
		text := fmt.Sprintf("%.1f ± %.1f", 100*v.Mean, 100*v.StandardDeviation)
		if v.StandardError != nil {
			text += fmt.Sprintf(" (%.1f)", 100**v.StandardError)
		}
		return text
	}
	for _, r := range s.Rows {
		rows = append(rows, []string{r.Chosen, show(r.Valid), show(r.AboveMedian), show(r.AnyMedal), show(r.HumanRank), show(r.HumanRankMLEDojo), show(r.Quality)})
	}
	return rows
}

// gradedTable is the table of a version.
type gradedTable struct {
	Title string
	Table webpage.Table
}

// gradedTables are the tables of the first version and of the last.
func gradedTables(s Summary) (tables []gradedTable) {
	for i, v := range s.Submissions {
		if i == 0 || i == len(s.Submissions)-1 {
			head := fmt.Sprintf("Submissions of policy v%06d to %d %s, %d %s", v.Version, v.Tasks, plural(v.Tasks, "task"), v.Samples, plural(v.Samples, "sample"))
			tables = append(tables, gradedTable{head, *webpage.NewTable(submissionRows(v))})
		}
	}
	return tables
}
