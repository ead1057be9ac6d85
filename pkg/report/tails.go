package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// Tail says how long the last tasks of the arrays of a stage had the others wait.
// Seconds are from the first start of an array, each a mean over the arrays.
type Tail struct {
	Stage         string  `json:"stage"`
	Arrays        int     `json:"arrays"` // of two tasks or more that are done
	MedianSeconds float64 `json:"median_seconds"`
	P95Seconds    float64 `json:"p95_seconds"`
	LastSeconds   float64 `json:"last_seconds"`
	// QuorumSeconds is what closing each array at 97 in 100 of its tasks would have
	// saved, summed over the arrays: 0 where an array is too short for that.
	QuorumSeconds float64        `json:"quorum_seconds"`
	Stragglers    map[string]int `json:"stragglers"` // tasks that took twice the median of their array, by node
}

// tailQuorum is the share of tasks that the saving is worked out for.
const tailQuorum = 0.97

// tails sums up the arrays of each stage, in the order of an iteration.
func tails(tasks []finishedTask) []Tail {
	arrays := map[graph.Node][]finishedTask{}
	var nodes []graph.Node // in the order of tasks, so that sums come out the same each time
	for _, t := range tasks {
		if arrays[t.Node] == nil {
			nodes = append(nodes, t.Node)
		}
		arrays[t.Node] = append(arrays[t.Node], t)
	}
	all := []Tail{}
	for _, stage := range graph.Stages() {
		tail := Tail{Stage: string(stage), Stragglers: map[string]int{}}
		for _, n := range nodes {
			array := arrays[n]
			if n.Stage != stage || len(array) < 2 {
				continue
			}
			tail.Arrays++
			window, _ := whole(array)
			var ends, took []float64
			for _, t := range array {
				ends, took = append(ends, span{window.from, t.span.to}.seconds()), append(took, t.span.seconds())
			}
			slices.Sort(ends)
			tail.MedianSeconds += median(ends)
			tail.P95Seconds += ends[reached(len(ends), 0.95)]
			tail.LastSeconds += ends[len(ends)-1]
			tail.QuorumSeconds += ends[len(ends)-1] - ends[reached(len(ends), tailQuorum)]
			for usual, i := median(took), 0; i < len(array); i++ {
				if took[i] > 2*usual {
					tail.Stragglers[array[i].outputs[0].manifest.Host]++
				}
			}
		}
		if tail.Arrays == 0 {
			continue
		}
		n := float64(tail.Arrays)
		tail.MedianSeconds, tail.P95Seconds, tail.LastSeconds = tail.MedianSeconds/n, tail.P95Seconds/n, tail.LastSeconds/n
		all = append(all, tail)
	}
	return all
}

// reached is the place, among ends in order, of the one with which a share of them is
// there.
func reached(n int, share float64) int { return int(math.Ceil(share*float64(n)-1e-9)) - 1 }

// words is a line of the report; empty where nobody waited for long.
func (t Tail) words() string {
	if t.LastSeconds < 1 {
		return ""
	}
	words := fmt.Sprintf("%s: half of an array after %s, 95 %% after %s, all after %s", t.Stage, duration(t.MedianSeconds), duration(t.P95Seconds), duration(t.LastSeconds))
	if t.QuorumSeconds >= 1 {
		words += fmt.Sprintf("; schedule.quorum %g would have saved %s", tailQuorum, duration(t.QuorumSeconds))
	}
	if len(t.Stragglers) > 0 {
		var nodes []string
		for _, node := range slices.Sorted(maps.Keys(t.Stragglers)) {
			nodes = append(nodes, fmt.Sprintf("%s %d", node, t.Stragglers[node]))
		}
		words += "; tasks of twice the usual time, by node: " + strings.Join(nodes[:min(len(nodes), 8)], ", ")
	}
	return words
}
