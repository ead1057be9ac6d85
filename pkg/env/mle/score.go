package mle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/mlebench"
	"github.com/lathe-rl/lathe/pkg/mlebench/task"
	"github.com/lathe-rl/lathe/pkg/pysource"
	"github.com/lathe-rl/lathe/pkg/sandbox"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The parts of a reward, each of a valid submission unless it says otherwise.
const (
	partScore            = "score"             // its sign flipped where lower is better: more is better
	partHumanRank        = "humanrank"         // 1 − p/N
	partHumanRankMLEDojo = "humanrank_mledojo" // (N − p + 1)/N
	partAboveMedian      = "above_median"      // 1 or 0
	partMedal            = "medal"             // 3 gold, 2 silver, 1 bronze, 0 none
	partPartialCredit    = "partial_credit"    // of any message: −10 and 0.1 for each milestone, or the score
)

// Partial credit (RL-MLE §4, implementation details).
const (
	failedReward    = -10
	milestoneReward = 0.1
)

// Score runs the programs of the messages that have no score yet, one after
// the other, and grades what they submit.
func (e *Env) Score(ctx context.Context, a env.Attempt) (env.Verdict, error) {
	t, err := e.folder(a.Task)
	if err != nil {
		return env.Verdict{}, err
	}
	v := env.Verdict{Turns: append([]env.TurnVerdict{}, a.Earlier...)}
	left := noBudget
	if a.SecondsLeft != nil {
		left = time.Duration(*a.SecondsLeft * float64(time.Second))
	}
	for i := len(a.Earlier); i < len(a.Own); i++ {
		cut := i == len(a.Own)-1 && a.Finish == finishLength
		j, err := e.scoreMessage(ctx, t, a.Messages[a.Own[i]].Content, cut, left)
		if err != nil {
			return env.Verdict{}, err
		}
		left -= time.Duration(j.ExecuteSeconds * float64(time.Second))
		v.Turns = append(v.Turns, j.TurnVerdict)
		v.Reason, v.Protection = j.reason, j.protection
	}
	v.TurnVerdict = v.Turns[len(v.Turns)-1]
	return v, nil
}

const finishLength = "length"

// noBudget is more than any program may take.
const noBudget = time.Duration(math.MaxInt64)

// budgetSpent is what is told of a program that would end after the trace's budget.
const budgetSpent = "The program was stopped: the time of this attempt was used up."

// scored is a score with what a row says beside it.
type scored struct {
	env.TurnVerdict
	reason     string // from a small set
	protection string
}

// scoreMessage scores one message, whose program may take what is left of a budget.
func (e *Env) scoreMessage(ctx context.Context, t *task.Task, message string, cut bool, left time.Duration) (scored, error) {
	if e.style.actions {
		return e.scoreAction(ctx, t, message, cut, left)
	}
	if cut {
		return e.failed("cut off", "The response was cut off at the length limit."), nil
	}
	program, ok := e.programIn(message)
	if !ok {
		return e.failed("no program", "The response has no program in a fenced block."), nil
	}
	return e.submit(ctx, t, program, left)
}

// failed is the score of a message that nothing was run for.
func (e *Env) failed(reason, feedback string) scored {
	j := scored{reason: reason, TurnVerdict: env.TurnVerdict{Outcome: shard.OutcomeInvalid, Feedback: feedback}}
	e.unscored(&j.TurnVerdict)
	return j
}

// late is the score of a program for which a budget leaves no time.
func (e *Env) late() scored {
	j := e.failed("budget spent", budgetSpent)
	j.Outcome = shard.OutcomeTimeout
	return j
}

