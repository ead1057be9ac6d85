package batch_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/buffer"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
)

// partOfAnIteration tells a child of this test the file that says which shards it reduces.
const partOfAnIteration = "LATHE_TEST_PART_OF_AN_ITERATION"

// long are the settings of this test.
var long = []string{"advantage.scale=none", "schedule.gradient_units=16", "select=[]"}

// TestMemory: the memory of an iteration is that of its shards, not of all their
// tokens, and its time is linear. LATHE_TEST_RESPONSES and LATHE_TEST_TOKENS
// measure other sizes: a quarter of the responses, and all of them.
//
// Alone: it measures memory.
func TestMemory(t *testing.T) {
	if part := os.Getenv(partOfAnIteration); part != "" {
		reducePart(t, part)
		return
	}
	const group = 8
	responses, tokens := stagetest.Number(t, "LATHE_TEST_RESPONSES", 320), stagetest.Number(t, "LATHE_TEST_TOKENS", 4096)
	groupsPerShard := max(2, responses/group/10_000) // an iteration has ten thousand shards at most
	f := stagetest.NewReduction(t, 1, long...)
	for len(f.Rows) < responses/group {
		next := f.Rows[0]
		next.InstanceID = fmt.Sprintf("i%d", len(f.Rows))
		next.GroupID = next.InstanceID
		f.Rows = append(f.Rows, next)
	}
	f.In.Plans[0].Path = f.Path("long.parquet")
	f.Check(stagetest.Write(f.In.Plans[0].Path, f.Rows))
	for first := 0; first < len(f.Rows); first += groupsPerShard {
		longShard(f, fmt.Sprintf("s%05d", first), f.Rows[first:min(len(f.Rows), first+groupsPerShard)], group, tokens)
	}
	peak := map[int]int64{}
	for _, n := range []int{responses / 4, responses} {
		part := f.In
		part.Shards = f.In.Shards[:n/group/groupsPerShard]
		started := time.Now()
		peak[n] = reduceInChild(f, part)
		m, err := seal.Read(t.Context(), part.BatchOutput, seal.Options{})
		f.Check(err)
		t.Logf("%d responses of %d tokens: %.1f s, %d MB at most, batch of %d MB", n, tokens, time.Since(started).Seconds(), peak[n]>>20, m.Bytes>>20)
		for _, path := range []string{part.BatchOutput, part.LedgerOutput, part.StateOutput, part.StatsOutput, part.PlanOutputs[0].Path} {
			f.Check(os.Remove(path))
			f.Check(os.Remove(seal.ManifestPath(path)))
		}
	}
	// It was about 60 bytes, and is 2 to 3.
	if more := float64(peak[responses]-peak[responses/4]) / float64(responses*3/4*tokens); more > 8 {
		t.Errorf("each further token takes %.1f bytes of memory", more)
	}
}

// longShard seals long responses to some instances.
func longShard(f *stagetest.Reduction, name string, instances []shard.Instance, group, tokens int) {
	f.Helper()
	stream := rand.New(rand.NewPCG(1, uint64(len(f.In.Shards))))
	var rollouts []shard.Rollout
	var scores []shard.Score
	for _, instance := range instances {
		for sample := range group {
			r := shard.Rollout{
				InstanceID: instance.InstanceID, GroupID: instance.GroupID, Sample: int32(sample), FinishReason: "stop",
				Messages:     append(append([]shard.Message(nil), instance.Messages...), shard.Message{Role: "assistant", Content: "0"}),
				PromptTokens: 1, ResponseTokens: int32(tokens - 1), Turns: 1, Outcome: string(shard.OutcomeOK), LogProbSource: string(shard.LogProbsEngine),
				TokenIDs: make([]int32, tokens), LossMask: make([]bool, tokens), LogProbs: make([]float32, tokens),
			}
			for i := 1; i < tokens; i++ {
				r.TokenIDs[i], r.LossMask[i], r.LogProbs[i] = stream.Int32N(1<<15), true, -stream.Float32()
			}
			rollouts = append(rollouts, r)
			scores = append(scores, shard.Score{
				InstanceID: r.InstanceID, GroupID: r.GroupID, Sample: r.Sample, Outcome: string(shard.OutcomeOK), Reward: float64(sample % 2), NormalizedScore: float64(sample % 2),
			})
		}
	}
	ref := buffer.ShardRef{Iteration: 1, Rollout: f.Path(name + "-rollout.parquet"), Score: f.Path(name + "-score.parquet")}
	f.Check(stagetest.Write(ref.Rollout, rollouts))
	f.Check(stagetest.Write(ref.Score, scores))
	f.In.Shards = append(f.In.Shards, ref)
}

// reduceInChild runs the stage in a process of its own, and gives the most memory
// that it held, in bytes.
func reduceInChild(f *stagetest.Reduction, in buffer.Inputs) int64 {
	f.Helper()
	encoded, err := json.Marshal(map[string]any{ // all but what finds earlier iterations
		"Iteration": in.Iteration, "Plans": in.Plans, "Shards": in.Shards, "StateOutput": in.StateOutput, "StatsOutput": in.StatsOutput,
		"BatchOutput": in.BatchOutput, "LedgerOutput": in.LedgerOutput, "PlanOutputs": in.PlanOutputs, "PlanRows": in.PlanRows,
	})
	f.Check(err)
	path := f.Path("part.json") // thousands of shards do not fit into a variable
	f.Check(os.WriteFile(path, encoded, 0o666))
	return f.PeakMemory("TestMemory", partOfAnIteration, path)
}

// reducePart is the child.
func reducePart(t *testing.T, part string) {
	f := stagetest.NewReduction(t, 1, long...)
	encoded, err := os.ReadFile(part)
	f.Check(err)
	f.Check(json.Unmarshal(encoded, &f.In))
	f.Check(f.Try())
	f.ReportPeakMemory()
}
