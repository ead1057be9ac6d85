package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/figure"
)

// chart is one figure of the report.
type chart struct {
	Name    string // of the file, without .svg
	Caption string
	svg     []byte
}

// figures draws what a summary has numbers for.
func figures(s Summary) []chart {
	var list []chart
	add := func(name, caption string, svg []byte) { list = append(list, chart{name, caption, svg}) }
	if f, ok := byStepFigure(s); ok {
		add("accuracy_by_step", "Held-out "+measureName(s)+" over revisions, before and after training. Bars are standard errors, clustered by problem.", f.SVG())
	}
	if f, ok := byVersionFigure(s); ok {
		add("accuracy_by_version", "Held-out "+measureName(s)+" of first answers by policy version.", f.SVG())
	}
	rewards, rewardLabel := rewardLines(s)
	for _, f := range []struct {
		name, caption, y string
		fromZero         bool
		lines            []figure.Line
	}{
		{
			"reward", "Reward of the sampled responses, mean over an iteration; and their score where it is not the reward.", rewardLabel, false,
			rewards,
		},
		{
			"response_tokens", "Length of a response.", "response length (tokens)", true,
			[]figure.Line{series(s, "", func(i Iteration) *float64 { return i.ResponseTokensMean })},
		},
		{
			"entropy", "Entropy of the policy's next token.", "entropy (nats per token)", true,
			[]figure.Line{series(s, "", func(i Iteration) *float64 { return i.Entropy })},
		},
		{
			"kl", referenceCaption(s), "KL to reference (nats)", true,
			[]figure.Line{series(s, "", func(i Iteration) *float64 { return i.ReferenceKL })},
		},
		{
			"grad_norm", "Norm of the gradient before clipping, mean over optimizer steps.", "norm of the gradient", true,
			[]figure.Line{series(s, "", func(i Iteration) *float64 { return i.GradNorm })},
		},
		{
			"ratio_deviation", "Largest deviation of an importance ratio from 1.", "max |importance ratio − 1|", true,
			[]figure.Line{
				series(s, "all optimizer steps", func(i Iteration) *float64 { return i.RatioDeviationMax }),
				series(s, "first step", func(i Iteration) *float64 { return i.FirstStepRatioDeviationMax }),
			},
		},
		{
			"buffer_size", "Instances in the curriculum's buffer.", "buffer size (instances)", true,
			[]figure.Line{series(s, "", func(i Iteration) *float64 { return asFloat(i.BufferSize) })},
		},
		{
			"depth", "Self-iterations before a sampled response.", "mean depth (iterations)", true,
			[]figure.Line{series(s, "", func(i Iteration) *float64 { return i.DepthMean })},
		},
		{"environments", "Mean reward by environment.", "mean reward", true, environmentLines(s)},
		{"kinds", "Prompts by what they ask for.", "prompts of each kind", true, countLines(s, func(i Iteration) map[string]int { return i.Kinds })},
		{
			"transitions", "Traces of several turns by failure (f) or success (s) of the first and of the last; and the f2s that move the policy.", "traces of several turns", true,
			countLines(s, func(i Iteration) map[string]int { return i.Transitions }),
		},
		{"dropped", "Responses not trained on, by reason.", "responses not trained on", true, countLines(s, func(i Iteration) map[string]int { return i.Dropped })},
	} {
		chart := figure.LineChart{X: "iteration", Y: f.y, Lines: f.lines, FromZero: f.fromZero}
		if f.name == "kl" {
			chart.Marks = refreshes(s)
		}
		if chart.WorthDrawing() {
			add(f.name, f.caption, chart.SVG())
		}
	}
	for _, group := range curriculumGroups(s) {
		if chart := (figure.LineChart{X: "iteration", Y: "curriculum: " + group, Lines: curriculumLines(s, group), FromZero: true}); chart.WorthDrawing() {
			add("curriculum_"+group, fmt.Sprintf("What the curriculum %s says of itself: %s.", s.Curriculum, group), chart.SVG())
		}
	}
	if len(s.Stages) > 0 {
		add("stage_seconds", "Wall-clock time in which at least one task of a stage ran. Stages overlap.", stageFigure(s).SVG())
	}
	return list
}

// referenceCaption says after which iterations the line begins at 0 again.
func referenceCaption(s Summary) string {
	var replaced []string
	for _, iteration := range refreshes(s) {
		replaced = append(replaced, strconv.Itoa(int(iteration)))
	}
	switch n := len(replaced); {
	case n == 0:
		return "Divergence from the reference policy."
	case n > mostNamed:
		replaced = append(replaced[:mostNamed], fmt.Sprintf("… (%d in all)", n))
	}
	return "Divergence from the reference policy. After iterations " + strings.Join(replaced, ", ") +
		" the policy takes the reference's place (loss.kl.ref_every), and the line falls to 0."
}

// refreshes are the iterations after which the policy took the reference's place.
func refreshes(s Summary) []float64 {
	var iterations []float64
	for _, it := range s.Series {
		if it.ReferenceReplaced && it.ReferenceKL != nil {
			iterations = append(iterations, float64(it.Iteration))
		}
	}
	return iterations
}

// mostNamed bounds the iterations that a caption names.
const mostNamed = 8

