package reproduce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/report"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// errUnmeasured is the cause of a number that a run does not hold.
var errUnmeasured = errors.New("not measured")

// measured is what is read of a run that is done.
type measured struct {
	summary report.Summary
	keys    map[string]any // of the summary, as JSON
	run     *rundir.Run
	sums    map[int]map[string]float64 // by iteration and STAGE/NAME, over shards
}

// read collects the summary of a run from its sealed files.
func read(ctx context.Context, r *rundir.Run) (*measured, error) {
	m := &measured{run: r}
	var err error
	if m.summary, err = report.Collect(ctx, r); err != nil {
		return nil, err
	}
	text, err := json.Marshal(m.summary)
	if err == nil {
		err = json.Unmarshal(text, &m.keys)
	}
	return m, err
}

// value is the number that a claim is about. What is not measured is an error that
// wraps errUnmeasured. happened is false for a share of what the run never had: it is 0
// where some other run has it, and else perhaps a name that nothing has.
func (m *measured) value(ctx context.Context, c Measure) (value float64, happened bool, err error) {
	if !strings.Contains(c.Metric, "/") {
		value, err = m.key(c.Metric)
		return value, true, err
	}
	if err := m.gather(ctx); err != nil {
		return 0, false, err
	}
	first, last, err := c.iterations()
	if err != nil {
		return 0, false, err
	}
	if last == 0 {
		last = m.summary.Iterations
	}
	of, per, quotient := strings.Cut(c.Metric, " per ")
	sum, happened := m.sum(of, first, last)
	divisor := float64(last - first + 1)
	if quotient {
		divisor, _ = m.sum(per, first, last)
	}
	if divisor == 0 || !quotient && !happened {
		return 0, false, fmt.Errorf("%s of iterations %d to %d: %w", c.Metric, first, last, errUnmeasured)
	}
	return sum / divisor, happened, nil
}

// key is a number of the summary, or one of a list in it.
func (m *measured) key(path string) (float64, error) {
	var at any = m.keys
	for _, part := range strings.Split(path, ".") {
		switch inner := at.(type) {
		case map[string]any:
			at = inner[part]
		case []any:
			if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(inner) {
				at = inner[i]
				continue
			}
			at = nil
		default:
			at = nil
		}
	}
	if number, ok := at.(float64); ok {
		return number, nil
	}
	if reason := m.summary.Missing[path]; reason != "" {
		return 0, fmt.Errorf("%s: %w: %s", path, errUnmeasured, reason)
	}
	return 0, fmt.Errorf("%s: %w", path, errUnmeasured)
}

// gather sums the metrics of each iteration over their shards.
func (m *measured) gather(ctx context.Context) error {
	if m.sums != nil {
		return nil
	}
	m.sums = map[int]map[string]float64{}
	if m.run == nil {
		for _, i := range m.summary.Series {
			m.sums[i.Iteration] = sumsOf(i)
		}
		return nil
	}
	for k := 1; k <= m.run.Recipe.Schedule.Iterations; k++ {
		metrics, _, err := report.Metrics(ctx, m.run, k)
		if err != nil {
			return err
		}
		m.sums[k] = map[string]float64{}
		for _, metric := range metrics {
			m.sums[k][metric.Stage+"/"+metric.Name] += metric.Value
		}
	}
	return nil
}

// timeouts counts the responses whose last program ran out of time.
func (m *measured) timeouts(ctx context.Context) (int, error) {
	if err := m.gather(ctx); err != nil {
		return 0, err
	}
	n, _ := m.sum("score/outcome_"+string(shard.OutcomeTimeout), 1, m.summary.Iterations)
	return int(n), nil
}

// sum adds a metric up over iterations; ok is false where none has it.
func (m *measured) sum(name string, first, last int) (sum float64, ok bool) {
	for k := first; k <= last; k++ {
		if value, there := m.sums[k][name]; there {
			sum, ok = sum+value, true
		}
	}
	return sum, ok
}

// sumsOf are the metrics that a summary has of an iteration, by STAGE/NAME. A summary
// alone has no others.
func sumsOf(i report.Iteration) map[string]float64 {
	sums := map[string]float64{}
	for prefix, counts := range map[string]map[string]int{"kind_": i.Kinds, "origin_": i.Origins, "dropped_": i.Dropped, "transition_": i.Transitions} {
		for name, n := range counts {
			sums["buffer/"+prefix+name] = float64(n)
		}
	}
	groups := 0
	for _, n := range i.Kinds {
		groups += n
	}
	sums["buffer/groups"] = float64(groups)
	for name, value := range i.Curriculum {
		sums["buffer/curriculum_"+name] = value
	}
	for name, value := range map[string]*float64{"buffer/reward_mean": i.RewardMean, "buffer/score_mean": i.ScoreMean, "learn/loss": i.Loss, "learn/entropy": i.Entropy} {
		if value != nil {
			sums[name] = *value
		}
	}
	return sums
}

// fill measures what claims and checks look at.
func (r *Run) fill(ctx context.Context, m *measured, measures []Measure) error {
	r.Measures, r.Lacking = map[string]float64{}, map[string]string{}
	for _, measure := range measures {
		key := measure.key()
		value, happened, err := m.value(ctx, measure)
		if errors.Is(err, errUnmeasured) {
			r.Lacking[key] = err.Error()
			continue
		}
		if err != nil {
			return err
		}
		r.Measures[key] = value
		if !happened {
			r.Never = append(r.Never, key)
		}
	}
	return nil
}
