package mlebench

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/metric"
)

// TestGrade: a board of 10 losses has its medals at positions 1, 2 and 4 and its
// median between 0.5 and 0.6.
func TestGrade(t *testing.T) {
	t.Parallel()
	s := specs["rmse"]
	board := Board{[]float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}}
	c, err := Open(s.spec, []byte(s.answers), board)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	at := time.Date(2026, 11, 23, 17, 30, 0, 5e8, time.UTC)
	grade := func(name, content string) (string, error) {
		t.Helper()
		path := filepath.Join(folder, name)
		if content != "" {
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		report, problem := c.Grade(path, at)
		raw, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(raw), folder, "F"), problem
	}
	const head = `{"competition_id":"prices","score":`
	const thresholds = `,"gold_threshold":0.1,"silver_threshold":0.2,"bronze_threshold":0.4,"median_threshold":0.55,`
	const tail = `"is_lower_better":true,"created_at":"2026-11-23T17:30:00.5Z","submission_path":"F/`
	for _, test := range []struct{ name, content, want, problem string }{
		{
			"gold.csv", s.answers,
			head + "0" + thresholds + `"any_medal":true,"gold_medal":true,"silver_medal":false,"bronze_medal":false,"above_median":true,"submission_exists":true,"valid_submission":true,` + tail + `gold.csv"}`,
			"",
		},
		{ // every row off by 0.2: at the threshold
			"silver.CSV", "id,price\na,1.2\nb,2.7\nc,-299.8\n",
			head + "0.2" + thresholds + `"any_medal":true,"gold_medal":false,"silver_medal":true,"bronze_medal":false,"above_median":true,"submission_exists":true,"valid_submission":true,` + tail + `silver.CSV"}`,
			"",
		},
		{ // off by 0.400004, which rounds to the threshold
			"bronze.csv", "id,price\na,1.400004\nb,2.900004\nc,-299.599996\n",
			head + "0.4" + thresholds + `"any_medal":true,"gold_medal":false,"silver_medal":false,"bronze_medal":true,"above_median":true,"submission_exists":true,"valid_submission":true,` + tail + `bronze.csv"}`,
			"",
		},
		{ // at the median: not above it
			"median.csv", "id,price\na,1.55\nb,3.05\nc,-299.45\n",
			head + "0.55" + thresholds + `"any_medal":false,"gold_medal":false,"silver_medal":false,"bronze_medal":false,"above_median":false,"submission_exists":true,"valid_submission":true,` + tail + `median.csv"}`,
			"",
		},
		{
			"invalid.csv", "id,price\na,1\nb,x\nc,3\n",
			head + "null" + thresholds + `"any_medal":false,"gold_medal":false,"silver_medal":false,"bronze_medal":false,"above_median":false,"submission_exists":true,"valid_submission":false,` + tail + `invalid.csv"}`,
			`checking a submission to "prices": row 2 (id "b"), column "price": "x" is not a number`,
		},
		{
			"answers.txt", s.answers,
			head + "null" + thresholds + `"any_medal":false,"gold_medal":false,"silver_medal":false,"bronze_medal":false,"above_median":false,"submission_exists":false,"valid_submission":false,` + tail + `answers.txt"}`,
			"does not end in .csv",
		},
		{
			"missing.csv", "",
			head + "null" + thresholds + `"any_medal":false,"gold_medal":false,"silver_medal":false,"bronze_medal":false,"above_median":false,"submission_exists":false,"valid_submission":false,` + tail + `missing.csv"}`,
			`there is no file`,
		},
	} {
		got, problem := grade(test.name, test.content)
		if got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
		if (problem == nil) != (test.problem == "") || problem != nil && !strings.Contains(problem.Error(), test.problem) {
			t.Errorf("%s: %v; want %q", test.name, problem, test.problem)
		}
	}
	// A link to the answers is no submission.
	if err := os.Symlink(filepath.Join(folder, "gold.csv"), filepath.Join(folder, "link.csv")); err != nil {
		t.Fatal(err)
	}
	if report, err := c.Grade(filepath.Join(folder, "link.csv"), at); err == nil || report.SubmissionExists || report.Score != nil {
		t.Error(report, err)
	}
	if report, err := c.Grade(folder, at); err == nil || report.SubmissionExists {
		t.Error("a folder is a submission")
	}
	// The file system has more than the limit for a sparse file.
	sparse := filepath.Join(folder, "sparse.csv")
	if err := os.WriteFile(sparse, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(sparse, 1<<30); err != nil {
		t.Fatal(err)
	}
	if report, err := c.Grade(sparse, at); err == nil || !strings.Contains(err.Error(), "are read") || !report.SubmissionExists || report.ValidSubmission {
		t.Error(report, err)
	}
}

