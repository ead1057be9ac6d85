package foreign

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// fits reports whether a value is what its column says.
func fits(value any, c Column) bool {
	if value == nil {
		return true
	}
	switch v := value.(type) {
	case bool:
		return c.Kind == Bools
	case float64, json.Number, uint64:
		return c.Kind == Numbers
	case string:
		return c.Kind == Texts || c.Kind == Numbers // nan and inf
	case []any:
		for _, item := range v {
			switch pair, isPair := item.([]any); {
			case c.Kind == Lists && fits(item, c.Inside[0]):
			case c.Kind == Maps && isPair && fits(pair[0], c.Inside[0]) && fits(pair[1], c.Inside[1]):
			default:
				return false
			}
		}
		return c.Kind == Lists || c.Kind == Maps
	case map[string]any:
		for _, field := range c.Inside {
			if !fits(v[field.Name], field) {
				return false
			}
		}
		return c.Kind == Objects
	}
	return false
}

// TestColumns compares what the columns of a table are said to be with their values.
func TestColumns(t *testing.T) {
	t.Parallel()
	files := must.Get(filepath.Glob(filepath.Join("testdata", "*.[pa]*r*")))(t)
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), "bad-") {
			continue
		}
		data := must.Get(os.ReadFile(file))(t)
		columns, err := Columns(bytes.NewReader(data), int64(len(data)), formatOf(file))
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		rows, err := readFile(t, file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, row := range rows {
			for _, c := range columns {
				value, ok := row.(map[string]any)[c.Name]
				if !ok || (c.Kind != Others && !fits(value, c)) {
					t.Errorf("%s: column %q has %s, and a value is %v", file, c.Name, c.Kind, value)
				}
			}
		}
	}
}
