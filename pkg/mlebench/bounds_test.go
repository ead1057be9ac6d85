package mlebench

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestBoundedSubmissions: what is no submission takes memory for the answers, not
// for what it has itself.
func TestBoundedSubmissions(t *testing.T) { //nolint:paralleltest // it counts what is allocated
	var answers bytes.Buffer
	answers.WriteString("id,price\n")
	for i := range 100 {
		fmt.Fprintf(&answers, "%d,1\n", i)
	}
	c, err := Open(Spec{ID: "prices", Metric: "mae", IDColumn: "id", Columns: []string{"price"}}, answers.Bytes(), Board{[]float64{0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	whole := answers.Bytes()
	fill := func(head, line string, size int64) []byte {
		return append([]byte(head), bytes.Repeat([]byte(line), (int(size)-len(head))/len(line))...)
	}
	most := c.MaxBytes()
	if most < 1<<20 || most > 2<<20 {
		t.Errorf("100 rows may have %d bytes", most)
	}
	for _, s := range []struct {
		what       string
		submission []byte
		want       string
		mallocs    int // bytes
	}{
		{"64 MB of lines", fill("id,price\n", "0,1\n", 64<<20), "the file has 67108861 bytes, and at most", 10 << 10},
		{"lines", fill("id,price\n", "0,1\n", most), `row 2, column "id": id "0" is there twice`, 100 << 10},
		{"lines behind the answers", fill(string(whole), "0,1\n", most), `row 101, column "id": id "0" is there twice`, 100 << 10},
		{"empty lines", fill(string(whole), "\n", most), "", 100 << 10},
		{"columns", fill("id", ",", most), "line 1 has more than 1002 cells", 10 << 10},
		{"columns of a row", fill("id,price\n0", ",", most), "line 2 has more than 1002 cells", 10 << 10},
		{"columns in quotes", fill("id,price\n\"0", ",", most), `the file is no CSV: parse error on line 2`, 8 << 20},
		{"columns behind a bare quote", fill("id,price\n0\"", ",", most), `the file is no CSV: parse error on line 2, column 2: bare "`, 8 << 20},
		{"zeros", make([]byte, most), "there is a header and no row", 8 << 20},
		{"no line", fill("", "x", most), "there is a header and no row", 8 << 20},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := c.Validate(s.submission)
		runtime.ReadMemStats(&after)
		if (err == nil) != (s.want == "") || err != nil && !strings.Contains(err.Error(), s.want) {
			t.Errorf("%s: %.300v; want %q", s.what, err, s.want)
		}
		if took := int(after.TotalAlloc - before.TotalAlloc); took > s.mallocs {
			t.Errorf("%s: %d bytes are allocated, more than %d", s.what, took, s.mallocs)
		}
	}
}
