package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// ErrUnmeasured is the cause of a number that a run does not hold.
var ErrUnmeasured = errors.New("not measured")

// Span is the iterations that a number of training is taken over.
type Span struct{ First, Last int } // Last 0 is the last iteration

// ofTasks matches STAGE/NAME of the metrics of tasks, and a quotient of two.
var ofTasks = lazyregexp.New(`^[a-z]+/\S+( per [a-z]+/\S+)?$`)

// CheckPath refuses a path that names no measure.
func CheckPath(path string) error {
	if _, known := Named(path); known || ofTasks().MatchString(path) {
		return nil
	}
	var names []string
	for _, m := range All {
		names = append(names, m.Name)
	}
	return exitcode.Usagef("there is no measure %q: name one of %s, or STAGE/NAME or STAGE/NAME per STAGE/NAME of the metrics of tasks", path, strings.Join(names, ", "))
}

// Number is one number of the run by its path:
//
//	a key of summary.json       delta_k, corrections.net, accuracy_by_step.4
//	COLUMN of a table           transitions.f2s: the mean over the iterations of a span;
//	                            of held-out problems, the last X of the last policy version
//	                            that was evaluated in the span
//	COLUMN and GROUP of it      kinds.reward.improve
//	STAGE/NAME                  the sum of a metric over its shards, averaged over iterations
//	STAGE/NAME per STAGE/NAME   the quotient of two sums
//
// What is not measured is an error that wraps [ErrUnmeasured]. happened is false for a
// share of what the run never had: it is 0 where some other run has it, and else perhaps a
// name that nothing has.
func (r *Rows) Number(ctx context.Context, path string, over Span) (value float64, happened bool, err error) {
	if err := CheckPath(path); err != nil {
		return 0, false, err
	}
	if over.Last == 0 {
		over.Last = r.Last()
	}
	if ofTasks().MatchString(path) {
		return r.metric(ctx, path, over)
	}
	_, inside, _ := strings.Cut(path, ".")
	if m, _ := Named(path); (m.heldOut != nil || m.training != nil) && inside != "" && !isKey(path) {
		value, err = r.column(ctx, m, inside, over)
	} else {
		value, err = r.key(ctx, path)
	}
	return value, true, err
}

// isKey reports whether a path is one inside summary.json: of the tables that have a key of
// their name, a list is asked for by a number, and corrections by its counts.
func isKey(path string) bool {
	name, inside, _ := strings.Cut(path, ".")
	if name == "corrections" {
		return !strings.Contains(inside, ".")
	}
	first, _, _ := strings.Cut(inside, ".")
	_, err := strconv.Atoi(first)
	return err == nil
}

// column is a number of a table.
func (r *Rows) column(ctx context.Context, m Measure, inside string, over Span) (float64, error) {
	column, group, _ := strings.Cut(inside, ".")
	values, err := m.Of(ctx, r, r.evaluatedBy(over.Last))
	var why Absent
	if err != nil && !errors.As(err, &why) {
		return 0, err
	}
	values = slices.DeleteFunc(values, func(v Value) bool { return v.Column != column || v.Group != group })
	if !m.HeldOut() {
		values = slices.DeleteFunc(values, func(v Value) bool {
			return v.X != nil && m.XColumn == "iteration" && (*v.X < float64(over.First) || *v.X > float64(over.Last))
		})
	} else if len(values) > 0 {
		values = values[len(values)-1:]
	}
	var ys []float64
	for _, v := range values {
		ys = append(ys, v.Y)
	}
	if mean, known := meanOf(ys); known {
		return mean, nil
	}
	return 0, unmeasured(m.Name+"."+inside, string(why))
}

func unmeasured(path, reason string) error {
	if reason == "" {
		return fmt.Errorf("%s: %w", path, ErrUnmeasured)
	}
	return fmt.Errorf("%s: %w: %s", path, ErrUnmeasured, reason)
}

// metric is a number of the metrics of tasks.
func (r *Rows) metric(ctx context.Context, path string, over Span) (value float64, happened bool, err error) {
	if err := r.gatherSums(ctx); err != nil {
		return 0, false, err
	}
	of, per, quotient := strings.Cut(path, " per ")
	sum, happened := r.sum(of, over)
	divisor := float64(over.Last - over.First + 1)
	if quotient {
		divisor, _ = r.sum(per, over)
	}
	if divisor == 0 || !quotient && !happened {
		return 0, false, fmt.Errorf("%s of iterations %d to %d: %w", path, over.First, over.Last, ErrUnmeasured)
	}
	return sum / divisor, happened, nil
}

// sum adds a metric up over iterations; ok is false where none has it.
func (r *Rows) sum(name string, over Span) (sum float64, ok bool) {
	for k := over.First; k <= over.Last; k++ {
		if value, there := r.sums[k][name]; there {
			sum, ok = sum+value, true
		}
	}
	return sum, ok
}

// Timeouts counts the sampled responses whose last program ran out of time.
func (r *Rows) Timeouts(ctx context.Context) (int, error) {
	if err := r.gatherSums(ctx); err != nil {
		return 0, err
	}
	n, _ := r.sum("score/outcome_"+string(shard.OutcomeTimeout), Span{1, r.Last()})
	return int(n), nil
}

// gatherSums sums the metrics of each iteration over their shards.
func (r *Rows) gatherSums(ctx context.Context) error {
	if r.sums != nil {
		return nil
	}
	sums := map[int]map[string]float64{}
	for k := 1; k <= r.Last(); k++ {
		metrics, _, err := Metrics(ctx, r.Run, k)
		if err != nil {
			return err
		}
		sums[k] = map[string]float64{}
		for _, metric := range metrics {
			sums[k][metric.Stage+"/"+metric.Name] += metric.Value
		}
	}
	r.sums = sums
	return nil
}

// key is a number of the summary, or one of a list in it.
func (r *Rows) key(ctx context.Context, path string) (float64, error) {
	s, err := r.Summary(ctx)
	if err == nil && r.keys == nil {
		var text []byte
		if text, err = json.Marshal(s); err == nil {
			err = json.Unmarshal(text, &r.keys)
		}
	}
	if err != nil {
		return 0, err
	}
	var at any = r.keys
	for part := range strings.SplitSeq(path, ".") {
		switch inner := at.(type) {
		case map[string]any:
			at = inner[part]
		case []any:
			i, err := strconv.Atoi(part)
			if at = nil; err == nil && i >= 0 && i < len(inner) {
				at = inner[i]
			}
		default:
			at = nil
		}
	}
	if number, ok := at.(float64); ok {
		return number, nil
	}
	return 0, unmeasured(path, s.Missing[path])
}
