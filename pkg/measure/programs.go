package measure

import (
	"context"
	"slices"

	"github.com/lathe-rl/lathe/pkg/env"
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

// Program is one message of the policy with the program that it wrote.
type Program struct {
	Kind    string // what was asked for: initial, debug, improve …
	Attempt int    // from 0
	Valid   bool
	Raw     float64 // in the task's unit
	Quality float64 // in [0, 1]
	Parts   []shard.RewardPart
	Seconds float64 // of execution and, under a budget, generation
}

func (p Program) part(name string) (float64, bool) {
	for _, part := range p.Parts {
		if part.Name == name {
			return part.Value, true
		}
	}
	return 0, false
}

func (p Program) value(name string) float64 {
	v, _ := p.part(name)
	return v
}

// lowerIsBetter reports whether the grader's score has another sign than what is better.
func (p Program) lowerIsBetter() bool {
	score, graded := p.part(partScore)
	return p.Valid && graded && score*p.Raw < 0
}

// medal is 1 of a program that wins one.
func (p Program) medal() float64 { return oneIf(p.value(partMedal) > 0) }

// programs are those of one sample of a task, in order: an attempt may submit more than
// once.
type programs []Program

// attempts are the programs of the first k attempts.
func (c programs) attempts(k int) programs {
	if i := slices.IndexFunc(c, func(p Program) bool { return p.Attempt >= k }); i >= 0 {
		return c[:i]
	}
	return c
}

// within are those that had ended after so many seconds.
func (c programs) within(seconds float64) programs {
	spent := 0.0
	for i, p := range c {
		if spent += p.Seconds; spent > seconds {
			return c[:i]
		}
	}
	return c
}

// valid are the valid ones.
func (c programs) valid() programs {
	return slices.DeleteFunc(slices.Clone(c), func(p Program) bool { return !p.Valid })
}

// first are at most the first k.
func (c programs) first(k int) programs { return c[:min(k, len(c))] }

// best is the valid program with the best validation score, the earliest of equals; one
// that prints none is worse than all that do. It is a zero one where none is valid.
func (c programs) best() Program {
	var best Program
	for _, p := range c.valid() {
		now, prints := p.part(env.PartValidation)
		before, printed := best.part(env.PartValidation)
		if !best.Valid || prints && (!printed || now > before) {
			best = p
		}
	}
	return best
}

// bestGraded is the valid program that the grader likes best, which no choice can see; a
// zero one where none is valid and has a grade.
func (c programs) bestGraded() Program {
	var best Program
	for _, p := range c.valid() {
		if !best.Valid || p.value(partScore) > best.value(partScore) {
			best = p
		}
	}
	return best
}

// is reports whether some program's reward has a part.
func (c programs) has(name string) bool {
	return slices.ContainsFunc(c, func(p Program) bool { _, is := p.part(name); return is })
}

// chain is what one sample of a task came to.
type chain struct {
	set, task string
	sample    int32
	iteration int    // of training
	kind      string // of its instance, in training
	programs  programs
}

// chainsOf are the chains of answers, in the order in which they come up.
func chainsOf(answers []Answer) []chain {
	at := map[chainKey]int{}
	var all []chain
	for _, a := range answers {
		i, seen := at[a.chain()]
		if !seen {
			i = len(all)
			at[a.chain()] = i
			all = append(all, chain{set: a.Set, task: a.TaskID, sample: a.Sample})
		}
		all[i].programs = append(all[i].programs, a.programs()...)
	}
	return all
}

// programs are those of an attempt.
func (a Answer) programs() programs {
	var all programs
	seconds := a.ExecuteSeconds + a.GenerateSeconds // of all the attempt's messages
	for _, turn := range a.EarlierTurns {
		all = append(all, Program{a.AttemptKind, int(a.Step), turn.Outcome == string(shard.OutcomeOK), turn.RawScore, turn.Score, turn.RewardParts, turn.ExecuteSeconds + turn.GenerateSeconds})
		seconds -= turn.ExecuteSeconds + turn.GenerateSeconds
	}
	return append(all, Program{a.AttemptKind, int(a.Step), a.Right(), a.RawScore, a.Score, a.RewardParts, seconds})
}

// ErrUngraded is the absence of what only graded submissions have.
const ErrUngraded = Absent("its environment grades no submissions")

// graded is an absence where no program is of an environment that grades submissions.
func graded(chains []chain) ([]chain, error) {
	if !slices.ContainsFunc(chains, func(c chain) bool { return c.programs.has(partCredit) }) {
		return nil, ErrUngraded
	}
	return chains, nil
}

// heldOutChains are those of the evaluation of a version.
func (r *Rows) heldOutChains(ctx context.Context, version int) ([]chain, error) {
	answers, err := r.Answers(ctx, version)
	if err != nil {
		return nil, err
	}
	return graded(chainsOf(answers))
}

// countedChains are those of the benchmarks, over which means over all tasks are taken.
func (r *Rows) countedChains(ctx context.Context, version int) ([]chain, error) {
	chains, err := r.heldOutChains(ctx, version)
	return r.counted(chains), err
}

// counted are the chains of the benchmarks ([recipe.Evaluation.Counted]).
func (r *Rows) counted(chains []chain) []chain {
	sets := r.Recipe.Evaluation.Counted()
	return slices.DeleteFunc(slices.Clone(chains), func(c chain) bool { return !slices.Contains(sets, c.set) })
}

// trainingChains are the traces of training, in the order of the iterations.
func (r *Rows) trainingChains(ctx context.Context) ([]chain, error) {
	traces, err := r.training(ctx)
	if err != nil {
		return nil, err
	}
	if len(traces) == 0 {
		return nil, Absent("nothing was sampled in training that counts")
	}
	var all []chain
	for _, t := range traces {
		c := chain{task: t.instance.TaskID, iteration: int(t.instance.Iteration), kind: t.instance.Kind}
		for _, turn := range t.Turns {
			if shard.Outcome(turn.Outcome).Policys() {
				c.programs = append(c.programs, Program{c.kind, int(turn.Step), succeeds(turn), turn.RawScore, turn.NormalizedScore, turn.RewardParts, turn.Seconds()})
			}
		}
		all = append(all, c)
	}
	return graded(all)
}

// byTask are the programs of chains by task, in their order, and the tasks sorted.
func byTask(chains []chain) (of map[string]programs, tasks []string) {
	of = map[string]programs{}
	for _, c := range chains {
		if of[c.task] == nil {
			tasks = append(tasks, c.task)
		}
		of[c.task] = append(of[c.task], c.programs...)
	}
	slices.Sort(tasks)
	return of, tasks
}
