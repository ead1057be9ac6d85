package learn

import (
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// Workload is what a learn task asks of the engine that it trains, with
// sequences of at most longest tokens; 0 for as many as the policy takes. The
// plan that a GPU's engine makes of it (package cuda) changes no result.
func Workload(s Settings, longest int) policy.Workload {
	w := s.Passes.Workload(longest)
	w.Sums = sumsOfStep(s.GradientUnits)
	if s.GradientShards > 1 { // it adds up what others computed
		w.Sums = sumsOfBlocks(s.GradientUnits, s.GradientShards)
	}
	if s.Policy.Critic == recipe.CriticModel {
		w.Twins = 1
	}
	return w
}

// GradientWorkload is that of a gradient shard, which holds no optimizer state.
func GradientWorkload(s Settings, longest int) policy.Workload {
	return reduceWorkload(s.GradientShards)(s, longest)
}

// reduceWorkload is that of one of so many tasks that share the gradient shards.
func reduceWorkload(tasks int) func(s Settings, longest int) policy.Workload {
	return func(s Settings, longest int) policy.Workload {
		w := Workload(s, longest)
		w.Sums, w.Gradients = sumsOfShard(s.GradientUnits, s.GradientShards, tasks), true
		return w
	}
}

// CriticWorkload is that of a critic that is a model of its own; there is none
// where ok is false.
func CriticWorkload(s Settings, longest int) (w policy.Workload, ok bool) {
	w = Workload(s, longest)
	w.Twins = 0
	return w, s.Policy.Critic == recipe.CriticModel
}

// ReferenceWorkload is that of the reference policy, which is open while none is
// trained; there is none where ok is false. Under policy.lora the reference is what
// is adapted.
func ReferenceWorkload(s Settings, longest int) (w policy.Workload, ok bool) {
	return s.Passes.Workload(longest), s.Loss.KL.Coef != 0 && s.Policy.LoRA == nil
}

// TeacherWorkload is that of a teacher, which is open while no policy is trained; there is
// none where ok is false.
func TeacherWorkload(s Settings, longest int) (w policy.Workload, ok bool) {
	return s.Passes.Workload(longest), opensTeacher(s)
}
