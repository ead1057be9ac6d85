package credit

import (
	"slices"
	"strings"
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
		"group=1 advantage.name=none":                        "",
		"group=1 advantage.name=tail_rl":                     "rollout.group",
		"group=1 advantage.name=gdpo " + alone:               "rollout.group",
		"group=2 advantage.name=entropic":                    "rollout.group",
		"group=3 advantage.name=entropic":                    "",
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

// choices are the sections of a recipe whose choices are made here, with what these are
// checked against.
type choices struct {
	Select    Selection         `yaml:"select"`
	Factors   FactorPicks       `yaml:"factors"`
	Segments  SegmentsPick      `yaml:"segments"`
	Weight    WeightPick        `yaml:"weight"`
	Advantage AdvantageSettings `yaml:"advantage"`
	Rollout   struct {
		Group int `yaml:"group"`
	} `yaml:"rollout"`
	Loss struct {
		Kind string `yaml:"kind"`
	} `yaml:"loss"`
	Score struct {
		Embedding string `yaml:"embedding"`
	} `yaml:"score"`
}

func TestChoices(t *testing.T) {
	t.Parallel()
	rows := map[string]string{"": "", "rollout.group=1": "", "loss.kind=nll": ""}
	of := func(section, name string, settings map[string]string) { // by what is set of a choice
		for set, refused := range settings {
			rows[section+"=["+name+"] "+strings.ReplaceAll(set, ".", section+"."+name+".")] = strings.ReplaceAll(refused, ".", section+"."+name+".")
		}
	}
	of("select", ReasonMinGroup, map[string]string{"": "", ".responses=1": "", ".responses=0": ".responses", ".responses=4": "", ".responses=5": ".responses"})
	rows["select=[min_group] rollout%group=0"] = ""
	of("select", ReasonConstantGroup, map[string]string{"": ""})
	rows["select=[constant_group] rollout%group=1"] = "rollout%group"
	of("select", ReasonMinAdvantage, map[string]string{"": "", ".magnitude=0": ".magnitude"})
	rows["select=[min_advantage] advantage%name=gae"] = "select%min_advantage%magnitude"
	of("select", ReasonBelowTop, map[string]string{"": "", ".share=1": "", ".share=1%1": ".share", ".share=0": ".share"})
	rows["select=[below_top,min_advantage]"], rows["select=[below_top,min_advantage] loss%kind=nll"] = "", "select%min_advantage"
	of("select", ReasonBelowPercentile, map[string]string{"": "", ".percentile=0": ".percentile", ".percentile=100": ".percentile", ".percentile=0%5": "", ".submissions=0": ".submissions", ".submissions=1": ""})
	of("select", ReasonNotImproved, map[string]string{"": "", ".threshold=1": "", ".threshold=-1": "", ".threshold=1%1": ".threshold", ".threshold=-1%1": ".threshold"})
	of("factors", "duration", map[string]string{
		"": "", ".mean=x": ".mean", ".all_zero=1%1": ".all_zero", ".no_program=-1": ".no_program", ".multiplies=x": ".multiplies",
		"loss%kind=nll": "factors", "loss%kind=nll .multiplies=weight": "", "loss%kind=nll .multiplies=both": "factors",
	})
	of("factors", "diversity", map[string]string{"": "", ".bound=1": "", ".bound=0%5": ".bound", "score%embedding=none": "factors"})
	rows["factors=[diversity,duration] loss%kind=nll"], rows["factors=[duration] score%embedding=none"] = "factors", ""
	dotted := map[string]string{}
	for set, refused := range rows {
		dotted[strings.ReplaceAll(set, "%", ".")] = strings.ReplaceAll(refused, "%", ".")
	}
	configtest.Checks(t, func() *choices {
		s := &choices{Segments: SegmentsNamed("turn"), Weight: WeightNamed("token_sum")}
		s.Rollout.Group, s.Loss.Kind, s.Score.Embedding = 4, "policy", "ngrams"
		return s
	}, func(s *choices, c *config.Checker) {
		s.Select.Validate(c)
		s.Factors.Validate(c)
		s.Segments.Validate(c)
		s.Weight.Validate(c)
	}, dotted)
	// What a program picks that there is not.
	unknown := config.Pick{Name: "x", Settings: &struct{}{}}
	for name, validate := range map[string]func(*config.Checker){
		"segments": SegmentsPick{unknown}.Validate, "weight": WeightPick{unknown}.Validate,
		"factors": FactorPicks{{Name: "x", Settings: &Placed{Multiplies: MultipliesBoth}}}.Validate,
		"select":  append(Selection{{Name: "x", Settings: &Picked{}}}, Named(ReasonOverlong)...).Validate,
	} {
		c := config.NewChecker(&choices{Factors: FactorPicks{{Name: "x", Settings: &Placed{Multiplies: MultipliesBoth}}}})
		if validate(c); c.Err(name) == nil {
			t.Errorf("%s: x is a choice", name)
		}
	}
}

// What picks come to.
func TestPicks(t *testing.T) {
	t.Parallel()
	if got := SegmentsNamed("turn").Choice(); got != (Choice{"turn", nil}) || WeightNamed("token_sum").Choice() != (Choice{"token_sum", nil}) || (SegmentsPick{}).Choice() != (Choice{}) || WeightPick(nil).Choice() != (Choice{}) {
		t.Errorf("%+v", got)
	}
	both, on := FactorPicks{{Name: "a", Settings: &Placed{MultipliesBoth, &struct{}{}}}, {Name: "b", Settings: &Placed{MultipliesWeight, 7}}}, Choice{"a", nil}
	if diff := cmp.Diff([][]Choice{{on}, {on, {"b", 7}}}, [][]Choice{both.On(MultipliesAdvantage), both.On(MultipliesWeight)}); diff != "" {
		t.Errorf("factors (-want +got):\n%s", diff)
	}
	chosen := Named(ReasonMinGroup, ReasonOverlong).With(ReasonMinGroup, &MinGroup{7})
	if own, ok := chosen.Of(ReasonMinGroup); !slices.Equal(chosen.Names(), []string{ReasonOverlong, ReasonMinGroup}) || !ok || *own.(*MinGroup) != (MinGroup{7}) {
		t.Errorf("%v, %v", chosen, own)
	}
	if offers := (Selection{}).Offers(); offers.Of(ReasonEmpty) != nil || offers.Of(ReasonMinGroup).(*Picked).Own.(*MinGroup).Responses != 2 {
		t.Errorf("%v", offers)
	}
	if got, want := Ordered([]string{"z", "b", ReasonMinAdvantage, ReasonMinGroup}), []string{ReasonMinGroup, ReasonEmpty, ReasonMinAdvantage, "b", "z"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
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
