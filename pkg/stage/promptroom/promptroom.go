// Package promptroom tells, before a run, which of its prompts will leave the policy no
// room for a response: those of first answers, and of every later attempt that training
// or an evaluation asks for.
package promptroom

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/scaffold"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Policy is what a policy makes of prompts.
type Policy struct {
	Chat      chat.Chat
	Positions int // tokens of the longest sequence
}

// Use is prompts of one kind for the problems of one split.
type Use struct {
	Split     env.Split
	Kind      shard.Kind
	NewTokens int // of the answer that a prompt of a later attempt shows, at most
	Tried     int // prompts: those of the longest questions, and that of the shortest
	// Full are the tasks whose prompts leave no room even where the answer before is
	// empty, or the demonstration where there is one that the environment needs; and Tight
	// those whose prompts do with an answer of NewTokens tokens.
	Full, Tight []string

	tasks []env.Task // to try
}

// longest is how many of the longest questions of a split are tried.
const longest = 64

// Settings are what prompts depend on in a recipe.
type Settings struct {
	Seed       uint64
	Curriculum recipe.Curriculum
	Scaffold   recipe.Scaffold
	Rollout    recipe.Rollout
	Evaluation recipe.Evaluation
}

// SettingsOf are those of a recipe.
func SettingsOf(r recipe.Recipe) Settings {
	return Settings{r.Seed, r.Curriculum, r.Scaffold, r.Rollout, r.Evaluation}
}

// Look tries the prompts that a run will make. An environment that cannot
// word one is an error where a setting is missing.
func Look(r Settings, environment env.Env, p Policy) ([]Use, error) {
	uses, err := trainingUses(r, environment)
	if err != nil {
		return nil, err
	}
	for _, m := range r.Evaluation.Measured() {
		if m.Problems == 0 {
			continue
		}
		s, err := r.Scaffold.Measuring(r.Evaluation, m.Steps)
		if err != nil {
			return nil, err
		}
		tasks := environment.Set().Tasks(env.Split(m.Set))
		uses = append(uses, usesOf(env.Split(m.Set), tasks[:min(m.Problems, len(tasks))], m.NewTokens(r.Rollout), scaffold.Kinds(s, environment.Traits()))...)
	}
	for i := range uses {
		if err := uses[i].try(environment, p); err != nil {
			return nil, err
		}
	}
	return uses, nil
}

// trainingUses are the kinds that curriculum and scaffold ask for.
func trainingUses(r Settings, environment env.Env) ([]Use, error) {
	s, err := r.Scaffold.Training()
	if err != nil {
		return nil, err
	}
	c, err := r.Curriculum.New(r.Seed)
	if err != nil {
		return nil, err
	}
	kinds := scaffold.Kinds(s, environment.Traits())
	if asks, ok := c.(curriculum.Asking); ok {
		kinds = append(kinds, asks.Kinds()...)
	}
	tasks, err := environment.Set().TrainingTasks("curriculum.kinds", r.Curriculum.Kinds)
	return usesOf(env.Train, tasks, r.Rollout.NewTokens(), kinds), err
}

func usesOf(split env.Split, tasks []env.Task, newTokens []int, later []shard.Kind) []Use {
	tasks = extremes(tasks)
	uses := []Use{{Split: split, Kind: shard.KindInitial, tasks: tasks}}
	for _, kind := range later {
		if kind != shard.KindInitial && !slices.ContainsFunc(uses, func(u Use) bool { return u.Kind == kind }) {
			uses = append(uses, Use{Split: split, Kind: kind, tasks: tasks, NewTokens: slices.Max(newTokens)})
		}
	}
	return uses
}

// try words prompts and counts their tokens.
func (u *Use) try(environment env.Env, p Policy) error {
	for _, task := range u.tasks {
		if u.Kind == shard.KindCrossover && !env.TraitsOf(environment, task.ID).Joins {
			return exitcode.Usagef("the curriculum joins two responses (kind %s), for which the environment of task %q has no prompt: use another curriculum, or set its share of them to 0", u.Kind, task.ID)
		}
		messages, known, err := u.prompt(environment, task)
		if err != nil {
			return err
		}
		if !known {
			continue
		}
		ids, err := p.Chat.Prompt(messages)
		if err != nil {
			return fmt.Errorf("%s prompt of task %q: %w", u.Kind, task.ID, err)
		}
		u.Tried++
		switch {
		case len(ids) >= p.Positions:
			u.Full = append(u.Full, task.ID)
		case len(ids)+u.NewTokens >= p.Positions:
			u.Tight = append(u.Tight, task.ID)
		}
	}
	return nil
}

// extremes are the tasks of the longest questions, longest first, and of the shortest.
func extremes(tasks []env.Task) []env.Task {
	sorted := slices.Clone(tasks)
	slices.SortStableFunc(sorted, func(a, b env.Task) int { return -cmp.Compare(len(a.Question), len(b.Question)) })
	if len(sorted) > longest+1 {
		sorted = append(sorted[:longest:longest], sorted[len(sorted)-1])
	}
	return sorted
}

