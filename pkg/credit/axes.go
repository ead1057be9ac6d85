package credit

import "github.com/lathe-rl/lathe/pkg/registry"

// The axes. What a package registers here, a recipe can name.
var (
	SegmentsAxis  = registry.New[Segments]("segments")
	RewardAxis    = registry.New[Reward]("reward")
	SelectAxis    = registry.New[Select]("select")
	AdvantageAxis = registry.New[Advantage]("advantage")
	FactorAxis    = registry.New[Factor]("factor")
	WeightAxis    = registry.New[Weight]("weight")
)
