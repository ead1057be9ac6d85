package credit

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// near fails the test unless got is want to the nine decimals with which
// the frameworks' vectors were written down.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-9) {
		t.Errorf("%s = %.12f, want %.12f", what, got, want)
	}
}

func nearAll(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s has %d values, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= 1e-9) {
			t.Errorf("%s[%d] = %.12f, want %.12f", what, i, got[i], want[i])
		}
	}
}

// The group statistics of the frameworks, as their code has them (August
// 2026).
var (
	verlAdvantage     = AdvantageSettings{Baseline: "mean", Scale: "std", DDof: 1, Epsilon: 1e-6, ZeroScale: "divide", GroupOfOne: "reward"}
	trlAdvantage      = AdvantageSettings{Baseline: "mean", Scale: "std", DDof: 1, Epsilon: 1e-4, ZeroScale: "divide", GroupOfOne: "zero"}
	arealAdvantage    = AdvantageSettings{Baseline: "mean", Scale: "std", DDof: 1, Epsilon: 1e-5, ZeroScale: "divide", GroupOfOne: "zero"}
	openRLHFAdvantage = AdvantageSettings{Baseline: "mean", Scale: "std", DDof: 1, Epsilon: 1e-9, ZeroScale: "divide", GroupOfOne: "zero"}
	openInstructStd   = AdvantageSettings{Baseline: "mean", Scale: "std", DDof: 0, Epsilon: 1e-8, ZeroScale: "divide", GroupOfOne: "zero"}
	centredAdvantage  = AdvantageSettings{Baseline: "mean", Scale: "none", GroupOfOne: "zero"}
	rlooAdvantage     = AdvantageSettings{Baseline: "leave_one_out", Scale: "none", GroupOfOne: "zero"}
	maxRLPrime        = AdvantageSettings{Baseline: "mean", Scale: "mean", ZeroScale: "keep", GroupOfOne: "zero"}
	maxRLSkyRL        = AdvantageSettings{Baseline: "mean", Scale: "mean", Epsilon: 1e-6, ZeroScale: "divide", GroupOfOne: "zero"}
	nemoAdvantage     = AdvantageSettings{Baseline: "leave_one_out", Scale: "leave_one_out_std", DDof: 1, Epsilon: 1e-6, ZeroScale: "keep", GroupOfOne: "zero"}
	opoAdvantage      = AdvantageSettings{Baseline: "length_weighted", Scale: "none", GroupOfOne: "zero"}
)

func allValid(n int) []bool { return slices.Repeat([]bool{true}, n) }

func clipped(spec AdvantageSettings, to float64) AdvantageSettings {
	spec.Clip = to
	return spec
}

