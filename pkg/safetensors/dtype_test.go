package safetensors

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Every half-precision value comes back from float32 as it went in; a NaN
// comes back quiet.
func TestHalvesComeBack(t *testing.T) {
	t.Parallel()
	for bits := range 1 << 16 {
		h := uint16(bits)
		wide := math.Float32frombits(uint32(h) << 16)
		if got := floatToBrain(wide); got != h && !(wide != wide && got == h|0x40) {
			t.Fatalf("bfloat16 %#04x came back as %#04x", h, got)
		}
		wide = halfToFloat(h)
		if got := floatToHalf(wide); got != h && !(wide != wide && got == h|0x200) {
			t.Fatalf("binary16 %#04x came back as %#04x", h, got)
		}
	}
}

// Rounding goes to the nearest neighbour and in the middle to the even one.
// The neighbours of x are those of its truncation.
func TestNarrowRoundsToNearestEven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := uint16(rapid.IntRange(0, 0x7bfe).Draw(t, "half"))
		low, high := float64(halfToFloat(h)), float64(halfToFloat(h+1))
		part := rapid.Float64Range(0, 1).Draw(t, "part")
		x := float32(low + part*(high-low))
		want := h
		if middle := (low + high) / 2; float64(x) > middle || float64(x) == middle && h&1 == 1 {
			want = h + 1
		}
		if got := floatToHalf(x); got != want {
			t.Errorf("binary16 of %g is %#04x, want %#04x", x, got, want)
		}
		if got := floatToHalf(-x); got != want|0x8000 {
			t.Errorf("binary16 of %g is %#04x, want %#04x", -x, got, want|0x8000)
		}

		bits := rapid.Uint32Range(0, 0x7f7effff).Draw(t, "bits")
		x = math.Float32frombits(bits)
		upper := uint16(bits >> 16)
		if rest := bits & 0xffff; rest > 0x8000 || rest == 0x8000 && upper&1 == 1 {
			upper++
		}
		if got := floatToBrain(x); got != upper {
			t.Errorf("bfloat16 of %g is %#04x, want %#04x", x, got, upper)
		}
	})
}

// Ties and edges by hand: 1 + 2^-11 lies between 1 and 1 + 2^-10, 2^-25 between
// 0 and the least half, 65519.99 rounds to 65504; 1 + 2^-8 between 1 and
// 1 + 2^-7.
func TestNarrowByHand(t *testing.T) {
	t.Parallel()
	for x, want := range map[float32]uint16{
		1 + 0x1p-11: 0x3c00, 1 + 3*0x1p-11: 0x3c02, 0x1p-25: 0, 0x1.8p-25: 1, 3 * 0x1p-25: 2, 65519.99: 0x7bff, 65520: 0x7c00,
		0x1.ff8p-15: 0x03ff, 0x1.ffcp-15: 0x0400, 65536: 0x7c00, 131000: 0x7c00, 131072: 0x7c00, 1e30: 0x7c00, -1e30: 0xfc00,
	} {
		if got := floatToHalf(x); got != want {
			t.Errorf("binary16 of %g is %#04x, want %#04x", x, got, want)
		}
	}
	for x, want := range map[float32]uint16{1 + 0x1p-8: 0x3f80, 1 + 3*0x1p-8: 0x3f82, math.MaxFloat32: 0x7f80, 0x1.fep+127: 0x7f7f} {
		if got := floatToBrain(x); got != want {
			t.Errorf("bfloat16 of %g is %#04x, want %#04x", x, got, want)
		}
	}
	if got := floatToBrain(math.Float32frombits(0x7f800001)); got != 0x7fc0 {
		t.Errorf("a NaN whose payload lies in the lower half became %#04x", got)
	}
	if got := floatToHalf(math.Float32frombits(0xff800001)); got != 0xfe00 {
		t.Errorf("a NaN whose payload lies in the lower bits became %#04x", got)
	}
}

func TestWriteInHalfPrecision(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	values := []float32{1, -2, 0.5, 0}
	err := Write(&b, []Tensor{
		{Name: "h", Shape: []int{2, 2}, DType: F16, Data: values},
		{Name: "b", Shape: []int{4}, DType: BF16, Data: values},
		{Name: "f", Shape: []int{4}, Data: values},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := read(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if f.DataBytes() != 8+8+16 {
		t.Errorf("%d bytes of data, want 32", f.DataBytes())
	}
	for _, info := range f.Tensors() {
		got := make([]float32, 4)
		if err := f.Float32To(got, info.Name); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(values, got); diff != "" {
			t.Errorf("%s as %s: %s", info.Name, info.DType, diff)
		}
		if err := f.Float32At(got[:2], info.Name, 1); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(values[1:3], got[:2]); diff != "" {
			t.Errorf("elements 1 and 2 of %s: %s", info.Name, diff)
		}
		if err := f.Float32At(got[:2], info.Name, 3); exitcode.Code(err) != exitcode.Bug {
			t.Errorf("elements past the end of %s: %v", info.Name, err)
		}
	}
}

// Each value is rounded on its own, however many there are.
func TestRound(t *testing.T) {
	t.Parallel()
	for dtype, want := range map[DType]func(x float32) float32{
		F16:  func(x float32) float32 { return halfToFloat(floatToHalf(x)) },
		BF16: func(x float32) float32 { return math.Float32frombits(uint32(floatToBrain(x)) << 16) },
		F32:  func(x float32) float32 { return x }, "": func(x float32) float32 { return x },
	} {
		for _, n := range []int{0, 1, 2048, 2049, 5000} {
			values, rounded := make([]float32, n), make([]float32, n)
			for i := range values {
				values[i] = float32(i) / 3
				rounded[i] = want(values[i])
			}
			if dtype.Round(values); !slices.Equal(values, rounded) {
				t.Errorf("%d values rounded to %q differ from each rounded alone", n, dtype)
			}
		}
	}
}

func TestWriteRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	for dtype, x := range map[DType]float32{F16: 65520, BF16: math.MaxFloat32} {
		least := conversions[dtype].limit
		for _, x := range []float32{x, -x, least, -least} {
			err := Write(&bytes.Buffer{}, []Tensor{{Name: "a", Shape: []int{2}, DType: dtype, Data: []float32{1, x}}}, nil)
			if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "element 1 is") {
				t.Errorf("%g as %s: %v", x, dtype, err)
			}
		}
		for _, x := range []float32{float32(math.Inf(1)), float32(math.Inf(-1)), math.Nextafter32(least, 0), -math.Nextafter32(least, 0)} {
			if err := Write(&bytes.Buffer{}, []Tensor{{Name: "a", Shape: []int{1}, DType: dtype, Data: []float32{x}}}, nil); err != nil {
				t.Errorf("%g as %s: %v", x, dtype, err)
			}
		}
	}
}

// A file that is cut short while it is open is an error and not a signal.
func TestFileCutShortWhileOpen(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := Write(&b, []Tensor{{Name: "a", Shape: []int{1 << 16}, Data: make([]float32, 1<<16)}}, nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Float32To(make([]float32, 1<<16), "a"); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 8192); err != nil {
		t.Fatal(err)
	}
	err = f.Float32To(make([]float32, 1<<16), "a")
	if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("code %d: %v", exitcode.Code(err), err)
	}
}