// submit runs a program and grades its submission.
func (e *Env) submit(ctx context.Context, t *task.Task, program string, left time.Duration) (scored, error) {
	if left <= 0 {
		return e.late(), nil
	}
	limit := time.Duration(e.settings.limits(t).WallSeconds * float64(time.Second))
	wall := min(limit, left)
	source, err := e.instrumented(ctx, program)
	if err != nil {
		return scored{}, err
	}
	x, err := e.runner.run(ctx, t, source, wall)
	if err != nil {
		return scored{}, err
	}
	j := e.measured(x, program)
	v := &j.TurnVerdict
	addValidation(v, t, x.heard.validation)
	v.Milestones = pysource.Milestones(x.heard.reached)
	trouble, reason, said := "", "", ""
	score := 0.0
	switch {
	case x.End != sandbox.Exited || x.ExitCode != 0:
		trouble, reason = ended(x, wall), "failed"
		if x.End == sandbox.OverTime {
			v.Outcome, reason = shard.OutcomeTimeout, "timeout"
		}
		if x.End == sandbox.OverTime && wall < limit {
			trouble, reason = budgetSpent, "budget spent"
		}
	case x.badFile != "":
		trouble, reason = "The submission is not valid: "+x.badFile+".", "bad submission"
	case x.submission == nil:
		trouble, reason = "The program ended without a submission.csv.", "no submission"
	default:
		grader, err := e.grader(ctx, t)
		if err != nil {
			return scored{}, err
		}
		var reached []string
		score, reached, err = grader.ScoreReached(x.submission)
		if broken := new(mlebench.GraderError); errors.As(err, &broken) {
			return scored{}, err
		}
		if e.settings.Milestones == "submission" {
			v.Milestones = reached
		}
		switch {
		case err != nil:
			trouble, reason = "The submission is not valid: "+err.Error()+".", "bad submission"
		case math.IsNaN(score): // MLE-bench holds it for valid, and gives no medal for it
			score, said = t.Range.Worst, "The submission is valid, and its score is not a number."
		case math.IsInf(score, 0): // of an answer without any error: no score is better
			score = t.Range.Best
		}
	}
	v.Feedback = e.feedback(x.output, trouble+said)
	if trouble != "" {
		j.reason = reason
		e.unscored(v)
		return j, nil
	}
	j.reason, v.Outcome = "graded", shard.OutcomeOK
	if e.settings.Fingerprint {
		if v.Fingerprint, err = e.fingerprint(ctx, program); err != nil {
			return scored{}, err
		}
	}
	e.reward(v, t, score)
	return j, nil
}

// instrumented is what runs in a program's place: the same with prints of its
// progress, where the recipe asks for them (RL-MLE §3.2).
func (e *Env) instrumented(ctx context.Context, program string) (string, error) {
	switch e.settings.Instrument {
	case "none":
		return program, nil
	case "assistant":
		return e.assisted(ctx, program)
	}
	python, err := e.parser()
	if err != nil {
		return "", err
	}
	all, err := python.Instrument(ctx, []string{program})
	if err != nil {
		return "", err
	}
	return all[0].Text, nil
}

// assisted is what the assistant makes of a program, if that differs by prints
// alone, and else the program.
func (e *Env) assisted(ctx context.Context, program string) (string, error) {
	if e.assistant == nil {
		return program, nil
	}
	text, cut, err := e.assistant(ctx, []shard.Message{{Role: "user", Content: fill(instrumentPrompt, map[string]string{"program": program})}})
	if err != nil {
		return "", fmt.Errorf("asking for prints of a program's progress: %w", err)
	}
	instrumented, ok := e.programIn(text)
	if cut || !ok {
		return program, nil
	}
	python, err := e.parser()
	if err != nil {
		return "", err
	}
	differences, err := python.SameButForPrints(ctx, []pysource.Pair{{Original: program, Instrumented: instrumented}})
	if err != nil || differences[0] != "" {
		return program, err
	}
	return instrumented, nil
}

// Assist takes the policy that instruments programs.
func (e *Env) Assist(a env.Assistant) { e.assistant = a }

// fingerprint is a program's, as text.
func (e *Env) fingerprint(ctx context.Context, program string) (string, error) {
	python, err := e.parser()
	if err != nil {
		return "", err
	}
	all, err := python.Fingerprints(ctx, []string{program})
	if err != nil {
		return "", err
	}
	text, err := all[0].MarshalText()
	return string(text), err
}

// parser is the interpreter as it reads programs.
func (e *Env) parser() (pysource.Interpreter, error) {
	python, err := e.runner.interpreter()
	return pysource.Interpreter{Root: python.root, Path: python.path, Read: python.folders, Require: e.settings.Sandbox.Require}, err
}

