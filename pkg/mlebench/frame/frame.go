package frame

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

// Frame is a table by columns, all of one length.
type Frame struct{ Columns []*Column }

// Rows is how many rows there are.
func (f *Frame) Rows() int {
	if len(f.Columns) == 0 {
		return 0
	}
	return f.Columns[0].Len()
}

// Column is the first column of a name, or nil.
func (f *Frame) Column(name string) *Column {
	for _, c := range f.Columns {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Names are those of the columns.
func (f *Frame) Names() []string {
	names := make([]string, len(f.Columns))
	for i, c := range f.Columns {
		names[i] = c.Name
	}
	return names
}

// Take is the frame of the rows at the given places, in that order.
func (f *Frame) Take(rows []int) *Frame {
	taken := &Frame{Columns: make([]*Column, len(f.Columns))}
	for i, c := range f.Columns {
		taken.Columns[i] = c.take(rows)
	}
	return taken
}

// SortedBy is the frame with its rows in the order of a column; equal ones keep
// theirs.
func (f *Frame) SortedBy(name string) *Frame {
	c := f.Column(name)
	order := make([]int, c.Len())
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return c.compare(a, b) })
	return f.Take(order)
}

// Kind is the type of a column.
type Kind int

// The types. A column of numbers with a missing value is of Float; one of booleans
// with a missing value is of Text, as it is of Python's objects in pandas.
const (
	Int Kind = iota
	Float
	Bool
	Text
)

// Column is a named column.
type Column struct {
	Name    string
	Kind    Kind
	Numbers []float64 // of Int, Float and Bool: NaN where one is missing, and 0 or 1 of Bool
	Ints    []int64   // of Int, exact
	Texts   []string  // of Text
	Missing []bool    // of Text: the cell is empty, or has a word for it
}

// Len is the number of rows.
func (c *Column) Len() int {
	if c.Kind == Text {
		return len(c.Texts)
	}
	return len(c.Numbers)
}

// Numeric says that it is of numbers or booleans.
func (c *Column) Numeric() bool { return c.Kind != Text }

// IsMissing says that a row has no value.
func (c *Column) IsMissing(row int) bool {
	if c.Kind == Text {
		return c.Missing[row]
	}
	return math.IsNaN(c.Numbers[row])
}

// AnyMissing says that some row has no value.
func (c *Column) AnyMissing() bool {
	for i := range c.Len() {
		if c.IsMissing(i) {
			return true
		}
	}
	return false
}

// String is a row as Python's str writes it: "nan" of a missing one.
func (c *Column) String(row int) string {
	switch {
	case c.IsMissing(row):
		return "nan"
	case c.Kind == Text:
		return c.Texts[row]
	case c.Kind == Int:
		return strconv.FormatInt(c.Ints[row], 10)
	case c.Kind == Bool:
		if c.Numbers[row] == 1 {
			return "True"
		}
		return "False"
	}
	return pythonFloat(c.Numbers[row])
}

// pythonFloat writes a number as Python's repr does.
func pythonFloat(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	case v == math.Trunc(v) && math.Abs(v) < 1e16:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case math.Abs(v) >= 1e-4 && math.Abs(v) < 1e16:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'e', -1, 64)
}

// Key is a row as it compares with rows of other columns: equal numbers have
// equal keys whatever their type, and no text has the key of a number.
func (c *Column) Key(row int) string {
	switch {
	case c.Kind == Text && c.Missing[row]:
		return "missing"
	case c.Kind == Text:
		return "text " + c.Texts[row]
	case c.Kind == Int:
		return "number " + strconv.FormatInt(c.Ints[row], 10)
	}
	v := c.Numbers[row]
	if math.IsNaN(v) {
		return "missing"
	}
	return "number " + strconv.FormatFloat(v+0, 'f', -1, 64) // -0 and 0 are equal
}

// compare orders two rows; missing ones are last.
func (c *Column) compare(a, b int) int {
	switch missing := c.IsMissing(a); {
	case missing != c.IsMissing(b):
		if missing {
			return 1
		}
		return -1
	case missing:
		return 0
	case c.Kind == Text:
		return strings.Compare(c.Texts[a], c.Texts[b])
	case c.Kind == Int:
		return cmp.Compare(c.Ints[a], c.Ints[b])
	}
	return cmp.Compare(c.Numbers[a], c.Numbers[b])
}

