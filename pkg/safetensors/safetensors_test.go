package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// encode builds a file from a literal header and data bytes.
func encode(header string, data []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func read(raw []byte) (*File, error) {
	return Read(bytes.NewReader(raw), int64(len(raw)), "a.safetensors")
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	tensors := []Tensor{
		{Name: "z", Shape: []int{2, 3}, Data: []float32{1, -2, 3.5, 0, float32(math.Copysign(0, -1)), math.MaxFloat32}},
		{Name: "a\"é", Shape: []int{}, Data: []float32{7}},
		{Name: "empty", Shape: []int{0, 4}, Data: nil},
	}
	var first, second bytes.Buffer
	for _, b := range []*bytes.Buffer{&first, &second} {
		if err := Write(b, tensors, map[string]string{"format": "pt", "b": "2"}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two writes differ")
	}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := os.WriteFile(path, first.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.data%8 != 0 {
		t.Errorf("data starts at byte %d, not at a multiple of 8", f.data)
	}
	if diff := cmp.Diff(map[string]string{"format": "pt", "b": "2"}, f.Metadata); diff != "" {
		t.Error(diff)
	}
	for i, want := range tensors {
		if got := f.Tensors()[i]; got.Name != want.Name || got.DType != F32 {
			t.Errorf("tensor %d is %+v, want %s", i, got, want.Name)
		}
		got := make([]float32, len(want.Data))
		if err := f.Float32To(got, want.Name); err != nil {
			t.Fatal(err)
		}
		for j := range got {
			if math.Float32bits(got[j]) != math.Float32bits(want.Data[j]) {
				t.Errorf("%s[%d] = %v, want %v", want.Name, j, got[j], want.Data[j])
			}
		}
	}
}

func TestEmptyFileOfNoTensors(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := Write(&b, nil, nil); err != nil {
		t.Fatal(err)
	}
	if f, err := read(b.Bytes()); err != nil || len(f.Tensors()) != 0 {
		t.Errorf("got %v, %v", f, err)
	}
}

// The half values are those of IEEE 754-2008 binary16, the bfloat16 ones the
// upper halves of binary32 words.
func TestWiden(t *testing.T) {
	t.Parallel()
	header := `{"h":{"dtype":"F16","shape":[6],"data_offsets":[0,12]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[12,16]}}`
	data := []byte{}
	for _, bits := range []uint16{0x3c00, 0xc000, 0x7bff, 0x0001, 0x0400, 0xfc00, 0x3f80, 0xc049} {
		data = binary.LittleEndian.AppendUint16(data, bits)
	}
	f, err := read(encode(header, data))
	if err != nil {
		t.Fatal(err)
	}
	half, brain := make([]float32, 6), make([]float32, 2)
	if err := f.Float32To(half, "h"); err != nil {
		t.Fatal(err)
	}
	if err := f.Float32To(brain, "b"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float32{1, -2, 65504, 0x1p-24, 0x1p-14, float32(math.Inf(-1))}, half); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]float32{1, -3.140625}, brain); diff != "" {
		t.Error(diff)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	eight := make([]byte, 8)
	tests := []struct {
		name string
		raw  []byte
		want string
	}{
		{"short", []byte{1, 2, 3}, "too few"},
		{"header too long", encode("{}", nil)[:9], "the header claims 2 bytes"},
		{"header over cap", append(binary.LittleEndian.AppendUint64(nil, 1<<40), "{}"...), "the header claims"},
		{"not an object", encode("[]", nil), "not a JSON object"},
		{"broken JSON", encode(`{"a":`, nil), `tensor "a"`},
		{"trailing", encode(`{}x`, nil), "1 bytes follow"},
		{"no dtype", encode(`{"a":{"shape":[2],"data_offsets":[0,8]}}`, eight), `tensor "a": dtype, shape`},
		{"unknown dtype", encode(`{"a":{"dtype":"F5","shape":[2],"data_offsets":[0,8]}}`, eight), `dtype "F5"`},
		{"negative dimension", encode(`{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}`, eight), "out of range"},
		{"overflow", encode(`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}}`, eight), "out of range"},
		{"bytes against shape", encode(`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, eight), "do not span the 12 bytes"},
		{"twice", encode(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, eight), "appears twice"},
		{"overlap", encode(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, eight), "hole or overlap"},
		{"hole", encode(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, eight), "hole or overlap"},
		{"seven bytes", make([]byte, 7), "too few"},
		{"eight bytes", make([]byte, 8), "not a JSON object"},
		{"header at the end", encode("{}", nil)[:8], "the header claims 2 bytes; the file has 8"},
		{"a key that is a number", encode(`{1:2}`, nil), "not valid JSON"},
		{"open object", encode(`{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}`, eight[:1]), "not valid JSON"},
		{"two metadata", encode(`{"__metadata__":{},"__metadata__":{}}`, nil), "two __metadata__"},
		{"metadata of numbers", encode(`{"__metadata__":{"a":1}}`, nil), "the header's __metadata__"},
		{"no shape", encode(`{"a":{"dtype":"F32","data_offsets":[0,8]}}`, eight), "dtype, shape"},
		{"one offset", encode(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[8]}}`, eight), "two data_offsets"},
		{"three offsets", encode(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}}`, eight), "two data_offsets"},
		{"largest shape", encode(`{"a":{"dtype":"U8","shape":[9223372036854775807,1],"data_offsets":[0,8]}}`, eight), "do not span the 9223372036854775807 bytes"},
		{"shape of 2^62", encode(`{"a":{"dtype":"U8","shape":[4611686018427387904,1],"data_offsets":[0,8]}}`, eight), "do not span the 4611686018427387904 bytes"},
		{"shape of 2^63", encode(`{"a":{"dtype":"U8","shape":[4611686018427387904,2],"data_offsets":[0,8]}}`, eight), "out of range"},
		{"two bytes of each", encode(`{"a":{"dtype":"U16","shape":[9223372036854775807],"data_offsets":[0,8]}}`, eight), "out of range"},
		{"negative offset", encode(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}}`, eight), "do not span"},
		{"offsets that wrap", encode(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[9223372036854775807,-9223372036854775808]}}`, eight), "do not span"},
		{"bytes of no tensor", encode(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, eight), "cover 4 bytes but the data part has 8"},
		{"cut", encode(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, eight[:7]), "cut short"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := read(test.raw)
			if exitcode.Code(err) != exitcode.Data {
				t.Fatalf("code %d, want %d", exitcode.Code(err), exitcode.Data)
			}
			for _, part := range []string{`"a.safetensors"`, test.want} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("message %q lacks %q", err, part)
				}
			}
		})
	}
}

func TestWrongReads(t *testing.T) {
	t.Parallel()
	f, err := read(encode(`{"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}`, make([]byte, 8)))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, want string
		elements   int
	}{
		{"b", `no tensor "b"`, 1},
		{"a", "2 were expected", 2},
		{"a", "is I64", 1},
	} {
		err := f.Float32To(make([]float32, test.elements), test.name)
		if err == nil || exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want data error with %q", err, test.want)
		}
	}
}

