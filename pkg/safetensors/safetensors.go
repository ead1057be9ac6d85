// Package safetensors reads and writes the safetensors format of Hugging
// Face: eight bytes of header length (little endian), a JSON header that maps
// each tensor's name to its type, shape and byte range, and the bytes.
//
// The reader takes nothing on trust: the header's length is capped, names are
// unique, and the ranges tile the data part exactly, without holes or
// overlaps, each as long as its type and shape say. The writer gives the same
// bytes for the same tensors in the same order.
package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sort"

	"github.com/lathe-rl/lathe/pkg/exit"
)

// MaxHeaderBytes is the longest header that is read, as in the reference
// implementation (safetensors/src/tensor.rs, MAX_HEADER_SIZE).
const MaxHeaderBytes = 100_000_000

// DType is the type of a tensor's elements, as written in the header.
type DType string

// The types that can be read as float32. Only F32 is written.
const (
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
)

// elementBytes is the size of one element of every type of the format.
var elementBytes = map[DType]int64{
	"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1,
	"I16": 2, "U16": 2, F16: 2, BF16: 2,
	"I32": 4, "U32": 4, F32: 4,
	"I64": 8, "U64": 8, "F64": 8,
}

// Info describes one tensor of a file.
type Info struct {
	Name  string
	DType DType
	Shape []int
	begin int64 // first byte, from the start of the data part
	end   int64 // one past the last byte
}

// Elements is the number of elements; 1 for a scalar (empty shape).
func (i Info) Elements() int {
	n := 1
	for _, d := range i.Shape {
		n *= d
	}
	return n
}

// File is an open safetensors file.
type File struct {
	Metadata map[string]string // the header's __metadata__; nil when there is none
	name     string
	reader   io.ReaderAt
	closer   io.Closer
	data     int64 // where the data part starts
	tensors  []Info
	byName   map[string]int
}

// Open opens and validates a file. Faults are data errors that name the file
// and the tensor.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	stat, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	file, err := Read(f, stat.Size(), path)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	file.closer = f
	return file, nil
}

// Read validates the header of size bytes behind r. The name is the one that
// error messages give.
func Read(r io.ReaderAt, size int64, name string) (*File, error) {
	var prefix [8]byte
	if size < int64(len(prefix)) {
		return nil, exit.Dataf("reading %q: %d bytes are too few for a safetensors file", name, size)
	}
	if _, err := r.ReadAt(prefix[:], 0); err != nil {
		return nil, fmt.Errorf("reading %q: %w", name, err)
	}
	headerBytes := binary.LittleEndian.Uint64(prefix[:])
	if headerBytes > MaxHeaderBytes || int64(headerBytes) > size-8 {
		return nil, exit.Dataf("reading %q: the header claims %d bytes; the file has %d and at most %d are read",
			name, headerBytes, size, MaxHeaderBytes)
	}
	header := make([]byte, headerBytes)
	if _, err := r.ReadAt(header, 8); err != nil && !(errors.Is(err, io.EOF) && headerBytes == 0) {
		return nil, fmt.Errorf("reading %q: %w", name, err)
	}
	file := &File{name: name, reader: r, data: 8 + int64(headerBytes)}
	if err := file.parse(header); err != nil {
		return nil, exit.Dataf("reading %q: %w", name, err)
	}
	if err := file.checkRanges(size - file.data); err != nil {
		return nil, exit.Dataf("reading %q: %w", name, err)
	}
	return file, nil
}

