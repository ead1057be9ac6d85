package dataset

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/shard/foreign"
)

// Set is the files of one data set. Every table among them gets the columns of all, and so
// do the objects inside: what a file lacks is null.
type Set struct {
	AnswerOptional bool // a row may lack the answer's field

	where string
	union shape
	of    map[string]shape // of each table
	whole *[]Line          // where lines are kept as they are; nil where they are problems
}

// shape is the columns of a table or the fields of an object, by name.
type shape map[string]*column

type column struct {
	foreign.Column
	file   string // the first that has it with values
	fields shape  // of objects
	inside []*column
}

// Together reads the columns of the tables among the files. A column with two types is an
// error with its name.
func Together(paths []string, where string) (*Set, error) {
	s := &Set{where: where, union: shape{}, of: map[string]shape{}}
	for _, path := range paths {
		if parts, ok, err := savedParts(path); err == nil && ok {
			for _, name := range parts {
				if err := s.table(filepath.Join(path, name), foreign.Arrow); err != nil {
					return nil, err
				}
			}
		} else if format := formatOf(path); format != "" {
			if err := s.table(path, format); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// table adds the columns of a file. A file that cannot be read is an error of
// [Set.Read].
func (s *Set) table(path string, format foreign.Format) error {
	f, size, err := plainfile.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	columns, err := foreign.Columns(f, size, format)
	if err != nil {
		return nil
	}
	s.of[path] = shapeOf(columns, path)
	return s.union.add(s.of[path], "")
}

func shapeOf(columns []foreign.Column, file string) shape {
	found := shape{}
	for _, c := range columns {
		found[c.Name] = columnOf(c, file)
	}
	return found
}

func columnOf(c foreign.Column, file string) *column {
	found := &column{Column: c, file: file}
	if c.Kind == foreign.Objects {
		found.fields = shapeOf(c.Inside, file)
		return found
	}
	for _, inner := range c.Inside {
		found.inside = append(found.inside, columnOf(inner, file))
	}
	return found
}

// add makes the union of two shapes. within is what the names stand behind.
func (s shape) add(other shape, within string) error {
	for _, name := range slices.Sorted(maps.Keys(other)) {
		if s[name] == nil {
			s[name] = columnOf(other[name].Column, other[name].file)
		} else if err := s[name].add(other[name], within+name); err != nil {
			return err
		}
	}
	return nil
}

func (c *column) add(other *column, name string) error {
	switch {
	case other.Kind == foreign.Nulls:
		return nil
	case c.Kind == foreign.Nulls:
		*c = *columnOf(other.Column, other.file)
		return nil
	case c.Kind != other.Kind || len(c.inside) != len(other.inside):
		return exitcode.Dataf("column %q has %s in %q and %s in %q: write both with one type", name, c.Kind, c.file, other.Kind, other.file)
	}
	for i := range c.inside {
		if err := c.inside[i].add(other.inside[i], name); err != nil {
			return err
		}
	}
	return c.fields.add(other.fields, name+".")
}

// lacks reports whether a column of a file has not all that the union has.
func (c *column) lacks(union *column) bool {
	if c.Kind == foreign.Nulls {
		return false
	}
	for i := range c.inside {
		if c.inside[i].lacks(union.inside[i]) {
			return true
		}
	}
	return c.fields.lacks(union.fields)
}

func (s shape) lacks(union shape) bool {
	for name, c := range union {
		if s[name] == nil || s[name].lacks(c) {
			return true
		}
	}
	return false
}

// fill puts null where a row of a file lacks what the union has.
func (s *Set) fill(file string, row map[string]json.RawMessage) error {
	own := s.of[file]
	for name, c := range s.union {
		switch {
		case own[name] == nil:
			row[name] = json.RawMessage("null")
		case own[name].lacks(c):
			filled, err := filledIn(row[name], c)
			if err != nil {
				return err
			}
			row[name] = filled
		}
	}
	return nil
}

// filledIn is a value with null for what it lacks.
func filledIn(raw json.RawMessage, c *column) (json.RawMessage, error) {
	if jsonType(raw) == "null" || (c.Kind != foreign.Objects && c.Kind != foreign.Lists && c.Kind != foreign.Maps) {
		return raw, nil
	}
	if c.Kind == foreign.Objects {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil {
			return nil, err
		}
		for name, inner := range c.fields {
			if fields[name] == nil {
				fields[name] = json.RawMessage("null")
				continue
			}
			filled, err := filledIn(fields[name], inner)
			if err != nil {
				return nil, err
			}
			fields[name] = filled
		}
		return plainjson.Line(fields)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, err
	}
	for i, item := range items {
		var err error
		if c.Kind == foreign.Lists {
			items[i], err = filledIn(item, c.inside[0])
		} else {
			items[i], err = filledPair(item, c)
		}
		if err != nil {
			return nil, err
		}
	}
	return plainjson.Line(items)
}

// filledPair is a key and a value of a map, filled in.
func filledPair(raw json.RawMessage, c *column) (json.RawMessage, error) {
	var pair []json.RawMessage
	if err := json.Unmarshal(raw, &pair); err != nil || len(pair) != len(c.inside) {
		return raw, err
	}
	for i := range pair {
		var err error
		if pair[i], err = filledIn(pair[i], c.inside[i]); err != nil {
			return nil, err
		}
	}
	return plainjson.Line(pair)
}

// Read reads the problems of one of the files that pass the source's filter. Every line
// is read, and all bad ones are counted, before it fails.
func (s *Set) Read(path string, source Source) ([]env.Task, []env.Input, error) {
	return s.read(path, source, nil)
}

// ReadRows reads one of the files, or a folder that Hugging Face datasets has saved, as
// [Set.Read] does, and keeps the lines whole. A question may be a list of messages, of which
// a last one of the assistant is the beginning of the response; an answer may be of any type,
// or missing where the source names none. inputs are the files that were read.
func (s *Set) ReadRows(path string, source Source) (rows []Row, inputs []env.Input, err error) {
	_, inputs, err = s.read(path, source, &rows)
	return rows, inputs, err
}
