package credit

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/config/configtest"
)

// around is a section advantage with what it is checked against.
type around struct {
	Advantage AdvantageSettings `yaml:"advantage"`
	Critic    string            `yaml:"critic"`
	Group     int               `yaml:"group"`
}

func TestValidate(t *testing.T) {
	t.Parallel()
	const byCritic, alone = "advantage.name=gae critic=head ", "advantage.baseline=none advantage.scale=none "
	const others, of0 = "advantage.scale=leave_one_out_std ", " advantage.epsilon=0"
	rows := map[string]string{
		"": "", "advantage.ddof=1": "", "advantage.whitening_ddof=1": "", alone + of0: "", alone + "group=1": "",
		"advantage.ddof=-1": "advantage.ddof", "advantage.whitening_ddof=-1": "advantage.whitening_ddof",
		"advantage.scale=std" + of0: "", others: "", others + of0: "advantage.zero_scale",
		others + "advantage.zero_scale=keep" + of0: "", others + "advantage.epsilon=1": "",
		others + "advantage.zero_scale=x" + of0: "advantage.zero_scale",
		"advantage.baseline=none":               "advantage.zero_scale", others + "advantage.baseline=none": "advantage.zero_scale",
		"advantage.baseline=none advantage.name=none":        "",
		"advantage.baseline=none advantage.scale=mean":       "",
		"advantage.baseline=none advantage.scale=mean" + of0: "advantage.zero_scale",
		"advantage.scale=mean" + of0:                         "",
		"critic=head":                                        "policy.critic",
		byCritic + alone:                                     "",
		"advantage.name=gae " + alone:                        "advantage.name",
		byCritic + "advantage.clip=1":                        "advantage.baseline advantage.scale advantage.clip",
		"group=1":                                            "rollout.group",
		"group=1 advantage.group_of_one=reward":              "",
		"group=2 advantage.ddof=1":                           "",
		"group=2 " + others:                                  "",
		"group=2 advantage.ddof=1 " + others:                 "rollout.group",
		"group=3 advantage.ddof=1 " + others:                 "",
	}
	for field, wrong := range map[string]string{
		"gamma": "1.1", "lambda": "-1", "masked": "x", "baseline": "x", "scale": "x", "ddof": "2", "epsilon": "-1",
		"zero_scale": "x", "group_of_one": "x", "clip": "-1", "whitening_ddof": "2",
	} {
		rows["advantage."+field+"="+wrong] = "advantage." + field
	}
	configtest.Checks(t, func() *around {
		return &around{AdvantageSettings{
			Name: "group", Gamma: 1, Lambda: 1, Masked: "skip", Baseline: "mean", Scale: "std", Epsilon: 1e-6, ZeroScale: "divide", GroupOfOne: "zero",
		}, "none", 4}
	}, func(s *around, c *config.Checker) { s.Advantage.Validate(c, s.Critic, s.Group) }, rows)
}

// The form of earlier versions says what the new one does, choice by choice.
func TestFilters(t *testing.T) {
	t.Parallel()
	all := Named(ReasonConstantGroup, ReasonMinGroup, ReasonOverlong, ReasonInvalid, ReasonMinAdvantage, ReasonInvalidTurns, ReasonNoSubmission, ReasonNonPositive, ReasonBelowPercentile, ReasonBelowTop, ReasonNotImproved)
	for i := range all {
		all[i].Settings.(*Picked).Mask = i%3 == 1
	}
	old := Filters{
		ConstantGroup: true, Overlong: true, Invalid: true, MinGroup: 2, MinAdvantage: .5, Masked: []string{ReasonMinGroup, ReasonMinAdvantage, ReasonNonPositive, ReasonNotImproved},
		BelowPercentile: BelowPercentile{70, 16}, BelowTop: Top{.5}, InvalidTurns: oldSwitch{true}, NoSubmission: oldSwitch{true}, NonPositive: oldSwitch{true},
		NotImproved: oldNotImproved{true, NotImproved{Threshold: .01}},
	}
	without := old // with a threshold it ran, and was not meant
	without.NotImproved.Enabled = false
	for i, diff := range []string{
		cmp.Diff(old, all.OldForm()), cmp.Diff(all, old.Meant()), cmp.Diff(all, old.Done()),
		cmp.Diff(all[:10], without.Meant()), cmp.Diff(all, without.Done()),
		cmp.Diff(Filters{MinGroup: 1}, Selection(nil).OldForm()), cmp.Diff(Selection(nil), Filters{MinGroup: 1}.Meant()), cmp.Diff(Selection(nil), Filters{}.Done()),
	} {
		if diff != "" {
			t.Errorf("comparison %d (-want +got):\n%s", i, diff)
		}
	}
	for _, pick := range all {
		one := Selection{pick}
		if diff := cmp.Diff(one, one.OldForm().Meant()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", pick.Name, diff)
		}
	}
}