type headerEntry struct {
	DType   *DType  `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Offsets []int64 `json:"data_offsets"`
}

// parse reads the header by tokens, so that a name that appears twice is seen.
func (f *File) parse(header []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(header))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return errors.New("the header is not a JSON object")
	}
	f.byName = map[string]int{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return fmt.Errorf("the header is not valid JSON: %w", err)
		}
		name := key.(string) // a key of a JSON object
		if name == "__metadata__" {
			if f.Metadata != nil {
				return errors.New("the header has two __metadata__ entries")
			}
			f.Metadata = map[string]string{}
			if err := decoder.Decode(&f.Metadata); err != nil {
				return fmt.Errorf("the header's __metadata__: %w", err)
			}
			continue
		}
		var entry headerEntry
		if err := decoder.Decode(&entry); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		info, err := entry.info(name)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		if _, twice := f.byName[name]; twice {
			return fmt.Errorf("tensor %q appears twice", name)
		}
		f.byName[name] = len(f.tensors)
		f.tensors = append(f.tensors, info)
	}
	if _, err := decoder.Token(); err != nil {
		return fmt.Errorf("the header is not valid JSON: %w", err)
	}
	if rest := bytes.TrimRight(header[decoder.InputOffset():], " "); len(rest) > 0 {
		return fmt.Errorf("%d bytes follow the header's JSON object", len(rest))
	}
	return nil
}

func (e headerEntry) info(name string) (Info, error) {
	if e.DType == nil || e.Shape == nil || len(e.Offsets) != 2 {
		return Info{}, errors.New("dtype, shape and two data_offsets are needed")
	}
	width, known := elementBytes[*e.DType]
	if !known {
		return Info{}, fmt.Errorf("dtype %q is not known", *e.DType)
	}
	info := Info{Name: name, DType: *e.DType, Shape: make([]int, len(e.Shape)), begin: e.Offsets[0], end: e.Offsets[1]}
	bytes := width
	for i, d := range e.Shape {
		if d < 0 || (d > 0 && bytes > math.MaxInt64/d) {
			return Info{}, fmt.Errorf("shape %v is out of range", e.Shape)
		}
		bytes *= d
		info.Shape[i] = int(d)
	}
	if info.begin < 0 || info.end < info.begin || info.end-info.begin != bytes {
		return Info{}, fmt.Errorf("data_offsets %v do not span the %d bytes of %s %v", e.Offsets, bytes, *e.DType, e.Shape)
	}
	return info, nil
}

// checkRanges wants the tensors to tile the data part.
func (f *File) checkRanges(dataBytes int64) error {
	order := slices.Clone(f.tensors)
	sort.SliceStable(order, func(a, b int) bool {
		if order[a].begin != order[b].begin {
			return order[a].begin < order[b].begin
		}
		return order[a].end < order[b].end
	})
	var at int64
	for _, info := range order {
		if info.begin != at {
			return fmt.Errorf("tensor %q starts at byte %d of the data; byte %d was expected (hole or overlap)", info.Name, info.begin, at)
		}
		at = info.end
	}
	if at != dataBytes {
		return fmt.Errorf("the tensors cover %d bytes and the data part has %d: the file is cut short or has bytes nobody owns", at, dataBytes)
	}
	return nil
}

// Tensors lists the tensors in the header's order.
func (f *File) Tensors() []Info { return f.tensors }

// Lookup finds a tensor by name.
func (f *File) Lookup(name string) (Info, bool) {
	i, ok := f.byName[name]
	if !ok {
		return Info{}, false
	}
	return f.tensors[i], true
}

// Float32To reads a tensor of type F32, F16 or BF16 into dst, which must have
// as many elements. The half precision types are widened exactly.
func (f *File) Float32To(dst []float32, name string) error {
	info, ok := f.Lookup(name)
	if !ok {
		return exit.Dataf("reading %q: there is no tensor %q", f.name, name)
	}
	if info.Elements() != len(dst) {
		return exit.Dataf("reading %q: tensor %q has %d elements %v; %d were expected", f.name, name, info.Elements(), info.Shape, len(dst))
	}
	var widen func(dst []float32, raw []byte)
	switch info.DType {
	case F32:
		widen = widenF32
	case F16:
		widen = widenF16
	case BF16:
		widen = widenBF16
	default:
		return exit.Dataf("reading %q: tensor %q is %s; F32, F16 and BF16 can be read", f.name, name, info.DType)
	}
	width := int(elementBytes[info.DType])
	const chunk = 1 << 18 // elements at a time, to bound the scratch
	raw := make([]byte, min(len(dst), chunk)*width)
	for done := 0; done < len(dst); {
		n := min(chunk, len(dst)-done)
		if _, err := f.reader.ReadAt(raw[:n*width], f.data+info.begin+int64(done*width)); err != nil {
			return fmt.Errorf("reading %q: tensor %q: %w", f.name, name, err)
		}
		widen(dst[done:done+n], raw)
		done += n
	}
	return nil
}

// Close closes the file behind an opened File.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

func widenF32(dst []float32, raw []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
}

func widenBF16(dst []float32, raw []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16)
	}
}

func widenF16(dst []float32, raw []byte) {
	for i := range dst {
		dst[i] = halfToFloat(binary.LittleEndian.Uint16(raw[2*i:]))
	}
}

// halfToFloat widens an IEEE 754 binary16 value.
func halfToFloat(h uint16) float32 {
	sign := uint32(h>>15) << 31
	exponent := uint32(h>>10) & 0x1f
	mantissa := uint32(h) & 0x3ff
	switch exponent {
	case 0: // zero or subnormal: mantissa times 2^-24
		value := float32(mantissa) * 0x1p-24
		return math.Float32frombits(math.Float32bits(value) | sign)
	case 0x1f: // infinity or NaN
		return math.Float32frombits(sign | 0xff<<23 | mantissa<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | mantissa<<13)
}
