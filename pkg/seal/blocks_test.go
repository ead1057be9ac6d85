package seal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// writeBlocks seals bytes of which parts can be read.
func writeBlocks(t testing.TB, path string, data []byte) Manifest {
	t.Helper()
	w := must.Get(Create(path, Attempt{}))(t)
	w.InBlocks()
	for chunk := data; len(chunk) > 0; { // across the borders of blocks
		n := min(len(chunk), blockBytes-7)
		must.Get(w.Write(chunk[:n]))(t)
		chunk = chunk[n:]
	}
	m := must.Get(w.Commit(Manifest{}))(t)
	return m
}

func numbered(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return data
}

func TestReadAt(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, blockBytes - 1, blockBytes, blockBytes + 1, 2*blockBytes + 5} {
		path := filepath.Join(t.TempDir(), "batch.arrow")
		data := numbered(size)
		m := writeBlocks(t, path, data)
		if want := (size + blockBytes - 1) / blockBytes; len(m.Blocks.SHA256) != want {
			t.Fatalf("%d bytes have %d blocks, want %d", size, len(m.Blocks.SHA256), want)
		}
		if _, err := Verify(t.Context(), path, Options{}); err != nil {
			t.Error(err)
		}
		r, read, err := OpenAt(t.Context(), path, Options{})
		if err != nil || read.SHA256 != m.SHA256 || r.Size() != int64(size) {
			t.Fatalf("%+v, %v", read, err)
		}
		rapid.Check(t, func(t *rapid.T) {
			offset := rapid.IntRange(0, size).Draw(t, "offset")
			p := make([]byte, rapid.IntRange(0, size+1-offset).Draw(t, "length"))
			n, err := r.ReadAt(p, int64(offset))
			if want := data[offset:min(size, offset+len(p))]; !bytes.Equal(p[:n], want) || (err == io.EOF) != (n < len(p)) {
				t.Fatalf("%d bytes at %d of %d: %d bytes, %v", len(p), offset, size, n, err)
			}
		})
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A part that is read is digested, and the rest is not looked at.
func TestReadAtDamage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "batch.arrow")
	data := numbered(2*blockBytes + 5)
	writeBlocks(t, path, data)
	data[blockBytes+1] ^= 1
	must.Do(t, os.WriteFile(path, data, 0o600))
	r, _ := must.Get2(OpenAt(t.Context(), path, Options{}))(t)
	defer r.Close()
	p := make([]byte, 5)
	for _, c := range []struct {
		offset int64
		want   string
	}{{0, ""}, {2 * blockBytes, ""}, {blockBytes - 2, "block 1 has sha256"}, {0, ""}} {
		_, err := r.ReadAt(p, c.offset)
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("at %d: %v, want %q", c.offset, err, c.want)
		}
	}
	if !errors.Is(r.Err(), ErrDamaged) || r.BytesRead() != 4*blockBytes+5 {
		t.Errorf("%v after %d bytes", r.Err(), r.BytesRead())
	}
	if _, err := r.ReadAt(p, -1); err == nil {
		t.Error("what is before the file can be read")
	}
	must.Do(t, os.Truncate(path, 4))
	if _, err := r.ReadAt(p, 2*blockBytes); !errors.Is(err, ErrDamaged) {
		t.Errorf("of a file that was cut: %v", err)
	}
	if _, _, err := OpenAt(t.Context(), path, Options{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("a file that was cut: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.ctx = ctx
	if _, err := r.ReadAt(p, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context has ended: %v", err)
	}

	whole := filepath.Join(t.TempDir(), "plan.parquet")
	if _, err := WriteBytes(whole, []byte("x"), Attempt{}, Manifest{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenAt(t.Context(), whole, Options{}); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "no block digests") {
		t.Errorf("without blocks: %v", err)
	}
	if _, _, err := OpenAt(t.Context(), whole+"x", Options{}); !errors.Is(err, ErrNotSealed) {
		t.Errorf("what is not there: %v", err)
	}
}

func TestBlocksAreChecked(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("0", 64)
	for _, c := range []struct {
		blocks Blocks
		bytes  int64
		ok     bool
	}{
		{Blocks{4, []string{digest, digest}}, 8, true},
		{Blocks{4, []string{digest, digest}}, 5, true},
		{Blocks{4, nil}, 0, true},
		{Blocks{4, []string{digest, digest}}, 9, false},
		{Blocks{4, []string{digest, digest}}, 4, false},
		{Blocks{0, nil}, 0, false},
		{Blocks{-1, []string{digest}}, 1, false},
		{Blocks{4, []string{digest[1:]}}, 4, false},
	} {
		if err := c.blocks.check(c.bytes); (err == nil) != c.ok {
			t.Errorf("%v of %d bytes: %v", c.blocks, c.bytes, err)
		}
	}
}
