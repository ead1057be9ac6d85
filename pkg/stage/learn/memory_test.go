package learn_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
)

// gradientShard and wholeUpdate tell a child of these tests what it computes.
const (
	gradientShard = "LATHE_TEST_GRADIENT_SHARD"
	wholeUpdate   = "LATHE_TEST_WHOLE_UPDATE"
)

// TestGradientShardReadsItsUnits: bytes read and memory of a gradient shard are
// those of its units, however large the batch. LATHE_TEST_RESPONSES and
// LATHE_TEST_TOKENS measure other sizes: a quarter of the responses, and all of
// them, with a gradient shard for each 16.
//
// Alone: it measures memory.
func TestGradientShardReadsItsUnits(t *testing.T) {
	if encoded := os.Getenv(gradientShard); encoded != "" {
		computeShard(t, encoded)
		return
	}
	const perUnit = 16
	responses, tokens := stagetest.Number(t, "LATHE_TEST_RESPONSES", 512), stagetest.Number(t, "LATHE_TEST_TOKENS", 2048)
	r := stagetest.New(t)
	r.LimitContext(tokens)
	peak := map[int]int64{}
	for _, n := range []int{responses / 4, responses} {
		units := n / perUnit
		r.Recipe.Schedule.GradientUnits = units
		in := inputs(r, r.Path(fmt.Sprintf("batch-%d.arrow", n)), "learned")
		size := longBatch(r, in.Batch, n, tokens, units)
		started := time.Now()
		output := r.Path(fmt.Sprintf("gradient-%d.arrow", n))
		encoded, err := json.Marshal(map[string]any{
			"Batch": in.Batch, "Policy": in.Policy, "Reference": in.Reference, "Units": units, "Shard": units / 2, "Output": output,
		})
		r.Check(err)
		peak[n] = r.PeakMemory("TestGradientShardReadsItsUnits", gradientShard, string(encoded))
		m, err := seal.Read(t.Context(), output, seal.Options{})
		r.Check(err)
		read := int64(m.Metrics["batch_bytes_read"])
		t.Logf("%d responses of %d tokens, shard %d of %d: %.1f s, %d MB at most, %.1f of %.1f MB of the batch read",
			n, tokens, units/2, units, time.Since(started).Seconds(), peak[n]>>20, float64(read)/1e6, float64(size)/1e6)
		// Beside them, blocks that are read ahead and where each unit lies.
		if own, block, index := size/int64(units), int64(1<<20), int64(64*units); read > own+3*block+index {
			t.Errorf("%d bytes were read: the shard's units have %d, a block %d, where units lie %d", read, own, block, index)
		}
	}
	wantFlat(t, peak, responses, tokens)
}

// wantFlat holds the peaks of memory, in bytes, by the responses of the batch, to
// what a batch may take that is not kept.
func wantFlat(t *testing.T, peak map[int]int64, responses, tokens int) {
	t.Helper()
	if more := float64(peak[responses]-peak[responses/4]) / float64(responses*3/4*tokens); more > 24 {
		t.Errorf("each further token takes %.1f bytes of memory", more)
	}
}

// TestLearnKeepsOneUnit: the memory of an update by one task is that of one
// unit, however large the batch. Its variables and sizes are those of
// TestGradientShardReadsItsUnits.
//
// Alone: it measures memory.
func TestLearnKeepsOneUnit(t *testing.T) {
	if encoded := os.Getenv(wholeUpdate); encoded != "" {
		computeUpdate(t, encoded)
		return
	}
	const perUnit = 16
	responses, tokens := stagetest.Number(t, "LATHE_TEST_RESPONSES", 8192), stagetest.Number(t, "LATHE_TEST_TOKENS", 64)
	r := stagetest.New(t)
	r.LimitContext(tokens)
	peak := map[int]int64{}
	for _, n := range []int{responses / 4, responses} {
		r.Recipe.Schedule.GradientUnits = n / perUnit
		batch := r.Path(fmt.Sprintf("batch-%d.arrow", n))
		longBatch(r, batch, n, tokens, n/perUnit)
		encoded, err := json.Marshal(wholeUpdateOf{batch, n / perUnit, tokens})
		r.Check(err)
		started := time.Now()
		peak[n] = r.PeakMemory("TestLearnKeepsOneUnit", wholeUpdate, string(encoded))
		t.Logf("%d responses of %d tokens: %.1f s, %d MB at most", n, tokens, time.Since(started).Seconds(), peak[n]>>20)
	}
	wantFlat(t, peak, responses, tokens)
}

// wholeUpdateOf is what a child of TestLearnKeepsOneUnit computes.
type wholeUpdateOf struct {
	Batch         string
	Units, Tokens int
}

// computeUpdate is the child.
func computeUpdate(t *testing.T, encoded string) {
	var u wholeUpdateOf
	r := stagetest.New(t)
	r.Check(json.Unmarshal([]byte(encoded), &u))
	r.LimitContext(u.Tokens)
	r.Recipe.Schedule.GradientUnits = u.Units
	update(r, inputs(r, u.Batch, "learned"))
	r.ReportPeakMemory()
}

// computeShard is the child.
func computeShard(t *testing.T, encoded string) {
	var in struct {
		learn.Inputs
		Units, Shard int
		Output       string
	}
	r := stagetest.New(t)
	r.Check(json.Unmarshal([]byte(encoded), &in))
	r.Recipe.Schedule.GradientUnits, r.Recipe.Schedule.GradientShards = in.Units, in.Units
	_, err := learn.RunGradient(t.Context(), r.Job, learn.SettingsOf(r.Recipe), in.Inputs, 0, in.Shard, in.Units, in.Output)
	r.Check(err)
	r.ReportPeakMemory()
}

// longBatch seals a batch of long sequences, and gives its size in bytes.
func longBatch(r *stagetest.Rig, path string, n, tokens, units int) int64 {
	r.Helper()
	sequence := func(i int) shard.Sequence {
		stream := rand.New(rand.NewPCG(1, uint64(i)))
		s := shard.Sequence{
			TokenIDs: make([]int32, tokens), LossMask: make([]bool, tokens), Positions: make([]int32, tokens), Turns: make([]int32, tokens), OldLogProbs: make([]float32, tokens),
			TurnSegments: []int32{0}, TurnAdvantages: []float32{1}, TurnFactors: []float64{1}, TurnRewards: []float64{1}, TurnWeights: []float64{1e-3},
			GroupID: strconv.Itoa(i / 8), InstanceID: strconv.Itoa(i / 8), Sample: int32(i % 8), Unit: int32(i * units / n), Place: int32(i), LogProbSource: shard.LogProbsEngine,
		}
		for t := range tokens {
			s.TokenIDs[t], s.Positions[t], s.LossMask[t], s.OldLogProbs[t] = stream.Int32N(8), int32(t), t > 0, -2
		}
		s.OldLogProbs[0] = 0
		return s
	}
	var layout arrowfile.BatchLayout
	for i := range n {
		layout.Add(&shard.Sequence{Unit: int32(i * units / n), LogProbSource: shard.LogProbsEngine}, tokens)
	}
	next := 0
	m, err := arrowfile.WriteBatchFrom(path, layout, func(rows int) ([]shard.Sequence, error) {
		sequences := make([]shard.Sequence, rows)
		for i := range sequences {
			sequences[i] = sequence(next)
			next++
		}
		return sequences, nil
	}, seal.AttemptFromEnv(), seal.Manifest{})
	r.Check(err)
	return m.Bytes
}
