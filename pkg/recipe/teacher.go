package recipe

import (
	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/scaffold"
)

// checkTeacher checks the section advantage.teacher.
func (r *Recipe) checkTeacher(c *config.Checker) {
	t := r.Advantage.Teacher
	c.NotNegative("advantage.teacher.coef", t.Coef)
	c.NotNegative("advantage.teacher.bound", t.Bound)
	context := c.Choice("advantage.teacher.context", t.Context)
	own := t.Path == ""
	if t.Version != credit.TeacherCurrent {
		c.AtLeast("advantage.teacher.version", int(t.Version), 0)
		switch {
		case !own:
			c.Add("advantage.teacher.version", int(t.Version), "and advantage.teacher.path exclude each other: leave the version out, or the path empty")
		case int(t.Version) >= max(1, r.Schedule.Iterations):
			c.Add("advantage.teacher.version", int(t.Version), "must be below schedule.iterations %d, or no iteration has that teacher", r.Schedule.Iterations)
		}
	}
	if !t.Active() {
		if r.Advantage.TeacherAlone() {
			c.Add("advantage.teacher.coef", t.Coef, "must be above 0 for advantage.name %s", r.Advantage.Name)
		}
		if !own || t.Version != credit.TeacherCurrent || context && t.Context != credit.TeacherPrompt {
			c.Add("advantage.teacher", nil, "is unused because advantage.teacher.coef is 0: set it, or leave the section out")
		}
		return
	}
	if own && t.Version == credit.TeacherCurrent && t.Context == credit.TeacherPrompt {
		c.Add("advantage.teacher", nil, "is the policy itself under its own prompt, which has nothing to teach: set path, version or context")
	}
	if !loss.LooksAtAdvantage(r.Loss.Kind) {
		c.Add("loss.kind", r.Loss.Kind, "looks at no advantage, and so not at advantage.teacher")
	}
	if r.Rollout.TopK != 0 || r.Rollout.TopP != 1 {
		c.Add("advantage.teacher", nil, "needs rollout.top_k 0 and rollout.top_p 1: a token that only the policy's truncated support has would have no log-probability under the teacher")
	}
	if !t.Rewords() || !context {
		return
	}
	traits, err := r.Traits()
	if err != nil {
		return // said of env.name
	}
	if traits.Turns > 1 {
		c.Add("advantage.teacher.context", t.Context, "is for responses of one message, and env.name %s has attempts of several: use prompt", r.Env.Name)
	}
	if made, err := r.Scaffold.Training(); err == nil && len(scaffold.Kinds(made, traits)) > 0 {
		c.Add("advantage.teacher.context", t.Context, "is for traces of one attempt, and scaffold.name %s makes several: use single", r.Scaffold.Name)
	}
}