func (c *Column) take(rows []int) *Column {
	taken := &Column{Name: c.Name, Kind: c.Kind}
	for _, row := range rows {
		switch c.Kind {
		case Text:
			taken.Texts, taken.Missing = append(taken.Texts, c.Texts[row]), append(taken.Missing, c.Missing[row])
		case Int:
			taken.Ints = append(taken.Ints, c.Ints[row])
			fallthrough
		default:
			taken.Numbers = append(taken.Numbers, c.Numbers[row])
		}
	}
	return taken
}

// names gives columns without a name one, and those of a name that was there
// before another, as pandas does.
func names(header []string) []string {
	used, next := map[string]bool{}, map[string]int{}
	for _, name := range header {
		used[name] = true
	}
	seen := map[string]bool{}
	named := make([]string, len(header))
	for i, name := range header {
		if name == "" {
			name = fmt.Sprintf("Unnamed: %d", i)
		}
		for base := name; seen[name] || name != base && used[name]; {
			next[base]++
			name = fmt.Sprintf("%s.%d", base, next[base])
		}
		seen[name], named[i] = true, name
	}
	return named
}

// missing are the words that stand for no value.
var missing = func() map[string]bool {
	words := map[string]bool{}
	for _, word := range []string{
		"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
	} {
		words[word] = true
	}
	return words
}()

// IsMissing says that a cell stands for no value.
func IsMissing(cell string) bool { return missing[cell] }

var booleans = map[string]float64{"True": 1, "TRUE": 1, "true": 1, "False": 0, "FALSE": 0, "false": 0}

// columnOf finds the type of a column: the first of Int, Float and Bool that all
// its cells are of, else Text. A whole number beyond 64 bits makes it a column of
// texts, unless something else that is no whole number stands before it.
func columnOf(name string, cells []string) *Column {
	for _, of := range []func(string, []string) (*Column, bool){intsOf, floatsOf, boolsOf} {
		c, final := of(name, cells)
		if c != nil {
			return c
		}
		if final {
			break
		}
	}
	c := &Column{Name: name, Kind: Text, Texts: slices.Clone(cells), Missing: make([]bool, len(cells))}
	truths := true
	for i, cell := range cells {
		c.Missing[i] = missing[cell]
		_, is := booleans[cell]
		truths = truths && (is || c.Missing[i])
	}
	for i, cell := range cells {
		if truths && !c.Missing[i] { // objects, and not the words of the file
			c.Texts[i] = map[float64]string{0: "False", 1: "True"}[booleans[cell]]
		}
	}
	return c
}

var (
	whole    = lazyregexp.New(`^[ \t\n\v\f\r]*[+-]?[0-9]+[ \t\n\v\f\r]*$`)
	decimal  = lazyregexp.New(`^[ \t\n\v\f\r]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t\n\v\f\r]*$`)
	infinity = lazyregexp.New(`^(?i)[+-]?inf(inity)?$`)
)

// intsOf gives none where a cell is no whole number; final says that the column
// is of texts.
func intsOf(name string, cells []string) (c *Column, final bool) {
	c = &Column{Name: name, Numbers: make([]float64, len(cells)), Ints: make([]int64, len(cells))}
	beyond, gaps := false, len(cells) == 0 // a column without a row is of objects
	for i, cell := range cells {
		if missing[cell] {
			gaps = true
			continue
		}
		if !whole().MatchString(cell) {
			return nil, false
		}
		digits := strings.TrimSpace(cell)
		v, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			if _, err := strconv.ParseUint(strings.TrimPrefix(digits, "+"), 10, 64); err != nil {
				return nil, true
			}
			beyond = true // whole numbers up to 2^64 are kept as texts: as ids they compare the same
		}
		c.Ints[i], c.Numbers[i] = v, float64(v)
	}
	if beyond || gaps {
		return nil, beyond || len(cells) == 0
	}
	return c, false
}

func floatsOf(name string, cells []string) (*Column, bool) {
	c := &Column{Name: name, Kind: Float, Numbers: make([]float64, len(cells))}
	for i, cell := range cells {
		switch {
		case missing[cell]:
			c.Numbers[i] = math.NaN()
		case decimal().MatchString(cell) || infinity().MatchString(cell):
			v, err := strconv.ParseFloat(strings.TrimSpace(cell), 64)
			if err != nil && math.IsInf(v, 0) {
				return nil, false // beyond the range of a float
			}
			c.Numbers[i] = v
		default:
			return nil, false
		}
	}
	return c, false
}

func boolsOf(name string, cells []string) (*Column, bool) {
	c := &Column{Name: name, Kind: Bool, Numbers: make([]float64, len(cells))}
	for i, cell := range cells {
		v, is := booleans[cell]
		if !is {
			return nil, false
		}
		c.Numbers[i] = v
	}
	return c, false
}
