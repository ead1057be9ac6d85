package arrowfile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// A tensor is read without those beside it, and what is damaged elsewhere does not
// matter.
func TestOpenTensors(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gradient.arrow")
	const large = 3 << 20 // elements: 12 MiB
	tensors := []Tensor{
		{Name: "a", Shape: []int{2, 3}, Data: []float32{1, 2, 3, 4, 5, 6}},
		{Name: "large", Shape: []int{large}, Data: make([]float32, large)},
		{Name: "b", Shape: []int{}, Data: []float32{7}},
	}
	must.Get(WriteTensors(path, tensors, map[string]string{"statistics": "{}"}, seal.AttemptFromEnv(), seal.Manifest{}))(t)
	// The large tensor's middle.
	f := must.Get(os.OpenFile(path, os.O_RDWR, 0))(t)
	must.Get(f.WriteAt([]byte{1}, 6<<20))(t)
	must.Do(t, f.Close())
	open, _, err := OpenTensors(t.Context(), path, seal.Options{})
	must.Do(t, err)
	defer open.Close()
	if !slices.Equal(open.Names, []string{"a", "large", "b"}) || len(open.Meta) != 1 || open.Meta["statistics"] != "{}" {
		t.Errorf("names %q, metadata %v", open.Names, open.Meta)
	}
	for name, want := range map[string][]float32{"a": tensors[0].Data, "b": tensors[2].Data} {
		for from := range want { // from each element to the end
			numbers := make([]float32, len(want)-from)
			must.Do(t, open.Read(numbers, name, len(want), from))
			if !slices.Equal(numbers, want[from:]) {
				t.Errorf("%s from %d is %v, want %v", name, from, numbers, want[from:])
			}
		}
	}
	if read := open.BytesRead(); read > 4<<20 {
		t.Errorf("%d bytes are read for two small tensors", read)
	}
	last := make([]float32, 1<<10)
	must.Do(t, open.Read(last, "large", large, large-len(last))) // behind the damage
	if err := open.Read(make([]float32, large), "large", large, 0); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("a flipped bit: %v", err)
	}
	for name, elements := range map[string]int{"a": 5, "c": 1} {
		if err := open.Read(make([]float32, elements), name, elements, 0); exitcode.Code(err) != exitcode.Data {
			t.Errorf("%q with %d elements: %v", name, elements, err)
		}
	}
	if err := open.Read(make([]float32, 2), "a", 6, 5); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("past the end: %v", err)
	}
}