// measured is the beginning of a score of a program that has run. It is not
// valid until something says so.
func (e *Env) measured(x execution, program string) scored {
	return scored{protection: x.protection, TurnVerdict: env.TurnVerdict{
		Outcome: shard.OutcomeInvalid, Extracted: program, ExecuteSeconds: x.Wall.Seconds(), CPUSeconds: x.CPU.Seconds(),
	}}
}

// ended says how a program ended that did not end well.
func ended(x execution, wall time.Duration) string {
	switch x.End {
	case sandbox.OverTime:
		return fmt.Sprintf("The program was stopped: it ran for more than %v.", wall)
	case sandbox.OverMemory:
		return "The program was stopped: it took more memory than there is."
	case sandbox.OverDisk:
		return "The program was stopped: it wrote more than there is room for."
	case sandbox.OverProcesses:
		return "The program was stopped: it started more processes than it may."
	case sandbox.Killed:
		return fmt.Sprintf("The program was ended by signal %d.", int(x.Signal))
	}
	return fmt.Sprintf("The program ended with exit code %d.", x.ExitCode)
}

// CutBy takes how feedback is cut.
func (e *Env) CutBy(tail env.Tail) { e.tail = tail }

// feedback is the end of what a program printed, with what we say of it.
func (e *Env) feedback(output, trouble string) string {
	return e.tail(strings.TrimSpace(strings.Trim(output, "\n")+"\n"+trouble), e.settings.Feedback.MaxTokens)
}

// tailOfCharacters stands in where no policy is known: four characters are about
// a token of English.
func tailOfCharacters(text string, tokens int) string {
	if all := []rune(text); len(all) > 4*tokens {
		return "…" + string(all[len(all)-4*tokens:])
	}
	return text
}

// addValidation fills in what a program says of itself; NaN is nothing.
func addValidation(v *env.TurnVerdict, t *task.Task, said float64) {
	if !math.IsNaN(said) {
		v.ValidationScore = said
		v.Parts = append(v.Parts, shard.RewardPart{Name: env.PartValidation, Value: mlebench.Signed(said, t.LowerIsBetter())})
	}
}

// unscored fills in what a message without a valid submission is worth.
func (e *Env) unscored(v *env.TurnVerdict) { e.reward(v, nil, 0) }

// reward fills in what a score is worth: of a valid submission with a score,
// or of none where there is no task.
func (e *Env) reward(v *env.TurnVerdict, t *task.Task, score float64) {
	credit := failedReward + milestoneReward*float64(len(v.Milestones))
	add := func(name string, value float64) {
		v.Parts = append(v.Parts, shard.RewardPart{Name: name, Value: value})
	}
	if t != nil {
		v.RawScore = score
		v.NormalizedScore = e.quality(t, score)
		credit = mlebench.Signed(score, t.LowerIsBetter())
		add(partScore, credit)
		if !t.Board.Empty() {
			add(partHumanRank, t.HumanRank(mlebench.Paper, score, e.settings.Boards == "both"))
			add(partHumanRankMLEDojo, t.HumanRank(mlebench.MLEDojo, score, e.settings.Boards == "both"))
			add(partAboveMedian, oneIf(t.Board.AboveMedian(score)))
			add(partMedal, map[mlebench.Medal]float64{mlebench.Gold: 3, mlebench.Silver: 2, mlebench.Bronze: 1}[t.Board.Medal(score)])
		}
	}
	add(partPartialCredit, credit)
	switch e.settings.Reward {
	case "partial_credit":
		v.Reward = credit
	case "valid":
		v.Reward = oneIf(t != nil)
	default:
		v.Reward = v.NormalizedScore
	}
}

// quality is the normalised score of a valid submission, 0 to 1: a rank where the
// recipe asks for one and the task has a leaderboard.
func (e *Env) quality(t *task.Task, score float64) float64 {
	if formula, ok := e.settings.humanRank(); ok && !t.Board.Empty() {
		return t.HumanRank(formula, score, e.settings.Boards == "both")
	}
	quality, err := t.Normalised(score)
	if err != nil {
		panic(errors.Join(errors.New("a range that was checked"), err))
	}
	return quality
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
