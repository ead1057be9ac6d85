package dataset

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
)

// Tables whose columns differ have all of them, at every depth; the types of testdata's
// c.parquet contradict the others'.
func TestUnion(t *testing.T) {
	t.Parallel()
	file := func(name string) string { return filepath.Join("testdata", "tables", "union", name+".parquet") }
	set, err := Together([]string{file("a"), file("b"), "lines.jsonl", "missing.parquet"}, "data.train")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"a": `{"answer":"2","extra":{"id":1,"note":null,"tags":[{"name":"x","weight":null}]},"none":null,"only_a":true,"question":"1+1?"}`,
		"b": `{"answer":"4","extra":{"id":2,"note":"n","tags":[{"name":"y","weight":0.5}]},"none":null,"only_a":null,"question":"2+2?"}`,
	} {
		rows, _, err := set.ReadRows(file(name), DefaultSource())
		if err != nil || len(rows) != 1 {
			t.Fatalf("%s: %v, %v", name, rows, err)
		}
		found, err := plainjson.Line(rows[0].Columns)
		if diff := cmp.Diff(want, string(found)); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	_, err = Together([]string{file("a"), file("c")}, "data.train")
	if err == nil || exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), `column "answer" has texts in "`+file("a")+`" and numbers in "`+file("c")+`"`) {
		t.Errorf("a and c: %v", err)
	}
}
