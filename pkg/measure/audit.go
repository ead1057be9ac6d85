package measure

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/mathverify"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	scoring "github.com/lathe-rl/lathe/pkg/stage/score"
)

// RewardAudit says what the rewards of the sampled training responses were
// given for.
type RewardAudit struct {
	Responses      int             `json:"responses"`       // that were scored
	Reasons        map[string]int  `json:"reasons"`         // of scores
	BudgetHits     int             `json:"budget_hits"`     // answers that needed more work than one verification may do
	Forms          []FormAudit     `json:"forms"`           // of reference answers
	Disagreements  []VerifierAudit `json:"disagreements"`   // with other verifiers, on the same responses
	Shards         int             `json:"shards"`          // of responses
	ConstantShards int             `json:"constant_shards"` // in which all of several responses have one reward
	ZeroShards     int             `json:"zero_shards"`     // of them, those whose reward is 0
	Warnings       []string        `json:"warnings"`
}

// FormAudit is the acceptance of answers to references of one form.
type FormAudit struct {
	Form      string `json:"form"`
	Responses int    `json:"responses"`
	Right     int    `json:"right"`
}

// VerifierAudit compares the run's scores with those of another verifier.
type VerifierAudit struct {
	Verifier string `json:"verifier"`
	Compared int    `json:"compared"`
	Accepts  int    `json:"accepts"` // right for it, and not for the run
	Refuses  int    `json:"refuses"` // right for the run, and not for it
}

// The bounds above which an audit warns.
const (
	warnBudget      = 0.01 // share of responses beyond the budget
	warnUnreadable  = 0.5  // share of responses in which no answer can be read
	warnDisagree    = 0.02 // share of responses that another verifier scores otherwise
	warnForm        = 50   // responses to references of one form, none of them right
	fewestInAShard  = 8    // responses, for one reward of all to be a sign
	constantOfAll   = 0.5  // share of shards with one reward
	otherVerifiers  = "math-verify"
	unreadableWords = string(mathverify.ReasonUnreadable)
)

// audit sums up the metrics of the score shards; nil when there are none.
func audit(tasks []finishedTask) *RewardAudit {
	sums := map[string]float64{}
	a := &RewardAudit{Reasons: map[string]int{}, Forms: []FormAudit{}, Disagreements: []VerifierAudit{}, Warnings: []string{}}
	for _, t := range tasks {
		low, known := t.metrics[scoring.MetricRewardMin]
		if t.Stage != graph.StageScore || !known {
			continue
		}
		a.Shards++
		if low == t.metrics[scoring.MetricRewardMax] && t.metrics["responses"] >= fewestInAShard {
			a.ConstantShards++
			if low == 0 {
				a.ZeroShards++
			}
		}
		for name, value := range t.metrics {
			sums[name] += value
		}
	}
	if a.Shards == 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		value := sums[name]
		if reason, ok := strings.CutPrefix(name, scoring.MetricReason); ok {
			a.Reasons[reason] = int(value)
			a.Responses += int(value)
		}
		if form, ok := strings.CutPrefix(name, scoring.MetricForm); ok {
			a.Forms = append(a.Forms, FormAudit{Form: form, Responses: int(value), Right: int(sums[scoring.MetricFormRight+form])})
		}
		if other, ok := strings.CutPrefix(name, scoring.MetricCompared); ok {
			a.Disagreements = append(a.Disagreements, VerifierAudit{
				Verifier: other, Compared: int(value), Accepts: int(sums[scoring.MetricAccepts+other]), Refuses: int(sums[scoring.MetricRefuses+other]),
			})
		}
	}
	slices.SortStableFunc(a.Forms, func(x, y FormAudit) int { return cmp.Compare(y.Responses, x.Responses) })
	a.BudgetHits = a.Reasons[string(mathverify.ReasonBudget)]
	a.warn()
	return a
}

// warn names what is likely to ruin a run.
func (a *RewardAudit) warn() {
	add := func(format string, values ...any) { a.Warnings = append(a.Warnings, fmt.Sprintf(format, values...)) }
	share := func(n int) float64 { return float64(n) / float64(a.Responses) } // of none no share is above a bound
	if a.ZeroShards > 0 {
		add("all rewards are 0 in %s: nothing can be learned from %s; look at the reasons and at a few responses", plural.Of(a.ZeroShards, a.Shards, "shard"), plural.Verb(a.ZeroShards, "it", "them"))
	}
	if others := a.ConstantShards - a.ZeroShards; float64(others) >= constantOfAll*float64(a.Shards) {
		add("all rewards are equal, and not 0, in %s: the problems may be too easy, or the reward open to a trick", plural.Of(others, a.Shards, "shard"))
	}
	if share(a.BudgetHits) > warnBudget {
		add("%s %s more work than one verification may do: a policy may be learning to write such answers", plural.Count(a.BudgetHits, "answer"), plural.Verb(a.BudgetHits, "needs", "need"))
	}
	if n := a.Reasons[unreadableWords] + a.Reasons[string(mathverify.ReasonNoAnswer)]; share(n) > warnUnreadable {
		add("no answer can be read in %s: compare the prompt with env.answer", plural.Of(n, a.Responses, "response"))
	}
	for _, f := range a.Forms {
		if f.Right == 0 && f.Responses >= warnForm {
			add("none of %s to references of the form %s is right", plural.Count(f.Responses, "answer"), f.Form)
		}
	}
	for _, d := range a.Disagreements {
		if strings.HasPrefix(d.Verifier, otherVerifiers) && float64(d.Accepts+d.Refuses) > warnDisagree*float64(d.Compared) {
			add("%s scores %s otherwise", d.Verifier, plural.Of(d.Accepts+d.Refuses, d.Compared, "response"))
		}
	}
}
