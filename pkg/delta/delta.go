// Package delta stores a folder as its difference from another with the same files, to
// be restored to the byte: of the weights of a policy an optimizer step in bfloat16
// changes few.
//
// A delta is one line of JSON, the [header], and after it what differs of each file, in
// the order of the header: blocks of 1 MiB, each as a zstd frame after its length as a
// varint. Of a file that has the same size in both folders a block is the exclusive or of
// the two, its bytes ordered by their place in a number: first the first byte of each,
// then the second, and so on. So what did not change is a run of zeros.
package delta

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
)

const (
	format     = "lathe-delta/1.0"
	blockBytes = 1 << 20
	// mostHeader bounds the line of JSON, and mostFrame what 1 MiB is compressed to.
	mostHeader = 16 << 20
	mostFrame  = 2 * blockBytes
)

// header begins a delta.
type header struct {
	Format string `json:"format"`
	Files  []file `json:"files"`
}

// file is how one file is stored.
type file struct {
	seal.File
	// Width is that of a number in bytes, 1, 2 or 4; 0 for a file that is stored whole.
	Width int `json:"width,omitempty"`
	// Same says that the file is that of the base, and nothing of it is stored.
	Same bool `json:"same,omitempty"`
}

// Write writes the difference of a sealed folder from a sealed base. Their files are as
// in their manifests.
func Write(w io.Writer, base, folder string, of, files []seal.File) error {
	before := map[string]seal.File{}
	for _, f := range of {
		before[f.Name] = f
	}
	head := header{Format: format}
	for _, f := range files {
		next := file{File: f}
		switch was, known := before[f.Name]; {
		case known && was == f:
			next.Same = true
		case known && was.Bytes == f.Bytes:
			var err error
			if next.Width, err = widthOf(filepath.Join(base, f.Name), filepath.Join(folder, f.Name), f.Bytes); err != nil {
				return err
			}
		}
		head.Files = append(head.Files, next)
	}
	line, err := json.Marshal(head)
	if err != nil {
		return err
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		return err
	}
	for _, f := range head.Files {
		if f.Same {
			continue
		}
		err := eachBlock(base, folder, f, func(block, scratch []byte) ([]byte, error) {
			frame := encoder.EncodeAll(block, scratch)
			if _, err := w.Write(binary.AppendUvarint(nil, uint64(len(frame)))); err != nil {
				return nil, err
			}
			_, err := w.Write(frame)
			return frame, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// The options fix the bytes of a delta; both may be used by several goroutines.
var (
	encoder = must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1)))
	decoder = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(blockBytes)))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// eachBlock gives the blocks of a file as they are compressed. use appends to scratch and returns it, for the next.
func eachBlock(base, folder string, f file, use func(block, scratch []byte) ([]byte, error)) error {
	now, err := os.Open(filepath.Join(folder, f.Name))
	if err != nil {
		return err
	}
	defer now.Close()
	was, err := openBase(base, f)
	if err != nil {
		return err
	}
	defer was.Close()
	var scratch []byte
	buffers := [2][]byte{make([]byte, min(f.Bytes, blockBytes)), make([]byte, min(f.Bytes, blockBytes))}
	for left := f.Bytes; left > 0; left -= blockBytes {
		block := buffers[0][:min(left, blockBytes)]
		if _, err := io.ReadFull(now, block); err != nil {
			return fmt.Errorf("reading %q: %w", now.Name(), err)
		}
		if f.Width > 0 {
			if err := xor(block, was, buffers[1]); err != nil {
				return err
			}
			block = planes(buffers[1][:len(block)], block, f.Width)
		}
		if scratch, err = use(block, scratch[:0]); err != nil {
			return err
		}
	}
	return nil
}

