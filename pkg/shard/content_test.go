package shard

import (
	"encoding/binary"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/shard/internal/shardtest"
)

// The digest spelled out by hand, as its doc comment says.
func TestContentDigestByHand(t *testing.T) {
	t.Parallel()
	var b []byte
	u32 := func(v uint32) { b = binary.LittleEndian.AppendUint32(b, v) }
	u64 := func(v uint64) { b = binary.LittleEndian.AppendUint64(b, v) }
	text := func(s string) { u64(uint64(len(s))); b = append(b, s...) }
	b = append(b, `lathe-rows/1
score/v2.3
instance_id string
group_id string
sample int32
outcome string
raw_score float64
normalized_score float64
reward float64
reward_parts []struct{name string;value float64;}
milestones []string
execute_seconds float64
feedback string
extracted string
validation_score float64
embedding []float32
turns []struct{step int32;part int32;outcome string;raw_score float64;normalized_score float64;reward float64;reward_parts []struct{name string;value float64;};milestones []string;execute_seconds float64;validation_score float64;feedback string;extracted string;cpu_seconds float64;fingerprint string;generate_seconds float64;}
`...)
	u64(1)
	text("i")
	text("g")
	minusOne := int32(-1)
	u32(uint32(minusOne))
	text("ok")
	u64(math.Float64bits(3))
	u64(math.Float64bits(0.5))
	u64(math.Float64bits(math.Copysign(0, -1)))
	u64(1)
	text("accuracy")
	u64(math.Float64bits(1))
	u64(2)
	text("a")
	text("")
	u64(math.Float64bits(9))
	text("tail")
	text("")
	u64(0)
	u64(2)
	u32(math.Float32bits(1))
	u32(math.Float32bits(2))
	u64(0)
	row := Score{
		InstanceID: "i", GroupID: "g", Sample: -1, Outcome: "ok", RawScore: 3, NormalizedScore: 0.5, Reward: math.Copysign(0, -1),
		RewardParts: []RewardPart{{"accuracy", 1}}, Milestones: []string{"a", ""}, ExecuteSeconds: 9, Feedback: "tail",
		Embedding: []float32{1, 2}, Attempt: 3, Node: "n1",
	}
	got, hasVolatile := ContentDigest([]Score{row})
	if want := shardtest.SHA256(b); got != want || !hasVolatile {
		t.Errorf("ContentDigest = %s, %v, want %s", got, hasVolatile, want)
	}
}

func TestContentDigestLeavesOutVolatileColumns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   reflect.Type
		want []string
	}{
		{reflect.TypeFor[TaskRow](), []string{"folder"}},
		{reflect.TypeFor[Instance](), nil},
		{reflect.TypeFor[Rollout](), []string{"generate_seconds"}},
		{reflect.TypeFor[Score](), []string{"attempt", "node", "protection"}},
		{reflect.TypeFor[LedgerRow](), nil},
		{reflect.TypeFor[Metric](), nil},
		{reflect.TypeFor[EvaluationRow](), nil},
	} {
		var got []string
		for _, column := range columnsOf(c.of) {
			if column.volatile {
				got = append(got, column.name)
			}
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: volatile columns %q, want %q", c.of, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.Custom(anyRow[Score]), 1, 5).Draw(t, "rows")
		before, _ := ContentDigest(rows)
		row := &rows[rapid.IntRange(0, len(rows)-1).Draw(t, "row")]
		row.Attempt++
		row.Node += "x"
		if after, _ := ContentDigest(rows); after != before {
			t.Fatal("a volatile column changes the digest")
		}
		row.ExecuteSeconds = 1
		before, _ = ContentDigest(rows)
		replay, measured := ReplayDigest(rows)
		row.ExecuteSeconds = 2
		for i := range row.Turns {
			row.Turns[i].ExecuteSeconds++
		}
		if after, _ := ReplayDigest(rows); after != replay || !measured {
			t.Fatal("a measured column changes what a replay is compared by")
		}
		if after, _ := ContentDigest(rows); after == before {
			t.Fatal("a measured column does not change the digest of content")
		}
		before, _ = ContentDigest(rows)
		row.Milestones = append(row.Milestones, "")
		if after, _ := ContentDigest(rows); after == before {
			t.Fatal("a milestone does not change the digest")
		}
	})
}

// What lies in one column cannot be mistaken for what lies in the next.
func TestContentDigestKeepsColumnsApart(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for i, rows := range [][]Rollout{
		nil,
		{{}},
		{{}, {}},
		{{InstanceID: "ab"}},
		{{InstanceID: "a", GroupID: "b"}},
		{{GroupID: "ab"}},
		{{Messages: []Message{{}}}},
		{{Messages: []Message{{"a", ""}}}},
		{{Messages: []Message{{"", "a"}}}},
		{{TokenIDs: []int32{0}}},
		{{TokenIDs: []int32{0, 0}}},
		{{LossMask: []bool{false}}},
		{{LogProbs: []float32{0}}},
	} {
		sum, _ := ContentDigest(rows)
		if j, ok := seen[sum]; ok {
			t.Errorf("rows %d and %d have one digest", j, i)
		}
		seen[sum] = i
	}
}
