package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/internal/shardtest"
)

// manyInstances are rows of a plan, with prompts that do not compress to nothing.
func manyInstances(n int) []Instance {
	random := rand.New(rand.NewPCG(1, 2))
	rows := make([]Instance, n)
	for i := range rows {
		text := make([]byte, 200)
		for j := range text {
			text[j] = byte('a' + random.IntN(26))
		}
		rows[i] = Instance{
			InstanceID: fmt.Sprintf("i%06d", i), TaskID: fmt.Sprint(i % 97), Kind: string(KindInitial), GroupID: fmt.Sprintf("i%06d", i),
			Messages: []Message{{Role: "user", Content: string(text)}},
		}
	}
	return rows
}

// TestReadPart reads any part of a table as it was written, in blocks or not, and of one
// in blocks little more than the rows that are asked for.
func TestReadPart(t *testing.T) {
	t.Parallel()
	const all = 3*rowsPerRowGroup + 5
	rows := manyInstances(all)
	dir := t.TempDir()
	whole, blocks := filepath.Join(dir, "whole.parquet"), filepath.Join(dir, "blocks.parquet")
	if _, err := Write(whole, rows, nil, shardtest.Attempt, seal.Manifest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteInBlocks(blocks, rows, shardtest.Attempt, seal.Manifest{}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(shardtest.Get(t, whole), shardtest.Get(t, blocks)) {
		t.Error("blocks change the bytes of a table")
	}
	ctx := context.Background()
	rapid.Check(t, func(r *rapid.T) {
		first := rapid.IntRange(0, all+3).Draw(r, "first")
		last := min(first+rapid.SampledFrom([]int{0, 1, 16, 300, rowsPerRowGroup}).Draw(r, "rows"), all+5)
		want := rows[min(first, all):min(last, all)]
		for _, path := range []string{whole, blocks} {
			got, m, err := ReadPart[Instance](ctx, path, first, last, seal.Options{})
			if err != nil || m.Rows != all || len(got) != len(want) {
				r.Fatalf("%d rows of %d, %v; want %d", len(got), m.Rows, err, len(want))
			}
			if len(got) > 0 && (got[0].InstanceID != want[0].InstanceID || got[len(got)-1].InstanceID != want[len(want)-1].InstanceID) {
				r.Fatalf("rows %s to %s, want %s to %s", got[0].InstanceID, got[len(got)-1].InstanceID, want[0].InstanceID, want[len(want)-1].InstanceID)
			}
			if len(got) > 0 && len(got) <= 16 {
				shardtest.SameRows(t, got, want)
			}
		}
	})

	r, m := must.Get2(seal.OpenAt(ctx, blocks, seal.Options{}))(t)
	defer r.Close()
	r.Keep(blocksKept)
	if _, err := decodeSome(r, m, func(t *table[Instance]) ([]Instance, error) {
		return t.part(2*rowsPerRowGroup+8, 2*rowsPerRowGroup+24)
	}, parquet.SkipMagicBytes(true)); err != nil {
		t.Fatal(err)
	}
	if group := m.Bytes / 3; r.BytesRead() > group+3<<20 { // a block where the group begins, one where it ends, one of the footer
		t.Errorf("%d bytes are read of %d for 16 rows", r.BytesRead(), m.Bytes)
	}

	// What is damaged elsewhere does not matter, and here it is found.
	broken := bytes.Clone(shardtest.Get(t, blocks))
	broken[100] ^= 1
	shardtest.Put(t, blocks, broken)
	if _, _, err := ReadPart[Instance](ctx, blocks, 2*rowsPerRowGroup+8, 2*rowsPerRowGroup+24, seal.Options{}); err != nil {
		t.Error(err)
	}
	if _, _, err := ReadPart[Instance](ctx, blocks, 0, 16, seal.Options{}); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("rows of a damaged block: %v", err)
	}
}

// TestReadNamed reads the rows that are named, wherever they lie, from a table in blocks
// and from one that is not.
func TestReadNamed(t *testing.T) {
	t.Parallel()
	const all = 2*rowsPerRowGroup + 5
	rows := make([]TaskRow, all)
	for i, instance := range manyInstances(all) {
		rows[i] = TaskRow{TaskID: instance.InstanceID, Env: "math", Split: "train", Question: instance.Messages[0].Content, Choices: []string{"a", "b"}}
	}
	dir := t.TempDir()
	whole, blocks := filepath.Join(dir, "whole.parquet"), filepath.Join(dir, "blocks.parquet")
	if _, err := Write(whole, rows, nil, shardtest.Attempt, seal.Manifest{}); err != nil {
		t.Fatal(err)
	}
	written := must.Get(WriteInBlocks(blocks, rows, shardtest.Attempt, seal.Manifest{}))(t)
	ctx := context.Background()
	rapid.Check(t, func(r *rapid.T) {
		names, want := map[string]bool{"none": true}, []TaskRow(nil)
		numbers := rapid.SliceOfNDistinct(rapid.OneOf(rapid.IntRange(0, all-1), rapid.IntRange(100, 160)), 0, 24, rapid.ID[int]).Draw(r, "rows")
		slices.Sort(numbers)
		for _, i := range numbers {
			names[rows[i].TaskID], want = true, append(want, rows[i])
		}
		for _, path := range []string{whole, blocks} {
			got, m, err := ReadNamed[TaskRow](ctx, path, "task_id", names, seal.Options{})
			if err != nil || m.ContentSHA256 != written.ContentSHA256 {
				r.Fatal(m.ContentSHA256, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				r.Fatalf("rows (-want +got):\n%s", diff)
			}
		}
	})
	if _, _, err := ReadNamed[TaskRow](ctx, blocks, "nothing", nil, seal.Options{}); err == nil {
		t.Error("there is no such column")
	}

	r, m := must.Get2(seal.OpenAt(ctx, blocks, seal.Options{}))(t)
	defer r.Close()
	r.Keep(blocksKept)
	if got, err := decodeSome(r, m, func(t *table[TaskRow]) ([]TaskRow, error) {
		return t.rowsNamed("task_id", map[string]bool{"i000007": true})
	}, parquet.SkipMagicBytes(true)); err != nil || len(got) != 1 {
		t.Fatalf("%d rows, %v", len(got), err)
	}
	if r.BytesRead() > m.Bytes {
		t.Errorf("%d bytes are read of %d for one row", r.BytesRead(), m.Bytes)
	}
	broken := bytes.Clone(shardtest.Get(t, blocks))
	broken[100] ^= 1
	shardtest.Put(t, blocks, broken)
	if _, _, err := ReadNamed[TaskRow](ctx, blocks, "task_id", map[string]bool{"i000007": true}, seal.Options{}); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("names in a damaged block: %v", err)
	}
}

// BenchmarkTasks reads 16 tasks of 100,000, as a task of a run does: by their names, and
// with all others.
func BenchmarkTasks(b *testing.B) {
	const all = 100_000
	rows := make([]TaskRow, all)
	names := map[string]bool{}
	for i, instance := range manyInstances(all) {
		rows[i] = TaskRow{TaskID: instance.InstanceID, Env: "math", Split: "train", Question: instance.Messages[0].Content}
		if i%(all/16) == 7 {
			names[rows[i].TaskID] = true
		}
	}
	path := filepath.Join(b.TempDir(), "tasks.parquet")
	m := must.Get(WriteInBlocks(path, rows, shardtest.Attempt, seal.Manifest{}))(b)
	b.Run("named", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if got, _, err := ReadNamed[TaskRow](b.Context(), path, "task_id", names, seal.Options{}); err != nil || len(got) != len(names) {
				b.Fatal(len(got), err)
			}
		}
	})
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := Read[TaskRow](b.Context(), path, seal.Options{}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(m.Bytes)/1e6, "MB")
	})
}

// BenchmarkPlan reads the 13 rows of one task of ten thousand from a plan of 125,000, a
// million responses in groups of eight: alone, and with all others.
func BenchmarkPlan(b *testing.B) {
	const all = 125_000
	path := filepath.Join(b.TempDir(), "plan.parquet")
	m := must.Get(WriteInBlocks(path, manyInstances(all), shardtest.Attempt, seal.Manifest{}))(b)
	b.Run("part", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := ReadPart[Instance](b.Context(), path, all/2, all/2+13, seal.Options{}); err != nil {
				b.Fatal(err)
			}
		}
		r, _ := must.Get2(seal.OpenAt(b.Context(), path, seal.Options{}))(b)
		defer r.Close()
		r.Keep(blocksKept)
		if _, err := decodeSome(r, m, func(t *table[Instance]) ([]Instance, error) { return t.part(all/2, all/2+13) }, parquet.SkipMagicBytes(true)); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(r.BytesRead())/1e6, "MB-read")
	})
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := Read[Instance](b.Context(), path, seal.Options{}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(m.Bytes)/1e6, "MB-read")
	})
}
