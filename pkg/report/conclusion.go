package report

import (
	"fmt"
	"math"

	"github.com/lathe-rl/lathe/pkg/plural"
)

// conclusion is one sentence of what the run came to: how the held-out score of first
// answers moved, against which policy, and what self-improvement adds. A change of less than
// two standard errors is said to be no change. Empty before there are two evaluations.
func conclusion(s Summary) string {
	before, after, _ := beforeAndAfter(s)
	was, is := value(before, accuracyOf), value(after, accuracyOf)
	if was == nil || is == nil || before == after {
		return ""
	}
	gain, err := difference(was, is), s.AccuracyGainStandardError
	verb := "rose"
	switch {
	case err != nil && math.Abs(*gain) < 2**err, *gain == 0:
		verb = "did not change by more than two standard errors"
	case *gain < 0:
		verb = "fell"
	}
	sentence := fmt.Sprintf("Held-out %s of first answers %s: %s %% in v%06d against %s %% in v%06d, a change of %s points",
		measureName(s), verb, percent(is), after.Version, percent(was), before.Version, changeWithError(gain, err))
	if err == nil {
		sentence += " (its error is not known)"
	}
	if after.Version < s.Iterations {
		sentence = "So far: " + sentence
	}
	if delta := value(after, deltaOf); s.Steps > 0 && delta != nil {
		sentence += fmt.Sprintf("; %d %s changed that by %s points", s.Steps, plural.Noun(s.Steps, "revision"), change(delta))
		if b := value(before, deltaOf); b != nil {
			sentence += fmt.Sprintf(" (by %s before)", change(b))
		}
	}
	return sentence + "."
}