// What the frameworks that the cases name give, worked out in float64 from the
// formula of each.
func TestAdvantagesOfTheFrameworks(t *testing.T) {
	t.Parallel()
	oneOfFour := []float64{1, 0, 0, 0}
	twoOfFour := []float64{1, 1, 0, 0}
	graded := []float64{.2, .5, .9, .4}
	for _, test := range []struct {
		name    string
		spec    AdvantageSettings
		rewards []float64
		lengths []int
		want    []float64
	}{
		{"verl, slime, SkyRL", verlAdvantage, oneOfFour, nil, []float64{1.499997000006, -.499999000002, -.499999000002, -.499999000002}},
		{"TRL", trlAdvantage, oneOfFour, nil, []float64{1.499700059988, -.499900019996, -.499900019996, -.499900019996}},
		{"AReaL group", arealAdvantage, oneOfFour, nil, []float64{1.499970000600, -.499990000200, -.499990000200, -.499990000200}},
		{"OpenRLHF", openRLHFAdvantage, oneOfFour, nil, []float64{1.499999997000, -.499999999000, -.499999999000, -.499999999000}},
		{"open-instruct standard", openInstructStd, oneOfFour, nil, []float64{1.732050767569, -.577350255856, -.577350255856, -.577350255856}},
		{"centred: open-instruct, Dr.GRPO, prime-rl, tinker", centredAdvantage, oneOfFour, nil, []float64{.75, -.25, -.25, -.25}},
		{"RLOO", rlooAdvantage, oneOfFour, nil, []float64{1, -1. / 3, -1. / 3, -1. / 3}},
		{"MaxRL, prime-rl", maxRLPrime, oneOfFour, nil, []float64{3, -1, -1, -1}},
		{"MaxRL, SkyRL", maxRLSkyRL, oneOfFour, nil, []float64{2.999988000048, -.999996000016, -.999996000016, -.999996000016}},
		{"NeMo leave-one-out: the first divisor is 0 and left out", nemoAdvantage, oneOfFour, nil, []float64{1, -.577349269191, -.577349269191, -.577349269191}},
		// By hand: the others of .7 have -(3/70) / (.3/√7 + 1e-6).
		{"NeMo: seven equal others have a divisor of exactly 0", nemoAdvantage, []float64{1, .7, .7, .7, .7, .7, .7, .7}, nil, append([]float64{.3}, slices.Repeat([]float64{-.377961139705}, 7)...)},
		{"verl", verlAdvantage, twoOfFour, nil, []float64{.866023903787, .866023903787, -.866023903787, -.866023903787}},
		{"open-instruct standard", openInstructStd, twoOfFour, nil, []float64{.99999998, .99999998, -.99999998, -.99999998}},
		{"NeMo", nemoAdvantage, twoOfFour, nil, []float64{1.154698538383, 1.154698538383, -1.154698538383, -1.154698538383}},
		{"verl", verlAdvantage, graded, nil, []float64{-1.019045869203, 0, 1.358727825605, -.339681956401}},
		{"open-instruct standard", openInstructStd, graded, nil, []float64{-1.176696764675, 0, 1.568929019567, -.392232254892}},
		{"NeMo", nemoAdvantage, graded, nil, []float64{-1.511852177773, 0, 3.491463386783, -.379662117223}},
		{"NeMo, clipped", clipped(nemoAdvantage, 1.5), graded, nil, []float64{-1.5, 0, 1.5, -.379662117223}},
		{"NeMo, clipped", clipped(nemoAdvantage, .25), graded, nil, []float64{-.25, 0, .25, -.25}},
		{"no baseline keeps rewards", AdvantageSettings{Baseline: "none", Scale: "none", GroupOfOne: "reward"}, []float64{1, 1, 1}, nil, []float64{1, 1, 1}},
		{"RLOO", rlooAdvantage, graded, nil, []float64{-.4, 0, .533333333333, -.133333333333}},
		{"OPO", opoAdvantage, []float64{1, 0}, []int{2, 4}, []float64{2. / 3, -1. / 3}},
		{"OPO of empty responses weighs them alike", opoAdvantage, []float64{1, 0}, []int{0, 0}, []float64{.5, -.5}},
		// Of the complete step in step_test.go.
		{"verl, group of two", verlAdvantage, []float64{1, 0}, nil, []float64{.707105781188, -.707105781188}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := GroupAdvantages(test.spec, test.rewards, allValid(len(test.rewards)), test.lengths)
			if err != nil {
				t.Fatal(err)
			}
			nearAll(t, "advantage", got, test.want)
		})
	}
}

var everyAdvantage = []AdvantageSettings{
	verlAdvantage, trlAdvantage, arealAdvantage, openRLHFAdvantage, openInstructStd, centredAdvantage,
	rlooAdvantage, maxRLPrime, maxRLSkyRL, nemoAdvantage, opoAdvantage,
	{Baseline: "mean", Scale: "std", ZeroScale: "divide", GroupOfOne: "zero"},
}

// Seven rewards of 0.7 have, in floating point, a
// mean that is not 0.7, and a standard deviation as small as the difference.
// In float32 the quotient is 0.912.
func TestConstantGroupIsExactlyZero(t *testing.T) {
	t.Parallel()
	for _, spec := range everyAdvantage {
		for n := 2; n <= 257; n++ {
			for _, reward := range []float64{.7, .1, 1. / 3, 1e-300, -2.3, 0, 1} {
				rewards, lengths := make([]float64, n), make([]int, n)
				for i := range rewards {
					rewards[i], lengths[i] = reward, i+1
				}
				got, err := GroupAdvantages(spec, rewards, allValid(n), lengths)
				if err != nil {
					t.Fatal(err)
				}
				for i, a := range got {
					if a != 0 {
						t.Fatalf("%+v: %d rewards of %v: advantage %d = %g, want exactly 0", spec, n, reward, i, a)
					}
				}
			}
		}
	}
}

