package mlebench

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/mlebench/grader"
)

// specs are competitions of each shape and kind, with their answers.
var specs = map[string]struct {
	spec    Spec
	answers string
	scores  []float64
}{
	"rmse": {
		Spec{ID: "prices", Metric: "rmse", IDColumn: "id", Columns: []string{"price"}},
		"id,price\na,1\nb,2.5\nc,-3e2\n",
		[]float64{0, 1},
	},
	"usage": {
		Spec{ID: "usage", Metric: "rmse", IDColumn: "id", Columns: []string{"price"}},
		"id,Usage,price\na,Public,1\nb,Private,2.5\n",
		[]float64{0, 1},
	},
	"auc": {
		Spec{ID: "cacti", Metric: "auc-roc", IDColumn: "id", Columns: []string{"has_cactus"}},
		"id,has_cactus\n1.jpg,0\n2.jpg,1\n3.jpg,1\n4.jpg,0\n",
		[]float64{1, 0},
	},
	"authors": {
		Spec{ID: "authors", Metric: "multi-class-log-loss", IDColumn: "id", Columns: []string{"author"}},
		"id,author\n1,MWS\n2,EAP\n3,EAP\n",
		[]float64{0, 1},
	},
	"cover": {
		Spec{ID: "cover", Metric: "accuracy", IDColumn: "Id", Columns: []string{"Cover_Type"}, Classes: []string{"1", "2", "7"}},
		"Id,Cover_Type\n10,1\n11,2\n12,2\n13,1\n",
		[]float64{1, 0},
	},
	"free": {
		Spec{ID: "free", Metric: "f1-macro", IDColumn: "Id", Columns: []string{"label"}},
		"Id,label\n10,1\n11,two\n",
		[]float64{1, 0},
	},
	"energy": {
		Spec{ID: "energy", Metric: "mean-column-wise-rmsle", IDColumn: "id", Columns: []string{"gap", "energy"}},
		"id,gap,energy\n1,0.5,1\n2,0.25,2\n",
		[]float64{0, 1},
	},
	"numbered": {
		Spec{ID: "numbered", Metric: "multi-class-log-loss", IDColumn: "id", Columns: []string{"y"}},
		"id,y\n1,1.0\n2,2.0\n",
		[]float64{0, 1},
	},
	"text": {
		Spec{ID: "text", Metric: "exact-match", IDColumn: "id", Columns: []string{"after"}},
		"id,after\n0_0,\"one, two\"\n0_1,\n0_2,\"a \"\"b\"\"\nc\"\n",
		[]float64{1, 0},
	},
	"counts": {
		Spec{ID: "counts", Metric: "poisson-deviance", IDColumn: "id", Columns: []string{"n"}},
		"id,n\n1,0\n2,3\n",
		[]float64{0, 1},
	},
	"rank": {
		Spec{ID: "rank", Metric: "spearman", IDColumn: "id", Columns: []string{"y"}},
		"id,y\n1,0\n2,3\n3,1\n",
		[]float64{1, 0},
	},
	"ratings": {
		Spec{ID: "ratings", Metric: "quadratic-weighted-kappa", IDColumn: "id", Columns: []string{"y"}},
		"id,y\n1,0\n2,4\n3,1\n",
		[]float64{1, 0},
	},
}

