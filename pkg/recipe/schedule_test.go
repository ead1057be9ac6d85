package recipe_test

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// Under auto a run of any length keeps 21 versions at most: version 0, one each so
// often, and the last.
func TestKeepsEvery(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keep             recipe.KeepEvery
		iterations, want int
	}{
		{recipe.KeepAuto, 0, 0},
		{recipe.KeepAuto, 20, 0},
		{recipe.KeepAuto, 21, 2},
		{recipe.KeepAuto, 40, 2},
		{recipe.KeepAuto, 41, 5},
		{recipe.KeepAuto, 200, 10},
		{recipe.KeepAuto, 400, 20},
		{recipe.KeepAuto, 401, 50},
		{0, 400, 0},
		{7, 400, 7},
	} {
		s := recipe.Schedule{KeepEvery: c.keep, Iterations: c.iterations}
		if got := s.KeepsEvery(); got != c.want {
			t.Errorf("%v of %d iterations keeps every %d, want %d", c.keep, c.iterations, got, c.want)
		}
	}
	for iterations := range 3000 {
		every := max(1, recipe.Schedule{KeepEvery: recipe.KeepAuto, Iterations: iterations}.KeepsEvery())
		if kept := 1 + (iterations+every-1)/every; kept > 21 {
			t.Fatalf("%d iterations keep %d versions", iterations, kept)
		}
	}
}

// The learning rate of an iteration follows the first end that is not before it, and after
// the last end that one.
func TestDecayEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ends []int
		want []int // of iterations 1 to 6
	}{
		{nil, []int{6, 6, 6, 6, 6, 6}},
		{[]int{4}, []int{4, 4, 4, 4, 4, 4}},
		{[]int{2, 6}, []int{2, 2, 6, 6, 6, 6}},
		{[]int{9}, []int{9, 9, 9, 9, 9, 9}},
	} {
		s := recipe.Schedule{Iterations: 6, DecayEnds: c.ends}
		for i, want := range c.want {
			if got := s.DecayEnd(i + 1); got != want {
				t.Errorf("ends %v, iteration %d: %d, want %d", c.ends, i+1, got, want)
			}
		}
	}
}

// By default a run of ten iterations or more has a curve, but not where scores are slow.
func TestEvaluatesEvery(t *testing.T) {
	t.Parallel()
	for iterations, want := range map[int]int{0: 0, 9: 0, 10: 2, 25: 5, 40: 10, 100: 20, 120: 50, 250: 50, 1000: 200} {
		r := recipe.Defaults()
		r.Schedule.Iterations = iterations
		if got := r.EvaluatesEvery(); got != want {
			t.Errorf("%d iterations: every %d, want %d", iterations, got, want)
		}
		if r.Evaluation.Every = 3; r.EvaluatesEvery() != 3 {
			t.Error("evaluation.every is not kept")
		}
	}
	slow := recipe.Defaults()
	slow.Env.Name = "mle"
	slow.Env.Settings, _, _ = env.Defaults("mle")
	if got := slow.EvaluatesEvery(); got != 0 {
		t.Errorf("where scores are slow: every %d", got)
	}
}

// Under auto an update that the learn task has room for is applied in one, and else by a
// task for each file, 2 to 16; a policy of 100 GiB, gradients and optimizer state included.
func TestSettleApplyShards(t *testing.T) {
	t.Parallel()
	const bytes = 100 << 30
	for name, c := range map[string]struct {
		change func(r *recipe.Recipe)
		files  int
		want   recipe.ApplyShards
	}{
		"memory for it":           {func(r *recipe.Recipe) { r.Resources.Stages.Learn.MemoryGB = 100 }, 4, 1},
		"a file each":             {func(r *recipe.Recipe) { r.Resources.Stages.Learn.MemoryGB = 99 }, 4, 4},
		"one file":                {func(*recipe.Recipe) {}, 1, 2},
		"many files":              {func(*recipe.Recipe) {}, 40, 16},
		"an adapter":              {func(r *recipe.Recipe) { r.Policy.LoRA = &recipe.LoRA{} }, 4, 1},
		"a policy of the run":     {func(r *recipe.Recipe) { r.Policy.New = &recipe.NewPolicy{} }, 4, 1},
		"a number":                {func(r *recipe.Recipe) { r.Schedule.ApplyShards = 3 }, 4, 3},
		"on CPUs, beside GPUs":    {func(r *recipe.Recipe) { r.Policy.Backend, r.Resources.Stages.Learn.MemoryGB = "cuda", 200 }, 5, 5},
		"more than a GPU has":     {func(r *recipe.Recipe) { onGPU(r); r.Resources.Stages.Learn.MemoryGB = 200 }, 5, 5},
		"little memory and a GPU": {onGPU, 4, 4},
	} {
		r := recipe.Defaults()
		r.Schedule.ApplyShards = recipe.ApplyAuto
		c.change(&r)
		if r.SettleApplyShards(bytes, c.files); r.Schedule.ApplyShards != c.want {
			t.Errorf("%s: %d tasks, want %d", name, r.Schedule.ApplyShards, c.want)
		}
	}
	r := recipe.Defaults()
	r.Schedule.ApplyShards = recipe.ApplyAuto
	onGPU(&r)
	if r.SettleApplyShards(60<<30, 4); r.Schedule.ApplyShards != 1 {
		t.Errorf("60 GiB on a GPU: %d tasks", r.Schedule.ApplyShards)
	}
}

func onGPU(r *recipe.Recipe) { r.Policy.Backend, r.Resources.Stages.Learn.GPUs = "cuda", 1 }
