package dataset

import (
	"encoding/json"
	"slices"

	"github.com/lathe-rl/lathe/pkg/env"
)

// Line is a line of a data file as it is.
type Line struct {
	Number  int // from 1
	Columns map[string]json.RawMessage
}

// ReadLines reads files whose lines need not be problems: JSONL, JSON, CSV, Parquet or Arrow,
// or a folder of data that was saved as one. where is the section of the recipe that names
// the file.
func ReadLines(path, where string) (lines []Line, inputs []env.Input, err error) {
	set, err := Together([]string{path}, where)
	if err != nil {
		return nil, nil, err
	}
	set.whole = &lines
	_, inputs, err = set.read(path, Source{}, nil)
	return lines, inputs, err
}

// keepWhole keeps a line; what its fields lie in is used again.
func (s *Set) keepWhole(number int, fields map[string]json.RawMessage) {
	columns := make(map[string]json.RawMessage, len(fields))
	for name, raw := range fields {
		columns[name] = slices.Clone(raw)
	}
	*s.whole = append(*s.whole, Line{number, columns})
}
