package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// The crash test: several writers seal the same shards at once, each killed
// at random instants and started again, while readers look on.

const (
	crashShards  = 12
	crashWriters = 3
	crashKills   = 120
)

// crashContent is what a writer puts into a shard. Shards with odd numbers
// get the same bytes from every writer, the others each writer's own, as from
// a sampler whose shards hold times.
func crashContent(shard, writer int) []byte {
	if shard%2 == 1 {
		writer = 0
	}
	return bytes.Repeat(fmt.Appendf(nil, "shard %d of writer %d\n", shard, writer), 3000)
}

func crashPath(dir string, shard int) string {
	if shard%4 == 3 {
		return filepath.Join(dir, fmt.Sprintf("v%06d", shard)) // a folder
	}
	return filepath.Join(dir, fmt.Sprintf("%05d.parquet", shard))
}

// crashWriter is the whole program of a child process: it seals all shards,
// in an order of its own, and exits 0 when all are sealed.
func crashWriter(dir string) {
	a := AttemptFromEnv()
	shards := rand.Perm(crashShards)
	for _, shard := range shards {
		if err := crashWrite(crashPath(dir, shard), crashContent(shard, a.Number), a); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func crashWrite(path string, content []byte, a Attempt) error {
	if strings.HasSuffix(path, ".parquet") {
		_, err := WriteBytes(path, content, a, Manifest{})
		return err
	}
	w, err := CreateFolder(path, a)
	if err != nil {
		return err
	}
	for _, name := range []string{"config.json", "model.safetensors"} {
		if err := os.WriteFile(filepath.Join(w.Path(), name), content, 0o666); err != nil {
			return errors.Join(err, w.Abort())
		}
	}
	_, err = w.Commit(Manifest{})
	return err
}

func TestKilledWriters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	for round := range rounds {
		crashRound(t, filepath.Join(dir, fmt.Sprint(round)), crashKills/rounds)
	}
}

func crashRound(t *testing.T, dir string, kills int) {
	must.Do(t, os.Mkdir(dir, 0o777))
	// Readers note the first valid digest of each shard: it must never change.
	ctx, cancel := context.WithCancel(t.Context())
	first := make([]string, crashShards)
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			for shard := range first {
				m, err := Verify(ctx, crashPath(dir, shard), Options{})
				switch {
				case err == nil && first[shard] == "":
					first[shard] = m.SHA256
				case err == nil && first[shard] != m.SHA256:
					t.Errorf("shard %d was sealed twice, with different bytes", shard)
					first[shard] = m.SHA256
				case err != nil && !errors.Is(err, ErrNotSealed) && !errors.Is(err, ErrDamaged) && ctx.Err() == nil:
					t.Errorf("shard %d: %v", shard, err)
				}
			}
			time.Sleep(time.Millisecond)
		}
	})
	var writing sync.WaitGroup
	for writer := range crashWriters {
		writing.Go(func() {
			for kill := 0; ; kill++ {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), "LATHE_SEAL_TEST_WRITER="+dir, fmt.Sprintf("LATHE_ATTEMPT=%d", writer+1))
				var stderr strings.Builder
				cmd.Stderr = &stderr
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				if kill < kills/crashWriters {
					time.Sleep(5*time.Millisecond + rand.N(25*time.Millisecond))
					cmd.Process.Kill()
				}
				if err := cmd.Wait(); err == nil && kill >= kills/crashWriters {
					return // sealed everything undisturbed
				}
				if stderr.Len() > 0 {
					t.Errorf("writer %d: %s", writer, stderr.String())
					return
				}
			}
		})
	}
	writing.Wait()
	cancel()
	watching.Wait()

	for shard := range crashShards {
		path := crashPath(dir, shard)
		m, err := Verify(t.Context(), path, Options{})
		if err != nil {
			t.Errorf("at the end: %v", err)
			continue
		}
		if first[shard] != "" && first[shard] != m.SHA256 {
			t.Errorf("shard %d was sealed twice, with different bytes", shard)
		}
		if m.Kind == KindFile && !bytes.Equal(get(t, path), crashContent(shard, m.Attempt)) {
			t.Errorf("shard %d does not hold what its writer wrote", shard)
		}
	}
	swept, err := Sweep(dir, SweepOptions{MinAge: time.Hour})
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d kills left %d temporary names", kills, len(swept))
	if got := names(t, dir); len(got) != 2*crashShards {
		t.Errorf("after a sweep the folder holds %d names, want %d: %q", len(got), 2*crashShards, got)
	}
}
