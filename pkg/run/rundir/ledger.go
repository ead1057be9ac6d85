package rundir

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Ledger counts what became of every sampled response of a run, by the segments
// that it was cut into: one, in most runs.
type Ledger struct {
	Planned  int            `json:"planned"`  // responses
	Segments int            `json:"segments"` // that have a disposition, of all responses
	Trained  int            `json:"trained"`  // segments
	Dropped  map[string]int `json:"dropped"`  // segments, by reason
	Pending  int            `json:"pending"`  // planned responses of which some segment has no disposition yet
	Waiting  int            `json:"waiting"`  // segments that wait for a batch (schedule.batch_segments)
	Problems []string       `json:"problems"`

	// DroppedOf are the dropped segments by reason and environment, in a run of several.
	DroppedOf map[string]map[string]int `json:"dropped_by_environment,omitempty"`
}

// ReadLedger derives the ledger from the plans and the ledgers of closed
// iterations. Each segment of a planned response must have at most one disposition, and
// exactly one in a finished run.
func ReadLedger(ctx context.Context, r *Run) (Ledger, error) {
	ledger := Ledger{Dropped: map[string]int{}, Problems: []string{}}
	type key struct {
		instance string
		sample   int32
	}
	dispositions := map[key][]bool{}    // of each planned trace: which of its segments have one
	environments := map[string]string{} // of instances, where there are several
	last := r.Recipe.Schedule.Iterations
	for k := 1; k <= last; k++ {
		plan, _, err := shard.Read[shard.Instance](ctx, r.Dir.Plan(k), seal.Options{})
		if errors.Is(err, seal.ErrNotSealed) {
			break
		}
		if err != nil {
			return ledger, err
		}
		for _, instance := range plan {
			if r.Recipe.Env.Mix() != nil {
				environments[instance.InstanceID] = instance.Env
			}
			for sample := range r.Recipe.Rollout.Group {
				dispositions[key{instance.InstanceID, int32(sample)}] = nil
			}
		}
	}
	ledger.Planned = len(dispositions)
	finished, decided := true, 0
	for k := 1; k <= last; k++ {
		rows, _, err := shard.Read[shard.LedgerRow](ctx, r.Dir.Ledger(k), seal.Options{})
		if errors.Is(err, seal.ErrNotSealed) {
			finished = false
			break
		}
		if err != nil {
			return ledger, err
		}
		decided = k
		for _, row := range rows {
			id, segment := key{row.InstanceID, row.Sample}, int(row.Segment)
			known, planned := dispositions[id]
			if !planned {
				ledger.Problems = append(ledger.Problems, fmt.Sprintf("instance %s sample %d has a disposition and is in no plan", row.InstanceID, row.Sample))
				continue
			}
			known = upTo(known, segment)
			if known[segment] {
				ledger.Problems = append(ledger.Problems, fmt.Sprintf("instance %s sample %d has more than one disposition of segment %d", row.InstanceID, row.Sample, segment))
			}
			known[segment] = true
			dispositions[id] = known
			ledger.Segments++
			if row.Fate == string(shard.FateTrained) {
				ledger.Trained++
			} else {
				ledger.drop(row.Untrained(), environments[row.InstanceID])
			}
		}
	}
	if r.Graph.Waits(decided) {
		waiting, _, err := shard.Read[shard.Waiting](ctx, r.Dir.Waiting(decided), seal.Options{})
		if err != nil && !errors.Is(err, seal.ErrNotSealed) {
			return ledger, err
		}
		ledger.Waiting = len(waiting)
		for _, row := range waiting {
			id := key{row.InstanceID, row.Sample}
			dispositions[id] = upTo(dispositions[id], int(row.Segment))
		}
	}
	for _, known := range dispositions {
		if len(known) == 0 || slices.Contains(known, false) {
			ledger.Pending++
		}
	}
	if finished && ledger.Pending > 0 {
		ledger.Problems = append(ledger.Problems, fmt.Sprintf("every iteration is closed and %d responses have no disposition", ledger.Pending))
	}
	return ledger, nil
}

// drop counts a segment, by environment where it has a name.
func (l *Ledger) drop(reason, environment string) {
	l.Dropped[reason]++
	if environment == "" {
		return
	}
	if l.DroppedOf == nil {
		l.DroppedOf = map[string]map[string]int{}
	}
	if l.DroppedOf[reason] == nil {
		l.DroppedOf[reason] = map[string]int{}
	}
	l.DroppedOf[reason][environment]++
}

// upTo is a list that has the segment.
func upTo(known []bool, segment int) []bool {
	return append(known, make([]bool, max(0, segment+1-len(known)))...)
}
