package arrowfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/internal/codec"
	"github.com/lathe-rl/lathe/pkg/shard/internal/shardtest"
)

var sampleBatch = []shard.Sequence{
	{
		TokenIDs: []int32{1, 2, 300000}, LossMask: []bool{false, true, true}, Positions: []int32{0, 1, 2},
		Turns: []int32{0, 0, 1}, OldLogProbs: []float32{0, -1, float32(math.Inf(-1))},
		TurnSegments: []int32{0, 2}, TurnAdvantages: []float32{0.5, -0.5}, TurnFactors: []float64{1, 0.5}, TurnRewards: []float64{0, 1}, TurnWeights: []float64{0.25, 0.125},
		GroupID: "g1", InstanceID: "i1", Sample: 1, IterationSampled: 2, OptimizerStep: 3, Unit: 4,
		LogProbSource: shard.LogProbsServer, PolicyVersion: 5,
	},
	{},
	{TokenIDs: []int32{7}, LossMask: []bool{true}, Positions: []int32{0}, Turns: []int32{0}, OldLogProbs: []float32{-2}, TurnSegments: []int32{0}, TurnAdvantages: []float32{1}, TurnFactors: []float64{1}, TurnRewards: []float64{0}, TurnWeights: []float64{1}},
}

var sampleTensors = []Tensor{
	{"model.embed_tokens.weight", []int{2, 3}, []float32{1, 2, 3, 4, 5, float32(math.NaN())}},
	{"empty", []int{0, 3}, nil},
	{"scalar", nil, []float32{-7}},
}

// batchBytes and tensorBytes return what is sealed.
func batchBytes(t testing.TB, sequences []shard.Sequence) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "batch.arrow")
	if _, err := WriteBatch(path, sequences, shardtest.Attempt, seal.Manifest{}); err != nil {
		t.Fatal(err)
	}
	return shardtest.Get(t, path)
}

// decodeBatch reads all sequences of a file that is not sealed.
func decodeBatch(data []byte) ([]shard.Sequence, error) {
	b, err := newBatch(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	return b.all()
}

// sealBlocks seals what parts are read of.
func sealBlocks(t testing.TB, path string, data []byte, rows int64) {
	t.Helper()
	w := must.Get(seal.Create(path, shardtest.Attempt))(t)
	w.InBlocks()
	_, errWrite := w.Write(data)
	_, errCommit := w.Commit(seal.Manifest{Rows: rows})
	must.Do(t, errors.Join(errWrite, errCommit))
}

func tensorBytes(t testing.TB, tensors []Tensor, meta map[string]string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "grad.arrow")
	if _, err := WriteTensors(path, tensors, meta, shardtest.Attempt, seal.Manifest{}); err != nil {
		t.Fatal(err)
	}
	return shardtest.Get(t, path)
}

func TestBatch(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "batch.arrow")
	m := must.Get(WriteBatch(path, sampleBatch, shardtest.Attempt, seal.Manifest{}))(t)
	if m.Rows != 3 || m.Schema != (seal.Schema{Name: "batch", Major: 3}) || m.ContentSHA256 != m.SHA256 {
		t.Errorf("manifest %+v", m)
	}
	sequences, read := must.Get2(ReadBatch(t.Context(), path, seal.Options{}))(t)
	shardtest.SameRows(t, sequences, sampleBatch)
	shardtest.SameRows(t, read, m)
}

func TestBatchRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sequences := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) shard.Sequence {
			n, turns := rapid.IntRange(0, 20).Draw(t, "length"), rapid.IntRange(1, 3).Draw(t, "turns")
			s := shard.Sequence{
				TokenIDs:    rapid.SliceOfN(rapid.Int32(), n, n).Draw(t, "token_ids"),
				LossMask:    rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "loss_mask"),
				Positions:   rapid.SliceOfN(rapid.Int32(), n, n).Draw(t, "positions"),
				Turns:       rapid.SliceOfN(rapid.Int32Range(0, int32(turns)-1), n, n).Draw(t, "turns"),
				OldLogProbs: rapid.SliceOfN(rapid.Float32(), n, n).Draw(t, "old_logprobs"),

				TurnSegments:   rapid.SliceOfN(rapid.Int32(), turns, turns).Draw(t, "segments"),
				TurnAdvantages: rapid.SliceOfN(rapid.Float32(), turns, turns).Draw(t, "advantages"),
				TurnFactors:    rapid.SliceOfN(rapid.Float64(), turns, turns).Draw(t, "factors"),
				TurnRewards:    rapid.SliceOfN(rapid.Float64(), turns, turns).Draw(t, "rewards"),
				TurnWeights:    rapid.SliceOfN(rapid.Float64(), turns, turns).Draw(t, "weights"),
				GroupID:        rapid.String().Draw(t, "group"), InstanceID: rapid.String().Draw(t, "instance"),
				Sample: rapid.Int32().Draw(t, "sample"), IterationSampled: rapid.Int32().Draw(t, "iteration"),
				OptimizerStep: rapid.Int32Range(0, 2).Draw(t, "step"), Unit: rapid.Int32Range(0, 2).Draw(t, "unit"), Place: rapid.Int32().Draw(t, "place"),
				PolicyVersion: rapid.Int32().Draw(t, "version"), LogProbSource: shard.LogProbSource(rapid.String().Draw(t, "source")),
			}
			return s
		}), 0, 10).Draw(t, "sequences")
		// More than a record batch holds, sometimes.
		if rapid.IntRange(0, 9).Draw(t, "large") == 0 {
			for 0 < len(sequences) && len(sequences) <= sequencesPerRecord {
				sequences = append(sequences, sequences...)
			}
		}
		encode := func() []byte {
			var b bytes.Buffer
			schema := must.Get(batchArrowSchema(layoutOf(sequences)))(t)
			must.Do(t, encodeBatch(&b, schema, layoutOf(sequences), inOrder(sequences)))
			return b.Bytes()
		}
		data := encode()
		if !bytes.Equal(data, encode()) {
			t.Fatal("writing the same sequences twice gives other bytes")
		}
		got := must.Get(decodeBatch(data))(t)
		b := must.Get(newBatch(bytes.NewReader(data), int64(len(data))))(t)
		slices.SortStableFunc(sequences, func(a, b shard.Sequence) int { return int(a.Place) - int(b.Place) })
		shardtest.SameRows(t, got, sequences)
		for step := range 3 {
			for unit := range 3 {
				own := must.Get(b.Unit(step, unit))(t)
				shardtest.SameRows(t, own, slices.DeleteFunc(slices.Clone(sequences), func(s shard.Sequence) bool { return int(s.OptimizerStep) != step || int(s.Unit) != unit }))
			}
		}
	})
}

