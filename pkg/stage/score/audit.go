package score

import (
	"maps"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The metrics of a shard that the reward audit of a report is made from. A
// name in angle brackets stands for what was found.
//
//	reward_min, reward_max      over the responses that were scored
//	reason/<reason>             responses with this reason of their score
//	form/<form>                 responses to references of this form
//	form_right/<form>           of them, those that are right
//	accepts/<verifier>          right for another verifier or other options, and not for the run's
//	refuses/<verifier>          the other way round
//	compared/<verifier>         responses that both have scored
const (
	MetricRewardMin = "reward_min"
	MetricRewardMax = "reward_max"
	MetricReason    = "reason/"
	MetricForm      = "form/"
	MetricFormRight = "form_right/"
	MetricAccepts   = "accepts/"
	MetricRefuses   = "refuses/"
	MetricCompared  = "compared/"
)

const (
	maxReasons     = 32 // of a shard, by name; more are "other"
	maxReasonBytes = 60
)

// audit counts what scores were given for.
type audit struct {
	metrics  map[string]float64
	reasons  map[string]bool
	min, max float64
}

func newAudit() *audit {
	return &audit{metrics: map[string]float64{}, reasons: map[string]bool{}, min: math.Inf(1), max: math.Inf(-1)}
}

// add counts a response that was scored.
func (a *audit) add(row shard.Score, why, form string, others []env.Other) {
	a.min, a.max = min(a.min, row.Reward), max(a.max, row.Reward)
	reason := reasonOf(row, why)
	if !a.reasons[reason] && len(a.reasons) >= maxReasons {
		reason = "other"
	}
	a.reasons[reason] = true
	a.metrics[MetricReason+reason]++
	right := shard.Outcome(row.Outcome) == shard.OutcomeOK
	if form != "" {
		a.metrics[MetricForm+form]++
		if right {
			a.metrics[MetricFormRight+form]++
		}
	}
	for _, other := range others {
		a.metrics[MetricCompared+other.Name]++
		switch {
		case other.Right && !right:
			a.metrics[MetricAccepts+other.Name]++
		case right && !other.Right:
			a.metrics[MetricRefuses+other.Name]++
		}
	}
}

// reasonOf is the score's own reason, or else the first words of what it
// says to people.
func reasonOf(row shard.Score, reason string) string {
	if reason == "" {
		reason = row.Feedback
		if at := strings.IndexAny(reason, ":;\n\"("); at >= 0 {
			reason = reason[:at]
		}
	}
	reason = strings.TrimSpace(reason)
	for len(reason) > maxReasonBytes {
		_, size := utf8.DecodeLastRuneInString(reason)
		reason = reason[:len(reason)-size]
	}
	if reason == "" {
		return row.Outcome
	}
	return strings.ToValidUTF8(reason, "?")
}

// into adds the metrics to a manifest's.
func (a *audit) into(metrics map[string]float64) {
	if a.min > a.max {
		return // nothing was scored
	}
	metrics[MetricRewardMin], metrics[MetricRewardMax] = a.min, a.max
	maps.Copy(metrics, a.metrics)
}
