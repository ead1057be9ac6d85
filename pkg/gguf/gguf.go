// Package gguf reads GGUF, the file format of llama.cpp: metadata, and tensors that are
// plain or quantised, as float32.
//
// The reader takes nothing on trust: no length is allocated before it is known to fit what
// is left of the file, names are unique, and every tensor lies within the file. Tensors
// are read piece by piece, so a file may be larger than memory.
package gguf

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

const (
	// maxMetadataBytes bounds what comes before the tensors: the largest vocabularies
	// take a tenth of it.
	maxMetadataBytes = 256 << 20
	maxDimensions    = 4
)

// Info describes one tensor.
type Info struct {
	Name   string
	Type   Type
	Shape  []int // rows first: the file has the dimensions in reverse
	offset int64 // in the file
}

// Elements is the number of elements.
func (i Info) Elements() int {
	n := 1
	for _, d := range i.Shape {
		n *= d
	}
	return n
}

// File is an open GGUF file.
type File struct {
	Version  uint32
	Metadata Metadata
	name     string
	r        io.ReaderAt
	size     int64
	tensors  []Info
	byName   map[string]int
	raw      []byte // scratch of Float32At
}

// Open opens a file and reads all but its tensors' data. Faults are data errors that name
// the file.
func Open(path string) (*File, error) {
	r, size, err := plainfile.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := Read(r, size, path)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return f, nil
}

// Read reads the size bytes behind r, all but the tensors' data. The name is the one that
// error messages give.
func Read(r io.ReaderAt, size int64, name string) (*File, error) {
	f := &File{name: name, r: r, size: size, byName: map[string]int{}}
	if err := f.readStart(); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			err = fmt.Errorf("the file is shorter than when it was opened: %w", err)
		}
		return nil, exitcode.Dataf("reading %q: %w", name, err)
	}
	return f, nil
}

func (f *File) readStart() error {
	c := &cursor{r: bufio.NewReaderSize(io.NewSectionReader(f.r, 0, f.size), 1<<16), left: min(f.size, maxMetadataBytes)}
	if err := f.readVersion(c); err != nil {
		return err
	}
	const leastTensor = 8 + 4 + 8 + 4 + 8 // bytes of a tensor's description with one dimension and no name
	tensors, err := c.size(leastTensor)
	if err != nil {
		return fmt.Errorf("number of tensors: %w", err)
	}
	const leastKey = 8 + 4 + 1
	keys, err := c.size(leastKey)
	if err != nil {
		return fmt.Errorf("number of metadata keys: %w", err)
	}
	if f.Metadata, err = c.metadata(keys); err != nil {
		return err
	}
	for i := range tensors {
		info, err := c.info()
		if err != nil {
			return fmt.Errorf("description %d of %d tensors: %w", i+1, tensors, err)
		}
		if _, twice := f.byName[info.Name]; twice {
			return fmt.Errorf("tensor %q is given twice", info.Name)
		}
		f.byName[info.Name] = len(f.tensors)
		f.tensors = append(f.tensors, info)
	}
	return f.place(c.at)
}

// readVersion reads the first eight bytes.
func (f *File) readVersion(c *cursor) error {
	if f.size < 8 {
		return fmt.Errorf("not a GGUF file: %d bytes are too few", f.size)
	}
	start, err := c.bytes(8)
	if err != nil {
		return err
	}
	magic := string(start[:4])
	f.Version = binary.LittleEndian.Uint32(start[4:])
	switch {
	case magic == "lmgg" || magic == "fmgg" || magic == "tjgg" || magic == "algg":
		return errors.New("it has the format GGML, which came before GGUF: convert the original weights again with a newer llama.cpp")
	case magic != "GGUF":
		return fmt.Errorf("not a GGUF file: it begins with %q", magic)
	case f.Version == 1:
		return errors.New("it is GGUF version 1; versions 2 and 3 are read: convert the original weights again with a newer llama.cpp")
	case f.Version&0xffff == 0:
		return errors.New("it is big-endian GGUF; little-endian is read: convert it with gguf-convert-endian FILE little, of the Python package gguf")
	case f.Version != 2 && f.Version != 3:
		return fmt.Errorf("it is GGUF version %d; versions 2 and 3 are read", f.Version)
	}
	return nil
}

