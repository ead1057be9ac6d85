package recipe_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// onlyTasks is an environment of which the tasks alone are asked for.
type onlyTasks struct {
	env.Env
	set *env.TaskSet
}

func (o onlyTasks) Set() *env.TaskSet { return o.set }

// TestRoles: means are over benchmarks, or over all sets where there is none; a set has tasks
// that are trained on if its role is train, and else none.
func TestRoles(t *testing.T) {
	t.Parallel()
	one := 1
	e := recipe.Evaluation{Role: recipe.RoleBenchmark, Problems: 1, Sets: []recipe.EvaluationSet{
		{Name: "more", Role: recipe.RoleBenchmark, Problems: &one},
		{Name: "validation", Role: recipe.RoleValidation, Problems: &one},
		{Name: "train", Role: recipe.RoleTrain, Problems: &one},
	}}
	if got := e.Counted(); !slices.Equal(got, []string{"test", "more"}) || !slices.Equal(e.With(recipe.RoleTrain), []string{"train"}) {
		t.Errorf("counted: %q", got)
	}
	set := env.NewTaskSet("mle")
	for split, id := range map[env.Split]string{env.Train: "a", env.Test: "b", "more": "c", "validation": "d"} {
		set.Add(env.Task{ID: id}, env.Facts{Split: split})
	}
	if err := e.CheckTasks(onlyTasks{set: set}); err != nil {
		t.Error(err)
	}
	e.Sets[2].Role = recipe.RoleOOD
	if err := e.CheckTasks(onlyTasks{set: set}); err == nil || !strings.Contains(err.Error(), `task "a" of the set "train" is trained on`) {
		t.Errorf("a set of another role that is trained on: %v", err)
	}
	e.Sets, e.Role = e.Sets[:1], recipe.RoleTrain
	if err := e.CheckTasks(onlyTasks{set: set}); err == nil || !strings.Contains(err.Error(), `task "b" of the set "test", whose role is train, is not trained on`) {
		t.Errorf("a set with the role train that is not trained on: %v", err)
	}
	e.Sets[0].Role = recipe.RoleOOD
	if got := e.Counted(); !slices.Equal(got, []string{"test", "more"}) {
		t.Errorf("without benchmarks: %q", got)
	}
}
