package seal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// Blocks are the digests of a file's pieces of equal size, so that a part of it
// can be read and trusted without the rest. The last piece may be shorter.
type Blocks struct {
	Bytes  int64    `json:"bytes"` // of each
	SHA256 []string `json:"sha256"`
}

// blockBytes is the size of the blocks that writers digest: 75 bytes of a
// manifest for 1 MiB of its file.
const blockBytes = 1 << 20

// check compares the number of blocks with the size of their file.
func (b *Blocks) check(bytes int64) error {
	if b.Bytes <= 0 || max(0, bytes-1)/b.Bytes+min(bytes, 1) != int64(len(b.SHA256)) {
		return fmt.Errorf("the manifest has %d blocks of %d bytes for a file of %d", len(b.SHA256), b.Bytes, bytes)
	}
	for i, digest := range b.SHA256 {
		if !isDigest(digest) {
			return fmt.Errorf("the manifest's sha256 of block %d is not 64 hexadecimal digits", i)
		}
	}
	return nil
}

// blockHash digests what is written to it in blocks.
type blockHash struct {
	hash hash.Hash // of the block at hand
	room int64     // left in it
	done []string
}

func newBlockHash() *blockHash { return &blockHash{hash: sha256.New(), room: blockBytes} }

func (b *blockHash) write(p []byte) {
	for len(p) > 0 {
		n := min(int64(len(p)), b.room)
		b.hash.Write(p[:n])
		p = p[n:]
		if b.room -= n; b.room == 0 {
			b.end()
		}
	}
}

// end ends the block at hand.
func (b *blockHash) end() {
	b.done = append(b.done, hex.EncodeToString(b.hash.Sum(nil)))
	b.hash.Reset()
	b.room = blockBytes
}

// blocks are the digests of all that was written.
func (b *blockHash) blocks() *Blocks {
	if b.room < blockBytes {
		b.end()
	}
	return &Blocks{Bytes: blockBytes, SHA256: b.done}
}

// ReaderAt reads parts of a sealed file that was written in blocks. Every block
// is digested when it is read, so what ReadAt gives are the bytes that were
// sealed. A ReaderAt is for one goroutine.
type ReaderAt struct {
	ctx   context.Context
	path  string
	file  *os.File
	m     Manifest
	block map[int64][]byte // those read last, by number
	order []int64          // of them, the oldest first
	keep  int              // of them at most
	read  int64
	err   error // the first
}

// OpenAt opens a sealed file to read parts of it. The manifest must have its
// blocks.
func OpenAt(ctx context.Context, path string, o Options) (*ReaderAt, Manifest, error) {
	path = filepath.Clean(path)
	r := &ReaderAt{ctx: ctx, path: path, block: map[int64][]byte{}, keep: 1}
	err := patiently(ctx, path, o, func() (err error) {
		if r.m, _, err = readManifest(path); err != nil {
			return err
		}
		if r.m.Blocks == nil {
			return damaged(path, "its manifest has no block digests: a part of the file cannot be verified alone")
		}
		if err := compareSizes(path, r.m); err != nil {
			return err
		}
		if err := o.accept(path, r.m); err != nil {
			return err
		}
		r.file, _, err = open(path, path)
		return err
	})
	if err != nil {
		return nil, Manifest{}, err
	}
	return r, r.m, nil
}

// Keep has so many blocks stay in memory instead of one, for a decoder that goes from
// column to column and back.
func (r *ReaderAt) Keep(blocks int) { r.keep = blocks }

// Size is that of the file, in bytes.
func (r *ReaderAt) Size() int64 { return r.m.Bytes }

// BytesRead is how many bytes of the file were read so far.
func (r *ReaderAt) BytesRead() int64 { return r.read }

// Err returns the first error of ReadAt: decoders often hide it.
func (r *ReaderAt) Err() error { return r.err }

// Close ends the reading.
func (r *ReaderAt) Close() error { return r.file.Close() }

// ReadAt implements [io.ReaderAt].
func (r *ReaderAt) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, fmt.Errorf("reading %q: offset %d", r.path, offset)
	}
	n := 0
	for n < len(p) {
		if offset >= r.m.Bytes {
			return n, io.EOF
		}
		block, err := r.load(offset / r.m.Blocks.Bytes)
		if err != nil {
			r.err = cmp.Or(r.err, err)
			return n, err
		}
		copied := copy(p[n:], block[offset%r.m.Blocks.Bytes:])
		n, offset = n+copied, offset+int64(copied)
	}
	return n, nil
}

// load reads a block, unless it is in memory, and compares it with its digest.
func (r *ReaderAt) load(number int64) ([]byte, error) {
	if block, kept := r.block[number]; kept {
		return block, nil
	}
	if err := r.ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading %q: %w", r.path, context.Cause(r.ctx))
	}
	first := number * r.m.Blocks.Bytes
	block := r.room()[:min(r.m.Blocks.Bytes, r.m.Bytes-first)]
	n, err := r.file.ReadAt(block, first)
	r.read += int64(n)
	switch {
	case n == len(block):
	case errors.Is(err, io.EOF):
		return nil, damaged(r.path, fmt.Sprintf("found %d bytes, sealed were %d", first+int64(n), r.m.Bytes))
	case errors.Is(err, syscall.ESTALE):
		return nil, fmt.Errorf("reading %q: it was replaced while it was read: %w", r.path, err)
	default:
		return nil, fmt.Errorf("reading %q: %w", r.path, err)
	}
	sum := sha256.Sum256(block)
	if found := hex.EncodeToString(sum[:]); found != r.m.Blocks.SHA256[number] {
		return nil, damaged(r.path, fmt.Sprintf("block %d has sha256 %s, sealed was %s", number, found, r.m.Blocks.SHA256[number]))
	}
	r.block[number] = block
	r.order = append(r.order, number)
	return block, nil
}

// room is memory for a block: that of the oldest where enough are kept.
func (r *ReaderAt) room() []byte {
	if len(r.order) < r.keep {
		return make([]byte, min(r.m.Blocks.Bytes, r.m.Bytes))
	}
	oldest := r.order[0]
	room := r.block[oldest]
	r.order = r.order[1:]
	delete(r.block, oldest)
	return room[:cap(room)]
}
