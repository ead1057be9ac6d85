package foreign

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

func formatOf(path string) Format {
	if strings.HasSuffix(path, ".parquet") {
		return Parquet
	}
	return Arrow
}

// decoded is JSON with its numbers as they are written: 1 and 1.0 are not the same.
func decoded(t *testing.T, text []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	must.Do(t, decoder.Decode(&value))
	return normal(value)
}

// normal makes floats out of the numbers that are written as such, so that 1e-05 is 0.00001.
func normal(value any) any {
	switch v := value.(type) {
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			f, _ := strconv.ParseFloat(string(v), 64)
			return math.Float64bits(f)
		}
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = normal(v[name])
		}
	}
	return value
}

func readFile(t *testing.T, path string) ([]any, error) {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	lines, err := read(data, formatOf(path))
	found := []any{}
	for _, line := range lines {
		found = append(found, decoded(t, []byte(line)))
	}
	return found, err
}

// TestConformance reads every type, codec, encoding and version of pages that pyarrow
// writes, and gives what pyarrow reads from it (testdata/make.py).
func TestConformance(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(filepath.Join("testdata", "golden.json")))(t)
	golden := decoded(t, text).(map[string]any)
	for name, want := range golden {
		if same, ok := want.(string); ok {
			want = golden[same]
		}
		found, err := readFile(t, filepath.Join("testdata", name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, any(found)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	files, err := filepath.Glob(filepath.Join("testdata", "*.[pa]*r*"))
	if err != nil || len(files) < len(golden) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if name := filepath.Base(file); golden[name] == nil && !strings.HasPrefix(name, "bad-") {
			t.Errorf("golden.json has no %s", name)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"bad-names.parquet": `two columns are named "x": rename one of them`,
		"bad-wide.parquet":  "integers of more than 64 bits are not supported: cast the column to DECIMAL or text",
		"bad-wide.arrow":    "integers of more than 64 bits are not supported: cast the column to DECIMAL or text",
		"bad-year.arrow":    `column "far", row 1: the time is more than 290 million years from 1970: correct it`,
	} {
		if _, err := readFile(t, filepath.Join("testdata", name)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// marked takes the marks out of expected.json, by which it says what JSON has not.
func marked(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = marked(v[i])
		}
	case map[string]any:
		if text, ok := v["decimal"].(string); ok && len(v) == 1 {
			return text
		}
		for name := range v {
			v[name] = marked(v[name])
		}
	}
	return value
}

// TestSharedCases reads files that other people's reports are about: their first rows are
// those that pyarrow reads, or the file is refused as pyarrow refuses it.
func TestSharedCases(t *testing.T) {
	t.Parallel()
	shared := os.Getenv("LATHE_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "..", "shared")
	}
	folder := filepath.Join(shared, "cases", "parquet")
	text, err := os.ReadFile(filepath.Join(folder, "expected.json"))
	if err != nil {
		t.Skip("set LATHE_SHARED to the folder that holds cases/parquet")
	}
	expected := marked(decoded(t, text)).(map[string]any)
	for name, want := range expected {
		want := want.(map[string]any)
		found, err := readFile(t, filepath.Join(folder, name))
		if want["error"] != nil {
			if err == nil {
				t.Errorf("%s is read", name)
			}
			continue
		}
		first := want["first"].([]any)
		if count, _ := want["rows"].(json.Number).Int64(); err != nil || int64(len(found)) != count {
			t.Errorf("%s: %d rows, want %d: %v", name, len(found), count, err)
			continue
		}
		if diff := cmp.Diff(first, found[:len(first)]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
