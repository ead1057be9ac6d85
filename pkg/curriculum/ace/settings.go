package ace

import (
	_ "embed"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/registry"
)

//go:embed settings.go
var source string

var _ = []any{config.Docs[Settings](source), config.Docs[Stage](source)}

// Settings are those of AceGRPO Tab. 3.
type Settings struct {
	UncertaintyWeight float64 `yaml:"uncertainty_weight"` // of the standard deviation of a state's rewards in its potential (AceGRPO Eq. 7; AceGRPO Tab. 3: α 0.5)
	HeadroomWeight    float64 `yaml:"headroom_weight"`    // of 1 less their mean (AceGRPO Eq. 7: λ)
	MaxDeviation      float64 `yaml:"max_deviation"`      // bound on the standard deviation (AceGRPO Eq. 7: δ_max)
	InitialPotential  float64 `yaml:"initial_potential"`  // of a state that has not been sampled (P_init)

	Penalty float64 `yaml:"penalty"` // γ of a visit (AceGRPO Eq. 9)
	Decay   float64 `yaml:"decay"`   // η of a penalty, by step (AceGRPO Eq. 9)
	History int     `yaml:"history"` // most recent visits of a state that are remembered
	Draft   float64 `yaml:"draft"`   // multiplies the weights of states to draft
	Debug   float64 `yaml:"debug"`   // of states to debug
	Improve float64 `yaml:"improve"` // of states to improve on

	StageBy string  `yaml:"stage_by" choices:"states,steps"` // what the stages begin at: states of the buffer, or steps of training
	Stages  []Stage `yaml:"stages"`                          // of the schedule, by where they begin

	Grow     bool `yaml:"grow"`     // what responses lead to enters the buffer; false leaves the first attempts alone (AceGRPO Tab. 2: without the evolving data buffer)
	Adaptive bool `yaml:"adaptive"` // false draws every state with the same probability (AceGRPO Tab. 2: without adaptive sampling)

	PerSecond bool `yaml:"per_second"` // ranks states by potential over the seconds that their task's programs are expected to take; no paper's
}

// Stage is a part of the schedule.
type Stage struct {
	From      int     `yaml:"from"`       // states, or steps, at which the stage begins; the first at 0
	Rho       float64 `yaml:"rho"`        // ρ: how much weights focus on high potentials (AceGRPO Eq. 8)
	MinWeight float64 `yaml:"min_weight"` // least weight before cooling; the highest is 1
	Epsilon   float64 `yaml:"epsilon"`    // share of the draws that is uniform
	Top       float64 `yaml:"top"`        // share of the states of the buffer, by potential, that is considered (AceGRPO Tab. 3)
	Block     int     `yaml:"block"`      // Δ_hard: steps that a state rests after a visit (AceGRPO Eq. 9)
}

// DefaultSettings are those of AceGRPO Tab. 3 and App. B.4.
func DefaultSettings() *Settings {
	return &Settings{
		UncertaintyWeight: 0.5, HeadroomWeight: 0.5, MaxDeviation: 1, InitialPotential: 0.05,
		Penalty: 0.3, Decay: 0.9, History: 20, Draft: 2, Debug: 1, Improve: 1,
		StageBy: "states", Stages: []Stage{
			{From: 0, Rho: 2, MinWeight: 0.01, Epsilon: 0.2, Top: 1, Block: 1},
			{From: 200, Rho: 3.5, MinWeight: 0.005, Epsilon: 0.15, Top: 1, Block: 2},
			{From: 1000, Rho: 5, MinWeight: 0.001, Epsilon: 0.1, Top: 0.4, Block: 3},
		},
		Grow: true, Adaptive: true,
	}
}

func init() {
	curriculum.Axis.Register(registry.Choice[curriculum.Maker]{
		Name: Name, Summary: "a buffer that grows by what responses lead to, drawn from by learnability (AceGRPO §4)",
		Settings: func() any { return DefaultSettings() },
		Validate: func(c *config.Checker, settings any) { validate(c, settings.(*Settings)) },
		Make: func(settings any) (curriculum.Maker, error) {
			return func(seed uint64) curriculum.Curriculum { return New(*settings.(*Settings), seed) }, nil
		},
	})
}

func validate(c *config.Checker, s *Settings) {
	const section = "curriculum." + Name
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"uncertainty_weight", s.UncertaintyWeight},
		{"headroom_weight", s.HeadroomWeight},
		{"max_deviation", s.MaxDeviation},
		{"initial_potential", s.InitialPotential},
	} {
		c.NotNegative(section+"."+f.name, f.value)
	}
	c.Share(section+".penalty", s.Penalty)
	c.Share(section+".decay", s.Decay)
	c.AtLeast(section+".history", s.History, 1)
	c.Positive(section+".draft", s.Draft)
	c.Positive(section+".debug", s.Debug)
	c.Positive(section+".improve", s.Improve)
	c.Choice(section+".stage_by", s.StageBy)
	if len(s.Stages) == 0 {
		c.Add(section+".stages", nil, "is empty: name a stage that begins at 0")
	}
	for i, stage := range s.Stages {
		field := fmt.Sprintf("%s.stages.%d", section, i)
		switch {
		case i == 0 && stage.From != 0:
			c.Add(field+".from", stage.From, "must be 0: the first stage begins with the run")
		case i > 0 && stage.From <= s.Stages[i-1].From:
			c.Add(field+".from", stage.From, "must be above that of the stage before")
		}
		c.NotNegative(field+".rho", stage.Rho)
		c.Share(field+".min_weight", stage.MinWeight)
		c.Share(field+".epsilon", stage.Epsilon)
		if c.Share(field+".top", stage.Top) && stage.Top == 0 {
			c.Add(field+".top", stage.Top, "must be above 0")
		}
		c.AtLeast(field+".block", stage.Block, 0)
	}
}
