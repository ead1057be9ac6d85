package gguf_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/gguf"
	"github.com/lathe-rl/lathe/pkg/gguf/gguftest"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

func read(content []byte) (*gguf.File, error) {
	return gguf.Read(bytes.NewReader(content), int64(len(content)), "test.gguf")
}

var sample = gguftest.File{
	Keys: []gguftest.Key{
		{Name: "u8", Value: uint8(200)},
		{Name: "i8", Value: int8(-3)},
		{Name: "u16", Value: uint16(60000)},
		{Name: "i16", Value: int16(-4)},
		{Name: "u32", Value: uint32(1 << 31)},
		{Name: "i32", Value: int32(-5)},
		{Name: "u64", Value: uint64(1 << 40)},
		{Name: "i64", Value: int64(-6)},
		{Name: "f32", Value: float32(0.5)},
		{Name: "f64", Value: 0.25},
		{Name: "yes", Value: true},
		{Name: "text", Value: "é"},
		{Name: "texts", Value: []string{"a", ""}},
		{Name: "numbers", Value: []int32{1, -2}},
		{Name: "floats", Value: []float32{1.5}},
		{Name: "flags", Value: []bool{true, false}},
		{Name: "none", Value: []string{}},
	},
	Tensors: []gguftest.Tensor{
		{Name: "a", Shape: []int{2, 3}, Data: gguftest.Floats(1, 2, 3, 4, 5, 6)},
		{Name: "b", Type: 8, Shape: []int{64}, Data: append(append([]byte{0, 0x3c}, make([]byte, 32)...), append([]byte{0, 0x40}, bytes.Repeat([]byte{255}, 32)...)...)},
	},
}

