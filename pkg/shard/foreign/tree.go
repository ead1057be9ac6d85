package foreign

import (
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go/format"

	"github.com/lathe-rl/lathe/pkg/shard/internal/pages"
)

// Whether a field of a schema may be missing or there several times.
type presence = format.FieldRepetitionType

// element is a field of a schema of Parquet with those inside.
type element struct {
	*format.SchemaElement
	presence presence
	inside   []*element
	rep, def int // the highest levels of it
}

// kind is what becomes of a field.
type kind int

const (
	leafKind   kind = iota
	structKind      // an object of the nodes inside
	listKind        // a list of the one node inside
	mapKind         // a list of pairs of the two nodes inside
)

// node is what is read for a field: annotations have become kinds, and what encodes
// lists and maps is gone.
type node struct {
	name     string
	kind     kind
	nullable bool
	inside   []*node
	def      int // level from which on it is not null
	itemDef  int // of a list or a map: from which on it has an item
	itemRep  int // of a list or a map: that the second item begins with
	leaves   []*cursor
	write    appender // of a leaf
	shown    Kind     // what that writes
	label    string   // of a field of an object: "name":
}

// tree makes the nodes of a schema's columns, and a cursor for every leaf in its order.
func tree(schema []format.SchemaElement) ([]*node, []*cursor, error) {
	if len(schema) == 0 {
		return nil, nil, errors.New("the file is damaged: it has no schema")
	}
	rest := schema
	root, err := elements(&rest, nil, 0)
	if err != nil {
		return nil, nil, err
	}
	if len(rest) > 0 || root.Type.Valid {
		return nil, nil, errors.New("the file is damaged: its schema has no one root")
	}
	var b builder
	columns := make([]*node, len(root.inside))
	for i, e := range root.inside {
		if columns[i], err = b.field(e); err != nil {
			return nil, nil, fmt.Errorf("column %q: %w", e.Name, err)
		}
	}
	return columns, b.cursors, distinct(columns)
}

func distinct(nodes []*node) error {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.name
	}
	return distinctNames(names)
}

// elements takes one field, with all inside, from the list that a schema is.
func elements(rest *[]format.SchemaElement, above *element, depth int) (*element, error) {
	if len(*rest) == 0 {
		return nil, errors.New("the file is damaged: its schema lacks fields")
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("a column is nested more than %d levels deep: flatten it", maxDepth)
	}
	e := &element{SchemaElement: &(*rest)[0]}
	*rest = (*rest)[1:]
	if above != nil {
		e.presence, e.rep, e.def = e.RepetitionType.V, above.rep, above.def
		switch e.presence {
		case format.Required:
		case format.Optional:
			e.def++
		case format.Repeated:
			e.def++
			e.rep++
		default:
			return nil, errors.New("the file is damaged: a field of its schema is neither required nor optional nor repeated")
		}
	}
	if e.Type.Valid {
		if e.NumChildren.V != 0 {
			return nil, errors.New("the file is damaged: a field of its schema has values and fields")
		}
		return e, nil
	}
	for range e.NumChildren.V {
		inner, err := elements(rest, e, depth+1)
		if err != nil {
			return nil, err
		}
		e.inside = append(e.inside, inner)
	}
	return e, nil
}

type builder struct{ cursors []*cursor }

// field makes the node of a field. One that is repeated, and encodes neither list nor
// map, is a list itself.
func (b *builder) field(e *element) (*node, error) {
	if e.presence == format.Repeated {
		return b.list(e, e, e)
	}
	return b.value(e)
}

