package paper

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/report"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The parts of a submission's reward in machine-learning engineering.
const (
	partScore     = "score" // of the grader, its sign flipped where lower is better
	partHumanRank = "humanrank"
	partMedal     = "medal"
	partMedian    = "above_median"
	partCredit    = "partial_credit" // of any message, valid or not
)

// graded reports whether parts are of an environment that grades submissions.
func graded(parts []shard.RewardPart) bool {
	_, is := part(parts, partCredit)
	return is
}

// program is one message of the policy with the program that it wrote.
type program struct {
	kind    string // what was asked for: initial, debug, improve …
	attempt int    // from 0
	valid   bool
	raw     float64 // in the task's unit
	quality float64 // in [0, 1]
	parts   []shard.RewardPart
	seconds float64
}

func (p program) value(name string) float64 {
	v, _ := part(p.parts, name)
	return v
}

func (p program) medal() float64 {
	if p.value(partMedal) > 0 {
		return 1
	}
	return 0
}

// trace is what one sample of a task came to, in order.
type trace struct {
	set, task string
	iteration int    // of training
	kind      string // of its instance, in training
	programs  []program
}

const errUngraded = absent("its environment grades no submissions")

// heldOutTraces are those of the evaluation of a version.
func (s *source) heldOutTraces(ctx context.Context, version int) ([]trace, error) {
	rows, err := s.answers(ctx, version)
	if err != nil {
		return nil, err
	}
	var all []trace
	ranked := false
	for i, row := range rows {
		if i == 0 || rows[i-1].Set != row.Set || rows[i-1].TaskID != row.TaskID || rows[i-1].Sample != row.Sample {
			all = append(all, trace{set: row.Set, task: row.TaskID})
		}
		own := &all[len(all)-1]
		seconds := row.ExecuteSeconds // of all the attempt's programs
		for _, turn := range row.EarlierTurns {
			own.programs = append(own.programs, program{row.AttemptKind, int(row.Step), turn.Outcome == string(shard.OutcomeOK), turn.RawScore, turn.Score, turn.RewardParts, turn.ExecuteSeconds})
			seconds -= turn.ExecuteSeconds
		}
		own.programs = append(own.programs, program{row.AttemptKind, int(row.Step), row.right(), row.RawScore, row.Score, row.RewardParts, seconds})
	}
	for _, t := range all {
		for _, p := range t.programs {
			ranked = ranked || graded(p.parts)
		}
	}
	if !ranked {
		return nil, errUngraded
	}
	return all, nil
}

// trained are the traces of training.
func (s *source) trained(ctx context.Context) ([]trace, error) {
	verdicts, err := s.traces(ctx)
	if err != nil {
		return nil, err
	}
	if len(verdicts) == 0 {
		return nil, absent("nothing was sampled in training that counts")
	}
	var all []trace
	scored := false
	for _, v := range verdicts {
		t := trace{task: v.instance.TaskID, iteration: int(v.instance.Iteration), kind: v.instance.Kind}
		for _, turn := range v.Turns {
			if !shard.Outcome(turn.Outcome).Policys() {
				continue
			}
			p := program{v.instance.Kind, int(turn.Step), succeeds(turn), turn.RawScore, turn.NormalizedScore, turn.RewardParts, turn.ExecuteSeconds}
			scored = scored || graded(p.parts)
			t.programs = append(t.programs, p)
		}
		all = append(all, t)
	}
	if !scored {
		return nil, errUngraded
	}
	return all, nil
}

// best is the valid program with the best validation score, the earliest of equals;
// one that says none is worse than all that do. −1 for none.
func best(programs []program) int {
	at, most := -1, math.Inf(-1)
	for i, p := range programs {
		said, says := part(p.parts, env.PartValidation)
		if p.valid && (at < 0 || says && said > most) {
			if at, most = i, math.Inf(-1); says {
				most = said
			}
		}
	}
	return at
}

// submissions is the report's table of a version on a set.
func (s *source) submissions(ctx context.Context, version int, set string) (*report.Submissions, error) {
	rows, err := s.attempts(ctx, version)
	if err != nil {
		return nil, err
	}
	var all []shard.EvaluationRow
	for _, row := range rows {
		if row.Set == set {
			all = append(all, shard.EvaluationRow{
				TaskID: row.TaskID, Sample: row.Sample, Step: row.Step, Score: row.Score, Outcome: row.Outcome, AttemptKind: row.AttemptKind,
				RawScore: row.RawScore, RewardParts: row.RewardParts, ExecuteSeconds: row.ExecuteSeconds, EarlierTurns: row.EarlierTurns,
			})
		}
	}
	if table := report.SubmissionsOf(all, s.Recipe.Evaluation.Seconds); table != nil {
		return table, nil
	}
	if slices.ContainsFunc(all, func(row shard.EvaluationRow) bool { return graded(row.RewardParts) }) {
		return &report.Submissions{Rows: make([]report.SubmissionRow, 1)}, nil // none is valid
	}
	return nil, errUngraded
}

