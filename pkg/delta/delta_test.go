package delta

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// folder writes files and lists them as a manifest does.
func folder(t rapid.TB, dir string, contents map[string][]byte) []seal.File {
	var files []seal.File
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		content := contents[name]
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
		size := rapid.SampledFrom([]int{0, 1, 7, 999, 5000, 5001, 30_002}).Draw(t, "size")
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

// TestWrite: a file is stored by the width that makes the block in its middle smallest, whole where the base has none of
// its size, and not at all where it is the same; numbers and planes are each other's inverse, of a part of a number too.
func TestWrite(t *testing.T) {
	t.Parallel()
	for width, want := range map[int]string{1: "abcdefg", 2: "acegbdf", 4: "aebfcgd"} {
		if got := planes(make([]byte, 7), []byte("abcdefg"), width); string(got) != want || string(numbers(make([]byte, 7), got, width)) != "abcdefg" {
			t.Errorf("of width %d: %s", width, got)
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	fill := func(content []byte, width int) []byte { // every last byte of a number differs from the base, which is 0
		for i := width - 1; i < len(content); i += width {
			content[i] = byte(random.Uint32())
		}
		return content
	}
	middle := make([]byte, 3*blockBytes+6)
	fill(middle[blockBytes:2*blockBytes], 4)
	fill(middle[:blockBytes], 1)
	base, next := t.TempDir(), t.TempDir()
	zeros := map[string][]byte{"1": make([]byte, 4000), "2": make([]byte, 4000), "4": make([]byte, 4000), "middle": make([]byte, len(middle)), "none": make([]byte, 9), "whole": {1, 2}}
	now := map[string][]byte{"1": fill(make([]byte, 4000), 1), "2": fill(make([]byte, 4000), 2), "4": fill(make([]byte, 4000), 4), "middle": middle, "none": make([]byte, 9), "whole": {1, 2, 3}, "new": {7}, "zero": {}}
	of, files := folder(t, base, zeros), folder(t, next, now)
	of = slices.DeleteFunc(of, func(f seal.File) bool { return f.Name == "none" })
	of = append(of, seal.File{Name: "none", Bytes: 9}) // of another digest: what differs is nothing
	of, now["same"] = append(of, folder(t, base, map[string][]byte{"same": {5}})...), []byte{5}
	files = append(files, folder(t, next, map[string][]byte{"same": {5}})...)
	var stored bytes.Buffer
	if err := Write(&stored, base, next, of, files); err != nil {
		t.Fatal(err)
	}
	head, err := readHeader(bufio.NewReader(bytes.NewReader(stored.Bytes())))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range head.Files {
		if want := map[string]int{"1": 1, "2": 2, "4": 4, "middle": 4, "none": 1}[f.Name]; f.Width != want || f.Same != (f.Name == "same") {
			t.Errorf("%s is stored by width %d, the same %v", f.Name, f.Width, f.Same)
		}
	}
	into := t.TempDir()
	if err := Restore(&stored, base, into); err != nil {
		t.Fatal(err)
	}
	for name, want := range now {
		if got, err := os.ReadFile(filepath.Join(into, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s comes out with %d bytes, %v", name, len(got), err)
		}
	}
}

// TestBadDeltas: what no writer wrote is an error of data, and a header may be long.
func TestBadDeltas(t *testing.T) {
	t.Parallel()
	two := string(encoder.EncodeAll([]byte("ab"), nil))
	sum := sha256.Sum256([]byte("ab"))
	frame := string(rune(len(two))) + two
	for name, c := range map[string]struct {
		delta string
		ok    bool
	}{
		"nothing in it":      {`{"format":"lathe-delta/1.0"}` + "\n", true},
		"a long header":      {`{"format":"lathe-delta/1.0"` + strings.Repeat(" ", 3*blockBytes) + "}\n", true},
		"too long a header":  {`{"format":"lathe-delta/1.0"` + strings.Repeat(" ", mostHeader+2*blockBytes) + "}\n", false},
		"no header":          {`{"format":"lathe-delta/1.0"}`, false},
		"another format":     {`{"format":"lathe-delta/2.0"}` + "\n", false},
		"no JSON":            {`{"format":"lathe-delta/1.0"` + "\n", false},
		"elsewhere":          {`{"format":"lathe-delta/1.0","files":[{"name":"../a","same":true}]}` + "\n", false},
		"fewer than nothing": {`{"format":"lathe-delta/1.0","files":[{"name":"a","bytes":-1}]}` + "\n", false},
		"a negative width":   {`{"format":"lathe-delta/1.0","files":[{"name":"a","width":-1}]}` + "\n", false},
		"a width of five":    {`{"format":"lathe-delta/1.0","files":[{"name":"a","width":5}]}` + "\n", false},
		"same and not":       {`{"format":"lathe-delta/1.0","files":[{"name":"a","width":1,"same":true}]}` + "\n", false},
		"two bytes":          {fmt.Sprintf(`{"format":"lathe-delta/1.0","files":[{"name":"a","bytes":2,"sha256":"%x"}]}`, sum) + "\n" + frame, true},
		"two bytes of three": {fmt.Sprintf(`{"format":"lathe-delta/1.0","files":[{"name":"a","bytes":3,"sha256":"%x"}]}`, sum) + "\n" + frame, false},
		"a frame too long":   {fmt.Sprintf(`{"format":"lathe-delta/1.0","files":[{"name":"a","bytes":2,"sha256":"%x"}]}`, sum) + "\n\xff\xff\xff\xff\x0f", false},
	} {
		if err := Restore(strings.NewReader(c.delta), t.TempDir(), t.TempDir()); (err == nil) != c.ok || err != nil && exitcode.Code(err) != exitcode.Data {
			t.Errorf("%s: %v", name, err)
		}
	}
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