// value makes the node of a field whose repetition has been seen to.
func (b *builder) value(e *element) (*node, error) {
	if e.Type.Valid {
		return b.leaf(e)
	}
	logical := annotation(e.SchemaElement)
	switch logical.(type) {
	case *format.ListType:
		return b.annotatedList(e)
	case *format.MapType:
		return b.annotatedMap(e)
	case *format.VariantType:
		return nil, errors.New("the type VARIANT is not supported: cast the column to JSON")
	}
	n := &node{name: e.Name, kind: structKind, nullable: e.presence == format.Optional, def: e.def}
	if len(e.inside) == 0 {
		return nil, fmt.Errorf("the struct %q has no fields: leave it out", e.Name)
	}
	for _, inner := range e.inside {
		child, err := b.field(inner)
		if err != nil {
			return nil, err
		}
		n.inside = append(n.inside, child)
		n.leaves = append(n.leaves, child.leaves...)
	}
	return n, distinct(n.inside)
}

func (b *builder) leaf(e *element) (*node, error) {
	length := int(e.TypeLength.V)
	physical := e.Type.V
	if physical == format.FixedLenByteArray && (length < 1 || length > MaxRowBytes) {
		return nil, fmt.Errorf("the values have a fixed length of %d bytes: 1 to %d are supported", length, MaxRowBytes)
	}
	write, err := leafAppender(e.SchemaElement, physical, length)
	if err != nil {
		return nil, err
	}
	c := &cursor{leaf: pages.Leaf{Type: physical, Length: length, MaxRep: e.rep, MaxDef: e.def}}
	b.cursors = append(b.cursors, c)
	return &node{name: e.Name, kind: leafKind, nullable: e.presence == format.Optional, def: e.def, leaves: []*cursor{c}, write: write, shown: shownAs(e)}, nil
}

// list makes the node of a list: e is the field, repeated the one inside that is there
// for every item, item what an item is.
func (b *builder) list(e, repeated, item *element) (*node, error) {
	n := &node{name: e.Name, kind: listKind, nullable: e.presence == format.Optional, def: e.def, itemDef: repeated.def, itemRep: repeated.rep}
	inside := b.field
	if item == repeated { // it is repeated for this list
		inside = b.value
	}
	inner, err := inside(item)
	if err != nil {
		return nil, err
	}
	n.inside, n.leaves = []*node{inner}, inner.leaves
	return n, nil
}

// annotatedList tells the encodings of lists apart, by the rules for old ones that the
// format has (LogicalTypes.md, "Backward-compatibility rules").
func (b *builder) annotatedList(e *element) (*node, error) {
	if len(e.inside) != 1 || e.inside[0].presence != format.Repeated {
		return nil, errors.New("the schema is damaged: a list has no repeated field")
	}
	repeated := e.inside[0]
	logical := annotation(repeated.SchemaElement)
	_, listed := logical.(*format.ListType)
	_, mapped := logical.(*format.MapType)
	switch {
	case repeated.Type.Valid, len(repeated.inside) != 1, listed, mapped,
		repeated.inside[0].presence == format.Repeated, repeated.Name == "array", repeated.Name == e.Name+"_tuple":
		return b.list(e, repeated, repeated) // two levels: the repeated field is the item
	}
	return b.list(e, repeated, repeated.inside[0])
}

func (b *builder) annotatedMap(e *element) (*node, error) {
	if len(e.inside) != 1 || e.inside[0].presence != format.Repeated || e.inside[0].Type.Valid {
		return nil, errors.New("the schema is damaged: a map has no repeated pairs")
	}
	pairs := e.inside[0]
	switch len(pairs.inside) {
	case 1: // a set: its keys alone are there
		return b.list(e, pairs, pairs.inside[0])
	case 2:
	default:
		return nil, fmt.Errorf("the schema is damaged: the pairs of a map have %d fields", len(pairs.inside))
	}
	n := &node{name: e.Name, kind: mapKind, nullable: e.presence == format.Optional, def: e.def, itemDef: pairs.def, itemRep: pairs.rep}
	for _, inner := range pairs.inside {
		child, err := b.field(inner)
		if err != nil {
			return nil, err
		}
		n.inside = append(n.inside, child)
		n.leaves = append(n.leaves, child.leaves...)
	}
	return n, nil
}