// final is the row of a table that chooses among all attempts of a sample.
func final(table *report.Submissions) report.SubmissionRow {
	chosen := table.Rows[0]
	for _, row := range table.Rows {
		if strings.HasPrefix(row.Chosen, "best of ") && strings.HasSuffix(row.Chosen, " attempts") {
			chosen = row
		}
	}
	return chosen
}

// medals are the shares of a row in percent, under a group.
func medals(group string, row report.SubmissionRow) []value {
	var values []value
	for _, m := range []struct {
		name string
		of   report.Spread
	}{
		{"valid (%)", row.Valid},
		{"above median (%)", row.AboveMedian},
		{"bronze (%)", row.Bronze},
		{"silver (%)", row.Silver},
		{"gold (%)", row.Gold},
		{"any medal (%)", row.AnyMedal},
		{"HumanRank (%)", row.HumanRank},
		{"HumanRank of MLE-Dojo (%)", row.HumanRankMLEDojo},
	} {
		values = append(values, value{group, m.name, nil, 100 * m.of.Mean})
	}
	return values
}

// beforeAndAfter are the medals of the policy that a run began with and of its last
// one, on a set, the best of all attempts chosen by the validation score.
func (s *source) beforeAndAfter(ctx context.Context, sets func(set string) bool, firstToo bool) ([]value, error) {
	var values []value
	for _, set := range s.sets() {
		if !sets(set) {
			continue
		}
		for _, when := range s.moments(beforeTraining) {
			table, err := s.submissions(ctx, when.version, set)
			if err != nil {
				return nil, err
			}
			group := set + ", " + when.name
			if firstToo {
				values = append(values, medals(group+", first attempt alone", table.Rows[0])...)
			}
			values = append(values, medals(group, final(table))...)
		}
	}
	if len(values) == 0 {
		return nil, absent("its recipe measures the test set alone: evaluation.sets names no other")
	}
	return values, nil
}

// chosen calls a function for each held-out trace of a version and each of its attempts,
// from 0, with the best program up to it by validation score; a zero one where none is valid.
func (s *source) chosen(ctx context.Context, version int, each func(t trace, attempt int, best program)) error {
	traces, err := s.heldOutTraces(ctx, version)
	if err != nil {
		return err
	}
	for _, t := range traces {
		for k := range s.steps(t.set) + 1 {
			end := slices.IndexFunc(t.programs, func(p program) bool { return p.attempt > k })
			if end < 0 {
				end = len(t.programs)
			}
			own := program{}
			if i := best(t.programs[:end]); i >= 0 {
				own = t.programs[i]
			}
			each(t, k, own)
		}
	}
	return nil
}

// overAttempts are means over a version's held-out traces after each attempt.
func overAttempts(ctx context.Context, s *source, version int) ([]value, error) {
	medal, rank := series{}, series{}
	err := s.chosen(ctx, version, func(_ trace, attempt int, best program) {
		medal.add(attempt+1, 100*best.medal())
		rank.add(attempt+1, 100*best.value(partHumanRank))
	})
	return append(medal.values("", "any medal (%)"), rank.values("", "HumanRank (%)")...), err
}

// overSeconds is as overAttempts, after each eighth of the budget that a trace's
// programs have.
func overSeconds(ctx context.Context, s *source, version int) ([]value, error) {
	budget := s.Recipe.Evaluation.Seconds
	if budget == 0 {
		return nil, absent("evaluation.seconds is 0: its traces have no budget of time")
	}
	traces, err := s.heldOutTraces(ctx, version)
	if err != nil {
		return nil, err
	}
	const parts = 8
	var values []value
	for part := 1; part <= parts; part++ {
		limit := budget * float64(part) / parts
		var won []float64
		for _, t := range traces {
			end, spent := 0, 0.
			for end < len(t.programs) && spent+t.programs[end].seconds <= limit {
				spent += t.programs[end].seconds
				end++
			}
			own := program{}
			if i := best(t.programs[:end]); i >= 0 {
				own = t.programs[i]
			}
			won = append(won, 100*own.medal())
		}
		m, _ := mean(won)
		values = append(values, value{"", "any medal (%)", on(limit), m})
	}
	return values, nil
}
