// Package shardtest has what tests of sealed tables and Arrow files share: rows
// compared, files damaged, and folders that cannot be written.
package shardtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Attempt seals the files of tests.
var Attempt = seal.Attempt{JobID: "4711", TaskID: "3", Host: "node1"}

// SameRows compares rows; an absent list is an empty one, and numbers are
// compared by their bits.
func SameRows(t interface {
	Helper()
	Fatalf(string, ...any)
}, got, want any,
) {
	t.Helper()
	bits := cmp.Options{
		cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
		cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), bits); d != "" {
		t.Fatalf("rows differ (-want +got):\n%s", d)
	}
}

// Get reads a file.
func Get(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Put writes a file.
func Put(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

// SHA256 is the digest of data, in hexadecimal.
func SHA256(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// File is a type of file: the way to seal one, and the way to read it.
type File struct{ Write, Read func(path string) error }

// Damage seals each file and truncates it at many points, flips bits, empties and
// removes it, and so its manifest: an error that names the file, never rows,
// never a panic; and the next attempt rebuilds the same bytes.
func Damage(t *testing.T, files map[string]File) {
	for name, file := range files {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			damage(t, name, file)
		})
	}
}

func damage(t *testing.T, name string, file File) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := file.Write(path); err != nil {
		t.Fatal(err)
	}
	check := func(what string, want ...error) {
		t.Helper()
		err := file.Read(path)
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
		good := Get(t, part)
		for n := 0; n < len(good); n += 1 + random.IntN(40) {
			Put(t, part, good[:n])
			check("truncated", seal.ErrDamaged)
			bad := bytes.Clone(good)
			bad[n] ^= 1 << random.IntN(8)
			Put(t, part, bad)
			check("bit flipped", seal.ErrDamaged)
		}
		Put(t, part, append(bytes.Clone(good), 0))
		check("extended", seal.ErrDamaged)
		if err := os.Remove(part); err != nil {
			t.Fatal(err)
		}
		if part == path {
			check("removed", seal.ErrDamaged)
		} else {
			check("manifest removed", seal.ErrNotSealed)
		}
		Put(t, part, good)
		if err := file.Read(path); err != nil {
			t.Fatalf("put back: %v", err)
		}
	}
	good := Get(t, path)
	Put(t, path, good[:len(good)/2])
	if err := file.Write(path); err != nil {
		t.Fatalf("the next attempt: %v", err)
	}
	if !bytes.Equal(Get(t, path), good) {
		t.Error("the next attempt wrote other bytes")
	}
	if err := file.Read(path); err != nil {
		t.Errorf("after the next attempt: %v", err)
	}
}

// WriteFailure seals files in a folder that cannot be written, whatever their
// type: no panic of an encoder, the cause kept, nothing half sealed.
func WriteFailure(t *testing.T, files map[string]File) {
	t.Helper()
	blocked := filepath.Join(t.TempDir(), "file")
	Put(t, blocked, nil)
	for name, file := range files {
		if err := file.Write(filepath.Join(blocked, name)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
