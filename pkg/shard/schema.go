package shard

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/lathe-rl/lathe/pkg/seal"
)

// Row is a row type of a table. The schema's minor version grows when a
// column is added; its major version when one changes its meaning.
type Row interface {
	Schema() seal.Schema
}

// Schema names the table of plans.
func (Instance) Schema() seal.Schema { return seal.Schema{Name: "instance", Major: 2, Minor: 2} }

// Schema names the table of sampled responses.
func (Rollout) Schema() seal.Schema { return seal.Schema{Name: "rollout", Major: 2, Minor: 1} }

// Schema names the table of scores.
func (Score) Schema() seal.Schema { return seal.Schema{Name: "score", Major: 2, Minor: 3} }

// Schema names the table of dispositions.
func (LedgerRow) Schema() seal.Schema { return seal.Schema{Name: "ledger", Major: 2, Minor: 1} }

// Schema names the table of metrics.
func (Metric) Schema() seal.Schema { return seal.Schema{Name: "metrics", Major: 1} }

// Schema names the table of usage.
func (Usage) Schema() seal.Schema { return seal.Schema{Name: "usage", Major: 1} }

// Schema names the table of evaluation responses.
func (EvaluationRow) Schema() seal.Schema { return seal.Schema{Name: "evaluation", Major: 1, Minor: 5} }

// Schema names the table of the tasks of a run.
func (TaskRow) Schema() seal.Schema { return seal.Schema{Name: "task", Major: 1, Minor: 1} }

// compareColumns lists, one line each, the columns of want that found lacks
// or holds otherwise. With nullable, an optional column may stand for a
// required one; in an older file columns may be missing, which were added since.
// Columns that only found has are ignored, at any depth.
func compareColumns(want, found parquet.Node, nullable, older bool) []string {
	var problems []string
	var walk func(path string, want, found parquet.Node)
	walk = func(path string, want, found parquet.Node) {
		if path != "" {
			expected, got := describeNode(want), describeNode(found)
			if nullable && found.Optional() && want.Required() {
				got = "required" + strings.TrimPrefix(got, "optional")
			}
			if expected != got {
				problems = append(problems, fmt.Sprintf("column %s: expected %s, found %s", path, describeNode(want), describeNode(found)))
				return
			}
		}
		for _, field := range want.Fields() {
			child := strings.TrimPrefix(path+"."+field.Name(), ".")
			other, alike := findField(found, field.Name())
			switch {
			case other != nil:
				walk(child, field, other)
			case alike != "":
				problems = append(problems, fmt.Sprintf("column %s: missing (expected %s), but there is %q", child, describeNode(field), alike))
			case !older:
				problems = append(problems, fmt.Sprintf("column %s: missing (expected %s)", child, describeNode(field)))
			}
		}
	}
	walk("", want, found)
	return problems
}

// findField looks a field up by its exact name, or else gives the name of one
// that differs by case alone.
func findField(n parquet.Node, name string) (found parquet.Node, alike string) {
	for _, field := range n.Fields() {
		if field.Name() == name {
			return field, ""
		}
		if strings.EqualFold(field.Name(), name) {
			alike = field.Name()
		}
	}
	return nil, alike
}

// describeNode is the repetition and type of a column, in Parquet's words.
func describeNode(n parquet.Node) string {
	repetition := "required"
	switch {
	case n.Optional():
		repetition = "optional"
	case n.Repeated():
		repetition = "repeated"
	}
	if !n.Leaf() {
		return repetition + " group"
	}
	name := n.Type().String()
	switch name {
	case "INT32": // other writers leave the annotation out
		name = "INT(32,true)"
	case "INT64":
		name = "INT(64,true)"
	}
	return repetition + " " + name
}

// textColumns are the paths of the columns of text, whose smallest and
// largest values would be written out whole as statistics.
func textColumns(s *parquet.Schema) [][]string {
	var paths [][]string
	for _, path := range s.Columns() {
		if leaf, ok := s.Lookup(path...); ok && leaf.Node.Type().Kind() == parquet.ByteArray {
			paths = append(paths, path)
		}
	}
	return paths
}

// column is a top-level column of a row type.
type column struct {
	name     string
	index    int // of the struct field
	volatile bool
	measured bool
	since    map[string]int // minor versions that added it, by the schemas of the tables that have it; those on record
	typ      reflect.Type
}

// columnsOf lists the columns of a row type in the order of its fields.
func columnsOf(t reflect.Type) []column {
	var columns []column
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("parquet"), ",")
		c := column{name: name, index: i, typ: field.Type}
		for word := range strings.SplitSeq(field.Tag.Get("lathe"), ",") {
			switch word {
			case "volatile":
				c.volatile = true
			case "measured":
				c.measured = true
			}
			if added, is := strings.CutPrefix(word, "since="); is {
				table, minor, _ := strings.Cut(added, "/")
				if c.since == nil {
					c.since = map[string]int{}
				}
				c.since[table], _ = strconv.Atoi(minor) // TestSince
			}
		}
		columns = append(columns, c)
	}
	return columns
}
