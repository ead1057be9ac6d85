package stagetest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
	"github.com/lathe-rl/lathe/pkg/stage/buffer"
)

// Verdict is one response of a test: its score, and how many tokens it has.
type Verdict struct {
	Outcome shard.Outcome // ok by default
	Score   float64       // normalised; the reward too unless reward is given
	Tokens  int           // 2 by default
	Finish  string
}

// Scores is responses that differ by their score alone.
func Scores(values ...float64) []Verdict {
	out := make([]Verdict, len(values))
	for i, v := range values {
		out[i] = Verdict{Score: v}
	}
	return out
}

// Reduction is one run of the buffer stage over rows that a test makes.
type Reduction struct {
	*Rig
	Rows []shard.Instance
	In   buffer.Inputs
}

// NewReduction makes a plan with one instance for each group.
func NewReduction(t testing.TB, groups int, settings ...string) *Reduction {
	t.Helper()
	r := New(t, append([]string{"curriculum.name=uniform", "score.embedding=none", "factors=[]"}, settings...)...)
	path, plan := r.Plan(groups)
	return &Reduction{Rig: r, Rows: plan, In: buffer.Inputs{
		Iteration: 1, Plans: []buffer.PlanRef{{Iteration: 1, Path: path}},
		StateOutput: r.Path("state.parquet"), StatsOutput: r.Path("stats.parquet"), BatchOutput: r.Path("batch.arrow"), LedgerOutput: r.Path("ledger.parquet"),
		PlanOutputs: []buffer.PlanRef{{Iteration: 2, Path: r.Path("next.parquet")}}, PlanRows: 4,
	}}
}

// Shard seals the responses to some instances as one rollout and score shard.
func (f *Reduction) Shard(name string, instances []shard.Instance, groups ...[]Verdict) {
	f.Helper()
	var rollouts []shard.Rollout
	var verdicts []shard.Score
	for i, group := range groups {
		for sample, v := range group {
			if v.Tokens == 0 {
				v.Tokens = 2
			}
			if v.Outcome == "" {
				v.Outcome = shard.OutcomeOK
			}
			r := shard.Rollout{
				InstanceID: instances[i].InstanceID, GroupID: instances[i].GroupID, Sample: int32(sample), FinishReason: v.Finish,
				Messages:     append(append([]shard.Message(nil), instances[i].Messages...), shard.Message{Role: "assistant", Content: "0"}),
				PromptTokens: 1, ResponseTokens: int32(v.Tokens), Turns: 1, Outcome: string(shard.OutcomeOK),
				TokenIDs: make([]int32, 1+v.Tokens), LossMask: make([]bool, 1+v.Tokens), LogProbs: make([]float32, 1+v.Tokens),
			}
			for t := 1; t <= v.Tokens; t++ {
				r.LossMask[t], r.LogProbs[t] = true, -0.5
			}
			rollouts = append(rollouts, r)
			verdicts = append(verdicts, shard.Score{
				InstanceID: r.InstanceID, GroupID: r.GroupID, Sample: r.Sample, Outcome: string(v.Outcome), NormalizedScore: v.Score, Reward: v.Score,
			})
		}
	}
	f.Check(Write(f.Path(name+"-rollout.parquet"), rollouts))
	f.Check(Write(f.Path(name+"-score.parquet"), verdicts))
	f.In.Shards = append(f.In.Shards, buffer.ShardRef{Iteration: 1, Rollout: f.Path(name + "-rollout.parquet"), Score: f.Path(name + "-score.parquet")})
}

// Try runs the stage.
func (f *Reduction) Try() error {
	f.Helper()
	chooser, err := f.Recipe.NewCurriculum()
	f.Check(err)
	return buffer.Run(f.Context(), f.Job, buffer.SettingsOf(f.Recipe), f.Env, chooser, f.In)
}

// Run runs the stage, which succeeds, and gives the batch with its metrics.
func (f *Reduction) Run() ([]shard.Sequence, map[string]float64) {
	f.Helper()
	f.Check(f.Try())
	batch, m, err := arrowfile.ReadBatch(f.Context(), f.In.BatchOutput, seal.Options{})
	f.Check(err)
	return batch, m.Metrics
}

// Reasons lists what the ledger says, in its order.
func (f *Reduction) Reasons() []string {
	f.Helper()
	var out []string
	for _, row := range Read[shard.LedgerRow](f.Rig, f.In.LedgerOutput) {
		text := row.Fate
		if row.Reason != "" {
			text += " " + row.Reason
		}
		out = append(out, text)
	}
	return out
}

