// Package safetensors reads and writes the safetensors format of Hugging
// Face: eight bytes of header length (little endian), a JSON header that maps
// each tensor's name to its type, shape and byte range, and the bytes.
//
// The reader takes nothing on trust: the header's length is capped, names are
// unique, and the ranges tile the data part exactly, without holes or
// overlaps, each as long as its type and shape say. The writer gives the same
// bytes for the same tensors in the same order.
//
// A file is mapped into memory where the system can (Linux), and read where it
// cannot. Its size is fixed when it is opened: a file that is cut short later
// gives an error on the next read of what is gone. A file that is written to
// in place while it is open gives whatever bytes it holds at each read; only a
// digest taken before and after can tell (package seal).
package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

// MaxHeaderBytes is the longest header that is read, as in the reference
// implementation (safetensors/src/tensor.rs, MAX_HEADER_SIZE).
const MaxHeaderBytes = 100_000_000

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
	bytes    content
	data     int64 // where the data part starts
	tensors  []Info
	byName   map[string]int
}

// content is what a File reads from.
type content interface {
	// with calls use with the n bytes from an offset, which are valid during
	// the call. The scratch may hold them.
	with(from int64, n int, scratch *[]byte, use func(raw []byte)) error
	// soon tells that n bytes from an offset will be read.
	soon(from, n int64)
	io.Closer
}

// Open opens and validates a file. Faults are data errors that name the file
// and the tensor.
func Open(path string) (*File, error) {
	f, size, err := plainfile.Open(path)
	if err != nil {
		return nil, err
	}
	bytes, err := open(f, size)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", path, errors.Join(err, f.Close()))
	}
	file, err := newFile(bytes, size, path)
	if err != nil {
		return nil, errors.Join(err, bytes.Close())
	}
	return file, nil
}

// Read validates the header of size bytes behind r. The name is the one that
// error messages give.
func Read(r io.ReaderAt, size int64, name string) (*File, error) {
	return newFile(readerContent{r}, size, name)
}

func newFile(bytes content, size int64, name string) (*File, error) {
	const prefixBytes = 8
	if size < prefixBytes {
		return nil, exitcode.Dataf("reading %q: %d bytes are too few for a safetensors file", name, size)
	}
	var scratch []byte
	var headerBytes uint64
	err := bytes.with(0, prefixBytes, &scratch, func(raw []byte) { headerBytes = binary.LittleEndian.Uint64(raw) })
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", name, err)
	}
	if headerBytes > MaxHeaderBytes || int64(headerBytes) > size-prefixBytes {
		return nil, exitcode.Dataf("reading %q: the header claims %d bytes; the file has %d, and the limit is %d",
			name, headerBytes, size, MaxHeaderBytes)
	}
	header := make([]byte, headerBytes)
	if err := bytes.with(prefixBytes, len(header), &scratch, func(raw []byte) { copy(header, raw) }); err != nil {
		return nil, fmt.Errorf("reading %q: %w", name, err)
	}
	file := &File{name: name, bytes: bytes, data: prefixBytes + int64(headerBytes)}
	if err := file.parse(header); err != nil {
		return nil, exitcode.Dataf("reading %q: %w", name, err)
	}
	if err := file.checkRanges(size - file.data); err != nil {
		return nil, exitcode.Dataf("reading %q: %w", name, err)
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
		return Info{}, fmt.Errorf("unknown dtype %q", *e.DType)
	}
	info := Info{Name: name, DType: *e.DType, Shape: make([]int, len(e.Shape)), begin: e.Offsets[0], end: e.Offsets[1]}
	bytes := width
	for i, d := range e.Shape {
		if d < 0 || bytes > math.MaxInt64/max(d, 1) {
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
	slices.SortStableFunc(order, func(a, b Info) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end)) })
	var at int64
	for _, info := range order {
		if info.begin != at {
			return fmt.Errorf("tensor %q starts at byte %d of the data; byte %d was expected (hole or overlap)", info.Name, info.begin, at)
		}
		at = info.end
	}
	if at != dataBytes {
		return fmt.Errorf("the tensors cover %d bytes but the data part has %d: the file is cut short or has bytes of no tensor", at, dataBytes)
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

// DataBytes is the size of the data of all tensors.
func (f *File) DataBytes() int64 {
	total := int64(0)
	for _, info := range f.tensors {
		total += info.end - info.begin
	}
	return total
}

// Float32To reads a tensor of type F32, F16 or BF16 into dst, which must have
// as many elements. The half precision types are widened exactly.
func (f *File) Float32To(dst []float32, name string) error {
	info, ok := f.Lookup(name)
	if ok && info.Elements() != len(dst) {
		return exitcode.Dataf("reading %q: tensor %q has %d elements %v; %d were expected", f.name, name, info.Elements(), info.Shape, len(dst))
	}
	return f.Float32At(dst, name, 0)
}

// Float32At reads the elements from..from+len(dst)-1 of a tensor, as Float32To
// does all of them.
func (f *File) Float32At(dst []float32, name string, from int) error {
	info, ok := f.Lookup(name)
	if !ok {
		return exitcode.Dataf("reading %q: there is no tensor %q", f.name, name)
	}
	if from < 0 || len(dst) > info.Elements() || from > info.Elements()-len(dst) {
		return exitcode.Bugf("reading %q: elements %d to %d of tensor %q with %d elements", f.name, from, from+len(dst), name, info.Elements())
	}
	widen := conversions[info.DType].widen
	if widen == nil {
		return exitcode.Dataf("reading %q: tensor %q is %s; F32, F16 and BF16 can be read", f.name, name, info.DType)
	}
	width := info.DType.Bytes()
	at := f.data + info.begin + int64(from)*int64(width)
	f.bytes.soon(at, int64(len(dst))*int64(width))
	const chunk = 1 << 18 // elements at a time, to bound the scratch
	var scratch []byte
	for done := 0; done < len(dst); {
		n := min(chunk, len(dst)-done)
		err := f.bytes.with(at, n*width, &scratch, func(raw []byte) { widen(dst[done:done+n], raw) })
		if err != nil {
			return fmt.Errorf("reading %q: tensor %q: %w", f.name, name, err)
		}
		done += n
		at += int64(n * width)
	}
	return nil
}

// Close ends the reading of a file.
func (f *File) Close() error { return f.bytes.Close() }

// readerContent reads what cannot be mapped.
type readerContent struct{ io.ReaderAt }

func (c readerContent) with(from int64, n int, scratch *[]byte, use func(raw []byte)) error {
	if cap(*scratch) < n {
		*scratch = make([]byte, n)
	}
	raw := (*scratch)[:n]
	if got, err := c.ReadAt(raw, from); got < n {
		if errors.Is(err, io.EOF) {
			return exitcode.Dataf("the file is %d bytes shorter than when it was opened", n-got)
		}
		return err
	}
	use(raw)
	return nil
}

func (readerContent) soon(int64, int64) {}

func (c readerContent) Close() error {
	if closer, ok := c.ReaderAt.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}
