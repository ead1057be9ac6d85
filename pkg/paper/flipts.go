package paper

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// fliptsPaper is FlipTS: Failure-to-Success Mathematical Self-Refinement via
// Trajectory-Aware Sampling in End-to-End Online RL. FlipTS Fig. 1 and 2 are diagrams,
// and FlipTS Tab. 6 has words alone.
var fliptsPaper = paper{
	name: "flipts", title: "FlipTS: Failure-to-Success Mathematical Self-Refinement via Trajectory-Aware Sampling",
	covered: fliptsCovered,
	queries: []query{
		{
			name: "table-1", title: "Tab. 1",
			caption: "Held-out accuracy after the last turn of self-refinement, by benchmark and over all of them, by the policy that each run began with (without training) and by its last one; and the traces that were sampled in training, also as a multiple of the fewest of a method.",
			of:      lastTurn, fewest: "traces sampled",
		},
		{
			name: "table-2", title: "Tab. 2",
			caption: "Held-out accuracy of first answers (Init) and after the last turn, on the benchmarks.",
			of:      func(ctx context.Context, s *source) ([]value, error) { return s.initAndLast(ctx, recipe.RoleBenchmark) },
		},
		{
			name: "table-3", title: "Tab. 3",
			caption: "Held-out accuracy of first answers (Init) and after the last turn, on the sets with the role ood.",
			of:      func(ctx context.Context, s *source) ([]value, error) { return s.initAndLast(ctx, recipe.RoleOOD) },
		},
		{
			name: "table-4", title: "Tab. 4",
			caption: "The values of the paper's symbols in each recipe: turns T of a trace, responses G to a question, questions of a batch, and of FlipTS warm-up steps W, ξ_target, λ, pool size M, η and γ.",
			of:      symbols, exact: true,
		},
		{
			name: "table-5", title: "Tab. 5",
			caption: "Sets of held-out problems: problems that were answered, samples of each, and self-refinement steps.",
			of:      heldOutSets, exact: true,
		},
		{
			name: "figure-3", title: "Fig. 3", axis: "iteration",
			caption: "Shares of traces of training by what became of the first turn: F2S failed at first and succeeded in the last turn, and so on.",
			view:    view{measure: "transitions", labels: labels{"f2s": "F2S (%)", "s2s": "S2S (%)", "s2f": "S2F (%)", "f2f": "F2F (%)"}},
		},
		{
			name: "figure-4", title: "Fig. 4", axis: "turn",
			caption: "Held-out accuracy of the last policy by turn, by set. Turn 1 is the first answer.",
			of: func(ctx context.Context, s *source) ([]value, error) {
				values, err := scoreByStep(ctx, s, s.Last())
				for i := range values {
					values[i].measure, values[i].x = "accuracy (%)", measure.On(*values[i].x+1)
				}
				return values, err
			},
		},
		{
			name: "figure-5", title: "Fig. 5",
			caption: "Held-out accuracy of the last policy after the last turn: what questions are selected by differs between methods.",
			of: func(ctx context.Context, s *source) (values []value, err error) {
				scores, err := s.benchmarks(ctx, s.Last())
				for _, of := range scores {
					values = append(values, value{of.Set, "accuracy after the last turn (%)", nil, 100 * of.Last()})
				}
				return values, err
			},
		},
		{
			name: "figure-6", title: "Fig. 6", axis: "iteration",
			caption: "Sampling in training, shares of the iteration's traces: F2S; effective F2S, with an advantage other than 0; final success, whose last turn is right; and an advantage other than 0.",
			view: view{
				measure: "sampling_dynamics",
				labels:  labels{"f2s": "F2S (%)", "effective_f2s": "effective F2S (%)", "final_success": "final success (%)", "nonzero_advantage": "advantage other than 0 (%)"},
				lacks:   map[string]absent{"f2s": "its traces have one turn: there is no F2S"},
			},
		},
		{
			name: "figure-7", title: "Fig. 7",
			caption: "Held-out accuracy of first answers by kind of problem, before training and after: of the sets with the role ood, or of all where no set has that role.",
			of:      byKind,
		},
		{
			name: "figure-8", title: "Fig. 8", axis: "iteration",
			caption: "Accuracy of the measured versions on the validation sets after the last turn (on the benchmarks where no set has that role), by the target probability ξ_target of methods that sample by F2S.",
			all:     byTarget,
		},
		{
			name: "figure-9", title: "Fig. 9", axis: "iteration",
			caption: "The same by the size M of the candidate pool.",
			all:     byPool,
		},
	},
}

