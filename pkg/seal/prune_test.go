package seal_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/seal"
)

func TestPrune(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "v000001")
	if _, err := seal.Prune(t.Context(), path); !errors.Is(err, seal.ErrNotSealed) {
		t.Fatalf("pruning what is not there: %v", err)
	}
	write := func() seal.Manifest {
		t.Helper()
		w := must.Get(seal.CreateFolder(path, seal.AttemptFromEnv()))(t)
		must.Do(t, os.WriteFile(filepath.Join(w.Path(), "weights"), []byte("12345"), 0o644))
		m := must.Get(w.Commit(seal.Manifest{Stage: "learn"}))(t)
		return m
	}
	was := write()
	if freed, err := seal.Prune(t.Context(), path); err != nil || freed != was.Bytes {
		t.Fatalf("freed %d of %d bytes: %v", freed, was.Bytes, err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the bytes are still there: %v", err)
	}
	if _, err := seal.Read(t.Context(), path, seal.Options{}); !errors.Is(err, seal.ErrNotSealed) {
		t.Errorf("what was pruned passes for sealed: %v", err)
	}
	if m, err := seal.ReadPruned(path); err != nil || m.ContentSHA256 != was.ContentSHA256 {
		t.Errorf("its manifest is lost: %v, %v", m, err)
	}
	if freed, err := seal.Prune(t.Context(), path); err != nil || freed != 0 {
		t.Errorf("pruning again frees %d bytes: %v", freed, err)
	}

	// A kill between the two steps.
	write()
	must.Do(t, os.Rename(seal.ManifestPath(path), seal.PrunedPath(path)))
	if freed, err := seal.Prune(t.Context(), path); err != nil || freed != was.Bytes {
		t.Errorf("after a kill it frees %d bytes: %v", freed, err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after a kill the bytes stay: %v", err)
	}

	// Made again, it is sealed, and what it was is still known.
	again := write()
	if m, err := seal.Verify(t.Context(), path, seal.Options{}); err != nil || m.ContentSHA256 != again.ContentSHA256 {
		t.Errorf("made again, it is not sealed: %v", err)
	}
	if _, err := seal.ReadPruned(path); err != nil {
		t.Error(err)
	}

	if orphans, err := seal.Orphans(filepath.Dir(path)); err != nil || len(orphans) > 0 {
		t.Errorf("orphans %q: %v", orphans, err)
	}

	// A damaged record is no record of nothing.
	if err := os.WriteFile(seal.PrunedPath(path), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.ReadPruned(path); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("a damaged record: %v", err)
	}
	if orphans, err := seal.Orphans(filepath.Dir(path)); err != nil || len(orphans) != 1 {
		t.Errorf("orphans beside a damaged record: %q, %v", orphans, err)
	}
}

// Two processes may prune the same at once.
func TestPruneAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(i int) string { return filepath.Join(dir, fmt.Sprint(i)) }
	for i := range 100 {
		if _, err := seal.WriteBytes(path(i), []byte("x"), seal.AttemptFromEnv(), seal.Manifest{}); err != nil {
			t.Fatal(err)
		}
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			for i := range 100 {
				if _, err := seal.Prune(t.Context(), path(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
}
