package safetensors

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Pieces of tensors in any order give the bytes of Write.
func TestSlots(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		var tensors []Tensor
		var infos []Info
		type piece struct{ index, from, to int }
		var pieces []piece
		for i := range rapid.IntRange(0, 4).Draw(t, "tensors") {
			shape := []int{rapid.IntRange(0, 5).Draw(t, "rows"), rapid.IntRange(1, 7).Draw(t, "columns")}
			own := Tensor{Name: string(rune('a' + i)), Shape: shape, DType: rapid.SampledFrom([]DType{"", F32, F16, BF16}).Draw(t, "type")}
			for j := range shape[0] * shape[1] {
				own.Data = append(own.Data, float32(i-j)/8)
			}
			tensors, infos = append(tensors, own), append(infos, Info{Name: own.Name, Shape: shape, DType: own.DType})
			for from := 0; from < len(own.Data); {
				to := rapid.IntRange(from+1, len(own.Data)).Draw(t, "end of a piece")
				pieces, from = append(pieces, piece{i, from, to}), to
			}
		}
		metadata := map[string]string{"steps": "3"}
		var want bytes.Buffer
		if err := Write(&want, tensors, metadata); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "file")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		slots, err := NewSlots(f, infos, metadata)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range rapid.Permutation(pieces).Draw(t, "order") {
			if err := slots.Put(p.index, p.from, tensors[p.index].Data[p.from:p.to]); err != nil {
				t.Fatal(err)
			}
		}
		if err := slots.Close(); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("%d bytes that are not the %d of Write: %v", len(got), want.Len(), err)
		}
	})
}

// What is left out, or does not fit, is refused.
func TestSlotsRefuse(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	slots, err := NewSlots(f, []Info{{Name: "a", Shape: []int{2, 2}, DType: F16}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := slots.Put(0, 3, []float32{1, 2}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("past the end: %v", err)
	}
	if err := slots.Put(0, -1, []float32{1}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("before the start: %v", err)
	}
	if err := slots.Put(0, 0, []float32{1e6}); exitcode.Code(err) != exitcode.Data {
		t.Errorf("more than float16 holds: %v", err)
	}
	if err := slots.Put(0, 0, []float32{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if err := slots.Close(); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("an element is missing: %v", err)
	}
	if err := slots.Put(0, 3, []float32{4}); err != nil {
		t.Fatal(err)
	}
	if err := slots.Close(); err != nil {
		t.Errorf("all elements are written: %v", err)
	}
	if err := slots.Put(0, 3, []float32{4}); err != nil {
		t.Fatal(err)
	}
	if err := slots.Close(); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("an element is written twice: %v", err)
	}
	if _, err := NewSlots(f, []Info{{Name: "a", DType: "I8"}}, nil); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("a type that is not written: %v", err)
	}
}