// verl gives a lone response r/(1+1e-6); the others have nothing to compare
// it with.
func TestGroupOfOne(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		spec AdvantageSettings
		want float64
	}{
		{verlAdvantage, .4999995000005}, // 0.5 / 1.000001
		{trlAdvantage, 0},
		{nemoAdvantage, 0},
		{AdvantageSettings{Baseline: "mean", Scale: "none", Epsilon: 1, GroupOfOne: "reward"}, .5},
		// Without a baseline there is nothing to compare it with anyway.
		{AdvantageSettings{Baseline: "none", Scale: "none", GroupOfOne: "zero"}, .5},
		{AdvantageSettings{Baseline: "none", Scale: "std", ZeroScale: "keep", GroupOfOne: "zero"}, .5},
		{AdvantageSettings{Baseline: "none", Scale: "leave_one_out_std", ZeroScale: "keep", GroupOfOne: "zero"}, .5},
	} {
		got, err := GroupAdvantages(test.spec, []float64{9, .5, -3}, []bool{false, true, false}, nil)
		if err != nil {
			t.Fatal(err)
		}
		nearAll(t, "advantage", got, []float64{0, test.want, 0})
	}
}

// open-instruct#1887: responses that our own failure ended are not rewards
// of 0. With the invalid one the mean would be 0.5.
func TestInvalidResponsesDoNotCount(t *testing.T) {
	t.Parallel()
	got, err := GroupAdvantages(centredAdvantage, []float64{1, math.NaN(), 1, .4}, []bool{true, false, true, true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	nearAll(t, "advantage", got, []float64{.2, 0, .2, -.4})

	got, err = GroupAdvantages(verlAdvantage, []float64{1, 0}, []bool{false, false}, nil)
	if err != nil {
		t.Fatal(err)
	}
	nearAll(t, "advantage", got, []float64{0, 0})
}

func TestAdvantageErrors(t *testing.T) {
	t.Parallel()
	zeroDivisor := AdvantageSettings{Baseline: "leave_one_out", Scale: "leave_one_out_std", DDof: 1, ZeroScale: "divide", GroupOfOne: "zero"}
	for _, test := range []struct {
		name    string
		spec    AdvantageSettings
		rewards []float64
		valid   []bool
		lengths []int
		code    int
		want    string
	}{
		{"NaN reward", verlAdvantage, []float64{0, math.NaN()}, allValid(2), nil, exitcode.Data, "reward of response 1 is NaN"},
		{"infinite reward", verlAdvantage, []float64{math.Inf(-1), 0}, allValid(2), nil, exitcode.Data, "reward of response 0 is -Inf"},
		{"divisor 0 and epsilon 0", zeroDivisor, []float64{1, 0, 0}, allValid(3), nil, exitcode.Data, "advantage of response 0 is +Inf: set advantage.epsilon"},
		{"shapes", verlAdvantage, []float64{1, 0}, allValid(3), nil, exitcode.Bug, "2 rewards, 3 valid marks"},
		{"no lengths", opoAdvantage, []float64{1, 0}, allValid(2), nil, exitcode.Bug, "2 rewards, 0 lengths"},
		{"baseline", AdvantageSettings{Baseline: "median", GroupOfOne: "zero"}, []float64{1, 0}, allValid(2), nil, exitcode.Usage, `advantage.baseline: unknown value "median"`},
		{"scale", AdvantageSettings{Baseline: "mean", Scale: "range"}, []float64{1, 0}, allValid(2), nil, exitcode.Usage, `advantage.scale: unknown value "range"`},
		{"zero_scale", AdvantageSettings{Baseline: "leave_one_out", Scale: "leave_one_out_std"}, []float64{1, 0}, allValid(2), nil, exitcode.Usage, `advantage.zero_scale: unknown value ""`},
		{"group_of_one", AdvantageSettings{Baseline: "mean"}, []float64{1}, allValid(1), nil, exitcode.Usage, `advantage.group_of_one: unknown value ""`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := GroupAdvantages(test.spec, test.rewards, test.valid, test.lengths)
			if err == nil || !strings.Contains(err.Error(), test.want) || exitcode.Code(err) != test.code {
				t.Errorf("error %v (code %d), want %q (code %d)", err, exitcode.Code(err), test.want, test.code)
			}
		})
	}
}

// Whitening by REINFORCE++, and of the advantages of TestGAE as a batch of
// three tokens, worked out in float64 from the formulas of the frameworks named.
func TestWhiten(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		advantages []float64
		tokens     []int
		ddof       int
		want       []float64
	}{
		{"REINFORCE++, verl: two tokens of 1, four of 0", []float64{1, 0}, []int{2, 4}, 1, []float64{1.290994424530, -.645497212265}},
		{"the same per token", []float64{1, 1, 0, 0, 0, 0, 9}, []int{1, 1, 1, 1, 1, 1, 0}, 1, []float64{1.290994424530, 1.290994424530, -.645497212265, -.645497212265, -.645497212265, -.645497212265, 0}},
		{"REINFORCE++ baseline", []float64{.5, -.5}, []int{2, 4}, 1, []float64{1.290994424530, -.645497212265}},
		{"GAE, ddof 1: verl, TRL, SkyRL", []float64{.46575, .385, .3}, []int{1, 1, 1}, 1, []float64{.991343647304, .017092131850, -1.008435779154}},
		{"GAE, ddof 0: OpenRLHF", []float64{.46575, .385, .3}, []int{1, 1, 1}, 0, []float64{1.214143931507, .020933516060, -1.235077447568}},
		{"constant", []float64{.7, .7, .7, .7, .7, .7, .7}, []int{3, 1, 4, 1, 5, 9, 2}, 1, make([]float64, 7)},
		{"one token", []float64{2, 5}, []int{1, 0}, 1, []float64{0, 0}},
		{"what has no tokens is not looked at", []float64{math.NaN(), 1, 0}, []int{0, 2, 4}, 1, []float64{0, 1.290994424530, -.645497212265}},
		{"no tokens", []float64{2, 5}, []int{0, 0}, 0, []float64{0, 0}},
		{"empty", nil, nil, 1, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Whiten(test.advantages, test.tokens, test.ddof)
			if err != nil {
				t.Fatal(err)
			}
			nearAll(t, "advantage", got, test.want)
		})
	}
	if _, err := Whiten([]float64{1}, []int{1, 1}, 1); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("a token count too many: error %v, want a bug", err)
	}
	if _, err := Whiten([]float64{1, math.NaN()}, []int{1, 1}, 1); err == nil || exitcode.Code(err) != exitcode.Data {
		t.Errorf("NaN advantage: error %v, want a data error", err)
	}
}

