package measure

import (
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// merged returns the union of spans as disjoint spans in order.
func merged(spans []span) []span {
	sorted := slices.Clone(spans)
	slices.SortFunc(sorted, func(a, b span) int { return a.from.Compare(b.from) })
	var union []span
	for _, s := range sorted {
		if n := len(union); n > 0 && !s.from.After(union[n-1].to) {
			if s.to.After(union[n-1].to) {
				union[n-1].to = s.to
			}
			continue
		}
		union = append(union, s)
	}
	return union
}

// covered is the part of a window, in seconds, that disjoint spans cover.
func covered(window span, disjoint []span) float64 {
	var seconds float64
	for _, s := range disjoint {
		from, to := later(s.from, window.from), earlier(s.to, window.to)
		seconds += span{from, to}.seconds()
	}
	return seconds
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// whole is the span from the first start to the last end of tasks. ok is
// false without tasks.
func whole(tasks []finishedTask) (s span, ok bool) {
	for i, t := range tasks {
		if i == 0 {
			s = t.span
			continue
		}
		s.from, s.to = earlier(s.from, t.span.from), later(s.to, t.span.to)
	}
	return s, len(tasks) > 0
}

func spansOf(tasks []finishedTask) []span {
	spans := make([]span, len(tasks))
	for i, t := range tasks {
		spans[i] = t.span
	}
	return spans
}

// stageTimes sums up each stage that has finished a task, in the order of an
// iteration.
func stageTimes(tasks []finishedTask) []StageTime {
	byStage := map[graph.Stage][]finishedTask{}
	for _, t := range tasks {
		byStage[t.Stage] = append(byStage[t.Stage], t)
	}
	var times []StageTime
	for _, stage := range graph.Stages() {
		list := byStage[stage]
		if len(list) == 0 {
			continue
		}
		st := StageTime{Stage: string(stage), Tasks: len(list)}
		var tokens float64
		for _, t := range list {
			st.TaskSeconds += t.span.seconds()
			st.LongestSeconds = max(st.LongestSeconds, t.span.seconds())
			tokens += t.metrics[tokenMetric[stage]]
		}
		st.WallSeconds = total(merged(spansOf(list)))
		if tokens > 0 && st.TaskSeconds > 0 {
			rate := tokens / st.TaskSeconds
			st.TokenRate = &rate
		}
		times = append(times, st)
	}
	return times
}

// tokenMetric is the metric that counts the tokens that a stage works on.
var tokenMetric = map[graph.Stage]string{
	graph.StageWarm: "tokens", graph.StageRollout: "response_tokens", graph.StageEvalRollout: "response_tokens",
	graph.StageGradient: "tokens", graph.StageLearn: "tokens",
}

// orchestration is the time of each iteration in which none of all tasks ran.
// The window of an iteration reaches from the end of the one before to its
// own end, or begins with its own first task where iterations overlap. A
// pause of the run counts: the files do not tell it from waiting in a queue.
func orchestration(byIteration map[int][]finishedTask, all []finishedTask, iterations int) (wall, idle map[int]float64) {
	wall, idle = map[int]float64{}, map[int]float64{}
	busy := merged(spansOf(all))
	previous, known := whole(byIteration[0])
	for k := 1; k <= iterations; k++ {
		window, ok := whole(byIteration[k])
		if !ok {
			break
		}
		if known && previous.to.Before(window.from) {
			window.from = previous.to
		}
		wall[k] = window.seconds()
		idle[k] = max(0, window.seconds()-covered(window, busy))
		previous, known = window, true
	}
	return wall, idle
}