// curriculumGroups lists the first words of what the curriculum measures: what
// begins alike is drawn together.
func curriculumGroups(s Summary) []string {
	var groups []string
	for _, it := range s.Series {
		for name := range it.Curriculum {
			group, _, _ := strings.Cut(name, "_")
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// curriculumLines are those of a group.
func curriculumLines(s Summary, group string) []figure.Line {
	var names []string
	for _, it := range s.Series {
		for name := range it.Curriculum {
			if first, _, _ := strings.Cut(name, "_"); first == group && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	var lines []figure.Line
	for _, name := range names {
		label := strings.ReplaceAll(name, "_", " ")
		if len(names) == 1 {
			label = ""
		}
		lines = append(lines, series(s, label, func(i Iteration) *float64 {
			value, has := i.Curriculum[name]
			if !has {
				return nil
			}
			return &value
		}))
	}
	return lines
}

// series takes one number of each iteration that has it.
func series(s Summary, name string, value func(Iteration) *float64) figure.Line {
	l := figure.Line{Name: name}
	for _, it := range s.Series {
		if y := value(it); y != nil {
			l.Points = append(l.Points, figure.Point{X: float64(it.Iteration), Y: *y})
		}
	}
	return l
}

// rewardLines are the rewards, and the scores where they differ, with the label of their
// axis.
func rewardLines(s Summary) (lines []figure.Line, label string) {
	reward := series(s, "reward", func(i Iteration) *float64 { return i.RewardMean })
	score := series(s, "score", func(i Iteration) *float64 { return i.ScoreMean })
	if slices.Equal(reward.Points, score.Points) {
		reward.Name = ""
		return []figure.Line{reward}, "mean reward"
	}
	return []figure.Line{reward, score}, "mean reward and score"
}

func asFloat(n *int) *float64 {
	if n == nil {
		return nil
	}
	x := float64(*n)
	return &x
}

// environmentLines has a line for each environment, sorted by name.
func environmentLines(s Summary) (lines []figure.Line) {
	names := map[string]bool{}
	for _, it := range s.Series {
		for name := range it.Rewards {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		lines = append(lines, series(s, name, func(i Iteration) *float64 {
			if reward, ok := i.Rewards[name]; ok {
				return &reward
			}
			return nil
		}))
	}
	return lines
}

// countLines has a line for each name that is counted, sorted by name.
func countLines(s Summary, counts func(Iteration) map[string]int) []figure.Line {
	var names []string
	for _, it := range s.Series {
		for name := range counts(it) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	var lines []figure.Line
	for _, name := range names {
		lines = append(lines, series(s, name, func(i Iteration) *float64 {
			if counts(i) == nil {
				return nil
			}
			n := counts(i)[name]
			return asFloat(&n)
		}))
	}
	return lines
}

// byStepFigure is a figure of ExIt §5.3: scores against self-improvement
// steps, and Δ over all of them.
func byStepFigure(s Summary) (figure.LineChart, bool) {
	f := figure.LineChart{X: "revision", Y: "held-out " + measureName(s) + " (%)"}
	before, after, head := beforeAndAfter(s)
	for _, line := range []struct {
		name string
		of   *Version
	}{{head, after}, {"before", before}} { // the stronger look is the first
		v := line.of
		if v == nil || v == before && line.name != "before" {
			continue
		}
		l := figure.Line{Name: line.name}
		if v.DeltaK != nil {
			l.Name += fmt.Sprintf(":  Δ over %d = %s points", s.Steps, changeWithError(v.DeltaK, v.DeltaKStandardError))
		}
		for step, accuracy := range v.AccuracyByStep {
			l.Points = append(l.Points, figure.Point{X: float64(step), Y: 100 * accuracy, Err: hundredfold(v.StandardErrorByStep[step])})
		}
		f.Lines = append(f.Lines, l)
	}
	return f, s.Steps > 0 && f.WorthDrawing()
}

func byVersionFigure(s Summary) (figure.LineChart, bool) {
	sampled := figure.Line{Name: fmt.Sprintf("avg@%d", s.Samples)}
	greedy := figure.Line{Name: "greedy"}
	for _, v := range s.AccuracyByVersion {
		x := float64(v.Version)
		if v.Accuracy != nil {
			sampled.Points = append(sampled.Points, figure.Point{X: x, Y: 100 * *v.Accuracy, Err: hundredfold(v.StandardError)})
		}
		if v.GreedyAccuracy != nil {
			greedy.Points = append(greedy.Points, figure.Point{X: x, Y: 100 * *v.GreedyAccuracy})
		}
	}
	f := figure.LineChart{X: "policy version", Y: "first-answer " + measureName(s) + " (%)", Lines: []figure.Line{sampled}}
	if len(greedy.Points) > 0 {
		f.Lines = append(f.Lines, greedy)
	}
	return f, f.IsCurve()
}

func hundredfold(x *float64) *float64 {
	if x == nil {
		return nil
	}
	y := 100 * *x
	return &y
}

// stageFigure shows where the time went.
func stageFigure(s Summary) figure.BarChart {
	f := figure.BarChart{X: "wall-clock time (seconds)"}
	for _, st := range s.Stages {
		f.Names = append(f.Names, st.Stage)
		f.Values = append(f.Values, st.WallSeconds)
		f.Labels = append(f.Labels, duration(st.WallSeconds))
	}
	return f
}
