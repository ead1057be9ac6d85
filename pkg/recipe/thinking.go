package recipe

import "github.com/lathe-rl/lathe/pkg/config"

// Choices of rollout.thinking.
const (
	ThinkingRefuse = "refuse"
	ThinkingDrop   = "drop"
)

// checkThinking checks rollout.thinking.
func (r *Recipe) checkThinking(c *config.Checker) {
	if !c.Choice("rollout.thinking", r.Rollout.Thinking) || r.Rollout.Thinking != ThinkingDrop {
		return
	}
	if traits, err := r.Traits(); err == nil && traits.Waves > 1 {
		c.Add("rollout.thinking", r.Rollout.Thinking, "is for environments whose turns never wait for a score, and those of env.name %s do: use keep", r.Env.Name)
	}
}