// Every advantage is the same wherever its response stands in the group, and
// whatever invalid responses stand beside it.
func TestAdvantagesDoNotDependOnOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := rapid.SampledFrom(everyAdvantage).Draw(t, "spec")
		spec.Epsilon = max(spec.Epsilon, 1e-8)
		n := rapid.IntRange(2, 12).Draw(t, "n")
		rewards := rapid.SliceOfN(rapid.SampledFrom([]float64{0, .1, .25, .7, 1}), n, n).Draw(t, "rewards")
		lengths := rapid.SliceOfN(rapid.IntRange(1, 9), n, n).Draw(t, "lengths")
		straight, err := GroupAdvantages(spec, rewards, allValid(n), lengths)
		if err != nil {
			t.Fatal(err)
		}

		order := rapid.Permutation(indices(n)).Draw(t, "order")
		var moved []float64
		var movedLengths []int
		var valid []bool
		for _, i := range order {
			moved = append(moved, rewards[i], math.NaN())
			movedLengths = append(movedLengths, lengths[i], 5)
			valid = append(valid, true, false)
		}
		shuffled, err := GroupAdvantages(spec, moved, valid, movedLengths)
		if err != nil {
			t.Fatal(err)
		}
		for j, i := range order {
			if math.Abs(shuffled[2*j]-straight[i]) > 1e-9*(1+math.Abs(straight[i])) || shuffled[2*j+1] != 0 {
				t.Fatalf("response %d: %v in order, %v at place %d", i, straight[i], shuffled[2*j], 2*j)
			}
		}
	})
}

func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}
