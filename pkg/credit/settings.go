package credit

import (
	_ "embed"

	"github.com/lathe-rl/lathe/pkg/config"
)

//go:embed settings.go
var settingsSource string

var _ = config.Docs[AdvantageSettings](settingsSource)

// AdvantageSettings are those of the group statistic and of the critic.
//
//	A_i = (r_i - b_i) / (s_i + epsilon)
//
// computed in float64 over the valid responses of a group. A group whose
// rewards are all equal has A = 0 exactly, whatever the settings, unless the
// baseline is none.
type AdvantageSettings struct {
	Name          string  `yaml:"name" json:"name"`                                                           // a registered choice: group, as above; tail_rl: TailRL (arXiv 2609.02987), of log P(r > τ) over all τ; teacher: 0, so that the part of advantage.teacher is alone; gae: generalised advantages of each token by policy.critic, over all contexts of a trace, with the reward of a segment at its last learned token
	Gamma         float64 `yaml:"gamma" json:"gamma"`                                                         // gae: discount of a token
	Lambda        float64 `yaml:"lambda" json:"lambda"`                                                       // gae: 0 trusts the critic's next value, 1 the reward alone
	Masked        string  `yaml:"masked" json:"masked" choices:"skip,value,zero"`                             // gae: tokens between learned ones that are not learned themselves, such as what a tool returns: skip (gone from the recursion; verl, NeMo-RL), value (no reward and the critic's value; slime, TRL, SkyRL) or zero (no reward and a value of 0; OpenRLHF)
	Baseline      string  `yaml:"baseline" json:"baseline" choices:"mean,leave_one_out,length_weighted,none"` // b: mean, leave_one_out (mean of the others), length_weighted (OPO: mean weighted by response tokens) or none (0)
	Scale         string  `yaml:"scale" json:"scale" choices:"std,leave_one_out_std,mean,none"`               // s: std, leave_one_out_std (std of the others; NeMo-RL), mean (MaxRL) or none (A is not divided)
	DDof          int     `yaml:"ddof" json:"ddof"`                                                           // delta degrees of freedom of std: 0 or 1
	Epsilon       float64 `yaml:"epsilon" json:"epsilon"`                                                     // added to the divisor
	ZeroScale     string  `yaml:"zero_scale" json:"zero_scale" choices:"divide,keep"`                         // what a divisor s_i of exactly 0 does to r_i - b_i: divide (by epsilon alone) or keep (undivided; NeMo-RL)
	GroupOfOne    string  `yaml:"group_of_one" json:"group_of_one" choices:"zero,reward"`                     // A of a group with one valid response: zero, or reward (b = 0 and s = 1; verl)
	Clip          float64 `yaml:"clip" json:"clip"`                                                           // bound on |A|; 0 for none
	Whitening     bool    `yaml:"whitening" json:"whitening"`                                                 // whiten over the masked-in tokens of the batch: (A - mean) / sqrt(var + 1e-8) (REINFORCE++)
	WhiteningDDof int     `yaml:"whitening_ddof" json:"whitening_ddof"`                                       // delta degrees of freedom of that var: 1 (verl) or 0 (NeMo-RL, OpenRLHF)
	Teacher       Teacher `yaml:"teacher" json:"teacher"`                                                     //
}

// Critic reports whether advantages are made by a critic, in the learner.
func (a AdvantageSettings) Critic() bool { return a.Name == "gae" }

// Validate checks the section advantage. critic is that of the policy, none for no critic,
// and group the number of responses to an instance.
func (a AdvantageSettings) Validate(c *config.Checker, critic string, group int) {
	checkStatistic(c, a)
	checkCritic(c, a, critic)
	checkGroup(c, a, group)
}

func checkStatistic(c *config.Checker, a AdvantageSettings) {
	c.Share("advantage.gamma", a.Gamma)
	c.Share("advantage.lambda", a.Lambda)
	c.Choice("advantage.masked", a.Masked)
	c.Choice("advantage.baseline", a.Baseline)
	c.Choice("advantage.scale", a.Scale)
	c.Between("advantage.ddof", a.DDof, 0, 1)
	c.NotNegative("advantage.epsilon", a.Epsilon)
	if c.Choice("advantage.zero_scale", a.ZeroScale); a.ZeroScale == "divide" {
		switch deviation := a.Scale == "std" || a.Scale == "leave_one_out_std"; {
		case a.Epsilon == 0 && a.Scale == "leave_one_out_std":
			c.Add("advantage.zero_scale", a.ZeroScale, "divides by 0 when the others of a group agree; set advantage.epsilon, or keep")
		case deviation && a.Baseline == "none" && a.Name == "group":
			c.Add("advantage.zero_scale", a.ZeroScale, "divides rewards that are not 0 by next to nothing when those of a group agree, which advantage.baseline none leaves as they are; set keep")
		case a.Scale == "mean" && a.Baseline == "none" && a.Epsilon == 0:
			c.Add("advantage.zero_scale", a.ZeroScale, "divides by 0 when all rewards of a group are 0; set advantage.epsilon, or keep")
		}
	}
	c.Choice("advantage.group_of_one", a.GroupOfOne)
	c.NotNegative("advantage.clip", a.Clip)
	c.Between("advantage.whitening_ddof", a.WhiteningDDof, 0, 1)
}

// checkCritic checks what goes with a critic, whose advantages are made of
// rewards as they are.
func checkCritic(c *config.Checker, a AdvantageSettings, critic string) {
	if !a.Critic() {
		if critic != "none" {
			c.Add("policy.critic", critic, "must be none but for advantage.name gae: nothing else trains it")
		}
		return
	}
	if critic == "none" {
		c.Add("advantage.name", a.Name, "needs a policy.critic")
	}
	if a.Baseline != "none" {
		c.Add("advantage.baseline", a.Baseline, "must be none for advantage.name gae: the critic is the baseline")
	}
	if a.Scale != "none" {
		c.Add("advantage.scale", a.Scale, "must be none for advantage.name gae")
	}
	if a.Clip != 0 {
		c.Add("advantage.clip", a.Clip, "must be 0 for advantage.name gae")
	}
}

// fewest are the responses of a group below which a choice of advantage has nothing to
// compare, and every advantage is 0.
var fewest = map[string]int{"entropic": 3, "gdpo": 2, "prefix_value": 2, "tail_rl": 2}

// checkGroup checks that a group is large enough for its statistics.
func checkGroup(c *config.Checker, a AdvantageSettings, group int) {
	switch {
	case group >= 1 && group < fewest[a.Name]:
		c.Add("rollout.group", group, "must be %d or more for advantage.name %s: all advantages of a smaller group are 0", fewest[a.Name], a.Name)
	case a.Name != "group": // it looks at no baseline and no scale
	case group == 1 && a.Baseline != "none" && a.GroupOfOne != "reward":
		c.Add("rollout.group", group, "must be 2 or more for advantage.baseline %s: one response has nothing to be compared with", a.Baseline)
	case group == 2 && a.Scale == "leave_one_out_std" && a.DDof == 1:
		c.Add("rollout.group", group, "must be 3 or more for advantage.scale leave_one_out_std: one other response has no deviation")
	}
}