// lastTurn has the accuracies of FlipTS Tab. 1 and its rollouts.
func lastTurn(ctx context.Context, s *source) ([]value, error) {
	var values []value
	for _, when := range s.moments("without training") {
		scores, err := s.benchmarks(ctx, when.version)
		if err != nil {
			return nil, err
		}
		for _, of := range scores {
			values = append(values, value{of.Set, when.name + " (%)", nil, 100 * of.Last()})
		}
	}
	sampled, err := view{measure: "sampled_traces", labels: labels{"traces": "traces sampled"}}.of(ctx, s, s.Last())
	for i := range sampled {
		sampled[i].group = measure.AllSets
		if sets := s.Recipe.Evaluation.Counted(); len(sets) == 1 {
			sampled[i].group = sets[0]
		}
	}
	return append(values, sampled...), err
}

// benchmarks are the scores of the benchmarks and their mean.
func (s *source) benchmarks(ctx context.Context, version int) ([]measure.SetScores, error) {
	scores, err := s.Scores(ctx, version)
	counted := s.Recipe.Evaluation.Counted()
	return slices.DeleteFunc(scores, func(of measure.SetScores) bool { return of.Set != measure.AllSets && !slices.Contains(counted, of.Set) }), err
}

// initAndLast are the accuracies of first answers and last ones on the sets of a role.
func (s *source) initAndLast(ctx context.Context, role string) ([]value, error) {
	sets := s.Recipe.Evaluation.With(role)
	if len(sets) == 0 {
		return nil, absent("its recipe measures no set with the role " + role)
	}
	var values []value
	for _, when := range s.moments("without training") {
		scores, err := s.Scores(ctx, when.version)
		if err != nil {
			return nil, err
		}
		for _, of := range scores {
			if slices.Contains(sets, of.Set) {
				values = append(values, value{of.Set, when.name + ": Init (%)", nil, 100 * of.Score[0]},
					value{of.Set, fmt.Sprintf("%s: Turn-%d (%%)", when.name, len(of.Score)), nil, 100 * of.Last()})
			}
		}
	}
	return values, nil
}

// byKind has the kinds of each set with the role ood, or those of all sets where there is
// none.
func byKind(ctx context.Context, s *source) ([]value, error) {
	ood := s.Recipe.Evaluation.With(recipe.RoleOOD)
	kinds := view{measure: "accuracy_by_kind", by: "kind", labels: labels{"accuracy": "{when} (%)"}}
	if len(ood) > 0 {
		kinds.by = measure.BySetAndKind
	}
	values, err := kinds.atMoments(beforeTraining)(ctx, s)
	return slices.DeleteFunc(values, func(v value) bool {
		set, _, _ := strings.Cut(v.group, ": ")
		return len(ood) > 0 && !slices.Contains(ood, set)
	}), err
}

// sampling are the settings of FlipTS's sampling of questions. A curriculum has them by
// their names in a recipe.
type sampling struct {
	warmUp, poolSize                     int
	target, decay, refreshShare, culling float64
	event                                string
}

// samplingOf are those of the run's curriculum; false where it has none of the kind.
func (s *source) samplingOf() (own sampling, is bool) {
	settings := s.Recipe.Curriculum.Settings()
	if settings == nil {
		return own, false
	}
	is = true
	own = sampling{
		warmUp: setting[int](settings, "warm_up", &is), poolSize: setting[int](settings, "pool_size", &is), target: setting[float64](settings, "target", &is),
		decay: setting[float64](settings, "decay", &is), refreshShare: setting[float64](settings, "refresh_share", &is), culling: setting[float64](settings, "cull_share", &is),
		event: setting[string](settings, "event", &is),
	}
	return own, is
}