func competition(t testing.TB, name string) *Competition {
	t.Helper()
	s, there := specs[name]
	if !there {
		t.Fatalf("there is no competition %q", name)
	}
	c, err := Open(s.spec, []byte(s.answers), Board{s.scores})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestScores(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		competition, submission string
		want                    float64
		why                     string
	}{
		{"rmse", "id,price\na,1\nb,2.5\nc,-300\n", 0, "the answers"},
		{"rmse", "price,id\n-300,c\n1,a\n2.5,b\n", 0, "rows and columns in another order"},
		{"rmse", "\ufeffid,price\r\na,1\r\nb,2.5\r\nc,-300\r\n", 0, "a byte order mark, CR LF"},
		{"rmse", "id,price\n\na,1\nb,2.5\n\nc,-300", 0, "empty lines, no end of the last line"},
		{"rmse", "\"id\",\"price\"\n\"a\", 1 \n\"b\",\"2.5\"\nc,-3e+02\n", 0, "quotes, spaces about a number"},
		{"rmse", "id,price\na,2\nb,3.5\nc,-299\n", 1, "each off by 1"},
		{"rmse", "id,price\na,2\nb,2.5\nc,-300\n", 0.57735, "√(1/3), rounded"},
		{"usage", "id,price\na,2\nb,2.5\n", 0.70711, "a further column of the answers, as Kaggle's have it"},
		{"auc", "id,has_cactus\n1.jpg,0.5\n2.jpg,0.5\n3.jpg,0.5\n4.jpg,0.5\n", 0.5, "ties"},
		{"auc", "id,has_cactus\n1.jpg,-7\n2.jpg,1e9\n3.jpg,3\n4.jpg,-8\n", 1, "scores need not be probabilities"},
		{"authors", "id,EAP,MWS\n1,0.5,0.5\n2,0.5,0.5\n3,0.5,0.5\n", 0.69315, "ln 2"},
		{"authors", "MWS,id,EAP\n2e-1,1,0.2\n0.1,2,0.1\n0.3,3,0.3\n", 0.69315, "rows divided by their sums"},
		{"authors", "id,EAP,MWS\n1,0,1\n2,1,0\n3,1,0\n", 0, "certain and right"},
		{"authors", "id,EAP,MWS\n1,1,0\n2,0,1\n3,0,1\n", 36.04365, "certain and wrong: 52·ln 2"},
		{"cover", "Id,Cover_Type\n10,1\n11,2\n12,7\n13,7\n", 0.5, "a class that no answer has"},
		{"cover", "Id,Cover_Type\n10,1.0\n11,2.0\n12,02\n13,7\n", 0.75, "labels that are numbers compare as numbers"},
		{"free", "Id,label\n10,1.0\n11,two\n", 0.33333, "labels that are texts compare as texts: 1 and 1.0 have F1 0"},
		{"energy", "id,energy,gap\n2,2,0.25\n1,1,0.5\n", 0, "columns by name"},
		{"text", "id,after\n0_0,\"one, two\"\n0_1,\n0_2,\"a \"\"b\"\"\nc\"\n", 1, "commas, quotes, lines in cells, an empty cell"},
		{"text", "id,after\r\n0_0,\"one, two\"\r\n0_1,\r\n0_2,\"a \"\"b\"\"\r\nc\"\r\n", 1, "the same with CR LF"},
		{"text", "id,after\n0_0,one\n0_1,\" \"\n0_2,\n", 0, "a space is not nothing"},
		{"numbered", "id,1.0,2.0\n1,0.5,0.5\n2,0,1\n", 0.34657, "ln 2 / 2: a label in the answers names a column as it is written"},
		{"counts", "id,n\n1,1\n2,3\n", 1, "(2·1 + 0)/2"},
		{"ratings", "id,y\n1,0.0\n2,4.0\n3,1\n", 1, "whole numbers"},
	} {
		got, err := competition(t, c.competition).Score([]byte(c.submission))
		if err != nil || got != c.want || math.Signbit(got) {
			t.Errorf("%s, %s: %v, %v; want %v", c.competition, c.why, got, err, c.want)
		}
	}
}

