package grader

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/frame"
)

// Answers that lack what a score needs are refused when they are read, and each problem of
// a submission is of its stage; rows and columns are checked without the values too.
func TestStages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ competition, answers, want string }{
		{"aerial-cactus-identification", "id,more / a,0", `column "has_cactus" is missing`},
		{"aerial-cactus-identification", "has_cactus / 0", `column "id" is missing`},
		{"aerial-cactus-identification", "id,has_cactus", "a header and no row"},
		{"aerial-cactus-identification", "id,has_cactus / \xff,0", "not UTF-8"},
		{"hubmap-kidney-segmentation", "id,width_pixels,height_pixels / a,2,2", `column "encoding" is missing`},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 1,2,x", `column "height_pixels" is not of numbers: "x"`},
		{"hubmap-kidney-segmentation", "id,encoding,width_pixels,height_pixels / a,1 1,2,2", ""}, // without the column predicted
		{"leaf-classification", "id / a", ""},
	} {
		competition, _ := Lookup(c.competition)
		_, err := competition.Open(table(c.answers))
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || exitcode.Code(err) != exitcode.Data) {
			t.Errorf("%s: %q: %v, want %q", c.competition, c.answers, err, c.want)
		}
	}
	competition, _ := Lookup("leaf-classification")
	answers, err := competition.Open(table("x,id,y / 1,b,0 / 1,a,0"))
	if err != nil || !slices.Equal(answers.Columns(), []string{"id", "x", "y"}) || answers.Rows() != 2 {
		t.Fatalf("%v: columns %q", err, answers.Columns())
	}
	for given, want := range map[string]struct {
		stage Stage
		rows  bool // the rows are those asked for
	}{
		"id,x,y / \xff,1,0 / b,1,0": {Submitted, false}, "id,x / a,1 / b,1": {Table, false}, "id,x,y / a,1,0 / c,1,0": {Columns, false}, "id,x,y / a,1,0": {Columns, false},
		"id,x,y / a,1,1 / b,1,0": {IDs, true}, "id,x,y / a,word,0 / b,1,0": {IDs, true}, "id,x,y / a,1,0 / b,1,0": {Valid, true},
	} {
		score, stage, err := answers.Score(table(given), frame.Bounds{})
		if stage != want.stage || (err == nil) != (stage == Valid) || err != nil && score != 0 || (answers.CheckRows(table(given)) == nil) != want.rows {
			t.Errorf("%q: score %v at stage %d, %v; rows %v; want stage %d", given, score, stage, err, answers.CheckRows(table(given)), want.stage)
		}
	}
	if _, stage, err := answers.Score(table("id,x,y / a,1,0 / b,1,0"), frame.Bounds{Rows: 1}); err == nil || stage != Submitted {
		t.Errorf("a row more than is read: stage %d, %v", stage, err)
	}
}

