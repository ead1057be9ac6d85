package credit

import "github.com/lathe-rl/lathe/pkg/recipe"

// New composes what a recipe names.
func New(r recipe.Recipe) (Composition, error) {
	var c Composition
	var err error
	if c.Segments, err = SegmentsAxis.Make("trajectory", nil); err != nil {
		return c, err
	}
	reward := "verdict"
	if r.Env.Answer.StepImprovement {
		reward = "improvement"
	}
	if c.Reward, err = RewardAxis.Make(reward, nil); err != nil {
		return c, err
	}
	if c.Advantage, err = AdvantageAxis.Make(r.Advantage.Kind, &r.Advantage); err != nil {
		return c, err
	}
	on := map[string]any{ReasonMinGroup: &Limit{float64(r.Filters.MinGroup)}, ReasonMinAdvantage: &Limit{r.Filters.MinAdvantage}}
	for name, is := range map[string]bool{ReasonConstantGroup: r.Filters.ConstantGroup, ReasonOverlong: r.Filters.Overlong, ReasonInvalid: r.Filters.Invalid} {
		if is {
			on[name] = nil
		}
	}
	names := make([]string, 0, len(on))
	for name := range on {
		names = append(names, name)
	}
	for _, name := range Ordered(names) {
		choice, err := SelectAxis.Make(name, on[name])
		if err != nil {
			return c, err
		}
		c.Select = append(c.Select, choice)
	}
	if r.Curriculum.Name == "exit" && r.Curriculum.Exit.DiversityBonus {
		factor, err := FactorAxis.Make("diversity", nil)
		if err != nil {
			return c, err
		}
		c.Factors = append(c.Factors, factor)
	}
	c.Clip = r.Advantage.Clip
	return c, nil
}