func TestInvalidSubmissions(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 50)
	for _, c := range []struct{ competition, submission, want string }{
		{"rmse", "", "the file is empty"},
		{"rmse", "\ufeff \r\n\n", "the file is empty"},
		{"rmse", "id,price\n", "there is a header and no row"},
		{"rmse", "id\na\n", `column "price" is missing; asked for are "id", "price"`},
		{"rmse", "price\n1\n", `column "id" is missing; asked for are "id", "price"`},
		{"rmse", "ID,price\na,1\nb,2\nc,3\n", `column "id" is missing; asked for are "id", "price"`},
		{"rmse", "id, price\na,1\nb,2\nc,3\n", `column "price" is missing; asked for are "id", "price"`},
		{"rmse", "id,price,note\na,1,x\nb,2,x\nc,3,x\n", `column "note" is not asked for; asked for are "id", "price"`},
		{"rmse", ",id,price\n0,a,1\n1,b,2\n2,c,3\n", `column 1 has no name, as when the index of a data frame is written too; asked for are "id", "price"`},
		{"rmse", "id,price,price\na,1,1\nb,2,2\nc,3,3\n", `column "price" is there twice`},
		{"rmse", "id;price\na;1\nb;2\nc;3\n", `column "id" is missing; asked for are "id", "price"`},
		{"rmse", "a,1\nb,2\nc,3\n", `column "id" is missing; asked for are "id", "price"`},
		{"rmse", "id,price\na,1\nb,2\n", `there are 2 rows where 3 are asked for: column "id" lacks id "c"`},
		{"rmse", "id,price\nc,1\n", `there are 1 rows where 3 are asked for: column "id" lacks id "a"`},
		{"rmse", "id,price\na,1\nb,2\nc,3\nd,4\n", `row 4, column "id": id "d" is not asked for`},
		{"rmse", "id,price\na,1\nb,2\nC,3\n", `row 3, column "id": id "C" is not asked for`},
		{"rmse", "id,price\na,1\n,2\nc,3\n", `row 2, column "id": id "" is not asked for`},
		{"rmse", "id,price\na,1\nb,2\n" + long + ",3\n", `row 3, column "id": id "` + long[:40] + `"… is not asked for`},
		{"rmse", "id,price\na,1\nb,2\na,3\n", `row 3, column "id": id "a" is there twice, first in row 1`},
		{"rmse", "id,price\na,1\nb,2\nc,3\nb,2\n", `row 4, column "id": id "b" is there twice, first in row 2`},
		{"rmse", "id,price\na,1\nb,two\nc,3\n", `row 2 (id "b"), column "price": "two" is not a number`},
		{"rmse", "id,price\nc,3\nb,1\na," + long + "\n", `row 3 (id "a"), column "price": "` + long[:40] + `"… is not a number`},
		{"rmse", "id,price\nc,\nb,1\na,1\n", `row 1 (id "c"), column "price": it is empty`},
		{"rmse", "id,price\na,1\nb, \nc,3\n", `row 2 (id "b"), column "price": it is empty`},
		{"rmse", "id,price\na,1\nb,NaN\nc,3\n", `row 2 (id "b"), column "price": it is NaN`},
		{"rmse", "id,price\na,1\nb,nan\nc,3\n", `row 2 (id "b"), column "price": it is NaN`},
		{"rmse", "id,price\na,1\nb,inf\nc,3\n", `row 2 (id "b"), column "price": it is infinite`},
		{"rmse", "id,price\na,1\nb,-Infinity\nc,3\n", `row 2 (id "b"), column "price": it is infinite`},
		{"rmse", "id,price\na,1\nb,1e999\nc,3\n", `row 2 (id "b"), column "price": "1e999" is out of the range of float64`},
		{"rmse", "id,price\na,1\nb,0x10p2\nc,3\n", `row 2 (id "b"), column "price": "0x10p2" is not a number`},
		{"rmse", "id,price\na,1\nb,1_000\nc,3\n", `row 2 (id "b"), column "price": "1_000" is not a number`},
		{"rmse", "id,price\na,1\nb,\"1,000\"\nc,3\n", `row 2 (id "b"), column "price": "1,000" is not a number`},
		{"rmse", "id,price\na,1\nb,NA\nc,3\n", `row 2 (id "b"), column "price": "NA" is not a number`},
		{"rmse", "id,price\na,1\nb,2,9\nc,3\n", "row 2 has 3 cells and the header 2"},
		{"rmse", "id,price\na,1\nb\nc,3\n", "row 2 has 1 cells and the header 2"},
		{"rmse", "id,price\na,1\nb,1,5\nc,3\n", "row 2 has 3 cells and the header 2"},
		{"rmse", "id,price\na,1\nb,\"2\nc,3\n", `the file is no CSV: record on line 3; parse error on line 4, column 5: extraneous or missing " in quoted-field`},
		{"rmse", "id,price\na,1\nb,2\"\nc,3\n", `the file is no CSV: parse error on line 3, column 4: bare " in non-quoted-field`},
		{"rmse", "id,price\na,1\nb\xff,2\nc,3\n", "line 3 is not UTF-8"},
		{"rmse", "id,price\na,1\nb,2\n\xff", "line 4 is not UTF-8"},
		{"rmse", "\xff\xfei\x00d\x00", "the file is UTF-16; write it as UTF-8"},
		{"rmse", "\xfe\xff\x00i\x00d", "the file is UTF-16; write it as UTF-8"},
		{"rmse", "\x1f\x8b\x08\x00", "line 1 is not UTF-8"},
		{"rmse", "id,price\ra,1\rb,2\rc,3\r", "lines end in CR alone; write LF or CR LF"},
		{"rmse", "id,price\na,1\nb,1e300\nc,3\n", "scoring by rmse: the score leaves the range of float64: it is infinite"},
		{"usage", "id,Usage,price\na,Public,1\nb,Private,2.5\n", `column "Usage" is not asked for; asked for are "id", "price"`},
		{"authors", "id,EAP\n1,1\n2,1\n3,1\n", `column "MWS" is missing; asked for are "id", "EAP", "MWS"`},
		{"authors", "id,EAP,MWS,HPL\n1,1,0,0\n2,1,0,0\n3,1,0,0\n", `column "HPL" is not asked for; asked for are "id", "EAP", "MWS"`},
		{"authors", "id,EAP,MWS\n3,1,0\n2,1,0\n1,1,1.5\n", `row 3 (id "1"), column "MWS": probability 1.5 is outside [0, 1]`},
		{"authors", "id,EAP,MWS\n3,-0.25,1\n2,1,0\n1,1,1\n", `row 1 (id "3"), column "EAP": probability -0.25 is outside [0, 1]`},
		{"cover", "Id,Cover_Type\n10,1\n11,2\n12,3\n13,1\n", `row 3 (id "12"), column "Cover_Type": unknown label "3"`},
		{"cover", "Id,Cover_Type\n10,1\n11,2\n12,\n13,1\n", `row 3 (id "12"), column "Cover_Type": it is empty`},
		{"cover", "Id,Cover_Type\n10,1\n11,2\n12,2.5\n13,1\n", `row 3 (id "12"), column "Cover_Type": unknown label "2.5"`},
		{"free", "Id,label\n10,\n11,two\n", `row 1 (id "10"), column "label": it is empty`},
		{"energy", "id,gap,energy\n1,0.5,1\n2,-1.5,2\n", `row 2 (id "2"), column "gap": -1.5 has no log(1+x): it must be above -1`},
		{"energy", "id,gap,energy\n2,0.5,1\n1,0.5,-1\n", `row 2 (id "1"), column "energy": -1 has no log(1+x): it must be above -1`},
		{"energy", "id,gap,energy\n2,0.5,1\n1,0.5,x\n", `row 2 (id "1"), column "energy": "x" is not a number`},
		{"counts", "id,n\n2,1\n1,0\n", `row 2 (id "1"), column "n": 0 is not above 0: a predicted rate is`},
		{"rank", "id,y\n1,2\n2,2\n3,2\n", "scoring by spearman: the predictions are all 2: a rank correlation is not defined"},
		{"ratings", "id,y\n1,2\n2,2\n3,2.5\n", `row 3 (id "3"), column "y": 2.5 is not a whole number: a rating is`},
	} {
		graded := competition(t, c.competition)
		err := graded.Validate([]byte(c.submission))
		want := `checking a submission to "` + graded.spec.ID + `": ` + c.want
		if exitcode.Code(err) != exitcode.Data || err.Error() != want {
			t.Errorf("%s of %q:\n got %v\nwant %s", c.competition, c.submission, err, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	rmse := Spec{ID: "c", Metric: "rmse", IDColumn: "id", Columns: []string{"y"}}
	with := func(metric string, classes ...string) Spec {
		s := rmse
		s.Metric, s.Classes = metric, classes
		return s
	}
	for _, c := range []struct {
		spec          Spec
		answers, want string
		lowerIsBetter bool
	}{
		{with("rsme"), "id,y\n1,2\n", `unknown metric "rsme"`, true},
		{rmse, "id,y\n1,2\n", "the metric rmse is to minimize, and the leaderboard runs from 1 to 0", false},
		{with("auc-roc"), "id,y\n1,1\n2,0\n", "the metric auc-roc is to maximize, and the leaderboard runs from 0 to 1", true},
		{Spec{ID: "c", Metric: "rmse", IDColumn: "id"}, "id\n1\n", "there are 0 columns of answers", true},
		{Spec{ID: "c", Metric: "rmse", IDColumn: "id", Columns: []string{"x", "y"}}, "id,x,y\n1,2,3\n", `there are 2 columns of answers; the metric rmse takes the shape "one"`, true},
		{rmse, "", "the file is empty", true},
		{rmse, "id,x\n1,2\n", `column "y" is missing`, true},
		{rmse, "id,y\n1,2\n2,3\n1,2\n", `row 3: id "1" is there twice, first in row 1`, true},
		{rmse, "id,y\n1,2\n2,\n", `row 2 (id "2"), column "y": it is empty`, true},
		{with("auc-roc"), "id,y\n1,1\n2,1\n", `the answers hold one class only, "1"`, false},
		{with("auc-roc"), "id,y\n1,1\n2,3\n", `answers, row 2, column "y": unknown label 3`, false},
		{with("accuracy", "a", "b"), "id,y\n1,a\n2,c\n", `row 2 (id "2"), column "y": unknown label "c"`, false},
		{with("multi-class-log-loss", "a", "b"), "id,y\n1,a\n2,c\n", `unknown label "c"`, true},
		{with("multi-class-log-loss"), "id,y\n1,a\n2,a\n", "1 classes and 1 columns of probabilities", true},
		{with("multi-class-log-loss", "a", "b"), "id,y\n1,a\n2,a\n", `the answers hold one class only, "a"`, true},
		{with("multi-class-auc-ovr", "a", "b", "c"), "id,y\n1,a\n2,b\n", `no answer is of class "c"`, false},
		{with("map@3"), "id,y\n1,a\n2,\n", `answers, row 2, column "y": it is empty`, false},
		{with("spearman"), "id,y\n1,5\n2,5\n", "the answers are all 5", false},
		{with("poisson-deviance"), "id,y\n1,5\n2,-5\n", `answers, row 2, column "y": -5 is negative`, true},
	} {
		board := Board{[]float64{1, 0}}
		if c.lowerIsBetter {
			board = Board{[]float64{0, 1}}
		}
		_, err := Open(c.spec, []byte(c.answers), board)
		if code := exitcode.Code(err); code != exitcode.Data && code != exitcode.Usage || !strings.Contains(err.Error(), c.want) ||
			!strings.HasPrefix(err.Error(), `reading the answers of "c": `) {
			t.Errorf("%v of %q: %v; want %q", c.spec, c.answers, err, c.want)
		}
	}
}

// How far a submission comes, and how large it may be: 1 MiB for the header, 4 bytes
// for each of the answers, and 64 for each number or 4 KiB for each text.
func TestMilestonesAndBounds(t *testing.T) {
	t.Parallel()
	for submission, want := range map[string]string{
		"":                              "submission",
		"id,cost\na,1\n":                "submission table",
		"id,price\na,1\n":               "submission table columns",
		"id,price\na,1\nb,2\nc,three\n": "submission table columns ids",
		"id,price\na,1\nb,2\nc,3\n":     "submission table columns ids valid submission",
	} {
		_, reached, _ := competition(t, "rmse").ScoreReached([]byte(submission))
		if got := strings.Join(reached, " "); got != want {
			t.Errorf("%q: %s; want %s", submission, got, want)
		}
	}
	for name, want := range map[string]bounds{
		"rmse":   {1<<20 + 4*26 + 64*3, 1002, 4},
		"energy": {1<<20 + 4*31 + 64*4, 1004, 3},
		"text":   {1<<20 + 4*45 + 4096*3, 1002, 4},
	} {
		if got := competition(t, name).most; got != want {
			t.Errorf("%s: %v; want %v", name, got, want)
		}
	}
}

// TestRowsOfOthers: a submission may have as many rows as the sample has. Where rows of ids
// that the answers do not have are dropped, the sample has eighteen times theirs.
func TestRowsOfOthers(t *testing.T) {
	t.Parallel()
	rows := func(header, row string, n int) []byte {
		text := header
		for i := range n {
			text += fmt.Sprintf(row, i)
		}
		return []byte(text)
	}
	for _, c := range []struct {
		id, header, row string
		rows            int // for 100 of the answers
		want            string
	}{
		{"h-and-m-personalized-fashion-recommendations", "customer_id,prediction\n", "c%d,7\n", 1800, ""},
		{"h-and-m-personalized-fashion-recommendations", "customer_id,prediction\n", "c%d,7\n", 7401, "the file has more than 7400 rows"},
		{"champs-scalar-coupling", "id,type,scalar_coupling_constant\n", "%d,a,7\n", 1401, "the file has more than 1400 rows"},
	} {
		competition, _ := grader.Lookup(c.id)
		opened := must.Get(OpenMLEBench(competition, rows(c.header, c.row, 100), Board{}))(t)
		if score, err := opened.Score(rows(c.header, c.row, c.rows)); c.want == "" && (err != nil || score != 1) || c.want != "" && (err == nil || !strings.HasSuffix(err.Error(), c.want)) {
			t.Errorf("%s, %d rows: %v, %v; want %q", c.id, c.rows, score, err, c.want)
		}
	}
}

func TestManyColumnsAreCutShort(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]int{"a,b": 0, "a,b,c": 1, "a\nb,c\n": 0, "a,b\nb,c,d\n": 2, "a,\"\n\",b": 2, "a,\",\"": 0} {
		if got := tooWide([]byte(content), 2); got != want {
			t.Errorf("%q has more than 2 cells in line %d; want %d", content, got, want)
		}
	}
}
