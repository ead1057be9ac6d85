package frame

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

// What read_csv of pandas 2.2.2 says of each file: names of columns, types, cells as
// str writes them.
func TestRead(t *testing.T) {
	t.Parallel()
	kinds := map[Kind]string{Int: "int", Float: "float", Bool: "bool", Text: "text"}
	for content, want := range map[string]string{
		"a,b\n1,x\n2,y\n":                   "a int: 1 2; b text: x y",
		"\ufeffa\r\n01\r\n-2\r\n":           "a int: 1 -2",
		"a\n1\n ":                           "a int: 1",
		"a\r7\r8":                           "a int: 7 8",
		"a,b\n1,\n,2.5\n":                   "a float: 1.0 nan; b float: nan 2.5",
		"a\nTrue\nfalse\nTRUE\n":            "a bool: True False True",
		"a,b\nTrue,1\n,1\n":                 "a text: True nan; b int: 1 1",
		"a\nNA\nx\n<NA>\n#N/A\n":            "a text: nan x nan nan",
		"a\n1\nNAN\n":                       "a text: 1 NAN",
		"a\n 1 \n+2\n":                      "a int: 1 2",
		"a\n1e2\n.5\n5.\n-inf\nInfinity\n":  "a float: 100.0 0.5 5.0 -inf inf",
		"a\n1e400\n0x10\n":                  "a text: 1e400 0x10",
		"a\n-1e400\n1\n":                    "a text: -1e400 1",
		"a\n1e400\n1\n":                     "a text: 1e400 1",
		"a\n99999999999999999999\n1.5\n":    "a text: 99999999999999999999 1.5",
		"a\n1.5\n99999999999999999999\n":    "a float: 1.5 1e+20",
		"a\n0.00001\n123456.5\n1e16\n":      "a float: 1e-05 123456.5 1e+16",
		"a\n0.0001\n0.00012\n1e15\n":        "a float: 0.0001 0.00012 1000000000000000.0",
		"a\n1_000\n2\n":                     "a text: 1_000 2",
		"a,b\n\"x,\"\"y\"\"\",\"p\nq\"z\n":  "a text: x,\"y\"; b text: p\nqz",
		"a,b\nx\"y,1\n":                     "a text: x\"y; b int: 1",
		"a,b\n\"1\",\"\"\n":                 "a int: 1; b float: nan",
		"a,b\n\n1,2\n  \n3,4\n\n":           "a int: 1 3; b int: 2 4",
		"a,,a,a\n1,2,3,4\n":                 "a int: 1; Unnamed: 1 int: 2; a.1 int: 3; a.2 int: 4",
		"a,a.1,a\n1,2,3\n":                  "a int: 1; a.1 int: 2; a.2 int: 3",
		"a,b\n9,1,2\n8,3,4\n":               "a int: 1 3; b int: 2 4", // the first is the index
		"a,b\n1\n2,3\n":                     "a int: 1 2; b float: nan 3.0",
		"a,a,a.1\n1,2,3\n":                  "a int: 1; a.2 int: 2; a.1 int: 3",
		",\n1,2\n":                          "Unnamed: 0 int: 1; Unnamed: 1 int: 2",
		"a\n9223372036854775808\n1.5\n":     "a float: 9.223372036854776e+18 1.5",
		"a\n+9223372036854775808\n1.5\n":    "a float: 9.223372036854776e+18 1.5",
		"a\n9223372036854775808\n1\n":       "a text: 9223372036854775808 1",
		"a\n-9223372036854775809\n1.5\n":    "a text: -9223372036854775809 1.5",
		"a,b\n,1\n99999999999999999999,1\n": "a text: nan 99999999999999999999; b int: 1 1",
		"a,b\n9223372036854775808,1\n,1\n":  "a text: 9223372036854775808 nan; b int: 1 1",
		"a\n-0.00001\n-1e15\n-1e16\n":       "a float: -1e-05 -1000000000000000.0 -1e+16",
		"a\nfalse\n0\n":                     "a text: false 0",
		"a,b\nx,\"\"\"\"\n":                 "a text: x; b text: \"",
		"a,b\n1,2\n1,2,3\n":                 "error: line 3 has 3 cells, and 2 are expected",
		"a\n\"x\n":                          "error: line 2: a quoted cell has no end",
		"a\n\xff\n":                         "error: the file is not UTF-8",
		"\n \n":                             "error: the file has no column: its lines are blank",
		"":                                  "",
		"a,b\n":                             "a text:; b text:",
	} {
		f, err := Read([]byte(content), Bounds{})
		var parts []string
		if err != nil {
			parts = []string{"error: " + err.Error()}
		} else {
			for _, c := range f.Columns {
				text := c.Name + " " + kinds[c.Kind] + ":"
				for row := range c.Len() {
					text += " " + c.String(row)
				}
				parts = append(parts, text)
			}
		}
		if got := strings.Join(parts, "; "); got != want {
			t.Errorf("%q is read as\n%s\nwant\n%s", content, got, want)
		}
	}
	for content, want := range map[string]string{"a,b\n1,2,3,4\n": "line 2 has more than 3 cells", "a\n1\n2\n3\n": "the file has more than 2 rows"} {
		if _, err := Read([]byte(content), Bounds{Columns: 3, Rows: 2}); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %q", content, err, want)
		}
	}
	for content, rows := range map[string]int{"a\n1\n2\n": 2, "a\n1\n": 1} {
		if f, err := Read([]byte(content), Bounds{Columns: 1, Rows: rows}); err != nil || f.Rows() != rows {
			t.Errorf("%q, of as many rows as are allowed: %v", content, err)
		}
		if _, err := Read([]byte(content+"3\n"), Bounds{Rows: rows}); err == nil {
			t.Errorf("%q, of a row more than is allowed, is read", content+"3")
		}
	}
}

