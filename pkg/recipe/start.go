package recipe

import (
	_ "embed"

	"github.com/lathe-rl/lathe/pkg/config"
)

//go:embed start.go
var startSource string

var _ = config.Docs[Start](startSource)

// Start says what a run takes over of another beside its policy, where policy.path is a
// policy version of a run.
type Start struct {
	Optimizer  string `yaml:"optimizer" choices:"fresh,keep"`  // keep: begin with the optimizer state of that version; fresh: with none
	Curriculum string `yaml:"curriculum" choices:"fresh,keep"` // keep: begin with what that run's curriculum and reward knew after the version, and the responses that its entries continue from; fresh: with nothing. Ages in it count on; schedules by iteration begin anew
}

// Choices of Start.
const (
	StartFresh = "fresh"
	StartKeep  = "keep"
)

// KeepsOptimizer reports whether the run begins with another's optimizer state.
func (s Start) KeepsOptimizer() bool { return s.Optimizer == StartKeep }

// KeepsCurriculum reports whether the run begins with another's curriculum state.
func (s Start) KeepsCurriculum() bool { return s.Curriculum == StartKeep }

// checkStart checks the section start.
func (r *Recipe) checkStart(c *config.Checker) {
	c.Choice("start.optimizer", r.Start.Optimizer)
	c.Choice("start.curriculum", r.Start.Curriculum)
	if r.Start.KeepsOptimizer() {
		switch {
		case r.Policy.Path == "":
			c.Add("start.optimizer", r.Start.Optimizer, "needs policy.path, a policy version of a run")
		case r.WarmStart.Steps > 0:
			c.Add("start.optimizer", r.Start.Optimizer, "goes with warm_start.steps 0: a warm start has an optimizer of its own")
		case r.Policy.LoRA != nil:
			c.Add("start.optimizer", r.Start.Optimizer, "goes with policy.lora null: a new run begins a new adapter; use fresh")
		case r.Policy.Critic == CriticModel:
			c.Add("start.optimizer", r.Start.Optimizer, "does not go with policy.critic model, whose critic begins as the policy; use fresh")
		}
	}
	if r.Start.KeepsCurriculum() && r.Policy.Path == "" {
		c.Add("start.curriculum", r.Start.Curriculum, "needs policy.path, a policy version of a run")
	}
}
