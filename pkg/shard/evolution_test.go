package shard

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/internal/codec"
	"github.com/lathe-rl/lathe/pkg/shard/internal/shardtest"
)

// other encodes rows of any struct as a file that says it holds schema.
func other[T any](t testing.TB, schema string, rows ...T) []byte {
	t.Helper()
	var b bytes.Buffer
	options := []parquet.WriterOption{parquet.MaxRowsPerRowGroup(300)}
	if schema != "" {
		options = append(options, parquet.KeyValueMetadata(codec.SchemaKey, schema))
	}
	w := parquet.NewGenericWriter[T](&b, options...)
	must.Get(w.Write(rows))(t)
	must.Do(t, w.Close())
	return b.Bytes()
}

// metricColumns are the columns of Metric, for files that differ in one.
type metricColumns struct {
	Iteration int32   `parquet:"iteration"`
	Stage     string  `parquet:"stage"`
	Shard     int32   `parquet:"shard"`
	Name      string  `parquet:"name"`
	Value     float64 `parquet:"value"`
}

func TestSchemaEvolution(t *testing.T) {
	t.Parallel()
	type reordered struct {
		Value     float64 `parquet:"value,split"`
		Added     []int64 `parquet:"added,list"`
		Name      string  `parquet:"name,dict"`
		Iteration int32   `parquet:"iteration,delta"`
		Shard     int32   `parquet:"shard"`
		Stage     string  `parquet:"stage"`
	}
	type missing struct {
		Iteration int32  `parquet:"iteration"`
		Stage     string `parquet:"stage"`
		Shard     int32  `parquet:"shard"`
		Name      string `parquet:"Name"`
	}
	type narrowed struct {
		Iteration int64   `parquet:"iteration"`
		Stage     int32   `parquet:"stage"`
		Shard     string  `parquet:"shard"`
		Name      []byte  `parquet:"name"`
		Value     float32 `parquet:"value"`
	}
	type repeated struct {
		Iteration int32     `parquet:"iteration"`
		Stage     []string  `parquet:"stage,list"`
		Shard     *int32    `parquet:"shard,optional"`
		Name      []string  `parquet:"name"`
		Value     []float64 `parquet:"value,list"`
	}
	good := metricColumns{1, "learn", 2, "loss", 0.5}
	for _, c := range []struct {
		name string
		data []byte
		want []string // parts of the message; none means that it reads
	}{
		{"the same", other(t, "metrics/v1.0", good), nil},
		{"a later minor version", other(t, "metrics/v1.9", good), nil},
		{"reordered, encoded otherwise, one more", other(t, "metrics/v1.0", reordered{0.5, []int64{1}, "loss", 1, 2, "learn"}), nil},
		{"missing", other(t, "metrics/v1.0", missing{}), []string{
			`its columns are not those of metrics/v1.0`,
			`column value: missing (expected required DOUBLE)`,
			`column name: missing (expected required STRING), but there is "Name"`,
		}},
		{"narrowed", other(t, "metrics/v1.0", narrowed{}), []string{
			`column iteration: expected required INT(32,true), found required INT(64,true)`,
			`column stage: expected required STRING, found required INT(32,true)`,
			`column shard: expected required INT(32,true), found required STRING`,
			`column name: expected required STRING, found required BYTE_ARRAY`,
			`column value: expected required DOUBLE, found required FLOAT`,
		}},
		{"repeated", other(t, "metrics/v1.0", repeated{}), []string{
			`column stage: expected required STRING, found required group`,
			`column shard: expected required INT(32,true), found optional INT(32,true)`,
			`column name: expected required STRING, found repeated STRING`,
		}},
		{"a newer major version", other(t, "metrics/v2.0", good), []string{"it holds rows of metrics/v2.0 and this binary reads up to metrics/v1.0: use a newer lathe"}},
		{"an older major version", other(t, "metrics/v0.3", good), []string{"use the lathe that wrote it"}},
		{"other rows", other(t, "ledger/v1.0", good), []string{"it holds rows of ledger/v1.0, expected metrics/v1.0"}},
		{"no schema", other(t, "", good), []string{"it does not name its schema; expected metrics/v1.0"}},
		{"a bad schema", other(t, "metrics", good), []string{`schema "metrics" is not of the form NAME/vMAJOR.MINOR`}},
	} {
		path := filepath.Join(t.TempDir(), "metrics.parquet")
		if _, err := seal.WriteBytes(path, c.data, shardtest.Attempt, seal.Manifest{Rows: 1}); err != nil {
			t.Fatal(err)
		}
		rows, _, err := Read[Metric](t.Context(), path, seal.Options{})
		if c.want == nil {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			shardtest.SameRows(t, rows, []Metric{{1, "learn", 2, "loss", 0.5}})
			continue
		}
		if exitcode.Code(err) != exitcode.Data || len(exitcode.Hints(err)) == 0 {
			t.Errorf("%s: %v, want exit code 65 and a hint", c.name, err)
			continue
		}
		for _, part := range append(c.want, path) {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", c.name, err, part)
			}
		}
		for _, err := range Rows[Metric](t.Context(), path, seal.Options{}) {
			if exitcode.Code(err) != exitcode.Data {
				t.Errorf("%s: Rows: %v", c.name, err)
			}
		}
	}
}

