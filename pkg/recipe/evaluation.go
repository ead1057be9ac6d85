package recipe

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/scaffold"
)

// Choices lists the scaffolds.
func (Evaluation) Choices(field string) []string {
	switch field {
	case "scaffold":
		return scaffold.Axis.Names()
	case "role":
		return roles
	}
	return nil
}

// Roles of held-out sets.
const (
	RoleBenchmark  = "benchmark"
	RoleValidation = "validation"
	RoleOOD        = "ood"
	RoleTrain      = "train"
)

var roles = []string{RoleBenchmark, RoleValidation, RoleOOD, RoleTrain}

// SetDefaults makes a set a benchmark.
func (s *EvaluationSet) SetDefaults() { s.Role = RoleBenchmark }

// Choices lists the roles.
func (EvaluationSet) Choices(field string) []string {
	if field == "role" {
		return roles
	}
	return nil
}

// Measured is one set of held-out problems with the settings of its own.
type Measured struct {
	Set string // split of the environment
	Evaluation
}

// Measured lists the sets that are measured, the test split first.
func (e Evaluation) Measured() []Measured {
	own := e
	own.Sets = nil
	all := []Measured{{string(env.Test), own}}
	for _, set := range e.Sets {
		m := Measured{set.Name, own}
		m.Role = set.Role
		override(&m.Problems, set.Problems)
		override(&m.Samples, set.Samples)
		override(&m.Temperature, set.Temperature)
		override(&m.TopK, set.TopK)
		override(&m.TopP, set.TopP)
		override(&m.Steps, set.Steps)
		override(&m.Greedy, set.Greedy)
		override(&m.MaxNewTokens, set.MaxNewTokens)
		all = append(all, m)
	}
	return all
}

// NewTokens is the bound on the tokens of each turn's response, as [Rollout.NewTokens]
// says it: one of its own holds for all turns.
func (e Evaluation) NewTokens(r Rollout) []int {
	if e.MaxNewTokens > 0 {
		return []int{e.MaxNewTokens}
	}
	return r.NewTokens()
}

func override[T any](to *T, value *T) {
	if value != nil {
		*to = *value
	}
}

// Of is the set of a name; the test split for none, as rows of older runs have it.
// An unknown name is a usage error.
func (e Evaluation) Of(set string) (Measured, error) {
	var names []string
	for _, m := range e.Measured() {
		if m.Set == cmp.Or(set, string(env.Test)) {
			return m, nil
		}
		names = append(names, m.Set)
	}
	return Measured{}, exitcode.Usagef("the recipe measures no set %q of held-out problems: it has %s", set, strings.Join(names, ", "))
}

// Chains is the number of traces of each problem: its samples, and the greedy one.
func (m Measured) Chains() int {
	if m.Greedy {
		return m.Samples + 1
	}
	return m.Samples
}

// Only is the evaluation of this set alone.
func (m Measured) Only() Evaluation {
	only, problems := m.Evaluation, m.Problems
	if m.Set != string(env.Test) {
		only.Problems, only.Sets = 0, []EvaluationSet{{Name: m.Set, Role: m.Role, Problems: &problems}}
	}
	return only
}

// Rows is the number of problems of all sets: the rows of the evaluation's plan.
func (e Evaluation) Rows() int {
	n := 0
	for _, m := range e.Measured() {
		n += m.Problems
	}
	return n
}

// With lists the sets that have a role, in their order.
func (e Evaluation) With(role string) []string {
	var sets []string
	for _, m := range e.Measured() {
		if m.Role == role {
			sets = append(sets, m.Set)
		}
	}
	return sets
}

// Counted are the sets that means over sets are over: the benchmarks, or all sets where
// there is none.
func (e Evaluation) Counted() []string {
	if sets := e.With(RoleBenchmark); len(sets) > 0 {
		return sets
	}
	var sets []string
	for _, m := range e.Measured() {
		sets = append(sets, m.Set)
	}
	return sets
}

