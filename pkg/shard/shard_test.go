package shard

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/internal/shardtest"
)

// encode returns the bytes of a table.
func encode[T Row](t testing.TB, rows []T, meta map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, encodeTable(&b, rows, meta))
	return b.Bytes()
}

// decode is Read and ReadForeign without the files.
func decode[T Row](data []byte, isForeign bool) (rows []T, err error) {
	table, err := openTable[T](data, isForeign)
	if err != nil {
		return nil, err
	}
	if isForeign {
		if err := table.checkNulls(); err != nil {
			return nil, err
		}
	}
	return table.all(0)
}

// sample rows, one of each kind of content.
var sampleRollouts = []Rollout{
	{
		InstanceID: "i1", GroupID: "g1", Sample: 1, PolicyVersion: 2,
		Messages: []Message{{"user", "1+1?"}, {"assistant", "2"}},
		TokenIDs: []int32{1, 2, 300000, -1}, LossMask: []bool{false, false, true, true},
		LogProbs: []float32{0, 0, -1.5, float32(math.Inf(-1))}, FinishReason: "stop", Turns: 1,
		PromptTokens: 2, ResponseTokens: 2, GenerateSeconds: 0.25, Outcome: "ok", LogProbSource: "server", Retokenized: true,
	},
	{InstanceID: "i2", Messages: []Message{{}}, Outcome: "infra"},
	{},
}

// checkRowType is the one-line test of a row type: its tags are understood,
// each column has the expected Parquet type, and any rows come back.
func checkRowType[T Row](t *testing.T, columns string) {
	t.Helper()
	var zero T
	t.Run(zero.Schema().Name, func(t *testing.T) {
		schema := parquet.SchemaOf(zero)
		got := ""
		for _, path := range schema.Columns() {
			leaf, _ := schema.Lookup(path...)
			name := path[0]
			for _, part := range path[1:] {
				if part != "list" && part != "element" {
					name += "." + part
				}
			}
			kind := leaf.Node.Type().String()
			if leaf.MaxRepetitionLevel > 0 {
				kind = "[]" + kind
			}
			got += name + " " + kind + "\n"
		}
		if got != columns {
			t.Errorf("columns:\n%s\nwant:\n%s\n%s", got, columns, cmp.Diff(columns, got))
		}
		rapid.Check(t, func(t *rapid.T) {
			rows := rapid.SliceOfN(rapid.Custom(anyRow[T]), 0, 6).Draw(t, "rows")
			var b, again bytes.Buffer
			for _, w := range []*bytes.Buffer{&b, &again} {
				if err := encodeTable(w, rows, map[string]string{"b": "2", "a": "1", "c": "3"}); err != nil {
					t.Fatalf("writing: %v", err)
				}
			}
			if !bytes.Equal(b.Bytes(), again.Bytes()) {
				t.Fatalf("writing the same rows twice gives other bytes")
			}
			for _, isForeign := range []bool{false, true} {
				got, err := decode[T](b.Bytes(), isForeign)
				if err != nil {
					t.Fatalf("reading: %v", err)
				}
				shardtest.SameRows(t, got, rows)
			}
		})
	})
}

// anyRow draws a row with any values, by reflection.
func anyRow[T any](t *rapid.T) T {
	var row T
	fill(t, reflect.ValueOf(&row).Elem())
	return row
}

func fill(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int32:
		v.SetInt(int64(rapid.Int32().Draw(t, "int32")))
	case reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int64"))
	case reflect.Float32:
		v.SetFloat(float64(rapid.OneOf(rapid.Float32(), rapid.Just(float32(math.Inf(-1)))).Draw(t, "float32")))
	case reflect.Float64:
		v.SetFloat(rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN()), rapid.Just(math.Copysign(0, -1))).Draw(t, "float64"))
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "string"))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 5).Draw(t, "length")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(t, v.Index(i))
		}
	default:
		t.Fatalf("no way to draw a %s", v.Type())
	}
}