// A column inside a list of structs is compared too.
func TestSchemaOfNestedColumns(t *testing.T) {
	t.Parallel()
	type message struct {
		Role    string `parquet:"role"`
		Content int64  `parquet:"content"`
	}
	type row struct {
		Messages []message `parquet:"messages,list"`
	}
	problems := compareColumns(parquet.SchemaOf(Instance{}), parquet.SchemaOf(row{}), false, false)
	text := strings.Join(problems, "\n")
	if want := "column messages.list.element.content: expected required STRING, found required INT(64,true)"; !strings.Contains(text, want) {
		t.Errorf("problems %q, want %q", text, want)
	}
	if len(problems) != 18 { // 17 other columns of an instance, and this one
		t.Errorf("%d problems: %q", len(problems), problems)
	}
}

func TestRowCountOfManifestCounts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "metrics.parquet")
	if _, err := seal.WriteBytes(path, encode(t, []Metric{{}}, nil), shardtest.Attempt, seal.Manifest{Rows: 2}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Read[Metric](t.Context(), path, seal.Options{}); err == nil || !strings.Contains(err.Error(), "it holds 1 rows, its manifest says 2") {
		t.Errorf("error %v", err)
	}
}

// TestOlderMinorVersion: a file of before a column was added reads with that
// column empty; one of today must have it.
func TestOlderMinorVersion(t *testing.T) {
	t.Parallel()
	type before struct {
		TaskID         string   `parquet:"task_id"`
		Kind           string   `parquet:"kind,dict"`
		Level          int32    `parquet:"level"`
		PolicyVersion  int32    `parquet:"policy_version"`
		Sample         int32    `parquet:"sample"`
		Step           int32    `parquet:"step"`
		Prompt         string   `parquet:"prompt"`
		Response       string   `parquet:"response"`
		Extracted      string   `parquet:"extracted"`
		Score          float64  `parquet:"score"`
		Outcome        string   `parquet:"outcome,dict"`
		ResponseTokens int32    `parquet:"response_tokens"`
		Milestones     []string `parquet:"milestones,list"`
	}
	rows := []before{{TaskID: "a", Kind: "add", Step: 1, Score: .5, Milestones: []string{"m", "n"}}, {TaskID: "b", Outcome: "ok", Milestones: []string{}}}
	path := filepath.Join(t.TempDir(), "old.parquet")
	if _, err := seal.WriteBytes(path, other(t, "evaluation/v1.1", rows...), shardtest.Attempt, seal.Manifest{Rows: 2}); err != nil {
		t.Fatal(err)
	}
	got, _ := must.Get2(Read[EvaluationRow](t.Context(), path, seal.Options{}))(t)
	shardtest.SameRows(t, got, []EvaluationRow{{TaskID: "a", Kind: "add", Step: 1, Score: .5, Milestones: []string{"m", "n"}}, {TaskID: "b", Outcome: "ok", Milestones: []string{}}})
	path = filepath.Join(t.TempDir(), "new.parquet")
	if _, err := seal.WriteBytes(path, other(t, EvaluationRow{}.Schema().String(), rows...), shardtest.Attempt, seal.Manifest{Rows: 2}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Read[EvaluationRow](t.Context(), path, seal.Options{}); err == nil || !strings.Contains(err.Error(), "column set: missing") {
		t.Errorf("error %v, want one that names the missing column", err)
	}
}