func TestTensors(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "grad.arrow")
	m := must.Get(WriteTensors(path, sampleTensors, map[string]string{"tokens": "12"}, shardtest.Attempt, seal.Manifest{}))(t)
	if m.Rows != 3 || m.Schema != (seal.Schema{Name: "tensors", Major: 1}) {
		t.Errorf("manifest %+v", m)
	}
	tensors, meta, _, err := ReadTensors(t.Context(), path, seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	shardtest.SameRows(t, tensors, sampleTensors)
	if !cmp.Equal(meta, map[string]string{"tokens": "12"}) {
		t.Errorf("metadata %v", meta)
	}
	for _, none := range [][]Tensor{nil, {{"empty", []int{0}, nil}}} {
		var got []Tensor
		_, _, err := decodeTensors(tensorBytes(t, none, nil), func(t Tensor) error {
			got = append(got, t)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		shardtest.SameRows(t, got, none)
	}
}

func TestPinnedArrowBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, got, want string }{
		{"batch", shardtest.SHA256(batchBytes(t, sampleBatch)), "848979f81a8dc0c55aa935eaa4e8203362ea5f74750785288df74711b9908bee"},
		{"no sequences", shardtest.SHA256(batchBytes(t, nil)), "4040628df1c00bbb243fcac57d499a77e4c69785d75d654fd17f1bd2f0d70569"},
		{"tensors", shardtest.SHA256(tensorBytes(t, sampleTensors, nil)), "0d0495e481291ff4a6761919d6f4ef4139eb0f0fab7789be42e932a460498ff3"},
	} {
		if c.got != c.want {
			t.Errorf("%s: sha256 %s, want %s", c.name, c.got, c.want)
		}
	}
}

func TestMetadataKeyIsTaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, key := range []string{"schema", "tensors"} {
		if _, err := WriteTensors(filepath.Join(dir, "x.arrow"), nil, map[string]string{key: "x"}, shardtest.Attempt, seal.Manifest{}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("metadata key %q is taken", key)) {
			t.Errorf("key %s can be overwritten in tensors: %v", key, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("left behind %v, %v", entries, err)
	}
}

// ignore looks at no tensor.
func ignore(Tensor) error { return nil }

func TestWritersRefuseWhatIsNoBatch(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.arrow")
	for name, write := range map[string]func() error{
		"mask": func() error {
			_, err := WriteBatch(path, []shard.Sequence{{InstanceID: "i", TokenIDs: []int32{1}, Positions: []int32{0}, Turns: []int32{0}, OldLogProbs: []float32{0}}}, shardtest.Attempt, seal.Manifest{})
			return err
		},
		"a turn that there is not": func() error {
			_, err := WriteBatch(path, []shard.Sequence{{TokenIDs: []int32{1}, LossMask: []bool{true}, Positions: []int32{0}, Turns: []int32{0}, OldLogProbs: []float32{0}}}, shardtest.Attempt, seal.Manifest{})
			return err
		},
		"shape": func() error {
			_, err := WriteTensors(path, []Tensor{{"w", []int{2, 2}, make([]float32, 3)}}, nil, shardtest.Attempt, seal.Manifest{})
			return err
		},
		"negative": func() error {
			_, err := WriteTensors(path, []Tensor{{"w", []int{-1, -1}, make([]float32, 1)}}, nil, shardtest.Attempt, seal.Manifest{})
			return err
		},
		"overflow": func() error {
			_, err := WriteTensors(path, []Tensor{{"w", []int{1 << 32, 1 << 32}, nil}}, nil, shardtest.Attempt, seal.Manifest{})
			return err
		},
		"twice": func() error {
			_, err := WriteTensors(path, []Tensor{{"w", []int{0}, nil}, {"w", []int{0}, nil}}, nil, shardtest.Attempt, seal.Manifest{})
			return err
		},
	} {
		if err := write(); exitcode.Code(err) != exitcode.Bug {
			t.Errorf("%s: %v, want our bug", name, err)
		}
	}
}

// A sealed Arrow file of another layout is one clear error.
func TestArrowSchemaEvolution(t *testing.T) {
	t.Parallel()
	file := func(schema string, rows int, fields ...arrow.Field) []byte {
		t.Helper()
		layout := fmt.Sprintf(`[{"rows": %d}]`, rows)
		metadata := arrow.NewMetadata([]string{codec.SchemaKey, tensorsKey, recordsKey}, []string{schema, "[]", layout})
		s := arrow.NewSchema(fields, &metadata)
		b := array.NewRecordBuilder(memory.NewGoAllocator(), s)
		defer b.Release()
		for range rows {
			for i := range fields {
				b.Field(i).AppendNull()
			}
		}
		var buffer bytes.Buffer
		w := must.Get(ipc.NewFileWriter(&position{w: &buffer}, ipc.WithSchema(s)))(t)
		record := b.NewRecord()
		defer record.Release()
		must.Do(t, w.Write(record))
		must.Do(t, w.Close())
		return buffer.Bytes()
	}
	narrowed := append([]arrow.Field{}, batchFields[:15]...)
	narrowed[12] = arrow.Field{Name: "sample", Type: arrow.PrimitiveTypes.Int16}
	nullable := append([]arrow.Field{{Name: "added_later", Type: arrow.BinaryTypes.String, Nullable: true}}, batchFields...)
	for _, c := range []struct {
		name string
		data []byte
		rows int64
		want []string
	}{
		{"missing and narrowed", file("batch/v3.0", 0, narrowed...), 0, []string{"column sample: expected int32, found int16", "column unit: missing (expected int32)"}},
		{"twice", file("batch/v3.0", 0, append(narrowed, batchFields...)...), 0, []string{"column sample: found 2 times"}},
		{"newer", file("batch/v4.0", 0, batchFields...), 0, []string{"batch/v4.0 and this binary reads up to batch/v3.0"}},
		{"tensors", tensorBytes(t, sampleTensors, nil), 0, []string{"it holds rows of tensors/v1.0, expected batch/v3.0"}},
		{"null", file("batch/v3.0", 1, nullable...), 1, []string{"column token_ids: holds NULL"}},
		{"empty", nil, 0, []string{"it is empty"}},
		{"not Arrow", []byte("PAR1"), 0, nil},
	} {
		path := filepath.Join(t.TempDir(), "batch.arrow")
		sealBlocks(t, path, c.data, c.rows)
		_, _, err := ReadBatch(t.Context(), path, seal.Options{})
		if exitcode.Code(err) != exitcode.Data || len(exitcode.Hints(err)) == 0 {
			t.Errorf("%s: %v, want exit code 65 and a hint", c.name, err)
			continue
		}
		for _, part := range append(c.want, path) {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", c.name, err, part)
			}
		}
	}
	more := file("batch/v3.3", 0, nullable...)
	if got, err := decodeBatch(more); err != nil || len(got) != 0 {
		t.Errorf("a column more: %v, %v", got, err)
	}
	if _, _, err := decodeTensors(file("tensors/v1.0", 1, tensorFields...), ignore); err == nil || !strings.Contains(err.Error(), "it has no name") {
		t.Errorf("a tensor without a name: %v", err)
	}
}

// A body length that is larger than the file is an error, where Arrow by
// itself would ask for a terabyte and end the process. The number is 1<<40
// over any eight bytes of the record batches, between the schema, whose counts
// nothing bounds, and the footer, which repeats it (Arrow columnar format, "IPC
// file format").
func TestArrowSizesAreBounded(t *testing.T) {
	t.Parallel()
	refused := 0
	for name, c := range map[string]struct {
		data   []byte
		decode func(data []byte) error
	}{
		"batch":   {batchBytes(t, sampleBatch), func(data []byte) error { _, err := decodeBatch(data); return err }},
		"tensors": {tensorBytes(t, sampleTensors, nil), func(data []byte) error { _, _, err := decodeTensors(data, ignore); return err }},
	} {
		first := 16 + int(binary.LittleEndian.Uint32(c.data[12:]))
		last := len(c.data) - 10 - int(binary.LittleEndian.Uint32(c.data[len(c.data)-10:]))
		for at := first; at+8 <= last; at += 8 {
			data := bytes.Clone(c.data)
			binary.LittleEndian.PutUint64(data[at:], 1<<40)
			if err := c.decode(data); err != nil && strings.Contains(err.Error(), "more memory than its size allows") {
				refused++
			}
		}
		if refused == 0 {
			t.Errorf("%s: no length was refused", name)
		}
	}
}
