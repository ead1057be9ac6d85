package advance

import (
	"slices"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
)

// A node on which this many attempts failed for a cause that may be the node's own is
// kept out of for this long, unless a task went well there afterwards.
const (
	faultsOfFaultyNode = 2
	faultyFor          = time.Hour
)

// nodeRecords are how attempts of this run went on each node. The zero value has none.
type nodeRecords map[string]*nodeRecord

type nodeRecord struct {
	faults []time.Time // ends of attempts
	well   time.Time   // end of the last attempt that did its work
}

// of is the record of the node of an attempt, nil if Slurm does not say one node or when.
func (n *nodeRecords) of(s slurm.State) *nodeRecord {
	if s.End.IsZero() || s.Nodes == "" || strings.ContainsAny(s.Nodes, "[,() ") {
		return nil
	}
	if *n == nil {
		*n = nodeRecords{}
	}
	if (*n)[s.Nodes] == nil {
		(*n)[s.Nodes] = &nodeRecord{}
	}
	return (*n)[s.Nodes]
}

func (n *nodeRecords) wentWell(s slurm.State) {
	if r := n.of(s); r != nil && s.End.After(r.well) {
		r.well = s.End
	}
}

// failed notes an attempt whose end may be its node's fault: what a program, a recipe,
// a time limit or another job does can happen anywhere.
func (n *nodeRecords) failed(s slurm.State, cause executor.Cause) {
	switch cause {
	case executor.CauseNodeFail, executor.CauseLaunchFailed, executor.CauseUnavailable, executor.CauseIO:
		if r := n.of(s); r != nil {
			r.faults = append(r.faults, s.End)
		}
	case executor.CauseDevice: // which the next task there would be given too
		if r := n.of(s); r != nil {
			r.faults = append(r.faults, slices.Repeat([]time.Time{s.End}, faultsOfFaultyNode)...)
		}
	}
}

// faulty lists the nodes to keep out of, sorted.
func (n nodeRecords) faulty(now time.Time) []string {
	var names []string
	for name, r := range n {
		recent := 0
		for _, at := range r.faults {
			if at.After(r.well) && now.Sub(at) < faultyFor {
				recent++
			}
		}
		if recent >= faultsOfFaultyNode {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