func TestWriteRefusesBugs(t *testing.T) {
	t.Parallel()
	for _, tensors := range [][]Tensor{
		{{Name: "a", Shape: []int{2}, Data: []float32{1}}},
		{{Name: "a", Shape: []int{1}, Data: []float32{1}}, {Name: "a", Shape: []int{1}, Data: []float32{1}}},
		{{Name: "__metadata__", Shape: []int{1}, Data: []float32{1}}},
		{{Name: "a", Shape: []int{1}, DType: "I32", Data: []float32{1}}},
	} {
		if err := Write(&bytes.Buffer{}, tensors, nil); exitcode.Code(err) != exitcode.Bug {
			t.Errorf("%v: got %v, want a bug", tensors, err)
		}
	}
}

// FuzzRead holds that any bytes give a validated file or a data error, and
// that what is accepted can be read.
func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := Write(&b, []Tensor{{Name: "a", Shape: []int{2}, Data: []float32{1, 2}}}, map[string]string{"format": "pt"}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(encode(`{"a":{"dtype":"BF16","shape":[1,1],"data_offsets":[0,2]}}`, []byte{1, 2}))
	f.Add(encode(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}} `, nil))
	f.Add(encode(`{"a":{"dtype":"F16","shape":[2],"data_offsets":[2,6]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, make([]byte, 6)))
	f.Add(encode(`{"__metadata__":{"a":"b"},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, make([]byte, 4)))
	f.Add(binary.LittleEndian.AppendUint64(nil, 1<<60))
	f.Fuzz(func(t *testing.T, raw []byte) {
		file, err := read(raw)
		if err != nil {
			if exitcode.Code(err) != exitcode.Data {
				t.Fatalf("code %d for %v", exitcode.Code(err), err)
			}
			return
		}
		var tensors []Tensor
		for _, info := range file.Tensors() {
			if info.Elements() > len(raw) {
				t.Fatalf("%d elements in %d bytes", info.Elements(), len(raw))
			}
			data := make([]float32, info.Elements())
			if err := file.Float32To(data, info.Name); err != nil {
				if exitcode.Code(err) != exitcode.Data || info.DType.Float() {
					t.Fatal(err)
				}
				continue
			}
			last := make([]float32, (len(data)+1)/2)
			if err := file.Float32At(last, info.Name, len(data)-len(last)); err != nil {
				t.Fatal(err)
			}
			for i, x := range last {
				if want := data[len(data)-len(last)+i]; math.Float32bits(x) != math.Float32bits(want) {
					t.Fatalf("element %d of the last half of %q is %g, in the whole it is %g", i, info.Name, x, want)
				}
			}
			tensors = append(tensors, Tensor{Name: info.Name, Shape: info.Shape, DType: info.DType, Data: data})
		}
		var again bytes.Buffer
		if err := Write(&again, tensors, file.Metadata); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if _, err := read(again.Bytes()); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
	})
}

// The bytes of a file by the format: the header's length, the header padded
// with blanks to a multiple of eight, and the values.
func TestBytes(t *testing.T) {
	t.Parallel()
	one := []byte{0, 0, 0x80, 0x3f}
	for _, c := range []struct {
		tensors  []Tensor
		metadata map[string]string
		want     []byte
	}{
		{nil, nil, encode("{}      ", nil)},
		{nil, map[string]string{}, encode("{}      ", nil)},
		{nil, map[string]string{"b": "2", "a": "1"}, encode(`{"__metadata__":{"a":"1","b":"2"}}      `, nil)},
		{[]Tensor{{Name: "a", Data: []float32{1}}}, nil, encode(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   `, one)},
		{[]Tensor{{Name: "a", Shape: []int{1, 1}, DType: BF16, Data: []float32{1}}, {Name: "b", Data: []float32{1}}}, map[string]string{"c": ""}, encode(
			`{"__metadata__":{"c":""},"a":{"dtype":"BF16","shape":[1,1],"data_offsets":[0,2]},"b":{"dtype":"F32","shape":[],"data_offsets":[2,6]}}   `, append([]byte{0x80, 0x3f}, one...))},
	} {
		var b bytes.Buffer
		if err := Write(&b, c.tensors, c.metadata); err != nil || !bytes.Equal(b.Bytes(), c.want) {
			t.Errorf("%q, %v; want %q", b.Bytes(), err, c.want)
		}
	}
}