// Every type of value, and tensors in pieces: Q8_0 with scales 1 and 2.
func TestRead(t *testing.T) {
	t.Parallel()
	for _, version := range []uint32{2, 3} {
		s := sample
		s.Version = version
		f := must.Get(read(s.Bytes()))(t)
		want := gguf.Metadata{
			"u8": int64(200), "i8": int64(-3), "u16": int64(60000), "i16": int64(-4), "u32": int64(1 << 31), "i32": int64(-5),
			"u64": int64(1 << 40), "i64": int64(-6), "f32": 0.5, "f64": 0.25, "yes": true, "text": "é",
			"texts": []string{"a", ""}, "numbers": []int64{1, -2}, "floats": []float64{1.5}, "flags": []bool{true, false}, "none": []string(nil),
		}
		if diff := cmp.Diff(want, f.Metadata); diff != "" || f.Version != version {
			t.Errorf("version %d: %s", f.Version, diff)
		}
		a, _ := f.Lookup("a")
		b, _ := f.Lookup("b")
		got := make([]float32, 4)
		must.Do(t, f.Float32At(got, a, 2))
		if !slices.Equal(got, []float32{3, 4, 5, 6}) || !slices.Equal(a.Shape, []int{2, 3}) {
			t.Errorf("a is %v, %v", a.Shape, got)
		}
		got = make([]float32, 32)
		must.Do(t, f.Float32At(got, b, 32))
		if got[0] != -2 || got[31] != -2 {
			t.Errorf("b is %v", got)
		}
		if err := f.Float32At(got, b, 16); exitcode.Code(err) != exitcode.Bug {
			t.Errorf("from the middle of a block: %v", err)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	change := func(at int, b ...byte) []byte {
		content := sample.Bytes()
		copy(content[at:], b)
		return content
	}
	with := func(edit func(*gguftest.File)) []byte {
		s := gguftest.File{Keys: slices.Clone(sample.Keys), Tensors: slices.Clone(sample.Tensors)}
		edit(&s)
		return s.Bytes()
	}
	// A nested array: behind a header of 24 bytes, a name of 8 + 1, the type of the value.
	nested := gguftest.File{Keys: []gguftest.Key{{Name: "k", Value: []string{"a"}}}}.Bytes()
	nested[24+8+1+4] = 9 // the type of the elements is array
	for _, magic := range []string{"lmgg", "fmgg", "tjgg", "algg"} {
		if _, err := read(change(0, []byte(magic)...)); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "the format GGML") {
			t.Errorf("%s: %v", magic, err)
		}
	}
	for name, c := range map[string]struct {
		content []byte
		says    string
	}{
		"nothing":             {nil, "too few"},
		"other magic":         {change(0, 'P', 'K', 3, 4), "begins with"},
		"version 1":           {change(4, 1), "version 1; versions 2 and 3"},
		"version 4":           {change(4, 4), "version 4"},
		"big-endian":          {change(4, 0, 0, 0, 3), "big-endian"},
		"most tensors":        {change(8, 255, 255, 255, 255, 255, 255, 255, 255), "number of tensors"},
		"most keys":           {change(16, 255, 255, 255, 255, 255, 255, 255, 127), "number of metadata keys"},
		"seven bytes":         {sample.Bytes()[:7], "not a GGUF file: 7 bytes are too few"},
		"zeros":               {make([]byte, 32), `begins with "\x00`},
		"version 0x03000001":  {change(4, 1, 0, 0, 3), "version 50331649"},
		"a key's length":      {change(24, 255, 255, 255, 255, 255, 255, 255, 255), "a length of"},
		"an array of arrays":  {nested, "at byte 37: an array of type 9"},
		"a key twice":         {with(func(s *gguftest.File) { s.Keys[1].Name = "u8" }), "given twice"},
		"a tensor twice":      {with(func(s *gguftest.File) { s.Tensors[1].Name = "a" }), `tensor "a" is given twice`},
		"five dimensions":     {with(func(s *gguftest.File) { s.Tensors[1].Shape = []int{1, 1, 1, 2, 3} }), `description 2 of 2 tensors: tensor "b" has 5 dimensions`},
		"no name of a tensor": {with(func(s *gguftest.File) { s.Tensors[0].Name = "" }), `the name "" is empty`},
		"a name of bytes":     {with(func(s *gguftest.File) { s.Tensors[0].Name = "\xff" }), "no UTF-8"},
		"no name of a key":    {with(func(s *gguftest.File) { s.Keys[0].Name = "" }), `key "" is empty`},
		"a key of bytes":      {with(func(s *gguftest.File) { s.Keys[0].Name = "\xff" }), "no UTF-8"},
		"a large number":      {with(func(s *gguftest.File) { s.Keys[6].Value = uint64(1 << 63) }), `metadata: "u64": the number 9223372036854775808 is out of range`},
		"an unknown value":    {change(24+8+2, 13), `metadata: "u8": at byte 34: a value of type 13`},
		"1 << 48 elements":    {with(func(s *gguftest.File) { s.Tensors[0].Shape = []int{1 << 24, 1 << 24} }), "cut short or damaged"},
		"more than 1 << 48":   {with(func(s *gguftest.File) { s.Tensors[0].Shape = []int{1<<24 + 1, 1 << 24} }), "has a dimension of 16777217"},
		"a large alignment":   {with(func(s *gguftest.File) { s.Keys[0] = gguftest.Key{Name: "general.alignment", Value: uint32(1 << 21)} }), "power of two"},
		"no alignment":        {with(func(s *gguftest.File) { s.Keys[0] = gguftest.Key{Name: "general.alignment", Value: uint32(0)} }), "power of two"},
		"alignment of 1 MiB":  {with(func(s *gguftest.File) { s.Keys[0] = gguftest.Key{Name: "general.alignment", Value: uint32(1 << 20)} }), "takes bytes 1048576 to 1048600"},
		"no dimension":        {with(func(s *gguftest.File) { s.Tensors[0].Shape = nil }), "0 dimensions"},
		"an empty dimension":  {with(func(s *gguftest.File) { s.Tensors[0].Shape = []int{2, 0} }), "dimension of 0"},
		"too many elements":   {with(func(s *gguftest.File) { s.Tensors[0].Shape = []int{1 << 31, 1 << 31, 4} }), "has a dimension of"},
		"more than the file":  {with(func(s *gguftest.File) { s.Tensors[1].Shape = []int{1 << 20} }), "cut short or damaged"},
		"half a block":        {with(func(s *gguftest.File) { s.Tensors[1].Shape = []int{48} }), "multiple of 32"},
		"an odd alignment":    {with(func(s *gguftest.File) { s.Keys[0] = gguftest.Key{Name: "general.alignment", Value: uint32(48)} }), "power of two"},
		"a text as alignment": {with(func(s *gguftest.File) { s.Keys[0] = gguftest.Key{Name: "general.alignment", Value: "32"} }), "is a string, want an integer"},
		"another alignment":   {with(func(s *gguftest.File) { s.Keys[0] = gguftest.Key{Name: "general.alignment", Value: uint32(64)} }), "no multiple of the alignment"},
	} {
		_, err := read(c.content)
		if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "test.gguf") {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	f := must.Get(read(with(func(s *gguftest.File) { s.Tensors[0].Type = 19 })))(t)
	a, _ := f.Lookup("a")
	if err := f.Float32At(make([]float32, 1), a, 0); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), `tensor "a" is IQ1_S, which is not implemented`) {
		t.Errorf("a type that is not implemented: %v", err)
	}
	b, _ := f.Lookup("b") // the tensors behind it are read
	if got := make([]float32, 32); f.Float32At(got, b, 32) != nil || got[0] != -2 {
		t.Errorf("b is %v", got)
	}
}

