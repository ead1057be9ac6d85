package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/internal/shardtest"
)

// shards seals one table for each number and returns their paths and their rows.
func shards(t testing.TB, dir string, numbers []int, rowsOf func(shard int) []Rollout) (paths []string, rows [][]Rollout) {
	t.Helper()
	for _, n := range numbers {
		path := filepath.Join(dir, fmt.Sprintf("%05d.parquet", n))
		r := rowsOf(n)
		if _, err := Write(path, r, map[string]string{"n": fmt.Sprint(n)}, shardtest.Attempt, seal.Manifest{Run: "r", Stage: "rollout", Shard: n}); err != nil {
			t.Fatal(err)
		}
		paths, rows = append(paths, path), append(rows, r)
	}
	return paths, rows
}

// listing is every file of a folder with its bytes.
func listing(t testing.TB, dir string) map[string]string {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	files := map[string]string{}
	for _, e := range entries {
		files[e.Name()] = string(shardtest.Get(t, filepath.Join(dir, e.Name())))
	}
	return files
}

// readAll checks that each shard reads as it was sealed, by rows and by digest.
func readAll(t testing.TB, paths []string, rows [][]Rollout) {
	t.Helper()
	for i, path := range paths {
		got, _ := must.Get2(Read[Rollout](context.Background(), path, seal.Options{}))(t)
		shardtest.SameRows(t, got, rows[i])
		if _, err := seal.Verify(context.Background(), path, seal.Options{}); err != nil {
			t.Fatal(err)
		}
	}
}

func sampled(shard int) []Rollout {
	rows := slices.Clone(sampleRollouts)
	for i := range rows {
		rows[i].InstanceID += fmt.Sprintf("-%d", shard)
	}
	return rows[:1+shard%3]
}

func TestCompact(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	numbers := []int{0, 1, 2, 7, 998}
	paths, rows := shards(t, dir, numbers, sampled)
	before := listing(t, dir)
	m := must.Get(Compact(ctx, paths, shardtest.Attempt))(t)
	pack := filepath.Join(dir, "00000-00999.parquet")
	if names := slices.Sorted(func(yield func(string) bool) {
		for name := range listing(t, dir) {
			yield(name)
		}
	}); !slices.Equal(names, []string{"00000-00999.parquet", "00000-00999.parquet.json"}) {
		t.Fatalf("the folder holds %q", names)
	}
	readAll(t, paths, rows)
	if _, err := seal.Verify(ctx, pack, seal.Options{}); err != nil {
		t.Error(err)
	}
	if all := slices.Concat(rows...); m.Rows != int64(len(all)) || m.Stage != "rollout" || m.Run != "r" || len(m.Members) != len(paths) {
		t.Errorf("the pack has %d rows of stage %q of run %q in %d members", m.Rows, m.Stage, m.Run, len(m.Members))
	}
	names, err := seal.List(dir)
	if err != nil || len(names) != len(paths) || names[4] != "00998.parquet" {
		t.Errorf("the folder lists %q, %v", names, err)
	}

	// Others see one table of all rows.
	all := must.Get(parquet.ReadFile[Rollout](pack))(t)
	shardtest.SameRows(t, all, slices.Concat(rows...))

	// A shard that was not packed is not there.
	if _, _, err := Read[Rollout](ctx, filepath.Join(dir, "00003.parquet"), seal.Options{}); !errors.Is(err, seal.ErrNotSealed) {
		t.Errorf("a shard that never was: %v", err)
	}
	// A twin that comes late finds the shard sealed.
	if _, err := Write(paths[1], rows[1], map[string]string{"n": "1"}, seal.Attempt{JobID: "9", Host: "node2"}, seal.Manifest{Run: "r", Stage: "rollout", Shard: 1}); err != nil {
		t.Error(err)
	}
	if len(listing(t, dir)) != 2 {
		t.Errorf("a late twin left %d files", len(listing(t, dir)))
	}

	if dropped, err := seal.Unpack(ctx, pack, shardtest.Attempt); err != nil || len(dropped) > 0 {
		t.Fatalf("unpacking: %q, %v", dropped, err)
	}
	if after := listing(t, dir); !mapsEqual(before, after) {
		t.Error("unpacked, the folder is not as it was")
	}
}