// openBase opens the file that another is compared with; nothing for one stored whole.
func openBase(base string, f file) (io.ReadCloser, error) {
	if f.Width == 0 && !f.Same {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	return os.Open(filepath.Join(base, f.Name))
}

// xor combines a block with the next bytes of the base.
func xor(block []byte, was io.Reader, scratch []byte) error {
	other := scratch[:len(block)]
	if _, err := io.ReadFull(was, other); err != nil {
		return fmt.Errorf("reading the base: %w", err)
	}
	for i := range block {
		block[i] ^= other[i]
	}
	return nil
}

// planes orders bytes by their place in a number of so many bytes.
func planes(to, from []byte, width int) []byte {
	at := 0
	for place := range width {
		for i := place; i < len(from); i += width {
			to[at] = from[i]
			at++
		}
	}
	return to
}

// numbers is the inverse of planes.
func numbers(to, from []byte, width int) []byte {
	at := 0
	for place := range width {
		for i := place; i < len(to); i += width {
			to[i] = from[at]
			at++
		}
	}
	return to
}

// widthOf is the width by which the block in the middle of a file becomes smallest.
func widthOf(base, folder string, size int64) (int, error) {
	var blocks [2][]byte
	for i, path := range []string{folder, base} {
		f, err := os.Open(path)
		if err != nil {
			return 0, err
		}
		block := make([]byte, min(size, blockBytes))
		_, err = f.ReadAt(block, (size-int64(len(block)))/2/4*4)
		f.Close()
		if err != nil {
			return 0, fmt.Errorf("reading %q: %w", path, err)
		}
		blocks[i] = block
	}
	for i := range blocks[0] {
		blocks[0][i] ^= blocks[1][i]
	}
	best, least := 0, math.MaxInt
	for _, width := range []int{1, 2, 4} {
		if n := len(encoder.EncodeAll(planes(blocks[1], blocks[0], width), nil)); n < least {
			best, least = width, n
		}
	}
	return best, nil
}

// Restore writes the files that a delta stores into a folder that is empty. Each is
// digested: what comes out is what was stored, or an error.
func Restore(r io.Reader, base, into string) error {
	in := bufio.NewReaderSize(r, blockBytes)
	head, err := readHeader(in)
	if err != nil {
		return err
	}
	for _, f := range head.Files {
		if err := restoreFile(in, base, into, f); err != nil {
			return fmt.Errorf("restoring %q: %w", f.Name, err)
		}
	}
	if _, err := in.ReadByte(); err != io.EOF {
		return exitcode.Dataf("the delta goes on behind its last file")
	}
	return nil
}

func readHeader(in *bufio.Reader) (head header, err error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > mostHeader {
			return head, exitcode.Dataf("it is no delta: it has no header")
		}
	}
	if err := json.Unmarshal(line, &head); err != nil || head.Format != format {
		return head, exitcode.Dataf("it is no delta that this version reads: format %q, want %q", head.Format, format)
	}
	for _, f := range head.Files {
		if !filepath.IsLocal(f.Name) || f.Bytes < 0 || f.Width < 0 || f.Width > 4 || f.Same && f.Width > 0 {
			return head, exitcode.Dataf("the delta's header has file %q, which makes no sense", f.Name)
		}
	}
	return head, nil
}

func restoreFile(in *bufio.Reader, base, into string, f file) (err error) {
	path := filepath.Join(into, f.Name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	was, err := openBase(base, f)
	if err != nil {
		return err
	}
	defer was.Close()
	digest := sha256.New()
	to := io.MultiWriter(out, digest)
	if f.Same {
		_, err = io.Copy(to, was)
	} else {
		err = restoreBlocks(in, was, to, f)
	}
	if err != nil {
		return err
	}
	if sum := hex.EncodeToString(digest.Sum(nil)); sum != f.SHA256 {
		return exitcode.Dataf("sha256 %s comes out, %s was stored: the base is not the one that the delta was made from, or one of the two is damaged", sum, f.SHA256)
	}
	return nil
}

func restoreBlocks(in *bufio.Reader, was io.Reader, to io.Writer, f file) error {
	var frame, plain []byte
	buffers := [2][]byte{make([]byte, min(f.Bytes, blockBytes)), make([]byte, min(f.Bytes, blockBytes))}
	for left := f.Bytes; left > 0; left -= blockBytes {
		n, err := binary.ReadUvarint(in)
		if err != nil || n > mostFrame {
			return exitcode.Dataf("the delta is cut short or damaged")
		}
		frame = slices.Grow(frame[:0], int(n))[:n]
		if _, err := io.ReadFull(in, frame); err != nil {
			return exitcode.Dataf("the delta is cut short: %w", err)
		}
		if plain, err = decoder.DecodeAll(frame, plain[:0]); err != nil || int64(len(plain)) != min(left, blockBytes) {
			return exitcode.Dataf("the delta is damaged: a block has %d bytes, %v", len(plain), err)
		}
		block := plain
		if f.Width > 0 {
			block = numbers(buffers[0][:len(plain)], plain, f.Width)
			if err := xor(block, was, buffers[1]); err != nil {
				return err
			}
		}
		if _, err := to.Write(block); err != nil {
			return err
		}
	}
	return nil
}
