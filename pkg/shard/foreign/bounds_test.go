package foreign

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/format"
)

// TestUnpackedBound reads files with less room than they take: by their pages, or by the
// rows that small pages make.
func TestUnpackedBound(t *testing.T) {
	t.Parallel()
	nested, err := os.ReadFile(filepath.Join("testdata", "stream.arrow"))
	if err != nil {
		t.Fatal(err)
	}
	plain := []format.SchemaElement{group("schema", required, 1), leaf("a", required, format.ByteArray)}
	long := handmade(t, 1, plain, leafOf{values: strs(strings.Repeat("x", 5000)), n: 1})
	nulls := handmade(t, 100, []format.SchemaElement{group("schema", required, 1), leaf("a", optional, format.ByteArray)}, leafOf{defs: strings.Repeat("0", 100)})
	for name, c := range map[string]struct {
		data   []byte
		format Format
		room   int64
	}{
		"a page":       {long, Parquet, 4000},
		"many nulls":   {nulls, Parquet, 90 * rowOverhead},
		"Arrow's rows": {nested, Arrow, 3 * rowOverhead},
	} {
		for _, enough := range []bool{false, true} {
			out := &rows{left: c.room, each: func(row) error { return nil }}
			if enough {
				out.left = 1 << 20
			}
			reader := bytes.NewReader(c.data)
			if c.format == Arrow {
				err = arrowRows(reader, reader.Size(), out)
			} else {
				err = parquetRows(reader, reader.Size(), out)
			}
			if errors.Is(err, errUnpacked) == enough || (enough && err != nil) {
				t.Errorf("%s, enough room is %v: %v", name, enough, err)
			}
		}
	}
}