// Outputs has what comes of the reduction sealed in a folder of its own.
func (f *Reduction) Outputs(folder string) {
	f.Helper()
	f.Check(os.Mkdir(f.Path(folder), 0o755))
	in := &f.In
	in.StateOutput, in.StatsOutput = f.Path(folder+"/state.parquet"), f.Path(folder+"/stats.parquet")
	in.BatchOutput, in.LedgerOutput = f.Path(folder+"/batch.arrow"), f.Path(folder+"/ledger.parquet")
	in.PlanOutputs = []buffer.PlanRef{{Iteration: 2, Path: f.Path(folder + "/next.parquet")}}
}

// Set loads the smoke recipe with other settings, and has what comes of it sealed
// in a folder of its own.
func (f *Reduction) Set(folder string, settings ...string) {
	f.Helper()
	f.Outputs(folder)
	resolved, err := recipe.Load("../../../jobs/smoke.yaml", append([]string{
		"curriculum.name=uniform", "score.embedding=none", "factors=[]", "advantage.epsilon=1e-6",
	}, settings...))
	f.Check(err)
	f.Recipe = resolved.Recipe
}

// Traces is a reduction over two groups of traces of two turns, in one context
// or two, of every outcome.
func Traces(t testing.TB, environment string) *Reduction {
	t.Helper()
	r := NewOf(t, environment)
	path, plan := r.Plan(2)
	f := &Reduction{Rig: r, Rows: plan, In: buffer.Inputs{
		Iteration: 1, Plans: []buffer.PlanRef{{Iteration: 1, Path: path}},
		StateOutput: r.Path("state.parquet"), StatsOutput: r.Path("stats.parquet"), BatchOutput: r.Path("batch.arrow"), LedgerOutput: r.Path("ledger.parquet"),
		PlanOutputs: []buffer.PlanRef{{Iteration: 2, Path: r.Path("next.parquet")}}, PlanRows: 2,
	}}
	var rollouts []shard.Rollout
	var scores []shard.Score
	for g, instance := range plan {
		for sample, outcome := range []shard.Outcome{shard.OutcomeOK, shard.OutcomeWrong, shard.OutcomeOK, shard.OutcomeInvalid, shard.OutcomeInfra} {
			parts := 1 + sample%2
			score := shard.Score{
				InstanceID: instance.InstanceID, GroupID: instance.GroupID, Sample: int32(sample), Outcome: string(outcome),
				Embedding: []float32{float32(sample), float32(g)},
			}
			for part := range parts {
				row := shard.Rollout{
					InstanceID: instance.InstanceID, GroupID: instance.GroupID, Sample: int32(sample), Part: int32(part), Kind: instance.Kind,
					Messages: slices.Clone(instance.Messages), PromptMessages: int32(len(instance.Messages)), Outcome: "ok", FinishReason: "stop", PromptTokens: 1,
				}
				row.TokenIDs, row.LossMask, row.LogProbs = []int32{1}, []bool{false}, []float32{0}
				for turn := range 2 / parts {
					quality := float64(1+g+sample*2+turn+part) / 16
					row.Messages = append(row.Messages, shard.Message{Role: "assistant", Content: strings.Repeat("1", 1+sample) + "</tool>"}, shard.Message{Role: "user", Content: "again"})
					for range 1 + sample {
						row.TokenIDs, row.LossMask, row.LogProbs = append(row.TokenIDs, 2), append(row.LossMask, true), append(row.LogProbs, -.5)
						row.ResponseTokens++
					}
					row.TokenIDs, row.LossMask, row.LogProbs = append(row.TokenIDs, 1), append(row.LossMask, false), append(row.LogProbs, 0)
					row.Turns++
					score.Turns = append(score.Turns, shard.TurnScore{Part: int32(part), Outcome: string(outcome), RawScore: quality, NormalizedScore: quality, Reward: quality, ExecuteSeconds: float64(sample + turn), Extracted: "1"})
					score.RawScore, score.NormalizedScore, score.Reward = quality, quality, quality
				}
				row.Messages = row.Messages[:len(row.Messages)-1] // the policy has the last word
				rollouts = append(rollouts, row)
			}
			scores = append(scores, score)
		}
	}
	f.Check(Write(f.Path("rollout.parquet"), rollouts))
	f.Check(Write(f.Path("score.parquet"), scores))
	files := buffer.WaveRef{Rollout: f.Path("rollout.parquet"), Score: f.Path("score.parquet")}
	f.In.Shards = []buffer.ShardRef{{Iteration: 1, Rollout: files.Rollout, Score: files.Score}}
	f.In.WaveOf = func(shard.Ref, string) (buffer.WaveRef, error) { return files, nil }
	return f
}
