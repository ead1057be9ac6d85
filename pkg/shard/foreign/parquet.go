package foreign

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/format"

	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/shard/internal/arrowmessage"
	"github.com/lathe-rl/lathe/pkg/shard/internal/pages"
)

// cursor stands before a value of a leaf.
type cursor struct {
	leaf     pages.Leaf
	chunk    *pages.Chunk
	rep, def int
	value    []byte
	ended    bool
}

// step goes on to the next value.
func (c *cursor) step() (err error) {
	c.rep, c.def, c.value, err = c.chunk.Next()
	if errors.Is(err, io.EOF) {
		c.rep, c.ended, err = 0, true, nil
	}
	return err
}

var errLevels = errors.New("the file is damaged: its levels contradict each other")

func parquetRows(r io.ReaderAt, size int64, out *rows) error {
	meta, err := pages.Footer(r, size)
	if err != nil {
		return err
	}
	if err := checkArrowSchema(meta); err != nil {
		return err
	}
	columns, cursors, err := tree(meta.Schema)
	if err != nil {
		return err
	}
	if len(columns) == 0 && meta.NumRows > 0 {
		return errNoColumns
	}
	names := make([]string, len(columns))
	for i, n := range columns {
		names[i] = n.name
		n.labelAll()
	}
	budget := pages.Budget{Left: out.left}
	for g := range meta.RowGroups {
		group := &meta.RowGroups[g]
		err := groupRows(r, size, group, columns, cursors, names, &budget, out)
		if errors.Is(err, pages.ErrBudget) {
			return errUnpacked
		}
		var damaged *groupError
		if errors.As(err, &damaged) {
			return fmt.Errorf("row group %d: %w", g+1, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkArrowSchema refuses integers of 128 bits, which Polars writes as bytes: only the schema
// of Arrow, which it adds to the file, says what they are.
func checkArrowSchema(meta *format.FileMetaData) error {
	for _, pair := range meta.KeyValueMetadata {
		if pair.Key != "ARROW:schema" {
			continue
		}
		data, err := base64.StdEncoding.DecodeString(pair.Value)
		if err == nil {
			err = arrowmessage.CheckSchema(data)
		}
		if errors.Is(err, arrowmessage.ErrWide) { // else the schema of Parquet says all that is needed
			return err
		}
	}
	return nil
}

// groupError is what is wrong with a column in a row group.
type groupError struct {
	column string
	err    error
}

func (e *groupError) Error() string { return fmt.Sprintf("column %q: %v", e.column, e.err) }
func (e *groupError) Unwrap() error { return e.err }

func groupRows(r io.ReaderAt, size int64, group *format.RowGroup, columns []*node, cursors []*cursor, names []string, budget *pages.Budget, out *rows) error {
	if group.NumRows < 0 {
		return errors.New("the file is damaged: a row group has a negative number of rows")
	}
	if len(group.Columns) != len(cursors) {
		return fmt.Errorf("the file is damaged: a row group has %d columns, and the schema %d", len(group.Columns), len(cursors))
	}
	at := 0
	for _, n := range columns {
		for _, c := range n.leaves {
			chunk, err := pages.NewChunk(r, size, &group.Columns[at], c.leaf, budget)
			if err != nil {
				return &groupError{n.name, err}
			}
			at++
			c.chunk, c.ended = chunk, false
			if err := c.step(); err != nil {
				return &groupError{n.name, err}
			}
		}
	}
	for range group.NumRows {
		out.begin()
		for _, n := range columns {
			for _, c := range n.leaves {
				switch {
				case c.ended:
					return &groupError{n.name, fmt.Errorf("the file is damaged: the column has fewer than the %d rows of the row group", group.NumRows)}
				case c.rep != 0:
					return &groupError{n.name, errLevels}
				}
			}
			if err := out.add(n.appendTo); err != nil {
				return &groupError{n.name, fmt.Errorf("row %d: %w", out.count+1, err)}
			}
		}
		if err := out.end(names); err != nil {
			return err
		}
	}
	for _, n := range columns {
		for _, c := range n.leaves {
			if !c.ended {
				return &groupError{n.name, fmt.Errorf("the file is damaged: the column has more than the %d rows of the row group", group.NumRows)}
			}
		}
	}
	return nil
}

// labelAll prepares the names of fields of objects.
func (n *node) labelAll() {
	name, _ := plainjson.Line(n.name) // a text always can be
	n.label = string(name) + ":"
	for _, inner := range n.inside {
		inner.labelAll()
	}
}

// missing takes the one entry that stands in every leaf for what is not there; it has a
// definition level of def.
func (n *node) missing(def int) error {
	for _, c := range n.leaves {
		if c.def != def || c.ended {
			return errLevels
		}
		if err := c.step(); err != nil {
			return err
		}
	}
	return nil
}

// appendTo appends the next value of a node as JSON.
func (n *node) appendTo(to []byte) (_ []byte, err error) {
	first := n.leaves[0]
	if n.nullable && first.def < n.def {
		return append(to, null...), n.missing(n.def - 1)
	}
	switch n.kind {
	case leafKind:
		if first.def < n.def || first.ended {
			return to, errLevels
		}
		if to, err = n.write(to, first.value); err != nil {
			return to, err
		}
		if err := first.step(); err != nil {
			return to, err
		}
		return within(to)
	case structKind:
		to = append(to, '{')
		for i, inner := range n.inside {
			if i > 0 {
				to = append(to, ',')
			}
			if to, err = inner.appendTo(append(to, inner.label...)); err != nil {
				return to, err
			}
		}
		return append(to, '}'), nil
	}
	return n.items(to)
}

// items appends a list, or the pairs of a map.
func (n *node) items(to []byte) (_ []byte, err error) {
	to = append(to, '[')
	if n.leaves[0].def < n.itemDef {
		return append(to, ']'), n.missing(n.itemDef - 1)
	}
	for i := 0; ; i++ {
		if i > 0 {
			to = append(to, ',')
		}
		if n.kind == mapKind {
			to = append(to, '[')
		}
		for j, inner := range n.inside {
			if j > 0 {
				to = append(to, ',')
			}
			if to, err = inner.appendTo(to); err != nil {
				return to, err
			}
		}
		if n.kind == mapKind {
			to = append(to, ']')
		}
		if to, err = within(to); err != nil {
			return to, err
		}
		more, err := n.more()
		if err != nil {
			return to, err
		}
		if !more {
			return append(to, ']'), nil
		}
	}
}

// more reports whether another item follows, on which all leaves must agree.
func (n *node) more() (bool, error) {
	more := n.leaves[0].rep == n.itemRep
	for _, c := range n.leaves {
		if c.rep > n.itemRep || (c.rep == n.itemRep) != more {
			return false, errLevels
		}
	}
	return more, nil
}
