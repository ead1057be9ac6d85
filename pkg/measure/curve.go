package measure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

// Point is a number of a run after an iteration, beside what the run had spent by then.
type Point struct {
	Iteration int      `json:"iteration"`
	Spent     float64  `json:"spent"` // sum of a metric of tasks over the iterations up to this one
	Value     *float64 `json:"value"` // null where it is not measured
}

// ofCost matches STAGE/NAME of one metric of tasks.
var ofCost = lazyregexp.New(`^[a-z]+/\S+$`)

// ofPart matches what stands before the name of a metric of a later wave, or of an optimizer
// step.
var ofPart = lazyregexp.New(`/(w|step-)[0-9]+/`)

// CheckCurve refuses a path that names a number of the whole run, which has no value after an
// iteration, and a cost that is no metric of tasks.
func CheckCurve(path, cost string) error {
	if err := CheckPath(path); err != nil {
		return err
	}
	if !ofCost().MatchString(cost) {
		return exitcode.Usagef("a cost is STAGE/NAME of the metrics of tasks, such as score/execute_seconds, and not %q", cost)
	}
	if m, _ := Named(path); ofTasks().MatchString(path) || m.HeldOut() && hasColumn(path) || m.training != nil && m.XColumn == "iteration" && hasColumn(path) {
		return nil
	}
	return exitcode.Usagef("%q is a number of the whole run: name STAGE/NAME, STAGE/NAME per STAGE/NAME, a column over iterations such as transitions.f2s, or one of held-out problems such as submissions.humanrank", path)
}

// hasColumn reports whether a path goes on to a column of a table.
func hasColumn(path string) bool { return strings.Contains(path, ".") && !isKey(path) }

// Curve takes a number by its path after each iteration of training, over so many
// iterations up to it, beside the sum of a cost, later waves and all optimizer steps
// included. A number of held-out problems is that of the last policy version that was
// evaluated by then. happened is as [Rows.Number] has it. A run that spends nothing is an
// error that wraps [ErrUnmeasured].
func (r *Rows) Curve(ctx context.Context, path, cost string, last int) (points []Point, happened bool, err error) {
	if err := CheckCurve(path, cost); err != nil {
		return nil, false, err
	}
	if err := r.gatherSums(ctx); err != nil {
		return nil, false, err
	}
	spent := 0.0
	for k := 1; k <= r.Last(); k++ {
		spent += r.spent(cost, k)
		p := Point{Iteration: k, Spent: spent}
		if k >= last {
			value, some, err := r.Number(ctx, path, Span{k - last + 1, k})
			switch {
			case err == nil:
				p.Value, happened = &value, happened || some
			case !errors.Is(err, ErrUnmeasured):
				return nil, false, err
			}
		}
		points = append(points, p)
	}
	if spent == 0 {
		return nil, false, fmt.Errorf("%s at equal %s: %w: the run has spent none of it", path, cost, ErrUnmeasured)
	}
	return points, happened, nil
}

// spent is what an iteration's tasks have spent, added up in one order in every process.
func (r *Rows) spent(cost string, k int) (sum float64) {
	for _, name := range slices.Sorted(maps.Keys(r.sums[k])) {
		if ofPart().ReplaceAllString(name, "/") == cost {
			sum += r.sums[k][name]
		}
	}
	return sum
}

// evaluatedBy is the last policy version, up to one, that is evaluated.
func (r *Rows) evaluatedBy(version int) int {
	last := r.Last()
	for _, v := range r.Graph.EvaluatedVersions() {
		if v <= version {
			last = v
		}
	}
	return last
}