func mapsEqual(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, content := range a {
		if b[name] != content {
			return false
		}
	}
	return true
}

// TestCompactKilled goes on from what a kill may leave: a pack with some of its shards
// beside it, whole, without their manifests, or gone.
func TestCompactKilled(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for manifests := range 4 { // that are gone
		for files := range manifests + 1 { // that are gone, after all manifests
			if files > 0 && manifests < 3 {
				continue
			}
			dir := t.TempDir()
			paths, rows := shards(t, dir, []int{1000, 1001, 1002}, sampled)
			must.Get(writePack(ctx, filepath.Join(dir, "01000-01999.parquet"), paths, shardtest.Attempt))(t)
			for _, path := range paths[:manifests] {
				os.Remove(seal.ManifestPath(path))
			}
			for _, path := range paths[:files] {
				os.Remove(path)
			}
			readAll(t, paths, rows)
			must.Get(Compact(ctx, paths, shardtest.Attempt))(t)
			if got := listing(t, dir); len(got) != 2 {
				t.Fatalf("%d manifests and %d files gone: then the folder holds %d files", manifests, files, len(got))
			}
			readAll(t, paths, rows)
		}
	}
}

// TestPackDamage flips one bit of each byte in turn: a shard is read as it was sealed or
// not at all, and what is not damaged can be unpacked.
func TestPackDamage(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	paths, rows := shards(t, dir, []int{0, 1}, sampled)
	m := must.Get(Compact(ctx, paths, shardtest.Attempt))(t)
	pack := filepath.Join(dir, "00000-00999.parquet")
	whole := shardtest.Get(t, pack)
	for at := 0; at < len(whole); at += 31 {
		broken := bytes.Clone(whole)
		broken[at] ^= 0x10
		shardtest.Put(t, pack, broken)
		if _, err := seal.Verify(ctx, pack, seal.Options{}); !errors.Is(err, seal.ErrDamaged) {
			t.Fatalf("byte %d: the pack verifies: %v", at, err)
		}
		for i, path := range paths {
			hit := int64(at) >= m.Members[i].Offset && int64(at) < m.Members[i].Offset+m.Members[i].Bytes+m.Members[i].ManifestBytes
			_, _, err := Read[Rollout](ctx, path, seal.Options{})
			if hit != errors.Is(err, seal.ErrDamaged) || !hit && err != nil {
				t.Fatalf("byte %d, shard %d: %v", at, i, err)
			}
		}
	}
	broken := bytes.Clone(whole)
	broken[m.Members[1].Offset+5] ^= 1
	shardtest.Put(t, pack, broken)
	if dropped, err := seal.Unpack(ctx, pack, shardtest.Attempt); err != nil || !slices.Equal(dropped, []string{"00001.parquet"}) {
		t.Fatalf("unpacking: %q, %v", dropped, err)
	}
	readAll(t, paths[:1], rows[:1])
	if len(listing(t, dir)) != 2 {
		t.Errorf("unpacked, the folder holds %d files", len(listing(t, dir)))
	}
}

func TestCompactRefusesOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	paths, _ := shards(t, dir, []int{999, 1000}, sampled)
	if _, err := Compact(t.Context(), paths, shardtest.Attempt); err == nil {
		t.Error("shards of two packs were compacted into one")
	}
	if _, err := Compact(t.Context(), []string{filepath.Join(dir, "plan.parquet")}, shardtest.Attempt); err == nil {
		t.Error("a plan was taken for a shard")
	}
	if len(listing(t, dir)) != 4 {
		t.Errorf("the folder holds %d files", len(listing(t, dir)))
	}
}
