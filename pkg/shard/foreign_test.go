package shard

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/internal/shardtest"
)

// As DuckDB and pandas write: every column, list and element optional.
type (
	nullableScore struct {
		InstanceID      *string      `parquet:"instance_id,optional"`
		GroupID         *string      `parquet:"group_id,optional"`
		Sample          *int32       `parquet:"sample,optional"`
		Outcome         *string      `parquet:"outcome,optional"`
		RawScore        *float64     `parquet:"raw_score,optional"`
		NormalizedScore *float64     `parquet:"normalized_score,optional"`
		Reward          *float64     `parquet:"reward,optional"`
		RewardParts     []RewardPart `parquet:"reward_parts,optional,list"`
		Milestones      []*string    `parquet:"milestones,optional,list" parquet-element:",optional"`
		ExecuteSeconds  *float64     `parquet:"execute_seconds,optional"`
		Feedback        *string      `parquet:"feedback,optional"`
		Extracted       *string      `parquet:"extracted,optional"`
		ValidationScore *float64     `parquet:"validation_score,optional"`
		Embedding       []float32    `parquet:"embedding,optional,list"`
		Turns           []TurnScore  `parquet:"turns,optional,list"`
		Attempt         *int32       `parquet:"attempt,optional"`
		Node            *string      `parquet:"node,optional"`
		Protection      *string      `parquet:"protection,optional"`
	}
)

func nullable(text string) nullableScore {
	number, whole := 0.5, int32(3)
	return nullableScore{
		InstanceID: &text, GroupID: &text, Sample: &whole, Outcome: &text, RawScore: &number, NormalizedScore: &number,
		Reward: &number, RewardParts: []RewardPart{{text, number}}, Milestones: []*string{&text, &text}, ExecuteSeconds: &number,
		Feedback: &text, Extracted: &text, ValidationScore: &number, Embedding: []float32{1}, Turns: []TurnScore{turn(text)}, Attempt: &whole, Node: &text, Protection: &text,
	}
}

func turn(text string) TurnScore {
	return TurnScore{Step: 1, Outcome: text, RewardParts: []RewardPart{{text, 0.5}}, Milestones: []string{text}, Feedback: text}
}

func TestReadForeign(t *testing.T) {
	t.Parallel()
	want := func(text string) Score {
		return Score{
			InstanceID: text, GroupID: text, Sample: 3, Outcome: text, RawScore: 0.5, NormalizedScore: 0.5, Reward: 0.5,
			RewardParts: []RewardPart{{text, 0.5}}, Milestones: []string{text, text}, ExecuteSeconds: 0.5, Feedback: text,
			Extracted: text, ValidationScore: 0.5, Embedding: []float32{1}, Turns: []TurnScore{turn(text)}, Attempt: 3, Node: text, Protection: text,
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "by hand.parquet")
	shardtest.Put(t, path, other(t, "", nullable("a"), nullable("")))
	rows := must.Get(ReadForeign[Score](t.Context(), path))(t)
	shardtest.SameRows(t, rows, []Score{want("a"), want("")})

	many := make([]nullableScore, 1000)
	for i := range many {
		many[i] = nullable("x")
	}
	for _, c := range []struct {
		column string
		spoil  func(s *nullableScore)
	}{
		{"instance_id", func(s *nullableScore) { s.InstanceID = nil }},
		{"reward", func(s *nullableScore) { s.Reward = nil }},
		{"milestones.list.element", func(s *nullableScore) { s.Milestones[1] = nil }},
		{"node", func(s *nullableScore) { s.Node = nil }},
	} {
		rows := append([]nullableScore{}, many...)
		rows[777] = nullable("x")
		c.spoil(&rows[777])
		shardtest.Put(t, path, other(t, "", rows...))
		_, err := ReadForeign[Score](t.Context(), path)
		if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "row 777, column "+c.column+": got NULL") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", c.column, err)
		}
	}
	// An empty list is not a NULL.
	empty := nullable("x")
	empty.Milestones = []*string{}
	shardtest.Put(t, path, other(t, "", nullable("x"), empty))
	if rows, err := ReadForeign[Score](t.Context(), path); err != nil || len(rows[1].Milestones) != 0 {
		t.Errorf("an empty list: %v, %v", rows, err)
	}
}

func TestReadForeignKeepsToTheManifest(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "metrics.parquet")
	if _, err := Write(path, []Metric{{Value: 1}}, nil, shardtest.Attempt, seal.Manifest{}); err != nil {
		t.Fatal(err)
	}
	shardtest.Put(t, path, encode(t, []Metric{{Value: 2}}, nil))
	if _, err := ReadForeign[Metric](t.Context(), path); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("a file that its manifest does not describe: %v", err)
	}
	must.Do(t, syscall.Mkfifo(path+".pipe", 0o666))
	if _, err := ReadForeign[Metric](t.Context(), path+".pipe"); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "a pipe") {
		t.Errorf("a pipe: %v", err)
	}
	if _, err := ReadForeign[Metric](t.Context(), path+".none"); exitcode.Code(err) != exitcode.Data {
		t.Errorf("a missing file: %v", err)
	}
}

// Files that nobody listed may be damaged: an error, or for a bit that does
// not matter the same rows; never a panic. The pages carry checksums.
func TestReadForeignDamage(t *testing.T) {
	t.Parallel()
	good := encode(t, sampleRollouts, nil)
	want := must.Get(decode[Rollout](good, true))(t)
	for n := range good {
		if _, err := decode[Rollout](good[:n], true); err == nil || !strings.Contains(err.Error(), "it is not a whole Parquet file") {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(good), err)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		data := bytes.Clone(good)
		i := random.IntN(len(data))
		data[i] ^= 1 << random.IntN(8)
		rows, err := decode[Rollout](data, true)
		if err == nil && len(rows) != len(want) {
			t.Fatalf("byte %d flipped: %d rows, no error", i, len(rows))
		}
	}
}

func FuzzReadForeign(f *testing.F) {
	f.Add(encode(f, sampleRollouts, nil))
	f.Add(encode(f, []Rollout{}, nil))
	f.Add(other(f, "", nullable("a")))
	f.Add([]byte("PAR1"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := decode[Rollout](data, true)
		if err == nil {
			ContentDigest(rows) // all of it can be touched
		}
	})
}
