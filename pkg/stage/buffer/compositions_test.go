package buffer_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/scaffold"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
)

// TestCompositions takes the registered choices in pairs: every choice of every axis,
// environments and curricula among them, meets every choice of every other one. Each
// composition is either refused when the recipe is read, with its reason, or turns a few
// traces into a batch, a state and a plan. The reasons are printed, each once.
func TestCompositions(t *testing.T) {
	t.Parallel()
	axes := []axis{
		{"environment", []string{"smoke", "tooluse-smoke"}},
		{"curriculum.name", curriculum.Axis.Names()},
		{"scaffold.name", scaffold.Axis.Names()}, // what a buffer sees of it is the traces, here the same for all
		{"segments", credit.SegmentsAxis.Names()},
		{"reward.name", credit.RewardAxis.Names()},
		{"select", []string{"none", "all", "steps"}},
		{"advantage.name", credit.AdvantageAxis.Names()},
		{"factors", append([]string{""}, credit.FactorAxis.Names()...)},
		{"weight", credit.WeightAxis.Names()},
	}
	rigs := map[string]*stagetest.Reduction{}
	for _, environment := range axes[0].values {
		rigs[environment] = stagetest.Traces(t, environment)
	}
	ran, refusals, refused := 0, 0, map[string]int{} // by reason
	for p := newPairs(axes); ; {
		composition, left := p.next()
		if !left {
			break
		}
		environment, settings := axes[0].values[composition[0]], []string{"score.embedding=ngrams"}
		for i, value := range composition[1:] {
			settings = append(settings, fieldSettings(axes[i+1].field, axes[i+1].values[value])...)
		}
		resolved, err := recipe.Load("../../../jobs/"+environment+".yaml", settings)
		if err != nil {
			if exitcode.Code(err) != exitcode.Usage {
				t.Fatalf("%v is refused with exit code %d: %v", settings, exitcode.Code(err), err)
			}
			_, reasons, _ := strings.Cut(err.Error(), ".yaml: ")
			if _, several, ok := strings.Cut(reasons, "\n"); ok {
				reasons = several
			}
			for _, reason := range strings.Split(reasons, "\n") {
				refused[strings.TrimSpace(reason)]++
			}
			refusals++
			p.refused(composition)
			continue
		}
		f := rigs[environment]
		f.Recipe = resolved.Recipe
		f.Outputs("composition")
		if err := f.Try(); err != nil {
			t.Fatalf("%s, %v: %v", environment, settings, err)
		}
		batch, _, err := arrowfile.ReadBatch(f.Context(), f.In.BatchOutput, seal.Options{})
		f.Check(err)
		f.Check(os.RemoveAll(f.Path("composition"))) // what is sealed is never made again
		if len(batch) == 0 {
			if axes[5].values[composition[5]] != "all" {
				t.Fatalf("%s, %v: nothing is learned from", environment, settings)
			}
			p.refused(composition) // its filters may drop these few traces: met with others
			continue
		}
		p.met(composition)
		ran++
	}
	t.Logf("%d compositions run, %d are refused", ran, refusals)
	for _, reason := range slices.Sorted(maps.Keys(refused)) {
		t.Logf("refused %d times: %s", refused[reason], reason)
	}
	if ran == 0 {
		t.Error("no composition runs")
	}
}

// axis is a field of recipes with its choices.
type axis struct {
	field  string
	values []string
}

// pairs lists compositions until every two choices of different axes have met in one
// that runs. Two that are refused whatever they stand with are given up.
type pairs struct {
	axes  []axis
	draw  *rand.Rand
	tries map[[4]int]int // of a pair, as axis and choice twice; met ones are not in it
}

const mostRefusals = 12

func newPairs(axes []axis) *pairs {
	p := &pairs{axes, rand.New(rand.NewPCG(1, 2)), map[[4]int]int{}}
	for i := range axes {
		for j := range i {
			for a := range axes[i].values {
				for b := range axes[j].values {
					p.tries[[4]int{i, a, j, b}] = 0
				}
			}
		}
	}
	return p
}

// next is a random composition with the first pair that has not met.
func (p *pairs) next() (composition []int, left bool) {
	if len(p.tries) == 0 {
		return nil, false
	}
	first := slices.MinFunc(slices.Collect(maps.Keys(p.tries)), func(a, b [4]int) int { return slices.Compare(a[:], b[:]) })
	composition = make([]int, len(p.axes))
	for i, a := range p.axes {
		composition[i] = p.draw.IntN(len(a.values))
	}
	composition[first[0]], composition[first[2]] = first[1], first[3]
	return composition, true
}

func (p *pairs) each(composition []int, do func(pair [4]int)) {
	for i, a := range composition {
		for j, b := range composition[:i] {
			do([4]int{i, a, j, b})
		}
	}
}

func (p *pairs) met(composition []int) {
	p.each(composition, func(pair [4]int) { delete(p.tries, pair) })
}

func (p *pairs) refused(composition []int) {
	p.each(composition, func(pair [4]int) {
		if _, open := p.tries[pair]; !open {
			return
		}
		if p.tries[pair]++; p.tries[pair] == mostRefusals {
			delete(p.tries, pair)
		}
	})
}

// fieldSettings are what --set says of a choice.
func fieldSettings(field, value string) []string {
	switch {
	case field == "select" && value == "steps":
		return []string{"select=[no_submission, invalid_turns, {below_percentile: {percentile: 30, submissions: 2}}, {not_improved: {threshold: 0, exempt_first: true}}]"}
	case field == "select" && value == "none":
		return []string{"select=[]"}
	case field == "select":
		return []string{"select=[constant_group, overlong, invalid, {min_advantage: {magnitude: 0.01}}, below_top]"}
	case field == "factors" && value == "":
		return []string{"factors=[]"}
	case field == "factors":
		return []string{"factors=[" + value + "]"}
	case field == "advantage.name" && value == "teacher":
		return []string{"advantage.name=teacher", "advantage.teacher={coef: 1, version: 0}"}
	case field == "advantage.name" && value == "gae":
		return []string{"advantage.name=gae", "policy.critic=model", "advantage.baseline=none", "advantage.scale=none"}
	}
	return []string{field + "=" + value}
}