// Keys are equal across types where values are; missing ones are last.
func TestSortedBy(t *testing.T) {
	t.Parallel()
	read := func(content string) *Frame {
		f, err := Read([]byte(content), Bounds{})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for content, want := range map[string][]string{
		"id,v\n10,a\n9,b\n10,c\n":                        {"b", "a", "c"},
		"id,v\n10.5,a\n9,b\n,c\n-inf,d\n":                {"d", "b", "a", "c"},
		"id,v\nx10,a\nx9,b\n,c\nX,d\n":                   {"d", "a", "b", "c"},
		"id,v\nTrue,a\nFalse,b\n":                        {"b", "a"},
		"id,v\n,a\n2.5,b\n,c\n1.5,d\n":                   {"d", "b", "a", "c"},
		"id,v\n9007199254740993,a\n9007199254740992,b\n": {"b", "a"},
	} {
		f := read(content)
		var got []string
		sorted := f.SortedBy("id")
		ids := map[string]bool{}
		for row := range sorted.Rows() {
			got = append(got, sorted.Column("v").String(row))
			ids[f.Column("id").Key(row)+f.Column("v").String(row)] = true
		}
		for row := range sorted.Rows() {
			if !ids[sorted.Column("id").Key(row)+got[row]] {
				t.Errorf("%q in order: %q has another id, %s", content, got[row], sorted.Column("id").String(row))
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q in order: %v, want %v", content, got, want)
		}
	}
	ints, floats, texts := read("a\n1\n").Column("a"), read("a\n1.0\n").Column("a"), read("a,b\n\"1 \",x\nx,x\n").Column("a")
	if ints.Key(0) != floats.Key(0) || ints.Key(0) == texts.Key(0) {
		t.Errorf("keys %q, %q and %q", ints.Key(0), floats.Key(0), texts.Key(0))
	}
	if zero, negative := read("a\n0.0\n").Column("a"), read("a\n-0.0\n").Column("a"); zero.Key(0) != negative.Key(0) || zero.Key(0) != read("a\n0\n").Column("a").Key(0) {
		t.Errorf("keys %q and %q of zero", zero.Key(0), negative.Key(0))
	}
	if !read("a,b\n1,1\n,1\n").Column("a").AnyMissing() || !read("a,b\nx,1\n,1\n").Column("a").AnyMissing() || read("a\nx\n").Column("a").AnyMissing() {
		t.Error("which columns have missing values")
	}
	if truth := read("a\nTrue\nFalse\n").Column("a"); truth.Key(0) != ints.Key(0) || truth.Key(1) != read("a\n0\n").Column("a").Key(0) {
		t.Errorf("keys %q and %q of True and False", truth.Key(0), truth.Key(1))
	}
	if number, text := read("a,b\n,1\n2,1\n").Column("a"), read("a,b\nNA,1\nx,1\n").Column("a"); number.Key(0) != text.Key(0) || number.Key(0) == number.Key(1) || text.Key(1) != "text x" {
		t.Errorf("keys %q and %q of missing values", number.Key(0), text.Key(0))
	}
	if f := read("a,b\n1,x\n"); !reflect.DeepEqual(f.Names(), []string{"a", "b"}) || f.Column("c") != nil || read("").Rows() != 0 {
		t.Errorf("columns %q", f.Names())
	}
	if !ints.Numeric() || !floats.Numeric() || texts.Numeric() {
		t.Error("which columns are of numbers")
	}
	if whole, float := read("a\n10000000000000000\n").Column("a"), read("a\n1e16\n").Column("a"); whole.Key(0) != float.Key(0) {
		t.Errorf("keys %q and %q of one number", whole.Key(0), float.Key(0))
	}
	large := read("a\n9007199254740993\n9007199254740992\n").Column("a")
	if large.Key(0) == large.Key(1) {
		t.Error("numbers beyond 2^53 have one key")
	}
	if c := read("a\n1\n\n").Column("a"); c.AnyMissing() || !math.IsNaN(read("a,b\n1,1\n,1\n").Column("a").Numbers[1]) {
		t.Error("missing values")
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{strings.Repeat("é", 40): `"` + strings.Repeat("é", 40) + `"`, strings.Repeat("é", 41): `"` + strings.Repeat("é", 40) + `"…`} {
		if got := Shortened(cell); got != want {
			t.Errorf("%s is shortened to %s", cell, got)
		}
	}
	if got := Quoted(strings.Split("a,b,c,d,e,f,g,h,i,j,k,l", ",")); !strings.HasSuffix(got, `"k", "l"`) {
		t.Error(got)
	}
	if got := Quoted(strings.Split("a,b,c,d,e,f,g,h,i,j,k,l,m,n", ",")); !strings.HasSuffix(got, `"k", "l", and 2 more`) {
		t.Error(got)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("a,b\n\"1\n\",2\r\n"), 3)
	f.Fuzz(func(t *testing.T, content []byte, columns int) {
		read, err := Read(content, Bounds{Columns: columns})
		if err != nil {
			return
		}
		for _, c := range read.Columns {
			if c.Len() != read.Rows() {
				t.Errorf("column %q has %d rows of %d", c.Name, c.Len(), read.Rows())
			}
		}
	})
}