// CheckTasks refuses more problems of a set than the environment has, and problems that
// are trained on in a set of another role than train, or the other way round.
func (e Evaluation) CheckTasks(environment env.Env) error {
	trained := map[string]bool{}
	for _, t := range environment.Set().Tasks(env.Train) {
		trained[t.ID] = true
	}
	for _, m := range e.Measured() {
		tasks := environment.Set().Tasks(env.Split(m.Set))
		have := len(tasks)
		switch {
		case have >= m.Problems:
			if err := m.checkRole(tasks[:m.Problems], trained); err != nil {
				return err
			}
		case m.Set == string(env.Test):
			return exitcode.Usagef("evaluation.problems: %d are asked for, the test split has %d", m.Problems, have)
		case have == 0:
			return exitcode.Usagef("evaluation.sets: the environment %q has no set %q of held-out problems: name it in data.held_out", environment.Set().Name(), m.Set)
		default:
			return exitcode.Usagef("evaluation.sets: %d problems of %q are asked for, it has %d", m.Problems, m.Set, have)
		}
	}
	return nil
}

// checkRole refuses tasks of a set that its role says are another's.
func (m Measured) checkRole(tasks []env.Task, trained map[string]bool) error {
	for _, t := range tasks {
		switch is := m.Role == RoleTrain; {
		case trained[t.ID] && !is:
			return exitcode.Usagef("evaluation: task %q of the set %q is trained on: set the role of the set to train, or take the task out of data.train", t.ID, m.Set)
		case is && !trained[t.ID] && len(trained) > 0: // none where only the tasks of an evaluation were read
			return exitcode.Usagef("evaluation: task %q of the set %q, whose role is train, is not trained on: choose another role, or train on the task", t.ID, m.Set)
		}
	}
	return nil
}

func (r *Recipe) checkEvaluation(c *config.Checker) {
	e := r.Evaluation
	c.AtLeast("evaluation.problems", e.Problems, 1)
	r.checkMeasured(c, "evaluation", e)
	if e.Every != EvaluateAuto {
		c.AtLeast("evaluation.every", int(e.Every), 0)
	}
	named := map[string]bool{}
	for i, m := range e.Measured()[1:] {
		field := fmt.Sprintf("evaluation.sets.%d", i)
		switch {
		case m.Set != string(env.Train) && r.Env.Mix() != nil:
			checkSetOfMix(c, field+".name", m.Set, r.Env.Names(), named)
		case m.Set != string(env.Train):
			env.CheckSetName(c, field+".name", m.Set, named)
		case named[m.Set]:
			c.Add(field+".name", m.Set, "is named twice")
		case m.Role != RoleTrain:
			c.Add(field+".role", m.Role, "must be train: the set train is the training split")
		default:
			named[m.Set] = true
		}
		c.AtLeast(field+".problems", m.Problems, 1)
		r.checkMeasured(c, field, m.Evaluation)
	}
	if rows := e.Rows(); c.Between("evaluation.shards", e.Shards, 1, 1<<16) && rows > 0 && e.Shards > rows {
		c.Add("evaluation.shards", e.Shards, "must not be above the %d problems that are measured", rows)
	}
}

// checkMeasured checks what a set may have of its own.
func (r *Recipe) checkMeasured(c *config.Checker, field string, e Evaluation) {
	c.Choice(field+".role", e.Role)
	if c.AtLeast(field+".samples", e.Samples, 1) && e.Problems <= config.MaxWhole {
		c.Product(field+".problems × samples × (steps + 1)", "responses", config.MaxWhole, e.Problems, e.Samples, min(e.Steps, config.MaxWhole)+1)
	}
	if !(e.Temperature >= minTemperature) {
		c.Add(field+".temperature", e.Temperature, "must be %g or more: evaluation.greedy adds a greedy chain", minTemperature)
	}
	c.AtLeast(field+".top_k", e.TopK, 0)
	if !(e.TopP > 0 && e.TopP <= 1) {
		c.Add(field+".top_p", e.TopP, "must be above 0 and at most 1")
	}
	c.AtLeast(field+".steps", e.Steps, 0)
	if c.AtLeast(field+".max_new_tokens", e.MaxNewTokens, 0) && r.Policy.New != nil && e.MaxNewTokens >= r.Policy.New.MaxPositionEmbeddings {
		c.Add(field+".max_new_tokens", e.MaxNewTokens,
			"must be below policy.new.max_position_embeddings %d", r.Policy.New.MaxPositionEmbeddings)
	}
}
