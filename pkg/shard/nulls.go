package shard

import (
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/lathe-rl/lathe/pkg/shard/internal/codec"
)

// checkNulls reports the first NULL in a column that the row type needs. The
// decoder would read it as zero.
func (t *table[T]) checkNulls() (err error) {
	defer codec.Recovered(&err)
	var zero T
	want := parquet.SchemaOf(zero)
	for _, path := range want.Columns() {
		leaf, ok := t.file.Schema().Lookup(path...)
		if !ok {
			return fmt.Errorf("column %s: missing", strings.Join(path, "."))
		}
		levels := nullLevels(t.file.Schema(), path)
		if len(levels) == 0 {
			continue
		}
		base := 0
		for _, group := range t.file.RowGroups() {
			row, err := findNull(group.ColumnChunks()[leaf.ColumnIndex], levels)
			if err != nil {
				return fmt.Errorf("column %s: %w", strings.Join(path, "."), err)
			}
			if row >= 0 {
				return fmt.Errorf("row %d, column %s: got NULL, want a value", base+row, strings.Join(path, "."))
			}
			base += int(group.NumRows())
		}
	}
	return nil
}

// nullLevels are the definition levels at which a value of the column is
// NULL, as opposed to absent because a list is empty. Each optional node and
// each repeated one on the way to a leaf raises the level by one; a value
// whose level ends just below an optional node is NULL there.
func nullLevels(schema *parquet.Schema, path []string) map[int]bool {
	levels := make(map[int]bool)
	var node parquet.Node = schema
	level := 0
	for _, name := range path {
		node, _ = findField(node, name)
		if node == nil {
			return nil
		}
		switch {
		case node.Optional():
			levels[level] = true
			level++
		case node.Repeated():
			level++
		}
	}
	return levels
}

// findNull returns the first row of a column chunk with a NULL, or -1.
func findNull(chunk parquet.ColumnChunk, levels map[int]bool) (row int, err error) {
	row, found := -1, false
	err = eachValue(chunk, func(v parquet.Value) bool {
		if v.RepetitionLevel() == 0 {
			row++
		}
		found = v.IsNull() && levels[v.DefinitionLevel()]
		return !found
	})
	if err != nil || !found {
		return -1, err
	}
	return row, nil
}
