package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy/bench"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// taskTimes is how long the tasks of a recipe take at most, when every response is as
// long as it may be.
type taskTimes struct {
	Responses int        `json:"responses"` // of an iteration
	Tasks     []taskTime `json:"tasks"`     // those that sample or learn
}

type taskTime struct {
	Stage   graph.Stage `json:"stage"`
	Minutes float64     `json:"minutes"`
}

// settings ask for twice the time, in whole minutes.
func (t taskTimes) settings() []string {
	settings := make([]string, len(t.Tasks))
	for i, task := range t.Tasks {
		settings[i] = fmt.Sprintf("resources.stages.%s.minutes=%d", task.Stage.Resources(), max(1, int(math.Ceil(2*task.Minutes))))
	}
	return settings
}

// estimate returns how long the tasks of a recipe take at the measured rates.
func (b benchmark) estimate(r recipe.Recipe) taskTimes {
	g := graph.Graph{Recipe: r}
	rows, attempts := g.PlanRows(), 1+r.Scaffold.Steps
	t := taskTimes{Responses: rows * r.Rollout.Group * attempts}
	add := func(stage graph.Stage, seconds float64) {
		t.Tasks = append(t.Tasks, taskTime{stage, seconds / 60})
	}
	whole, sampled := b.attempt(r, r.Rollout.NewTokens())
	train, update := b.rate(bench.Train, 0), b.rate(bench.Update, 0).Seconds
	if w := r.WarmStart; w.Steps > 0 {
		add(graph.StageWarm, float64(min(w.Steps, cmp.Or(w.Chunk, w.Steps)))*(float64(w.Batch)*whole.all()/train.TokensPerSecond+update))
	}
	// Where the next attempt or message waits for a score, it is another task's.
	sample := func(stage graph.Stage, responses, attempts int, of spoken) float64 {
		if g.Waves(stage) > 1 {
			attempts = 1
		}
		decode := b.rate(bench.Decode, responses)
		return float64(responses*attempts) * (of.read/b.rate(bench.Prefill, 0).TokensPerSecond + of.written/decode.TokensPerSecond)
	}
	add(graph.StageRollout, sample(graph.StageRollout, ceil(rows, g.Shards(graph.Node{Stage: graph.StageRollout}))*r.Rollout.Group, attempts, sampled))
	learned := float64(r.Rollout.Prompts*r.Rollout.Group*attempts) * whole.all() / train.TokensPerSecond // an epoch's
	if g.Sharded() {
		// A gradient task has a part of one optimizer step, and the learn task that step alone.
		add(graph.StageGradient, learned/float64(r.Loss.MiniBatches*g.Shards(graph.Node{Stage: graph.StageGradient})))
		add(graph.StageLearn, update)
	} else {
		add(graph.StageLearn, float64(r.Loss.Epochs)*learned+float64(g.OptimizerSteps())*update)
	}
	shards := max(1, g.Shards(graph.Node{Stage: graph.StageEvalRollout})) // none where nothing is measured
	var seconds float64
	for _, m := range r.Evaluation.Measured() {
		_, sampled := b.attempt(r, m.NewTokens(r.Rollout))
		seconds += sample(graph.StageEvalRollout, ceil(m.Problems, shards)*m.Chains(), 1+m.Steps, sampled)
	}
	if seconds > 0 {
		add(graph.StageEvalRollout, seconds)
	}
	return t
}

// spoken counts the tokens that the policy reads and writes.
type spoken struct{ read, written float64 }

func (s spoken) all() float64 { return s.read + s.written }

// attempt bounds an attempt, in which a prompt stands before each message, and what a
// task samples of it: all, or one message where the next waits for a score.
func (b benchmark) attempt(r recipe.Recipe, newTokens []int) (whole, sampled spoken) {
	traits, _ := r.Traits() // whoever makes the environment says what is wrong
	for turn := range max(1, traits.Turns) {
		whole.read += float64(b.PromptTokens)
		whole.written += float64(newTokens[min(turn, len(newTokens)-1)])
	}
	if most := float64(b.ContextTokens); most > 0 && whole.all() > most {
		fits := most / whole.all()
		whole = spoken{whole.read * fits, whole.written * fits}
	}
	if traits.Waves <= 1 {
		return whole, whole
	}
	last := min(float64(slices.Max(newTokens)), whole.written)
	return whole, spoken{whole.all() - last, last}
}

// rate is that of a kind of work, of the largest batch that so many responses fill, or of
// the smallest that was measured.
func (b benchmark) rate(work string, responses int) bench.Rate {
	var found bench.Rate
	for _, r := range b.Rates {
		if r.Work == work && (found.Work == "" || r.Batch > found.Batch && r.Batch <= responses) {
			found = r
		}
	}
	return found
}

func ceil(n, parts int) int { return (n + parts - 1) / parts }

// readRates reads what lathe policy bench --json has printed.
func readRates(path string) (benchmark, error) {
	var b benchmark
	text, err := os.ReadFile(path)
	if err != nil {
		return b, exitcode.Usagef("--rates: %w", err)
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return b, exitcode.Dataf("read rates %q: %w", path, err)
	}
	for _, work := range []string{bench.Prefill, bench.Decode, bench.Train, bench.Update} {
		if r := b.rate(work, 0); !(r.Seconds > 0) || work != bench.Update && !(r.TokensPerSecond > 0) {
			return b, exitcode.Dataf("rates %q have no rate of %s: want a file printed by lathe policy bench --json", path, work)
		}
	}
	return b, nil
}