// A file that is cut short anywhere is a data error, and never more.
func TestCutShort(t *testing.T) {
	t.Parallel()
	whole := sample.Bytes()
	for n := range len(whole) - 28 { // of the padding at the end
		if _, err := read(whole[:n]); exitcode.Code(err) != exitcode.Data || strings.Contains(err.Error(), "when it was opened") {
			t.Fatalf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	must.Get(read(whole[:len(whole)-28]))(t)
	start := bytes.Index(whole, []byte("\x00\x00\x80?")) // the data begin with a 1
	for n := range start - 32 {
		_, err := gguf.Read(bytes.NewReader(whole[:n]), int64(len(whole)), "test.gguf")
		if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "the file is shorter than when it was opened") {
			t.Fatalf("%d of %d bytes that there were: %v", n, len(whole), err)
		}
	}
}

// changing is a file that becomes shorter, or whose disk fails, once it is open.
type changing struct {
	*bytes.Reader
	err error
}

func (c *changing) ReadAt(p []byte, at int64) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	return c.Reader.ReadAt(p, at)
}

func TestReadFails(t *testing.T) {
	t.Parallel()
	content := sample.Bytes()
	disk := errors.New("input/output error")
	r := &changing{bytes.NewReader(content), disk}
	if _, err := gguf.Read(r, 1000, "x"); !errors.Is(err, disk) || strings.Contains(err.Error(), "shorter") {
		t.Errorf("a file that cannot be read: %v", err)
	}
	r.err = nil
	f := must.Get(gguf.Read(r, int64(len(content)), "x"))(t)
	a, _ := f.Lookup("a")
	if sum, err := f.SHA256(); err != nil || sum != fmt.Sprintf("%x", sha256.Sum256(content)) {
		t.Errorf("%q, %v", sum, err)
	}
	r.err = io.EOF
	if err := f.Float32At(make([]float32, 1), a, 0); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), `tensor "a": the file is shorter`) {
		t.Errorf("a file that became shorter: %v", err)
	}
	r.err = disk
	if err := f.Float32At(make([]float32, 1), a, 0); !errors.Is(err, disk) || exitcode.Code(err) == exitcode.Data {
		t.Errorf("a disk that fails: %v", err)
	}
	if sum, err := f.SHA256(); sum != "" || !errors.Is(err, disk) {
		t.Errorf("the digest of a file on a disk that fails: %q, %v", sum, err)
	}
	must.Do(t, f.Close()) // of a reader that is not closed
}

func FuzzRead(f *testing.F) {
	f.Add(sample.Bytes())
	f.Add(gguftest.File{Version: 2, Keys: sample.Keys[:3]}.Bytes())
	f.Fuzz(func(t *testing.T, content []byte) {
		file, err := read(content)
		if err != nil {
			if exitcode.Code(err) != exitcode.Data {
				t.Fatalf("exit code %d: %v", exitcode.Code(err), err)
			}
			return
		}
		for _, info := range file.Tensors() {
			elements, _ := info.Type.Block()
			dst := make([]float32, elements)
			if err := file.Float32At(dst, info, 0); err != nil && exitcode.Code(err) != exitcode.Data {
				t.Fatalf("tensor %q: %v", info.Name, err)
			}
		}
	})
}
