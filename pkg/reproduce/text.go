package reproduce

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/compare"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/webpage"
)

// Text prints what came out for a terminal or a log.
func Text(w io.Writer, r Reproduction) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Head())
	for _, e := range r.Results {
		fmt.Fprintf(&b, "\n%s: %s\n", e.Title, e.Progress())
		rows := [][]string{{"outcome", "paper", "ours", "numbers", "seeds needed: paper / seen", "claim"}}
		for _, c := range e.Claims {
			rows = append(rows, []string{c.Outcome, c.Papers(), c.Ours(), c.comparison(), c.SeedsNeeded(), c.Says})
		}
		webpage.Columns(&b, "  ", 3, rows)
		for _, line := range e.CheckLines() {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Head counts the outcomes.
func (r Reproduction) Head() string {
	counts, claims := map[string]int{}, 0
	for _, e := range r.Results {
		for _, c := range e.Claims {
			counts[c.Outcome]++
			claims++
		}
	}
	var words []string
	for _, outcome := range []string{CameOut, DidNot, Smaller, TooSmall, WrongArm, Unmeasured, NotRun} {
		if counts[outcome] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[outcome], outcome))
		}
	}
	return fmt.Sprintf("%s: %s", plural.Count(claims, "claim"), strings.Join(words, ", "))
}

// Progress says how much of an experiment is done, and how much of that a slower or
// faster machine may score otherwise.
func (e Result) Progress() string {
	done, timeouts := 0, 0
	for _, r := range e.Runs {
		if r.Done {
			done++
		}
		timeouts += r.Timeouts
	}
	text := fmt.Sprintf("%d of %s done", done, plural.Count(len(e.Runs), "run"))
	if timeouts > 0 {
		text += fmt.Sprintf("; programs of %s ran out of time, which depends on the machine", plural.Count(timeouts, "response"))
	}
	return text
}

// CheckLines say what is seen in the data of each arm, each once.
func (e Result) CheckLines() []string {
	var lines []string
	for _, c := range e.Claims {
		for _, check := range c.Checks {
			if line := check.line(); !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// line is a check with what the runs show.
func (c Checked) line() string {
	seen := "no run is done"
	switch {
	case c.Fails != "":
		seen = "FAILS: " + c.Fails
	case len(c.Values) > 0:
		low, high := slices.Min(c.Values), slices.Max(c.Values)
		seen = number(low)
		if high != low {
			seen += " to " + number(high)
		}
		seen += " in " + plural.Count(len(c.Values), "run")
	}
	return fmt.Sprintf("arm %s: %s (%s %s): %s", c.Method, c.Sees, c.Measure, c.Want, seen)
}

// comparison is the numbers of a claim in words.
func (o ClaimResult) comparison() string {
	switch {
	case o.Spread == nil || o.Outcome == WrongArm:
		return o.Why
	case o.Against == "":
		return o.Means() + ", from 0" + interval(*o.Spread)
	}
	return o.Means() + ", difference " + o.Difference()
}

// Means are those of the methods of a claim.
func (o ClaimResult) Means() string {
	if o.Spread == nil {
		return o.Why
	}
	text := fmt.Sprintf("%s: %s %s", o.Metric, o.Method, meanOf(o.Values))
	if o.Against != "" {
		text += fmt.Sprintf(", %s %s", o.Against, meanOf(o.Others))
	}
	return text + o.atEqual()
}

// bySeed are the values of the seeds that have them.
func (o ClaimResult) bySeed() string {
	words := make([]string, len(o.Seeds))
	for i, seed := range o.Seeds {
		words[i] = fmt.Sprintf("seed %d %s %s", seed, o.Method, number(o.Values[i]))
		if o.Against != "" {
			words[i] += fmt.Sprintf(" and %s %s", o.Against, number(o.Others[i]))
		}
	}
	return strings.Join(words, ", ")
}

// Difference is a claim's mean difference with its interval.
func (o ClaimResult) Difference() string {
	if o.Spread == nil {
		return "–"
	}
	return number(o.Spread.Mean) + interval(*o.Spread)
}

// Class is that of the claim's row on the page.
func (o ClaimResult) Class() string {
	switch o.Outcome {
	case CameOut:
		return "right"
	case DidNot, WrongArm:
		return "wrong"
	}
	return ""
}

// Papers is the paper's direction, with its numbers where the plan has them.
func (o ClaimResult) Papers() string {
	if o.Paper == "" {
		return o.Direction
	}
	return o.Direction + ": " + o.Paper
}

// Ours is the direction of the mean difference here, whatever its interval.
func (o ClaimResult) Ours() string {
	switch {
	case o.Spread == nil:
		return "–"
	case o.Spread.Mean > 0:
		return Higher
	case o.Spread.Mean < 0:
		return Lower
	}
	return "the same"
}

// SeedsNeeded says how many seeds the paper's effect and the one seen here need.
func (o ClaimResult) SeedsNeeded() string {
	if o.Power == nil {
		return "–"
	}
	needed := func(n *int) string {
		if n == nil {
			return "–"
		}
		return fmt.Sprint(*n)
	}
	return fmt.Sprintf("%s / %s", needed(o.Power.PaperSeeds), needed(o.Power.SeenSeeds))
}

// meanOf is a mean over seeds ± its sample standard deviation.
func meanOf(values []float64) string {
	s := compare.SpreadOf(values)
	if s.Std == nil {
		return number(s.Mean)
	}
	return fmt.Sprintf("%s ± %s", number(s.Mean), number(*s.Std))
}

func interval(s compare.Spread) string {
	if s.Low == nil {
		return ""
	}
	return fmt.Sprintf(" [%s, %s]", number(*s.Low), number(*s.High))
}

// number has three digits that count.
func number(x float64) string {
	if x == 0 || math.Abs(x) >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(x))))
	return fmt.Sprintf("%.*f", min(max(decimals, 0), 4), x)
}

// methods lists the methods of an experiment in the order of its recipes.
func (e Result) methods() []string {
	var names []string
	for _, r := range e.Runs {
		if !slices.Contains(names, r.Method) {
			names = append(names, r.Method)
		}
	}
	return names
}
