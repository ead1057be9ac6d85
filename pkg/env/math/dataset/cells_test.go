package dataset

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/plainjson"
)

// The columns of a CSV file have types, as pandas.read_csv gives them: the values here are
// those of pandas 3.1, but that whole numbers with missing cells stay whole, and that NA in
// a column of texts is a text.
func TestCells(t *testing.T) {
	t.Parallel()
	const text = `prompt,whole,zeros,gaps,share,flag,long,longer,word,spaced,mixed,inf,none,unsigned
a,1,007,1,1,True,9223372036854775807,1,NA, 1,1,inf,,18446744073709551615
b,-2,010,,2.50,false,-9223372036854775808,99999999999999999999999,x,2 ,x,-Infinity,,1
c,+3,0,NA,1e5,TRUE,0,-1,None,3,2,1,,0
`
	path := filepath.Join(t.TempDir(), "rows.csv")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	source := DefaultSource()
	source.Fields.Question, source.Fields.Answer = "prompt", ""
	rows, _ := must.Get2(together(t, path).ReadRows(path, source))(t)
	want := []string{
		`{"flag":true,"gaps":1,"inf":"inf","long":9223372036854775807,"longer":1,"mixed":"1","none":null,"prompt":"a","share":1.0,"spaced":1,"unsigned":18446744073709551615,"whole":1,"word":"NA","zeros":7}`,
		`{"flag":false,"gaps":null,"inf":"-inf","long":-9223372036854775808,"longer":99999999999999999999999,"mixed":"x","none":null,"prompt":"b","share":2.5,"spaced":2,"unsigned":1,"whole":-2,"word":"x","zeros":10}`,
		`{"flag":true,"gaps":null,"inf":1.0,"long":0,"longer":-1,"mixed":"2","none":null,"prompt":"c","share":100000.0,"spaced":3,"unsigned":0,"whole":3,"word":"None","zeros":0}`,
	}
	for i, row := range rows {
		found, err := plainjson.Line(row.Columns)
		if diff := cmp.Diff(want[i], string(found)); err != nil || diff != "" {
			t.Errorf("row %d: %v %s", i, err, diff)
		}
	}
	// A problem is made of texts: its answer has the digits that the file has.
	source.Fields.Answer = "zeros"
	tasks, _, err := together(t, path).Read(path, source)
	if err != nil || len(tasks) != 3 || tasks[0].Answer != "007" {
		t.Errorf("%v, %v", tasks, err)
	}
}

// together is the set of one file.
func together(t *testing.T, path string) *Set {
	t.Helper()
	set := must.Get(Together([]string{path}, "data.train"))(t)
	return set
}