// The header may name the tensors in another order than that of their bytes;
// one without elements has a place, too.
func TestOrder(t *testing.T) {
	t.Parallel()
	f, err := read(encode(`{"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"none":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, make([]byte, 3)))
	if err != nil {
		t.Fatal(err)
	}
	if names := f.Tensors(); names[0].Name != "b" || names[1].Name != "a" || f.DataBytes() != 3 {
		t.Errorf("tensors %v with %d bytes of data", names, f.DataBytes())
	}
	if info, ok := f.Lookup("a"); !ok || info.begin != 0 || info.end != 1 {
		t.Errorf("a is %+v, %v", info, ok)
	}
	if info, ok := f.Lookup("c"); ok || info.Name != "" {
		t.Errorf("c is %+v, %v", info, ok)
	}
}

// A tensor of more elements than are read or written at a time.
func TestLargeTensor(t *testing.T) {
	t.Parallel()
	const n = 1<<18 + 3
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	var b bytes.Buffer
	if err := Write(&b, []Tensor{{Name: "first", Data: []float32{-1}}, {Name: "a", Shape: []int{n}, Data: values}}, nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	inMemory, err := read(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	onDisk, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer onDisk.Close()
	for _, f := range []*File{inMemory, onDisk} {
		got := make([]float32, n)
		if err := f.Float32To(got, "a"); err != nil || !slices.Equal(got, values) {
			t.Errorf("%T: other values: %v", f.bytes, err)
		}
		for _, c := range []struct{ from, count, code int }{{n - 2, 2, 0}, {n, 0, 0}, {0, n, 0}, {n - 1, 2, exitcode.Bug}, {-1, 1, exitcode.Bug}, {n + 1, 0, exitcode.Bug}} {
			part := make([]float32, c.count)
			if err := f.Float32At(part, "a", c.from); exitcode.Code(err) != c.code || err == nil && !slices.Equal(part, values[c.from:c.from+c.count]) {
				t.Errorf("%T: %d elements from %d: %v", f.bytes, c.count, c.from, err)
			}
		}
		if err := f.Float32At(make([]float32, n+1), "a", 0); exitcode.Code(err) != exitcode.Bug {
			t.Errorf("more elements than there are: %v", err)
		}
	}
}

// faulty ends early or fails, and notes that it was closed.
type faulty struct {
	io.ReaderAt
	end    int64
	err    error
	closed bool
}

func (f *faulty) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.ReaderAt.ReadAt(p, at)
	if left := max(0, int(f.end-at)); n > left {
		return left, f.err
	}
	return n, err
}

func (f *faulty) Close() error { f.closed = true; return nil }

// A reader that gives less than it promised is an error wherever it ends.
func TestFaultyReader(t *testing.T) {
	t.Parallel()
	raw := encode(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, make([]byte, 8))
	size := int64(len(raw))
	broken := errors.New("the disk failed")
	for _, c := range []struct {
		end  int64
		err  error
		want string
	}{{4, io.EOF, "4 bytes shorter"}, {10, io.EOF, "bytes shorter"}, {size - 3, io.EOF, `tensor "a": the file is 3 bytes shorter`}, {size - 3, broken, "the disk failed"}, {4, broken, "the disk failed"}, {size, nil, ""}} {
		r := &faulty{ReaderAt: bytes.NewReader(raw), end: c.end, err: c.err}
		f, err := Read(r, size, "m")
		if err == nil {
			err = f.Float32To(make([]float32, 2), "a")
			if f.Close() != nil || !r.closed {
				t.Error("the reader was not closed")
			}
		}
		if got := fmt.Sprint(err); !strings.Contains(got, c.want) || (err == nil) != (c.want == "") {
			t.Errorf("cut at byte %d: %v; want %q", c.end, err, c.want)
		}
	}
	// A header may have MaxHeaderBytes, which this file has not.
	for headerBytes, want := range map[uint64]string{MaxHeaderBytes: "shorter", MaxHeaderBytes + 1: "the header claims"} {
		if _, err := Read(bytes.NewReader(binary.LittleEndian.AppendUint64(nil, headerBytes)), 1<<40, "m"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a header of %d bytes: %v; want %q", headerBytes, err, want)
		}
	}
}