// setting finds a setting by its name; is becomes false where there is none.
func setting[T any](settings any, name string, is *bool) T {
	value, found := config.Find[T](settings, name)
	*is = *is && found
	return value
}

func symbols(_ context.Context, s *source) ([]value, error) {
	turns := 1
	if s.Recipe.Scaffold.Name != "" {
		turns = 1 + s.Recipe.Scaffold.Steps
	}
	values := []value{
		{"", "T", nil, float64(turns)}, {"", "G", nil, float64(s.Recipe.Rollout.Group)}, {"", "questions", nil, float64(s.Recipe.Rollout.Prompts)},
	}
	f, is := s.samplingOf()
	if !is {
		return values, absent("another curriculum, which has no W, ξ, λ, M, η and γ")
	}
	return append(values,
		value{"", "W", nil, float64(f.warmUp)}, value{"", "ξ_target", nil, f.target}, value{"", "λ", nil, f.decay}, value{"", "M", nil, float64(f.poolSize)},
		value{"", "η", nil, f.refreshShare}, value{"", "γ", nil, f.culling},
	), nil
}

func heldOutSets(ctx context.Context, s *source) ([]value, error) {
	answered, err := view{measure: "accuracy_by_step", by: "set", labels: labels{"problems": "problems"}}.of(ctx, s, s.Last())
	if err != nil {
		return nil, err
	}
	problems := map[string]float64{}
	for _, v := range answered {
		problems[v.group] = max(problems[v.group], v.y)
	}
	var values []value
	for _, m := range s.Recipe.Evaluation.Measured() {
		values = append(values, value{m.Set, "problems", nil, problems[m.Set]}, value{m.Set, "samples", nil, float64(m.Samples)}, value{m.Set, "steps", nil, float64(m.Steps)})
	}
	return values, nil
}

// byTarget has a line for each ξ_target of methods that sample by F2S.
func byTarget(ctx context.Context, runs []*source) ([]own, error) {
	return ablation(ctx, runs, "ξ_target", func(f sampling) float64 { return f.target })
}

// byPool has a line for each size of the candidate pool.
func byPool(ctx context.Context, runs []*source) ([]own, error) {
	return ablation(ctx, runs, "M", func(f sampling) float64 { return float64(f.poolSize) })
}

// byVersion is the mean accuracy of the validation sets after the last turn of each measured
// version; that of the benchmarks where no set has that role.
func (s *source) byVersion(ctx context.Context) ([]value, error) {
	const label = "accuracy (%)"
	if len(s.Recipe.Evaluation.With(recipe.RoleValidation)) == 0 {
		return view{measure: "accuracy_by_version", labels: labels{"accuracy": label}}.of(ctx, s, 0)
	}
	var values []value
	for _, version := range s.Graph.EvaluatedVersions() {
		mean, err := s.Validated(ctx, version)
		if err != nil {
			return nil, err
		}
		values = append(values, value{"", label, measure.On(version), 100 * mean})
	}
	return values, nil
}

// ablation is the accuracy of measured versions by a setting of FlipTS, over the runs
// that sample by F2S; absent where all have one value.
func ablation(ctx context.Context, runs []*source, symbol string, of func(sampling) float64) ([]own, error) {
	byValue := map[float64][]own{}
	var order []float64
	for _, r := range runs {
		f, is := r.samplingOf()
		if !is || f.event != "f2s" {
			continue
		}
		x := of(f)
		if byValue[x] == nil {
			order = append(order, x)
		}
		values, err := r.byVersion(ctx)
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			byValue[x] = append(byValue[x], own{fmt.Sprintf("%s = %g", symbol, x), v})
		}
	}
	if len(order) < 2 {
		return nil, absent(fmt.Sprintf("the runs that sample by F2S do not differ in %s", symbol))
	}
	slices.Sort(order)
	var values []own
	for _, x := range order {
		values = append(values, byValue[x]...)
	}
	return values, nil
}
