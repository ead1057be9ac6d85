package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"

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

// foretell says what the tasks of a recipe take at the rates that were measured.
func (b benchmark) foretell(r recipe.Recipe) taskTimes {
	g := graph.Graph{Recipe: r}
	prompt, response := float64(b.PromptTokens), float64(r.Rollout.MaxNewTokens)
	rows := g.PlanRows()
	t := taskTimes{Responses: rows * r.Rollout.Group}
	add := func(stage graph.Stage, seconds float64) {
		t.Tasks = append(t.Tasks, taskTime{stage, seconds / 60})
	}
	train, update := b.rate(bench.Train, 0), b.rate(bench.Update, 0).Seconds
	if w := r.WarmStart; w.Steps > 0 {
		learned := float64(w.Batch) * (prompt + response)
		add(graph.StageWarm, float64(min(w.Steps, cmp.Or(w.Chunk, w.Steps)))*(learned/train.TokensPerSecond+update))
	}
	sample := func(responses int, tokens float64) float64 {
		decode := b.rate(bench.Decode, responses)
		return float64(responses) * (prompt/b.rate(bench.Prefill, 0).TokensPerSecond + tokens/decode.TokensPerSecond)
	}
	add(graph.StageRollout, sample(ceil(rows, g.Shards(graph.Node{Stage: graph.StageRollout}))*r.Rollout.Group, response))
	learned := float64(r.Rollout.Prompts*r.Rollout.Group) * (prompt + response) / train.TokensPerSecond // an epoch's
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
		attempts := 1 + m.Steps
		if g.Waves(graph.StageEvalRollout) > 1 {
			attempts = 1 // the next is a task of its own
		}
		seconds += float64(attempts) * sample(ceil(m.Problems, shards)*m.Chains(), float64(cmp.Or(m.MaxNewTokens, r.Rollout.MaxNewTokens)))
	}
	if seconds > 0 {
		add(graph.StageEvalRollout, seconds)
	}
	return t
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
		return b, exitcode.Dataf("reading rates %q: %w", path, err)
	}
	for _, work := range []string{bench.Prefill, bench.Decode, bench.Train, bench.Update} {
		if r := b.rate(work, 0); !(r.Seconds > 0) || work != bench.Update && !(r.TokensPerSecond > 0) {
			return b, exitcode.Dataf("rates %q have none of %s: they must be what lathe policy bench --json prints", path, work)
		}
	}
	return b, nil
}
