package foreign

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// FuzzRows reads damaged tables: there is an error or there are rows, which are JSON of all
// columns, the same ones every time; no panic, and no end of memory.
func FuzzRows(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.[pa]*r*"))
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		data := must.Get(os.ReadFile(file))(f)
		f.Add(data, formatOf(file) == Parquet)
	}
	f.Fuzz(func(t *testing.T, data []byte, isParquet bool) {
		format := Arrow
		if isParquet {
			format = Parquet
		}
		const enough = 1 << 20 // a bomb is a bomb without its last part
		columns, taken := -1, 0
		err := Rows(bytes.NewReader(data), int64(len(data)), format, func(columnsOf map[string]json.RawMessage) error {
			if columns >= 0 && len(columnsOf) != columns {
				t.Fatalf("a row has %d columns, another %d", len(columnsOf), columns)
			}
			columns = len(columnsOf)
			for name, value := range columnsOf {
				if !json.Valid(value) {
					t.Fatalf("column %q is no JSON: %q", name, value)
				}
				taken += len(value)
			}
			if taken > enough {
				return os.ErrDeadlineExceeded
			}
			return nil
		})
		if err != nil && err.Error() == "" {
			t.Fatal("an error without a word")
		}
	})
}