func TestRound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ score, want float64 }{
		{0.123456, 0.12346},
		{0.000005, 0.00001}, // just above the middle, as a float64
		{0.000015, 0.00002},
		{0.000025, 0.00003},
		{2.675e-3, 0.00267}, // just below
		{-0.123456, -0.12346},
		{-1e-9, 0},
		{1e300, 1e300},
		{12345678.123456, 12345678.12346},
	} {
		if got := Round(c.score); got != c.want || math.Signbit(got) != math.Signbit(c.want) {
			t.Errorf("%v: %v; want %v", c.score, got, c.want)
		}
	}
}

func TestNormalise(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ score, worst, best, want float64 }{
		{.75, 0, 1, .75},
		{1, 0, 1, 1},
		{1.5, 0, 1, 1},
		{-.5, 0, 1, 0},
		{.375, 1.5, 0, .75}, // a loss
		{11.48, 1.5, 0, 0},
		{-1, 1.5, 0, 1},
	} {
		if got, err := Normalise(c.score, c.worst, c.best); err != nil || got != c.want {
			t.Errorf("%v of %v to %v: %v, %v; want %v", c.score, c.worst, c.best, got, err, c.want)
		}
	}
	for _, c := range [][3]float64{{1, 1, 1}, {2, 1, 1}, {math.NaN(), 0, 1}, {1, 0, math.NaN()}, {1, 0, math.Inf(1)}, {1, math.Inf(1), 0}, {1, 1e308, -1e308}} {
		if got, err := Normalise(c[0], c[1], c[2]); err == nil || got != 0 {
			t.Errorf("%v: %v, %v", c, got, err)
		}
	}
	if Signed(.5, true) != -.5 || Signed(.5, false) != .5 {
		t.Error("the sign is flipped where lower is better, and nowhere else")
	}
}

// A program's score that JSON has no number for is that of a valid submission all the same.
// Its submissions may have 64 MiB, and 16 bytes for each of its answers.
func TestProgram(t *testing.T) {
	t.Parallel()
	c, err := OpenProgram("own", metric.Maximize, 10, Board{})
	if err != nil || c.MaxBytes() != 64<<20+160 {
		t.Fatalf("%v; at most %d bytes", err, c.MaxBytes())
	}
	path := filepath.Join(t.TempDir(), "s.csv")
	if err := os.WriteFile(path, []byte("a\n1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ScoreFile(path); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("without its program: %v", err)
	}
	for _, score := range []float64{math.NaN(), math.Inf(1), 0.123456} {
		by := c.By(func([]byte) (float64, error) { return score, nil })
		r, err := by.Grade(path, time.Time{})
		if finite := score == 0.123456; err != nil || !r.ValidSubmission || (r.Score != nil) != finite || finite && *r.Score != 0.12346 {
			t.Errorf("%v: %+v, %v", score, r, err)
		}
		if got, err := by.ScoreFile(path); err != nil || got != score && !(math.IsNaN(got) && math.IsNaN(score)) {
			t.Errorf("not rounded: %v of %v, %v", got, score, err)
		}
	}
	if _, err := c.ScoreFile(path + ".csv"); exitcode.Code(err) != exitcode.Data {
		t.Errorf("a file that is not there: %v", err)
	}
}
