package shard

import "strings"

// UsageSandbox begins, in the usage of a score shard, the names that count the traces
// by what their last program ran under.
const UsageSandbox = "sandbox/"

// Sandboxes are those counts, by what programs ran under.
func Sandboxes(usage map[string]float64) map[string]int {
	counts := map[string]int{}
	for name, n := range usage {
		if under, ok := strings.CutPrefix(name, UsageSandbox); ok {
			counts[under] += int(n)
		}
	}
	return counts
}
