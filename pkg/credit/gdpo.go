package credit

import (
	_ "embed"
	"maps"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/registry"
)

//go:embed gdpo.go
var gdpoSource string

var _ = config.Docs[GDPO](gdpoSource) && config.Docs[GDPOPart](gdpoSource)

// GDPO normalises each part of the reward within its group, adds the parts up, and
// normalises the sum over the iteration (GDPO, arXiv 2601.05242; TRL's
// multi_objective_aggregation normalize_then_sum), with unbiased deviations:
//
//	Â_i = Σ_k weight_k · (r_ik − mean_k) / (std_k + ε)
//	A_i = (Â_i − mean Â) / (std Â + ε)
//
// A part that a response does not have counts nowhere; a part that is equal in all of a
// group gives 0. Where no response has parts, the reward is one. The punishment of
// reward.overlong is a part of its own, as among TRL's reward functions.
type GDPO struct {
	Parts   []GDPOPart `yaml:"parts"`   // parts of the reward that count; empty: every part, with weight 1. That of reward.overlong is called overlong
	Epsilon float64    `yaml:"epsilon"` // ε
}

// GDPOPart is a part of the reward.
type GDPOPart struct {
	Name   string  `yaml:"name"`   // as the environment has it
	Weight float64 `yaml:"weight"` // weight_k
}

// weight is that of a part; 0 for one that does not count.
func (s GDPO) weight(part string) float64 {
	if len(s.Parts) == 0 {
		return 1
	}
	for _, p := range s.Parts {
		if p.Name == part {
			return p.Weight
		}
	}
	return 0
}

// partOverlong is the punishment of reward.overlong as a part of the reward.
const partOverlong = "overlong"

func init() {
	AdvantageAxis.Register(registry.Choice[Advantage]{
		Name: "gdpo", Summary: "each part of the reward normalised in its group, and their sum over the iteration (GDPO, arXiv 2601.05242)",
		Settings: func() any { return &GDPO{Epsilon: 1e-4} },
		Validate: func(c *config.Checker, settings any) {
			s := settings.(*GDPO)
			c.Positive("advantage.gdpo.epsilon", s.Epsilon)
			if o, _ := config.Find[*Overlong](c.Settings(), "reward.overlong"); o != nil && s.weight(partOverlong) == 0 {
				c.Add("advantage.gdpo.parts", nil, "must name the part overlong, or reward.overlong counts nowhere")
			}
		},
		Make: func(settings any) (Advantage, error) { return gdpo{*settings.(*GDPO)}, nil },
	})
}

type gdpo struct{ GDPO }

func (gdpo) Critic() bool { return false }

// Advantage is Â of each segment of the group.
func (a gdpo) Advantage(g Group, segments []Segment) error {
	parts := map[string]map[int]float64{} // values by part and segment
	taking := 0
	for i, s := range segments {
		if !g.counts(s) {
			continue
		}
		taking++
		for _, part := range g.Traces[s.Trace].verdict(s).RewardParts {
			if a.weight(part.Name) == 0 {
				continue
			}
			if !isFinite(part.Value) {
				return exitcode.Dataf("computing advantages: part %q of the reward of response %d is %v", part.Name, i, part.Value)
			}
			if parts[part.Name] == nil {
				parts[part.Name] = map[int]float64{}
			}
			parts[part.Name][i] = part.Value
		}
	}
	add := func(name string, of func(Segment) float64) {
		if parts[name] == nil {
			parts[name] = map[int]float64{}
		}
		for i, s := range segments {
			if g.counts(s) {
				parts[name][i] += of(s)
			}
		}
	}
	if len(parts) == 0 && len(a.Parts) == 0 {
		add("", func(s Segment) float64 { return s.Earned })
	}
	if a.weight(partOverlong) != 0 && slices.ContainsFunc(segments, func(s Segment) bool { return g.counts(s) && s.Reward != s.Earned }) {
		add(partOverlong, func(s Segment) float64 { return s.Reward - s.Earned })
	}
	if taking > 0 && len(parts) == 0 {
		return exitcode.WithHint(exitcode.Dataf("advantage gdpo: no response of the group has a part of the reward that is weighed"),
			"the environment must return reward parts; advantage.gdpo.parts must name some of those")
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		values := make([]float64, 0, len(parts[name]))
		of := slices.Sorted(maps.Keys(parts[name]))
		for _, i := range of {
			values = append(values, parts[name][i])
		}
		if isConstant(values) {
			continue
		}
		centre, scale := mean(values), std(values, 1)
		for j, i := range of {
			segments[i].Advantage += a.weight(name) * (values[j] - centre) / (scale + a.Epsilon)
		}
	}
	return nil
}

// Whole normalises over the iteration.
func (a gdpo) Whole(groups []Group, segments [][]Segment) error {
	var taking []*Segment
	var values []float64
	for g, group := range groups {
		for i := range segments[g] {
			if s := &segments[g][i]; group.counts(*s) {
				taking, values = append(taking, s), append(values, s.Advantage)
			}
		}
	}
	if isConstant(values) {
		for _, s := range taking {
			s.Advantage = 0
		}
		return nil
	}
	centre, scale := mean(values), std(values, 1)
	for i, s := range taking {
		s.Advantage = (values[i] - centre) / (scale + a.Epsilon)
		if math.IsNaN(s.Advantage) {
			return exitcode.Bugf("advantage gdpo: NaN of %v", values[i])
		}
	}
	return nil
}