// prompt words the prompt of a task after an empty answer, or after a demonstrated one
// where the environment can make nothing of an empty one. known is false where it cannot
// tell without a real answer.
func (u Use) prompt(environment env.Env, task env.Task) (messages []shard.Message, known bool, err error) {
	first, err := environment.Prompt(task, shard.KindInitial, env.Parent{})
	if err != nil || u.Kind == shard.KindInitial {
		return first, err == nil, err
	}
	messages, err = environment.Prompt(task, u.Kind, u.parent(append(slices.Clip(first), shard.Message{Role: "assistant"})))
	if err == nil && !slices.Equal(messages, first) {
		return messages, true, nil
	}
	if exitcode.Code(err) == exitcode.Usage {
		return nil, false, err
	}
	shown, ok, err := environment.Demonstration(task, shard.KindInitial, rng.New(0, rng.PurposeScaffold, 0, task.ID, 0))
	if err != nil || !ok {
		return nil, false, nil
	}
	messages, err = environment.Prompt(task, u.Kind, u.parent(shown))
	return messages, err == nil, nil
}

// parent is what a prompt of the kind starts from after a conversation; of two that it joins
// both are that one.
func (u Use) parent(messages []shard.Message) env.Parent {
	p := env.Parent{Messages: messages}
	if u.Kind == shard.KindCrossover {
		p.Partner = &env.Parent{Messages: messages}
	}
	return p
}

// Demonstrations refuses a warm start from demonstrations of which one does not fit: of
// each kind that it learns from those of the longest questions, and of the shortest, are
// tried.
func Demonstrations(w recipe.WarmStart, seed uint64, environment env.Env, p Policy) error {
	if !w.Demonstrated() {
		return nil
	}
	tasks, err := environment.Set().TrainingTasks("warm_start.kinds", w.Kinds)
	if err != nil {
		return err
	}
	for _, of := range []struct {
		kind  shard.Kind
		share float64
		hint  string
	}{
		{shard.KindInitial, 1 - w.Improve - w.Diverge, "use a policy with more positions, or shorter prompts"},
		{shard.KindImprove, w.Improve, "use a policy with more positions, or shorter prompts, or: --set warm_start.improve=0"},
		{shard.KindDiverge, w.Diverge, "use a policy with more positions, or shorter prompts, or: --set warm_start.diverge=0"},
	} {
		for _, task := range extremes(tasks) {
			if of.share <= 0 {
				break
			}
			conversation, ok, err := environment.Demonstration(task, of.kind, rng.New(seed, rng.PurposeWarmStart, 0, task.ID, 0))
			var ids []int32
			switch {
			case err == nil && !ok:
				return nil // the warm start says which demonstrations are missing
			case err == nil:
				ids, _, err = p.Chat.Demonstrate(conversation)
			}
			if err != nil {
				return fmt.Errorf("demonstrating task %q: %w", task.ID, err)
			}
			if len(ids) > p.Positions {
				return exitcode.WithHint(exitcode.Usagef("warm_start: the demonstration of kind %s of task %q has %d tokens, and the policy's context %d", of.kind, task.ID, len(ids), p.Positions), "%s", of.hint)
			}
		}
	}
	return nil
}

// Refuse is the error of a run in which no prompt of a kind leaves room, so that what it
// is for can never be measured or learned.
func Refuse(uses []Use, positions int) error {
	for _, u := range uses {
		if u.Tried == 0 || len(u.Full) < u.Tried {
			continue
		}
		err := exitcode.Usagef("no %s prompt of %s leaves room for a response in the policy's context of %d tokens (the first: task %q)", u.Kind, u.Split, positions, u.Full[0])
		how := "use a policy with more positions"
		switch {
		case u.Kind == shard.KindInitial:
			how += ", or shorter prompts"
		case u.Split == env.Train:
			how += ", shorter prompts (env.prompts), or a curriculum and a scaffold that do not ask for " + string(u.Kind)
		default:
			how += ", shorter prompts (env.prompts), or no revisions: --set evaluation.steps=0"
		}
		return exitcode.WithHint(err, "%s", how)
	}
	return nil
}

// Notes say in words which prompts leave no room.
func Notes(uses []Use, positions int) []string {
	var notes []string
	for _, u := range uses {
		of := fmt.Sprintf("of %s of %s that %s tried (the longest, and the shortest) ", plural.Count(u.Tried, string(u.Kind)+" prompt"), u.Split, plural.Verb(u.Tried, "was", "were"))
		var parts []string
		if n := len(u.Full); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s no room for a response in the policy's context of %d tokens (the first: task %q)", n, plural.Verb(n, "leaves", "leave"), positions, u.Full[0]))
		}
		if n := len(u.Tight); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s none where the answer before has all of its %d tokens (the first: task %q)", n, plural.Verb(n, "leaves", "leave"), u.NewTokens, u.Tight[0]))
		}
		if len(parts) > 0 {
			notes = append(notes, of+strings.Join(parts, ", "))
		}
	}
	return notes
}
