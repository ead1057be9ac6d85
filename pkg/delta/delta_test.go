package delta

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/seal"
)

// folder writes files and lists them as a manifest does.
func folder(t *rapid.T, dir string, contents map[string][]byte) []seal.File {
	var files []seal.File
	for _, name := range []string{"config.json", "model.safetensors", "sub/other", "tokenizer.json"} {
		content, has := contents[name]
		if !has {
			continue
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		files = append(files, seal.File{Name: name, Bytes: int64(len(content)), SHA256: hex.EncodeToString(sum[:])})
	}
	return files
}

// TestRestore: whatever two folders hold, the second is restored from the first and the
// delta to the byte, and from a damaged delta or another base it is not.
func TestRestore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "delta")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		small := rapid.SliceOfN(rapid.Byte(), 0, 40)
		was := map[string][]byte{}
		now := map[string][]byte{}
		for _, name := range []string{"config.json", "sub/other", "tokenizer.json"} {
			if rapid.Bool().Draw(t, "before") {
				was[name] = small.Draw(t, "was")
			}
			now[name] = small.Draw(t, "now")
			if rapid.Bool().Draw(t, "same") && was[name] != nil {
				now[name] = was[name]
			}
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		size := rapid.SampledFrom([]int{0, 1, 7, 999, 5000, 5001, 30_002, blockBytes + 5}).Draw(t, "size")
		was["model.safetensors"] = make([]byte, size)
		for i := range was["model.safetensors"] {
			was["model.safetensors"][i] = byte(random.Uint32())
		}
		now["model.safetensors"] = bytes.Clone(was["model.safetensors"])
		for range size / 50 {
			now["model.safetensors"][random.IntN(size)] ^= 1 << random.IntN(8)
		}
		base, next := filepath.Join(dir, "base"), filepath.Join(dir, "next")
		of, files := folder(t, base, was), folder(t, next, now)
		var stored bytes.Buffer
		if err := Write(&stored, base, next, of, files); err != nil {
			t.Fatal(err)
		}
		if size > 5000 && stored.Len() > size/2 {
			t.Errorf("a fiftieth of %d bytes differs and the delta has %d", size, stored.Len())
		}
		into := filepath.Join(dir, "into")
		if err := Restore(bytes.NewReader(stored.Bytes()), base, into); err != nil {
			t.Fatal(err)
		}
		for name, want := range now {
			if got, err := os.ReadFile(filepath.Join(into, name)); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s comes out with %d bytes, %v; it had %d", name, len(got), err, len(want))
			}
		}

		// Its manifest guards the header; the rest guards itself.
		body := bytes.IndexByte(stored.Bytes(), '\n') + 1
		if body == stored.Len() {
			return
		}
		damaged := bytes.Clone(stored.Bytes())
		at := body + random.IntN(len(damaged)-body)
		damaged[at] ^= 1 << random.IntN(8)
		into = filepath.Join(dir, "damaged")
		if err := Restore(bytes.NewReader(damaged), base, into); err == nil {
			for name, want := range now { // a bit of a frame may mean nothing
				if got, _ := os.ReadFile(filepath.Join(into, name)); !bytes.Equal(got, want) {
					t.Fatalf("byte %d is damaged, and %s comes out otherwise", at, name)
				}
			}
		}
		if err := Restore(bytes.NewReader(stored.Bytes()[:stored.Len()-1]), base, filepath.Join(dir, "short")); err == nil {
			t.Error("a delta that was cut short is restored")
		}
		if err := Restore(bytes.NewReader(append(stored.Bytes(), 0)), base, filepath.Join(dir, "long")); err == nil {
			t.Error("a delta with a byte too many is restored")
		}
	})
}

// FuzzRestore: no bytes make Restore panic, or write outside of its folder.
func FuzzRestore(f *testing.F) {
	f.Add([]byte(`{"format":"lathe-delta/1.0","files":[{"name":"a","bytes":1,"sha256":"x"}]}` + "\n\x01\x00"))
	f.Add([]byte(`{"format":"lathe-delta/1.0","files":[{"name":"../a","bytes":1,"sha256":"x","width":2}]}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		_ = Restore(bytes.NewReader(data), filepath.Join(dir, "base"), filepath.Join(dir, "into"))
		if names, err := os.ReadDir(dir); err != nil || len(names) > 1 {
			t.Errorf("it wrote %v, %v", names, err)
		}
	})
}
