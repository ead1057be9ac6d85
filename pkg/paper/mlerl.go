package paper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/pool"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// mlerlPaper is MLE-RL. Table 7 is by competition; Figures 1 and 2 are diagrams.
var mlerlPaper = paper{
	name: "mlerl", title: "MLE-RL: Reinforcement Learning for Self-Improvement in Machine Learning Agents",
	queries: []query{
		{
			name: "tables-1-3-5-6", title: "Tables 1, 3, 5 and 6",
			caption: "Held-out submissions on the test set, the best of all attempts of a sample by validation score, and the first attempt alone (Table 1, w/o agent): means over tasks, then over samples. Self-distillation (Table 3), which has no iterations and is measured after its supervision, the signed reward (Table 5) and scaffolds (Table 6) are methods of their own. HumanRank is 1 − p/N; MLE-Dojo's is (N − p + 1)/N.",
			of: func(ctx context.Context, s *source) ([]value, error) {
				return s.beforeAndAfter(ctx, func(set string) bool { return set == s.sets()[0] }, true)
			},
		},
		{
			name: "table-2", title: "Table 2",
			caption: "The same on the other sets of held-out tasks.",
			of: func(ctx context.Context, s *source) ([]value, error) {
				return s.beforeAndAfter(ctx, func(set string) bool { return set != s.sets()[0] }, false)
			},
		},
		{
			name: "table-4", title: "Table 4",
			caption: "Share of segments that were learned from, and what came of it on the test set, as in Table 1: of the segments of training, or, where a run learned from a pool by supervision alone (the paper's rows), of those of the runs that the pool is of.",
			of:      selection,
		},
		{
			name: "figure-3-a", title: "Figure 3 (a)", axis: "HumanRank from (%)",
			caption: "Distribution of the HumanRank of all valid submissions of training, in tenths.",
			of:      rankDistribution,
		},
		{
			name: "figure-3-b", title: "Figure 3 (b)", axis: "gain from (points)",
			caption: "Distribution of the gain in quality of valid submissions of training on the first one of their trace, in steps of ten points.",
			of:      gainDistribution,
		},
		{
			name: "figure-3-shares", title: "Figure 3, its thresholds",
			caption: "Shares of valid submissions of training that are not above the median of their board, that win no medal, and, of later ones of a trace, that do not gain more than 0.01 on its first.",
			of:      belowThresholds,
		},
		{
			name: "figure-4-left", title: "Figure 4, left", axis: "attempts",
			caption: "HumanRank of the best program so far by validation score, of a trace's attempts from an earlier program (memory) and of those from scratch (reset), by the policy before training and by the last one: means over samples of the held-out tasks for which both have a valid submission, 0 before there is one.",
			at:      memoryAndReset,
		},
		{
			name: "figure-4-middle", title: "Figure 4, middle", axis: "attempts",
			caption: "HumanRank and any-medal rate after each attempt, of the best program so far, of both policies: methods with and without memory.",
			at:      overAttempts,
		},
		{
			name: "figure-4-right", title: "Figure 4, right", axis: "valid submissions",
			caption: "HumanRank of the best of the first k valid submissions of a held-out trace by validation score (of all where there are fewer, 0 where there is none), of both policies.",
			at:      stepwise,
		},
	},
}

// selection has the paper's columns; the share of data is the last policy's.
func selection(ctx context.Context, s *source) ([]value, error) {
	var values []value
	var why error
	for _, when := range s.moments(beforeTraining) {
		table, err := s.submissions(ctx, when.version, s.sets()[0])
		switch {
		case err == nil:
			row := final(table)
			values = append(values, value{when.name, "HumanRank (%)", nil, 100 * row.HumanRank.Mean}, value{when.name, "above median (%)", nil, 100 * row.AboveMedian.Mean},
				value{when.name, "any medal (%)", nil, 100 * row.AnyMedal.Mean})
		case errors.Is(err, errUngraded):
			why = err
		default:
			return nil, err
		}
	}
	share, err := s.learnedFrom(ctx)
	if err != nil {
		return values, err
	}
	return append(values, value{afterTraining, "data (%)", nil, 100 * share}), why
}

// learnedFrom is the share of segments that were learned from: of those of training, as
// its ledgers say, and where supervision on a pool was all of it, of those that the
// pool's runs had, as the pool says.
func (s *source) learnedFrom(ctx context.Context) (float64, error) {
	if s.last() == 0 {
		return s.pooled(ctx)
	}
	var trained, all float64
	for k := 1; k <= s.last(); k++ {
		for row, err := range shard.Rows[shard.LedgerRow](ctx, s.Dir.Ledger(k), s.Graph.Reading(0)) {
			if err != nil {
				return 0, err
			}
			all++
			if row.Fate == string(shard.FateTrained) {
				trained++
			}
		}
	}
	if all == 0 {
		return 0, absent("no iteration decided on a segment")
	}
	return trained / all, nil
}

// pooled is the share of the segments of a pool's runs that the pool has.
func (s *source) pooled(ctx context.Context) (float64, error) {
	if s.Identity.Pool == nil {
		return 0, absent("it learned from nothing: it has neither iterations nor warm_start.pool")
	}
	path := s.Identity.Pool.Path
	m, err := seal.Read(ctx, path, s.Graph.Reading(0))
	switch {
	case errors.Is(err, seal.ErrNotSealed):
		return 0, absent(fmt.Sprintf("the pool that it learned from is not at %q any more", path))
	case err != nil:
		return 0, err
	case m.ContentSHA256 != s.Identity.Pool.SHA256:
		return 0, absent(fmt.Sprintf("the pool at %q is not the one that it learned from", path))
	}
	var runs []pool.RunCount
	if err := json.Unmarshal(m.Notes["runs"], &runs); err != nil {
		return 0, exitcode.Dataf("reading what the runs of pool %q gave: %w", path, err)
	}
	kept, all := 0, 0
	for _, run := range runs {
		kept, all = kept+run.Kept, all+run.Segments
	}
	return float64(kept) / float64(all), nil
}

