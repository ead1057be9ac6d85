package measure

import (
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
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

// TailQuorum is the share of tasks that the saving is worked out for.
const TailQuorum = 0.97

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
			tail.MedianSeconds += Median(ends)
			tail.P95Seconds += stat.Quantile(0.95, stat.Empirical, ends, nil)
			tail.LastSeconds += ends[len(ends)-1]
			tail.QuorumSeconds += ends[len(ends)-1] - stat.Quantile(TailQuorum, stat.Empirical, ends, nil)
			for usual, i := Median(took), 0; i < len(array); i++ {
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

// LateFiles is for how long tasks did not see files that other nodes had sealed: a file
// system may keep a listing of a folder for some time (acdirmax of NFS).
type LateFiles struct {
	Seconds        float64 `json:"seconds"` // of all tasks
	LongestSeconds float64 `json:"longest_seconds"`
	LongestTask    string  `json:"longest_task"`
}

// lateFiles sums up the waits of tasks; nil where none waited.
func lateFiles(tasks []finishedTask) *LateFiles {
	var all LateFiles
	for _, t := range tasks {
		seconds := t.usage[seal.UsageLateFiles]
		if all.Seconds += seconds; seconds > all.LongestSeconds {
			all.LongestSeconds, all.LongestTask = seconds, t.String()
		}
	}
	if all.Seconds == 0 {
		return nil
	}
	return &all
}
