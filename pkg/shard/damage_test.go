package shard

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// sealedFiles are one file of every type, with the way to read it.
func sealedFiles() map[string]struct {
	write func(path string) error
	read  func(path string) error
} {
	type file = struct {
		write func(path string) error
		read  func(path string) error
	}
	ctx, o := context.Background(), seal.Options{}
	return map[string]file{
		"plan.parquet":    tableFile([]Instance{{InstanceID: "i", Messages: []Message{{"user", "1+1?"}}, Seed: 1}}),
		"rollout.parquet": tableFile(sampleRollouts),
		"score.parquet":   tableFile([]Score{{InstanceID: "i", RewardParts: []RewardPart{{"accuracy", 1}}, Milestones: []string{"a"}}}),
		"ledger.parquet":  tableFile([]LedgerRow{{InstanceID: "i", Fate: string(FateTrained)}}),
		"metrics.parquet": tableFile([]Metric{{1, "learn", 0, "loss", 0.5}}),
		"eval.parquet":    tableFile([]EvaluationRow{{TaskID: "t", Response: "2"}}),
		"batch.arrow": {
			func(path string) error {
				_, err := WriteBatch(path, sampleBatch, testAttempt, seal.Manifest{})
				return err
			},
			func(path string) error { _, _, err := ReadBatch(ctx, path, o); return err },
		},
		"grad.arrow": {
			func(path string) error {
				_, err := WriteTensors(path, sampleTensors, nil, testAttempt, seal.Manifest{})
				return err
			},
			func(path string) error { _, _, _, err := ReadTensors(ctx, path, o); return err },
		},
	}
}

func tableFile[T Row](rows []T) struct{ write, read func(path string) error } {
	return struct{ write, read func(path string) error }{
		func(path string) error {
			_, err := Write(path, rows, nil, testAttempt, seal.Manifest{})
			return err
		},
		func(path string) error {
			_, _, err := Read[T](context.Background(), path, seal.Options{})
			return err
		},
	}
}

// Every file type, truncated at many points, with flipped bits, emptied and
// removed, and so its manifest: an error that names the file, never rows,
// never a panic; and the next attempt rebuilds the same bytes.
func TestDamage(t *testing.T) {
	for name, file := range sealedFiles() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), name)
			if err := file.write(path); err != nil {
				t.Fatal(err)
			}
			check := func(what string, want ...error) {
				t.Helper()
				err := file.read(path)
				known := false
				for _, w := range want {
					known = known || errors.Is(err, w)
				}
				if !known || exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), path) || len(exitcode.Hints(err)) == 0 {
					t.Fatalf("%s: %v", what, err)
				}
			}
			random := rand.New(rand.NewPCG(1, 2))
			for _, part := range []string{path, seal.ManifestPath(path)} {
				good := get(t, part)
				for n := 0; n < len(good); n += 1 + random.IntN(40) {
					put(t, part, good[:n])
					check("truncated", seal.ErrDamaged)
					bad := bytes.Clone(good)
					bad[n] ^= 1 << random.IntN(8)
					put(t, part, bad)
					check("bit flipped", seal.ErrDamaged)
				}
				put(t, part, append(bytes.Clone(good), 0))
				check("extended", seal.ErrDamaged)
				if err := os.Remove(part); err != nil {
					t.Fatal(err)
				}
				if part == path {
					check("removed", seal.ErrDamaged)
				} else {
					check("manifest removed", seal.ErrNotSealed)
				}
				put(t, part, good)
				if err := file.read(path); err != nil {
					t.Fatalf("put back: %v", err)
				}
			}
			good := get(t, path)
			put(t, path, good[:len(good)/2])
			if err := file.write(path); err != nil {
				t.Fatalf("the next attempt: %v", err)
			}
			if !bytes.Equal(get(t, path), good) {
				t.Error("the next attempt wrote other bytes")
			}
			if err := file.read(path); err != nil {
				t.Errorf("after the next attempt: %v", err)
			}
		})
	}
}

// A folder that cannot be written, whatever the file type: no panic of an
// encoder, the cause kept, nothing half sealed.
func TestWriteFailure(t *testing.T) {
	t.Parallel()
	blocked := filepath.Join(t.TempDir(), "file")
	put(t, blocked, nil)
	for name, file := range sealedFiles() {
		if err := file.write(filepath.Join(blocked, name)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
