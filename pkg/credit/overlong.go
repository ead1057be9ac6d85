package credit

import (
	_ "embed"

	"github.com/lathe-rl/lathe/pkg/config"
)

//go:embed overlong.go
var overlongSource string

var _ = config.Docs[Overlong](overlongSource)

// Overlong is the soft overlong punishment of DAPO (arXiv 2503.14476, Eq. 13), which is added
// to the reward of a segment of n sampled tokens, with L = max and c = cache:
//
//	0               n ≤ L − c
//	((L − c) − n)/c   L − c < n ≤ L
//	−1              n > L
type Overlong struct {
	Max     int     `yaml:"max"`     // L, tokens; 0 is rollout.max_new_tokens
	Cache   int     `yaml:"cache"`   // c, tokens; 0 is a fifth of max (DAPO: 4,096 of 20,480)
	Penalty float64 `yaml:"penalty"` // factor on the punishment (verl's overlong_buffer.penalty_factor)
}

// SetDefaults are those of a punishment that is present.
func (o *Overlong) SetDefaults() { *o = Overlong{Penalty: 1} }

// Validate checks the section reward.overlong of a recipe with responses of at most so many
// tokens.
func (o *Overlong) Validate(c *config.Checker, maxNewTokens int) {
	if o == nil {
		return
	}
	lengths := c.AtLeast("reward.overlong.max", o.Max, 0)
	if c.AtLeast("reward.overlong.cache", o.Cache, 0) && lengths {
		if most := o.Resolved(maxNewTokens).Max; o.Cache > most {
			c.Add("reward.overlong.cache", o.Cache, "must not be above reward.overlong.max, %d, or every response is punished", most)
		}
	}
	c.NotNegative("reward.overlong.penalty", o.Penalty)
}

// Resolved has the lengths written out, for responses of at most so many tokens.
func (o Overlong) Resolved(maxNewTokens int) Overlong {
	if o.Max == 0 {
		o.Max = maxNewTokens
	}
	if o.Cache == 0 {
		o.Cache = max(1, o.Max/5)
	}
	return o
}

// Punishment is what n sampled tokens add to a reward, at most 0.
func (o Overlong) Punishment(n int) float64 {
	switch free := o.Max - o.Cache; {
	case n <= free:
		return 0
	case n <= o.Max:
		return o.Penalty * float64(free-n) / float64(o.Cache)
	}
	return -o.Penalty
}

// punish adds the punishment to the rewards of all segments.
func (o *Overlong) punish(groups []Group, segments [][]Segment) {
	for g, group := range groups {
		for i := range segments[g] {
			s := &segments[g][i]
			if s.Earned = s.Reward; o != nil {
				s.Reward += o.Punishment(Tokens(group.Traces[s.Trace], *s))
			}
		}
	}
}