func TestRowTypes(t *testing.T) {
	t.Parallel()
	checkRowType[Instance](t, `instance_id STRING
task_id STRING
env STRING
set STRING
kind STRING
parent_id STRING
group_id STRING
depth INT(32,true)
turn INT(32,true)
messages.role []STRING
messages.content []STRING
base_score DOUBLE
potential DOUBLE
origin STRING
probability DOUBLE
selected_by STRING
seed INT(64,true)
iteration INT(32,true)
partner_id STRING
`)
	checkRowType[Entry](t, `entry_id STRING
task_id STRING
kind STRING
parent_id STRING
depth INT(32,true)
turn INT(32,true)
ref.iteration INT(32,true)
ref.row INT(32,true)
ref.sample INT(32,true)
ref.step INT(32,true)
ref.wave INT(32,true)
ref.messages INT(32,true)
base_score DOUBLE
potential DOUBLE
last_sampled INT(32,true)
visits INT(32,true)
`)
	checkRowType[Stat](t, `axis STRING
scope STRING
key STRING
name STRING
iteration INT(32,true)
value DOUBLE
`)
	checkRowType[Rollout](t, `instance_id STRING
group_id STRING
sample INT(32,true)
step INT(32,true)
part INT(32,true)
kind STRING
policy_version INT(32,true)
messages.role []STRING
messages.content []STRING
prompt_messages INT(32,true)
token_ids []INT(32,true)
loss_mask []BOOLEAN
logprobs []FLOAT
finish_reason STRING
stop_string STRING
turns INT(32,true)
prompt_tokens INT(32,true)
response_tokens INT(32,true)
generate_seconds DOUBLE
outcome STRING
logprob_source STRING
retokenized BOOLEAN
wave INT(32,true)
waits STRING
embedding []FLOAT
`)
	checkRowType[Score](t, `instance_id STRING
group_id STRING
sample INT(32,true)
outcome STRING
raw_score DOUBLE
normalized_score DOUBLE
reward DOUBLE
reward_parts.name []STRING
reward_parts.value []DOUBLE
milestones []STRING
execute_seconds DOUBLE
feedback STRING
extracted STRING
validation_score DOUBLE
embedding []FLOAT
turns.step []INT(32,true)
turns.part []INT(32,true)
turns.outcome []STRING
turns.raw_score []DOUBLE
turns.normalized_score []DOUBLE
turns.reward []DOUBLE
turns.reward_parts.name []STRING
turns.reward_parts.value []DOUBLE
turns.milestones []STRING
turns.execute_seconds []DOUBLE
turns.validation_score []DOUBLE
turns.feedback []STRING
turns.extracted []STRING
turns.cpu_seconds []DOUBLE
turns.fingerprint []STRING
turns.generate_seconds []DOUBLE
attempt INT(32,true)
node STRING
protection STRING
`)
	checkRowType[LedgerRow](t, `instance_id STRING
group_id STRING
sample INT(32,true)
segment INT(32,true)
iteration_sampled INT(32,true)
iteration INT(32,true)
fate STRING
reason STRING
reward DOUBLE
`)
	checkRowType[Metric](t, `iteration INT(32,true)
stage STRING
shard INT(32,true)
name STRING
value DOUBLE
`)
	checkRowType[EvaluationRow](t, `task_id STRING
set STRING
kind STRING
level INT(32,true)
policy_version INT(32,true)
sample INT(32,true)
step INT(32,true)
prompt STRING
response STRING
extracted STRING
score DOUBLE
outcome STRING
response_tokens INT(32,true)
milestones []STRING
attempt_kind STRING
raw_score DOUBLE
reward_parts.name []STRING
reward_parts.value []DOUBLE
execute_seconds DOUBLE
earlier_turns.outcome []STRING
earlier_turns.score []DOUBLE
earlier_turns.raw_score []DOUBLE
earlier_turns.reward_parts.name []STRING
earlier_turns.reward_parts.value []DOUBLE
earlier_turns.execute_seconds []DOUBLE
earlier_turns.generate_seconds []DOUBLE
generate_seconds DOUBLE
`)
}

func TestWriteAndRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rollout", "00001.parquet")
	m, err := Write(path, sampleRollouts, map[string]string{"curriculum": "exit"}, shardtest.Attempt, seal.Manifest{PolicyVersion: 2})
	if err != nil {
		t.Fatal(err)
	}
	if m.Rows != 3 || m.Schema != (Rollout{}).Schema() || m.PolicyVersion != 2 {
		t.Errorf("manifest %+v", m)
	}
	if content, _ := ContentDigest(sampleRollouts); m.ContentSHA256 != content || m.SHA256 != shardtest.SHA256(shardtest.Get(t, path)) {
		t.Errorf("digests %s and %s", m.SHA256, m.ContentSHA256)
	}
	rows, read, err := Read[Rollout](t.Context(), path, seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	shardtest.SameRows(t, rows, sampleRollouts)
	shardtest.SameRows(t, read, m)
	meta, err := Metadata(t.Context(), path, seal.Options{})
	if err != nil || !cmp.Equal(meta, map[string]string{"curriculum": "exit"}) {
		t.Errorf("metadata %v, %v", meta, err)
	}
	rows, err = ReadForeign[Rollout](t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	shardtest.SameRows(t, rows, sampleRollouts)
	var streamed []Rollout
	for row, err := range Rows[Rollout](t.Context(), path, seal.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		streamed = append(streamed, row)
	}
	shardtest.SameRows(t, streamed, sampleRollouts)
	for range Rows[Rollout](t.Context(), path, seal.Options{}) {
		break // stopping early is fine
	}
}

// The bytes of a table are part of every run's digest: they were pinned once
// and must not move with a library or a machine.
func TestPinnedBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, got, want string
	}{
		{"rollouts", shardtest.SHA256(encode(t, sampleRollouts, nil)), "3b5c321a6f1b4d594b589d5c2a63feb2f7df9c84eca7d7b271c9c890d556f411"},
		{"no scores", shardtest.SHA256(encode(t, []Score{}, nil)), "c22db88a85a459a91db7b17ccc51677d95873927adc0739ff0cddf6c5b2a2878"},
		{"metadata", shardtest.SHA256(encode(t, []Metric{{1, "learn", 0, "loss", 0.5}}, map[string]string{"b": "1", "a": "2"})), "d2f5c75b1c6c9f60d2efd142db0cf1663d395a8f5a021e8738a76805a32e721c"},
	} {
		if c.got != c.want {
			t.Errorf("%s: sha256 %s, want %s", c.name, c.got, c.want)
		}
	}
}

// Many row groups, and text long enough to be worth a statistic.
func TestLargeTable(t *testing.T) {
	t.Parallel()
	const n = 2*rowsPerRowGroup + 5
	rows := make([]EvaluationRow, n)
	for i := range rows {
		rows[i] = EvaluationRow{
			TaskID: fmt.Sprint("task ", i), Sample: int32(i), Score: float64(i) / n,
			Response: fmt.Sprintf("%0200d", i*i),
		}
	}
	data := encode(t, rows, nil)
	file := must.Get(openParquet(bytes.NewReader(data), int64(len(data))))(t)
	if got := len(file.RowGroups()); got != 3 {
		t.Errorf("%d row groups, want 3", got)
	}
	got := must.Get(decode[EvaluationRow](data, false))(t)
	shardtest.SameRows(t, got, rows)
	for i, group := range file.Metadata().RowGroups {
		for _, column := range group.Columns {
			if column.MetaData.Type == 6 /* BYTE_ARRAY */ && len(column.MetaData.Statistics.MaxValue) > 0 {
				t.Errorf("row group %d, column %v: the footer holds text", i, column.MetaData.PathInSchema)
			}
		}
	}
}

func TestMetadataKeyIsTaken(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.parquet")
	if _, err := Write(path, []Metric{}, map[string]string{"schema": "x"}, shardtest.Attempt, seal.Manifest{}); err == nil || !strings.Contains(err.Error(), `metadata key "schema" is taken`) {
		t.Errorf("key schema can be overwritten: %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 0 {
		t.Errorf("left behind %v, %v", entries, err)
	}
}
