package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/lathe-rl/lathe/pkg/measure"
)

// unknown stands for a number that is not known.
const unknown = "-"

// measureName is what the mean of held-out scores is called.
func measureName(s Summary) string {
	if s.Graded {
		return "mean score"
	}
	return "accuracy"
}

// percent prints a share as a percentage with one digit: 0.5 is 50.0.
func percent(x *float64) string {
	if x == nil {
		return unknown
	}
	return strconv.FormatFloat(100**x, 'f', 1, 64)
}

// withError prints a share and its standard error as percentages.
func withError(x, se *float64) string {
	if x == nil || se == nil {
		return percent(x)
	}
	return percent(x) + " ± " + percent(se)
}

// change prints a difference of shares in points, with its sign.
func change(x *float64) string {
	if x == nil {
		return unknown
	}
	return signed(100 * *x)
}

// changeWithError prints a difference and its standard error in points.
func changeWithError(x, se *float64) string {
	if x == nil || se == nil {
		return change(x)
	}
	return change(x) + " ± " + percent(se)
}

// signed prints with a sign and one digit; what rounds to zero has no sign.
func signed(x float64) string {
	if math.Abs(x) < 0.05 {
		return "0.0"
	}
	return strings.Replace(fmt.Sprintf("%+.1f", x), "-", "−", 1)
}

func difference(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	d := *b - *a
	return &d
}

// grouped prints an integer with thin groups of thousands: 12 345 678.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var parts []string
	for len(digits) > 3 {
		parts = append(parts, digits[len(digits)-3:])
		digits = digits[:len(digits)-3]
	}
	parts = append(parts, digits)
	slices.Reverse(parts)
	return sign + strings.Join(parts, " ")
}

func groupedOr(n *int64) string {
	if n == nil {
		return unknown
	}
	return grouped(*n)
}

// duration prints seconds as a person says them.
func duration(seconds float64) string {
	switch {
	case seconds < 0.01:
		return "0 s"
	case seconds < 10:
		return fmt.Sprintf("%.2g s", seconds)
	case seconds < 100:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 6000:
		return fmt.Sprintf("%.1f min", seconds/60)
	}
	return fmt.Sprintf("%.1f h", seconds/3600)
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// counts prints counts by name, the largest first, leaving out zeros.
func counts(m map[string]int) string {
	var parts []string
	for _, name := range byCount(m) {
		parts = append(parts, fmt.Sprintf("%s %s", printable(name), grouped(int64(m[name]))))
	}
	return strings.Join(parts, ", ")
}

// byCount sorts the names of counts that are not zero, the largest first.
func byCount(m map[string]int) []string {
	var names []string
	for name, n := range m {
		if n != 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if m[a] != m[b] {
			return m[b] - m[a]
		}
		return strings.Compare(a, b)
	})
	return names
}

// printable replaces what a terminal would act on: names and kinds come from
// files that anybody may have written.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return unicode.ReplacementChar
	}, s)
}

// shortened cuts a text to at most n runes.
func shortened(s string, n int) (text string, cut bool) {
	count := 0
	for i := range s {
		if count == n {
			return s[:i], true
		}
		count++
	}
	return s, false
}

// tailWords is a line of the report; empty where nobody waited for long.
func tailWords(t Tail) string {
	if t.LastSeconds < 1 {
		return ""
	}
	words := fmt.Sprintf("%s: half of an array after %s, 95 %% after %s, all after %s", t.Stage, duration(t.MedianSeconds), duration(t.P95Seconds), duration(t.LastSeconds))
	if t.QuorumSeconds >= 1 {
		words += fmt.Sprintf("; schedule.quorum %g would have saved %s", measure.TailQuorum, duration(t.QuorumSeconds))
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

// lateWords says how long tasks did not see files of other nodes.
func lateWords(l measure.LateFiles) string {
	return fmt.Sprintf("tasks waited %s in all for files that other nodes had sealed, %s at most (%s)", duration(l.Seconds), duration(l.LongestSeconds), l.LongestTask)
}