// bins are shares in percent of values in intervals of a width.
func bins(values []float64, low, high, width float64, measure string) []value {
	n := int(math.Round((high - low) / width))
	counts := make([]float64, n)
	for _, v := range values {
		counts[max(0, min(n-1, int(math.Floor((v-low)/width+1e-9))))]++
	}
	var shares []value
	for i, c := range counts {
		shares = append(shares, value{"", measure, on(math.Round(100 * (low + float64(i)*width))), 100 * c / float64(len(values))})
	}
	return shares
}

func rankDistribution(ctx context.Context, s *source) ([]value, error) {
	traces, err := s.trained(ctx)
	if err != nil {
		return nil, err
	}
	var ranks []float64
	for _, t := range traces {
		for _, p := range t.programs {
			if rank, has := part(p.parts, partHumanRank); p.valid && has {
				ranks = append(ranks, rank)
			}
		}
	}
	if len(ranks) == 0 {
		return nil, absent("no submission of training has a rank on a leaderboard")
	}
	return bins(ranks, 0, 1, 0.1, "submissions (%)"), nil
}

// gains are those of valid submissions on the first valid one of their trace.
func (s *source) gains(ctx context.Context) ([]float64, error) {
	traces, err := s.trained(ctx)
	if err != nil {
		return nil, err
	}
	var gains []float64
	for _, t := range traces {
		first, has := 0., false
		for _, p := range t.programs {
			switch {
			case !p.valid:
			case !has:
				first, has = p.quality, true
			default:
				gains = append(gains, p.quality-first)
			}
		}
	}
	if len(gains) == 0 {
		return nil, absent("no trace of training has two valid submissions")
	}
	return gains, nil
}

func gainDistribution(ctx context.Context, s *source) ([]value, error) {
	gains, err := s.gains(ctx)
	if err != nil {
		return nil, err
	}
	return bins(gains, -1, 1, 0.1, "submissions (%)"), nil
}

func belowThresholds(ctx context.Context, s *source) ([]value, error) {
	traces, err := s.trained(ctx)
	if err != nil {
		return nil, err
	}
	var below, without []float64
	for _, t := range traces {
		for _, p := range t.programs {
			if p.valid {
				below, without = append(below, 100*(1-p.value(partMedian))), append(without, 100*(1-p.medal()))
			}
		}
	}
	var values []value
	for _, m := range []struct {
		name   string
		values []float64
	}{{"not above the median (%)", below}, {"no medal (%)", without}} {
		if mean, known := mean(m.values); known {
			values = append(values, value{"", m.name, nil, mean})
		}
	}
	gains, err := s.gains(ctx)
	if err != nil {
		return values, err
	}
	const threshold = 0.01
	little := 0.
	for _, g := range gains {
		if g <= threshold {
			little++
		}
	}
	return append(values, value{"", fmt.Sprintf("gain at most %g (%%)", threshold), nil, 100 * little / float64(len(gains))}), nil
}

func memoryAndReset(ctx context.Context, s *source, version int) ([]value, error) {
	traces, err := s.heldOutTraces(ctx, version)
	if err != nil {
		return nil, err
	}
	starts := []string{"memory", "reset"}
	own := make([]map[string][]program, len(traces)) // by start
	valid := map[string]map[string]bool{}            // by task and start
	for i, t := range traces {
		own[i] = map[string][]program{}
		for _, p := range t.programs {
			start := starts[0]
			if p.kind == string(shard.KindInitial) {
				start = starts[1]
			}
			own[i][start] = append(own[i][start], p)
			if valid[t.task] == nil {
				valid[t.task] = map[string]bool{}
			}
			valid[t.task][start] = valid[t.task][start] || p.valid
		}
	}
	var values []value
	for _, start := range starts {
		ranks := series{}
		for i, t := range traces {
			programs := own[i][start]
			if !valid[t.task][starts[0]] || !valid[t.task][starts[1]] || len(programs) == 0 {
				continue
			}
			for k := 0; k <= s.Recipe.Evaluation.Steps; k++ {
				end := 0
				for end < len(programs) && programs[end].attempt <= k {
					end++
				}
				rank := 0.
				if i := best(programs[:end]); i >= 0 {
					rank = 100 * programs[i].value(partHumanRank)
				}
				ranks.add(k+1, rank)
			}
		}
		values = append(values, ranks.values(start, "HumanRank (%)")...)
	}
	if len(values) == 0 {
		return nil, absent("no held-out task has valid submissions both from an earlier program and from scratch")
	}
	return values, nil
}

func stepwise(ctx context.Context, s *source, version int) ([]value, error) {
	const most = 8
	traces, err := s.heldOutTraces(ctx, version)
	if err != nil {
		return nil, err
	}
	ranks := series{}
	for _, t := range traces {
		var valid []program
		for _, p := range t.programs {
			if p.valid {
				valid = append(valid, p)
			}
		}
		for k := 1; k <= most; k++ {
			rank := 0.
			if i := best(valid[:min(k, len(valid))]); i >= 0 {
				rank = 100 * valid[i].value(partHumanRank)
			}
			ranks.add(k, rank)
		}
	}
	return ranks.values("", "HumanRank (%)"), nil
}