// info reads the description of a tensor; its offset is from the start of the data.
func (c *cursor) info() (Info, error) {
	name, err := c.text()
	if err != nil {
		return Info{}, err
	}
	if name == "" || !utf8.ValidString(name) {
		return Info{}, fmt.Errorf("the name %.100q is empty or no UTF-8", name)
	}
	dimensions, err := c.uint32()
	if err != nil {
		return Info{}, err
	}
	if dimensions < 1 || dimensions > maxDimensions {
		return Info{}, fmt.Errorf("tensor %.100q has %d dimensions, want 1 to %d", name, dimensions, maxDimensions)
	}
	info := Info{Name: name, Shape: make([]int, dimensions)}
	elements := uint64(1)
	for i := range info.Shape {
		raw, err := c.bytes(8)
		if err != nil {
			return Info{}, err
		}
		d := binary.LittleEndian.Uint64(raw)
		over, product := bits.Mul64(elements, d)
		if d == 0 || over != 0 || product > 1<<48 {
			return Info{}, fmt.Errorf("tensor %.100q has a dimension of %d", name, d)
		}
		elements = product
		info.Shape[len(info.Shape)-1-i] = int(d)
	}
	t, err := c.uint32()
	if err != nil {
		return Info{}, err
	}
	raw, err := c.bytes(8)
	if err != nil {
		return Info{}, err
	}
	offset := binary.LittleEndian.Uint64(raw)
	if offset > 1<<62 {
		return Info{}, fmt.Errorf("tensor %.100q has the offset %d", name, offset)
	}
	info.Type, info.offset = Type(t), int64(offset)
	return info, nil
}

// place adds the start of the data, which follows the descriptions at a multiple of the
// alignment, to the tensors' offsets, and checks that each lies within the file.
func (f *File) place(end int64) error {
	alignment, there, err := Get[int64](f.Metadata, "general.alignment")
	if err != nil {
		return err
	}
	if !there {
		alignment = 32
	}
	if alignment < 1 || alignment > 1<<20 || alignment&(alignment-1) != 0 {
		return fmt.Errorf("metadata: \"general.alignment\" is %d, want a power of two", alignment)
	}
	data := (end + alignment - 1) / alignment * alignment
	for i := range f.tensors {
		t := &f.tensors[i]
		if t.offset%alignment != 0 {
			return fmt.Errorf("tensor %q starts at %d, which is no multiple of the alignment %d", t.Name, t.offset, alignment)
		}
		k, known := kinds[t.Type]
		if !known {
			continue // refused when it is asked for
		}
		columns := t.Shape[len(t.Shape)-1]
		if columns%k.elements != 0 {
			return fmt.Errorf("tensor %q has rows of %d elements; %s needs a multiple of %d", t.Name, columns, t.Type, k.elements)
		}
		bytes := int64(t.Elements()/k.elements) * int64(k.bytes)
		if bytes > f.size-data-t.offset {
			return fmt.Errorf("tensor %q takes bytes %d to %d; the file has %d: it is cut short or damaged",
				t.Name, data+t.offset, data+t.offset+bytes, f.size)
		}
		t.offset += data
	}
	return nil
}

// Tensors lists the tensors in the order of the file.
func (f *File) Tensors() []Info { return f.tensors }

// Lookup finds a tensor by its name.
func (f *File) Lookup(name string) (Info, bool) {
	i, there := f.byName[name]
	if !there {
		return Info{}, false
	}
	return f.tensors[i], true
}

// Float32At fills dst with the elements from.. of a tensor, dequantised. Both from and the
// length of dst are multiples of the type's block. A File is read by one goroutine at a
// time.
func (f *File) Float32At(dst []float32, t Info, from int) error {
	k, known := kinds[t.Type]
	if !known {
		return exitcode.WithHint(exitcode.Dataf("reading %q: tensor %q is %s, which is not implemented", f.name, t.Name, t.Type),
			"use a file of type F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 or Q2_K to Q6_K")
	}
	if from < 0 || from > t.Elements()-len(dst) || from%k.elements != 0 || len(dst)%k.elements != 0 {
		return exitcode.Bugf("reading %q: elements %d to %d of tensor %q with %d elements", f.name, from, from+len(dst), t.Name, t.Elements())
	}
	const chunk = 1 << 15 // elements at a time
	f.raw = append(f.raw[:0], make([]byte, min(len(dst), chunk)/k.elements*k.bytes)...)
	for len(dst) > 0 {
		n := min(chunk, len(dst))
		raw := f.raw[:n/k.elements*k.bytes]
		if got, err := f.r.ReadAt(raw, t.offset+int64(from/k.elements)*int64(k.bytes)); got < len(raw) {
			if errors.Is(err, io.EOF) {
				return exitcode.Dataf("reading %q: tensor %q: the file is shorter than when it was opened", f.name, t.Name)
			}
			return fmt.Errorf("reading %q: tensor %q: %w", f.name, t.Name, err)
		}
		for i := range n / k.elements {
			k.decode(dst[i*k.elements:(i+1)*k.elements:(i+1)*k.elements], raw[i*k.bytes:(i+1)*k.bytes])
		}
		dst, from = dst[n:], from+n
	}
	return nil
}

// SHA256 is the digest of the whole file, hexadecimal.
func (f *File) SHA256() (string, error) {
	digest := sha256.New()
	if _, err := io.Copy(digest, io.NewSectionReader(f.r, 0, f.size)); err != nil {
		return "", fmt.Errorf("reading %q: %w", f.name, err)
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// Close ends the reading of a file.
func (f *File) Close() error {
	if closer, ok := f.r.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}
