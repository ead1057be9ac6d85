package pysource

import "strings"

// Statements are the milestones whose printing shows how far a program has come
// (RL-MLE App. C.3), in the order of that prompt.
var Statements = []string{
	"imported packages", "loaded data", "defined model", "training loss:", "trained model", "testing loss:", "predicted test labels",
}

// Milestones lists those of [Statements] that a program's output holds, each once,
// in their order. The paper matches regular expressions that it does not print
// (RL-MLE §3.2 and §4.1): a statement is its own text here, anywhere in the output,
// in any order, case-sensitive, and however often it is there it counts once
// (reading rlmle-partial-credit).
func Milestones(output string) []string {
	var reached []string
	for _, s := range Statements {
		if strings.Contains(output, s) {
			reached = append(reached, s)
		}
	}
	return reached
}
