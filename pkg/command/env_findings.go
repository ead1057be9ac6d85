package command

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// fewest responses from which it is said what rewards follow from.
const fewest = 8

// lengthAlone is the rank correlation of rewards with lengths above which rewards are
// said to follow from nothing else.
const lengthAlone = 0.95

// promptFindings counts what is wrong with prompts.
type promptFindings struct {
	long, tight, refusedBy, swallowed []string // tasks
	why                               error
	roles                             map[string]bool
}

// add looks at a prompt as the policy reads it.
func (f *promptFindings) add(task string, messages []shard.Message, p triedPrompt, room, newTokens int) {
	switch {
	case p.Tokens >= room:
		f.long = append(f.long, task)
	case p.Tokens+newTokens > room:
		f.tight = append(f.tight, task)
	}
	for _, m := range messages {
		if content := strings.TrimSpace(m.Content); !strings.Contains(p.Text, content) {
			if f.roles == nil {
				f.roles = map[string]bool{}
			}
			f.roles[m.Role] = true
			if n := len(f.swallowed); n == 0 || f.swallowed[n-1] != task {
				f.swallowed = append(f.swallowed, task)
			}
		}
	}
}

func (f *promptFindings) refused(task string, err error) {
	f.refusedBy, f.why = append(f.refusedBy, task), cmp.Or(f.why, err)
}

func (f *promptFindings) findings(room, newTokens int) []string {
	var all []string
	say := func(tasks []string, one, more, format string, args ...any) {
		if len(tasks) > 0 {
			all = append(all, fmt.Sprintf("%s (the first: %s) %s ", plural.Count(len(tasks), "prompt"), tasks[0], plural.Verb(len(tasks), one, more))+fmt.Sprintf(format, args...))
		}
	}
	say(f.long, "leaves", "leave", "no room for a response: the policy's context has %d tokens", room)
	say(f.tight, "leaves", "leave", "room for fewer than rollout.max_new_tokens (%d) tokens: the policy's context has %d", newTokens, room)
	say(f.refusedBy, "is", "are", "refused by the policy's chat template: %v", f.why)
	say(f.swallowed, "loses", "lose", "text in the policy's chat template, which omits or changes messages of the role %s", strings.Join(slices.Sorted(maps.Keys(f.roles)), ", "))
	return all
}

// rewardFindings are what is wrong with rewards.
func rewardFindings(responses []triedResponse) []string {
	var all []string
	var failed, differ []triedResponse
	var rewards, lengths []float64
	for _, r := range responses {
		switch {
		case r.Reward == nil || r.Again == nil:
			failed = append(failed, r)
		case *r.Reward != *r.Again:
			differ = append(differ, r)
		}
		if r.Reward != nil {
			rewards, lengths = append(rewards, *r.Reward), append(lengths, float64(len(r.Response)))
		}
	}
	if n := len(failed); n > 0 {
		all = append(all, fmt.Sprintf("%s could not be scored; the first: %s", plural.Of(n, len(responses), "response"), failed[0].Feedback))
	}
	if n := len(differ); n > 0 {
		r := differ[0]
		all = append(all, fmt.Sprintf("the reward of %s changes when %s scored again (the first, of %s: %s, then %s): a reward may depend only on the response, the task and the task's seed",
			plural.Of(n, len(responses), "response"), plural.Verb(n, "it is", "they are"), r.Task, number(r.Reward), number(r.Again)))
	}
	if len(rewards) < fewest {
		return all // noteFew says so
	}
	if slices.Min(rewards) == slices.Max(rewards) {
		return append(all, fmt.Sprintf("the reward of all %d responses is %v: there is nothing to learn%s", len(rewards), rewards[0], feedback(responses)))
	}
	if rho := rankCorrelation(lengths, rewards); math.Abs(rho) >= lengthAlone {
		all = append(all, fmt.Sprintf("the reward depends only on the length of the response (rank correlation %.2f over %d responses)", rho, len(rewards)))
	}
	return all
}

// noteFew says that there are too few rewards to tell what they follow from; "" where
// there are enough. It is no finding: a run does not suffer from it.
func noteFew(responses []triedResponse) string {
	n := 0
	for _, r := range responses {
		if r.Reward != nil {
			n++
		}
	}
	if n >= fewest {
		return ""
	}
	return fmt.Sprintf("%s %s a reward; the checks of rewards need %d or more (use --problems, --samples, or more lines in --responses)", plural.Count(n, "response"), plural.Verb(n, "has", "have"), fewest)
}

// feedback is what a reward says of the first response, if it says anything.
func feedback(responses []triedResponse) string {
	if responses[0].Feedback == "" {
		return ""
	}
	return "; feedback on the first: " + shortened(responses[0].Feedback, 200)
}

// rankCorrelation is Spearman's: the correlation of ranks, those of ties being their
// mean; 0 where one of the two is the same throughout.
func rankCorrelation(x, y []float64) float64 {
	if rho := stat.Correlation(ranks(x), ranks(y), nil); !math.IsNaN(rho) {
		return rho
	}
	return 0
}

func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	ranked := make([]float64, len(x))
	for first := 0; first < len(order); {
		last := first
		for last+1 < len(order) && x[order[last+1]] == x[order[first]] {
			last++
		}
		for _, at := range order[first : last+1] {
			ranked[at] = float64(first+last) / 2
		}
		first = last + 1
	}
	return ranked
}

// number is a reward as a table shows it.
func number(x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.4g", *x)
}

func parts(named map[string]float64) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(named)) {
		all = append(all, fmt.Sprintf("%s %.4g", name, named[name]))
	}
	return strings.Join(all, ", ")
}

// shortened is the beginning of a text.
func shortened(text string, characters int) string {
	if all := []rune(text); len(all) > characters {
		return string(all[:characters]) + "…"
	}
	return text
}
