package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/lathe-rl/lathe/pkg/plural"
)

// conclusion is one sentence of what the run came to: how the held-out score of first
// answers moved, against which policy, and what self-improvement adds. A change of less than
// two standard errors is said to be no change. Without two evaluations it is what there
// is: one evaluation, or the reward in training. Empty before there is any number.
func conclusion(s Summary) string {
	before, after, _ := beforeAndAfter(s)
	was, is := value(before, accuracyOf), value(after, accuracyOf)
	if was == nil || is == nil || before == after {
		return firstNumbers(s, is, after)
	}
	gain, err := difference(was, is), s.AccuracyGainStandardError
	verb := "rose"
	switch {
	case *gain == 0:
		verb = "did not change"
	case err != nil && math.Abs(*gain) < 2**err:
		verb = "did not change by more than two standard errors"
	case *gain < 0:
		verb = "fell"
	}
	sentence := fmt.Sprintf("%sheld-out %s of first answers %s: %s %% in v%06d against %s %% in v%06d, a change of %s points",
		soFar(after.Version < s.Iterations), measureName(s), verb, percent(is), after.Version, percent(was), before.Version, changeWithError(gain, err))
	if err == nil {
		sentence += " (its error is not known)"
	}
	if delta := value(after, deltaOf); s.Steps > 0 && delta != nil {
		sentence += fmt.Sprintf("; %d %s changed that by %s points", s.Steps, plural.Noun(s.Steps, "revision"), change(delta))
		if b := value(before, deltaOf); b != nil {
			sentence += fmt.Sprintf(" (by %s before)", change(b))
		}
	}
	return capitalised(sentence) + "."
}

// firstNumbers is the sentence of a run that was not evaluated twice: the newest evaluation
// says nothing of training yet, and rewards in training are of problems that differ.
func firstNumbers(s Summary, is *float64, newest *Version) string {
	if is != nil {
		only := ""
		if len(s.AccuracyByVersion) == 1 {
			only = ", the only version measured"
		}
		return fmt.Sprintf("%s: %s %% of first answers in v%06d%s.", capitalised("held-out "+measureName(s)), withError(is, newest.StandardError), newest.Version, only)
	}
	var first, last *Iteration
	for i := range s.Series {
		if it := &s.Series[i]; it.RewardMean != nil {
			if first == nil {
				first = it
			}
			last = it
		}
	}
	if first == last {
		return ""
	}
	return capitalised(fmt.Sprintf("%sthe mean training reward went from %.3g in iteration %d to %.3g in iteration %d; no two policies were measured on held-out problems.",
		soFar(s.IterationsDone < s.Iterations), *first.RewardMean, first.Iteration, *last.RewardMean, last.Iteration))
}

func soFar(unfinished bool) string {
	if unfinished {
		return "so far, "
	}
	return ""
}

func capitalised(sentence string) string { return strings.ToUpper(sentence[:1]) + sentence[1:] }
