package gguf_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/gguf"
	"github.com/lathe-rl/lathe/pkg/gguf/gguftest"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// laid are bytes of a file as they follow one another; a string has its length before it.
func laid(values ...any) (raw []byte) {
	raw = append(raw, "GGUF"...)
	for _, v := range values {
		if s, is := v.(string); is {
			raw = append(binary.LittleEndian.AppendUint64(raw, uint64(len(s))), s...)
			continue
		}
		raw, _ = binary.Append(raw, binary.LittleEndian, v)
	}
	return raw
}

const (
	none  = uint64(0)
	one   = uint64(1)
	three = uint32(3)
)

// TestBounds: a file may end with any of its parts, and not a byte before.
func TestBounds(t *testing.T) {
	t.Parallel()
	const texts, floats, large = uint32(8), uint32(6), uint64(256<<20 - 24 - 8) // a header of 24 bytes and the length of a key take of what metadata may
	aligned := func(alignment uint32, padding int, offset uint64) []byte {
		return laid(three, one, one, "general.alignment", uint32(4), alignment, "a", uint32(1), one, uint32(0), offset, make([]byte, padding), float32(7))
	}
	for name, c := range map[string]struct {
		content []byte
		size    int64  // 0 is that of the content
		says    string // empty for a file that is read
	}{
		"a text at the end":             {laid(three, none, one, "k", texts, "abcdefghij"), 0, ""},
		"an empty text at the end":      {laid(three, none, one, "k", texts, ""), 0, ""},
		"a list of none at the end":     {laid(three, none, one, "k", uint32(9), floats, none), 0, ""},
		"a list of an empty text":       {laid(three, none, one, "k", uint32(9), texts, one, ""), 0, ""},
		"a list at the end":             {laid(three, none, one, "k", uint32(9), floats, one, float32(1)), 0, ""},
		"a list of more than there are": {laid(three, none, one, "k", uint32(9), floats, uint64(2), float32(1)), 0, "at byte 41: a length of 2"},
		"texts of which one is missing": {laid(three, none, one, "k", uint32(9), texts, uint64(2), "abcdefg", uint32(0)), 0, "8 bytes are needed at byte 64, and 4 are left"},
		"a number that is cut":          {laid(three, none, one, "k", floats, uint16(1)), 0, "4 bytes are needed at byte 37, and 2 are left"},
		"nothing but a header":          {laid(three, none, none), 0, ""},
		"a key that is not there":       {laid(three, none, one), 0, "number of metadata keys: at byte 16: a length of 1"},
		"a tensor that is not there":    {laid(three, one, none), 0, "number of tensors: at byte 8: a length of 1"},
		"more than metadata may take":   {laid(three, none, one, large+1), 1 << 40, "at byte 24: a length of 268435425"},
		// The descriptions end at byte 24 + (8 + 17 + 4 + 4) + (8 + 1 + 4 + 8 + 4 + 8) = 90.
		"alignment 1":                {aligned(1, 0, 0), 0, ""},
		"alignment 4":                {aligned(4, 2, 0), 0, ""},
		"alignment 32 and an offset": {aligned(32, 6+32, 32), 0, ""},
		"a byte too few":             {aligned(4, 2, 0)[:95], 0, "takes bytes 92 to 96; the file has 95"},
		"the largest offset":         {aligned(4, 2, 1<<62), 0, "cut short or damaged"},
		"a larger offset":            {aligned(4, 2, 1<<62+4), 0, "has the offset 4611686018427387908"},
	} {
		if c.size == 0 {
			c.size = int64(len(c.content))
		}
		f, err := gguf.Read(strings.NewReader(string(c.content)), c.size, "x")
		if (err == nil) != (c.says == "") || err != nil && (exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if err == nil && len(f.Tensors()) == 1 {
			got := make([]float32, 1)
			if must.Do(t, f.Float32At(got, f.Tensors()[0], 0)); got[0] != 7 {
				t.Errorf("%s: %v, want 7", name, got)
			}
		}
	}
}

// TestFloat32At: any part of a tensor that consists of blocks, of one larger than what is
// read at once too, and no other.
func TestFloat32At(t *testing.T) {
	t.Parallel()
	const n = 3<<15 + 5
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	s := gguftest.File{Tensors: []gguftest.Tensor{{Name: "long", Shape: []int{n}, Data: gguftest.Floats(values...)}, sample.Tensors[1]}}
	f := must.Get(read(s.Bytes()))(t)
	long, _ := f.Lookup("long")
	b, _ := f.Lookup("b")
	if info, there := f.Lookup("c"); there || info.Name != "" {
		t.Errorf("a tensor that is not there: %+v", info)
	}
	for _, c := range []struct {
		info         gguf.Info
		from, length int
		right        bool
	}{
		{long, 0, n, true},
		{long, 7, n - 7, true},
		{long, n - 1, 1, true},
		{long, n, 0, true},
		{long, n, 1, false},
		{long, -1, 1, false},
		{long, 8, n - 7, false},
		{b, 0, 64, true},
		{b, 32, 32, true},
		{b, 0, 16, false},
		{b, 16, 32, false},
		{b, 64, 32, false},
		{b, -32, 32, false},
	} {
		got := make([]float32, c.length)
		err := f.Float32At(got, c.info, c.from)
		if !c.right {
			if exitcode.Code(err) != exitcode.Bug {
				t.Errorf("%d elements of %q from %d on: %v", c.length, c.info.Name, c.from, err)
			}
			continue
		}
		must.Do(t, err)
		for i, x := range got {
			if c.info.Name == "long" && x != float32(c.from+i) {
				t.Fatalf("element %d from %d on is %v", i, c.from, x)
			}
		}
	}
}

// TestGet: a value of another type than the one that is wanted is named, and so is what it is.
func TestGet(t *testing.T) {
	t.Parallel()
	m := must.Get(read(sample.Bytes()))(t).Metadata
	for key, is := range map[string]string{
		"u8": "an integer", "f32": "a float", "text": "a string", "texts": "a list of strings", "numbers": "a list of integers", "floats": "a list of floats", "flags": "a list of bools",
	} {
		if value, there, err := gguf.Get[bool](m, key); value || !there || err == nil || !strings.HasSuffix(err.Error(), is+", want a bool") {
			t.Errorf("%s: %v, %v, %v", key, value, there, err)
		}
	}
	if value, there, err := gguf.Get[int64](m, "yes"); value != 0 || !there || err == nil || !strings.HasSuffix(err.Error(), "is a bool, want an integer") {
		t.Errorf("%v, %v, %v", value, there, err)
	}
	if value, there, err := gguf.Get[int64](m, "other"); value != 0 || there || err != nil {
		t.Errorf("a key that is not there: %v, %v, %v", value, there, err)
	}
	if value, there, err := gguf.Get[bool](m, "yes"); !value || !there || err != nil {
		t.Errorf("%v, %v, %v", value, there, err)
	}
	doubles := must.Get(read(laid(three, none, one, "k", uint32(9), uint32(12), uint64(2), 0.25, 0.5)))(t)
	if value, _, err := gguf.Get[[]float64](doubles.Metadata, "k"); err != nil || !slices.Equal(value, []float64{0.25, 0.5}) {
		t.Errorf("%v, %v", value, err)
	}
	largest := must.Get(read(laid(three, none, one, "k", uint32(10), uint64(math.MaxInt64))))(t)
	if largest.Metadata["k"] != int64(math.MaxInt64) {
		t.Errorf("%v", largest.Metadata)
	}
}

// TestOpen: a file of a path, and what is none.
func TestOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "m.gguf")
	if _, err := gguf.Open(path); exitcode.Code(err) != exitcode.Data {
		t.Errorf("no file: %v", err)
	}
	must.Do(t, os.WriteFile(path, []byte("GGUF"), 0o666))
	if _, err := gguf.Open(path); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "m.gguf\": not a GGUF file: 4 bytes are too few") {
		t.Errorf("four bytes: %v", err)
	}
	must.Do(t, os.WriteFile(path, sample.Bytes(), 0o666))
	f := must.Get(gguf.Open(path))(t)
	if len(f.Tensors()) != 2 || f.Tensors()[1].Elements() != 64 {
		t.Errorf("%+v", f.Tensors())
	}
	must.Do(t, f.Close())
	if _, err := f.SHA256(); err == nil {
		t.Error("a closed file is read")
	}
}

// TestTypes: names and blocks of some types, by enum ggml_type of ggml.h and the blocks of
// ggml-common.h.
func TestTypes(t *testing.T) {
	t.Parallel()
	for number, want := range map[gguf.Type]struct {
		name            string
		elements, bytes int
	}{0: {"F32", 1, 4}, 8: {"Q8_0", 32, 34}, 14: {"Q6_K", 256, 210}, 30: {"BF16", 1, 2}, 9: {"Q8_1", 0, 0}, 23: {"IQ4_XS", 0, 0}, 39: {"MXFP4", 0, 0}, 99: {"type 99", 0, 0}} {
		if elements, bytes := number.Block(); number.String() != want.name || elements != want.elements || bytes != want.bytes {
			t.Errorf("type %d is %s of %d elements in %d bytes, want %+v", uint32(number), number, elements, bytes, want)
		}
	}
}