// The Hausdorff distance is the greatest one from a voxel of one volume to the nearest of the
// other, whatever voxels are on the surface.
func TestHausdorff(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		depth, height, width := rapid.IntRange(1, 5).Draw(t, "slices"), rapid.IntRange(1, 5).Draw(t, "height"), rapid.IntRange(1, 5).Draw(t, "width")
		draw := func(label string) (v volume, voxels [][3]float64) {
			full := rapid.IntRange(0, 9).Draw(t, label) // of ten voxels
			for z := range depth {
				m := mask{height, width, make([]bool, height*width)}
				for i := range m.set {
					if m.set[i] = rapid.IntRange(0, 9).Draw(t, "voxel") <= full; m.set[i] {
						voxels = append(voxels, [3]float64{float64(z) / float64(depth), float64(i%height) / float64(height), float64(i/height) / float64(width)})
					}
				}
				v = append(v, m)
			}
			return v, voxels
		}
		truth, a := draw("truth")
		given, b := draw("given")
		var want float64
		for _, sides := range [][2][][3]float64{{a, b}, {b, a}} {
			for _, p := range sides[0] {
				nearest := math.Inf(1)
				for _, q := range sides[1] {
					nearest = min(nearest, math.Hypot(math.Hypot(p[0]-q[0], p[1]-q[1]), p[2]-q[2])/math.Sqrt(3))
				}
				want = max(want, nearest)
			}
		}
		if len(a) == 0 || len(b) == 0 || len(b) > 10*len(a) {
			want = 1
		}
		got := hausdorff(truth, given)
		if len(a)+len(b) == 0 != math.IsNaN(got) || math.Abs(got-want) > 1e-12 {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// The answers are lines of JSON, and the first annotation counts.
func TestQuestions(t *testing.T) {
	t.Parallel()
	competition, _ := Lookup("tensorflow2-question-answering")
	answers, err := competition.Open([]byte(`{"example_id":"7","annotations":[{"yes_no_answer":"NONE","long_answer":{"start_token":3,"end_token":9},"short_answers":[{"start_token":4,"end_token":5},{"start_token":6,"end_token":7}]},{"yes_no_answer":"YES"}]}
{"example_id":"-8","annotations":[{"yes_no_answer":"NO","long_answer":{"start_token":-1,"end_token":-1},"short_answers":[]}]}
`))
	if err != nil || answers.Rows() != 4 {
		t.Fatalf("%v", err)
	}
	for given, want := range map[string]any{
		"7_long,3:9 / 7_short, 06 : 7 / -8_long, / -8_short,NO": 1.0,
		"7_long,3:8 / 7_short,YES / -8_long,1:2 / -8_short,":    0.0,
		"7_long,3:9 / 7_short,4 / -8_long, / -8_short,NO":       "neither a span",
		"7_long,3:9 / 7_short,4:x / -8_long, / -8_short,NO":     "no span",
		"7_long,3:9 / 7_short,4:5 / -8_long, / -8_long,NO":      "twice",
		"7_long,3:9 / 7_short,4:5 / -8_long, / 9_short,NO":      `lacks id "-8_short"`,
		"7_long,3:9": "1 rows where 4",
		"7_long,x:9 / 7_short,4:5 / -8_long, / -8_short,NO":   "no span",
		"7_long,3:9:9 / 7_short,4:5 / -8_long, / -8_short,NO": "neither a span",
		"7_long, / 7_short,4:5 / -8_long,NO / -8_short, NO ":  0.5,
	} {
		score, _, err := answers.Score(table("example_id,PredictionString / "+given), frame.Bounds{})
		if text, refused := want.(string); refused && (err == nil || !strings.Contains(err.Error(), text)) || !refused && (err != nil || score != want) {
			t.Errorf("%q: %v, %v; want %v", given, score, err, want)
		}
	}
	for _, bad := range []string{`{"example_id":7}`, `{"example_id":"7"}`, `{`} {
		if _, err := competition.Open([]byte(bad)); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}

// The splits of MLE-bench have 22, 38, 15 and 7 competitions; each has what a task
// needs, and none is there twice.
func TestCompetitions(t *testing.T) {
	t.Parallel()
	count, seen := map[Split]int{}, map[string]bool{}
	for _, c := range All() {
		count[c.Split]++
		if seen[c.ID] || c.Metric == "" || c.Modality == "" || c.AnswersFile == "" || c.SampleFile == "" || c.LowerIsBetter && c.Best() > 0 {
			t.Errorf("%+v", c)
		}
		seen[c.ID] = true
		if found, known := Lookup(c.ID); !known || found != c {
			t.Errorf("%s is not found", c.ID)
		}
	}
	if count[Low] != 22 || count[Medium] != 38 || count[High] != 15 || count[Dev] != 7 {
		t.Errorf("%v", count)
	}
	// The best is 1, or 0 where lower is better; the doubt of lungs is at least 70, and the
	// logarithm of an error of 0.018 is as good as any.
	for id, want := range map[string]float64{"spaceship-titanic": 1, "leaf-classification": 0, "osic-pulmonary-fibrosis-progression": -4.595, "champs-scalar-coupling": -4} {
		if c, _ := Lookup(id); c.Best() != want || c.LowerIsBetter != (want == 0 || want == -4) {
			t.Errorf("the best of %s is %v, want %v", id, c.Best(), want)
		}
	}
	if _, known := Lookup("titanic"); known {
		t.Error("titanic is known")
	}
}

// Rows and columns of a submission may come in any order where ids are compared, and
// no file makes a grader panic.
func TestOrderAndNonsense(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		competition := rapid.SampledFrom(All()).Draw(t, "competition")
		cell := rapid.SampledFrom([]string{"", "a", "1", "0.5", "1 2", "1 2 1", "-1", "nan", "True", "a:b", "1e400", `"`, "x 1 0 0 1 1", "1 0 0 0 1 1 1 0 car"})
		columns := append([]string{competition.id}, competition.columns...)
		if columns = slices.Concat(columns, competition.numbers, competition.others); competition.columns == nil {
			columns = append(columns, "class", "another")
		}
		file := func(name string, columns []string) string {
			var b strings.Builder
			b.WriteString(strings.Join(columns, ",") + "\n")
			for range rapid.IntRange(0, 4).Draw(t, name) {
				for i := range columns {
					if i > 0 {
						b.WriteByte(',')
					}
					from := cell
					if slices.Contains(competition.numbers, columns[i]) {
						from = rapid.SampledFrom([]string{"0", "1", "2", "3.0", "1e9", "-1", ""})
					}
					b.WriteString(from.Draw(t, "cell"))
				}
				b.WriteByte('\n')
			}
			return b.String()
		}
		answers, err := competition.Open([]byte(file("answers", columns)))
		if err != nil {
			return
		}
		_, _, _ = answers.Score([]byte(file("submission", answers.Columns())), frame.Bounds{})
	})
}
