package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/pool"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// succeeds reports whether a turn did.
func succeeds(t shard.TurnScore) bool { return t.Outcome == string(shard.OutcomeOK) }

// transitions are shares in percent, by iteration, of the traces of several turns: f2s
// failed at first and succeeded in the last turn, and so on.
func transitions(ctx context.Context, r *Rows) ([]Value, error) {
	traces, err := r.training(ctx)
	if err != nil {
		return nil, err
	}
	names := []string{"f2s", "s2s", "s2f", "f2f"}
	shares := grouped{}
	for _, t := range traces {
		if len(t.Turns) < 2 {
			continue
		}
		letter := map[bool]string{true: "s", false: "f"}
		own := letter[succeeds(t.Turns[0])] + "2" + letter[succeeds(t.Turns[len(t.Turns)-1])]
		for _, name := range names {
			shares.add(name, int(t.instance.Iteration), 100*oneIf(name == own))
		}
	}
	if len(shares) == 0 {
		return nil, Absent("its traces have one turn")
	}
	var values []Value
	for _, name := range names {
		values = append(values, shares[name].values("", "", name)...)
	}
	return values, nil
}

// samplingDynamics are shares in percent of the traces that each iteration decided on:
// failures that became successes, those of them with an advantage other than 0, final
// successes, and an advantage other than 0; and the mean reward.
func samplingDynamics(ctx context.Context, r *Rows) ([]Value, error) {
	reduced, err := r.reduced(ctx)
	if err != nil {
		return nil, err
	}
	var values []Value
	for _, c := range []struct{ column, metric string }{
		{"f2s", "transition_f2s"}, {"effective_f2s", "effective_f2s"}, {"final_success", "outcome_ok"}, {"nonzero_advantage", "nonzero_advantage"}, {"reward", "reward_mean"},
	} {
		for i, m := range reduced {
			traces := 0.
			for _, outcome := range []shard.Outcome{shard.OutcomeOK, shard.OutcomeWrong, shard.OutcomeInvalid, shard.OutcomeTimeout} {
				traces += m["outcome_"+string(outcome)]
			}
			several := m["transition_f2f"]+m["transition_f2s"]+m["transition_s2f"]+m["transition_s2s"] > 0
			y, has := m[c.metric]
			switch {
			case c.column == "reward":
			case traces == 0, !several && (c.column == "f2s" || c.column == "effective_f2s"):
				has = false
			default:
				y, has = 100*y/traces, true
			}
			if has {
				values = append(values, Value{Column: c.column, X: On(i + 1), Y: y})
			}
		}
	}
	return values, nil
}

// selection is the share of segments that were trained on, in percent, as the ledgers of
// training have it; where supervision on a pool was all of a run's training, that of the
// segments of the pool's runs that the pool has.
func selection(ctx context.Context, r *Rows) ([]Value, error) {
	if r.Last() == 0 {
		share, err := r.pooled(ctx)
		if err != nil {
			return nil, err
		}
		return []Value{{Column: "data", Y: 100 * share}}, nil
	}
	var trained, all float64
	for k := 1; k <= r.Last(); k++ {
		for row, err := range shard.Rows[shard.LedgerRow](ctx, r.Dir.Ledger(k), r.Graph.Reading(0)) {
			if err != nil {
				return nil, err
			}
			all++
			trained += oneIf(row.Fate == string(shard.FateTrained))
		}
	}
	if all == 0 {
		return nil, Absent("no iteration decided on a segment")
	}
	return []Value{{Column: "data", Y: 100 * (trained / all)}}, nil
}

// pooled is the share of the segments of a pool's runs that the pool has.
func (r *Rows) pooled(ctx context.Context) (float64, error) {
	if r.Identity.Pool == nil {
		return 0, Absent("it learned from nothing: it has neither iterations nor warm_start.pool")
	}
	path := r.Identity.Pool.Path
	m, err := seal.Read(ctx, path, r.Graph.Reading(0))
	switch {
	case errors.Is(err, seal.ErrNotSealed):
		return 0, Absent(fmt.Sprintf("the pool that it learned from is not at %q any more", path))
	case err != nil:
		return 0, err
	case m.ContentSHA256 != r.Identity.Pool.SHA256:
		return 0, Absent(fmt.Sprintf("the pool at %q is not the one that it learned from", path))
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
