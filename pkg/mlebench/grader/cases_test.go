package grader

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/mlebench/frame"
)

// Every case that MLE-bench's own graders scored has their score, or is refused as
// they refuse it.
func TestGradeCases(t *testing.T) {
	t.Parallel()
	shared := os.Getenv("LATHE_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "..", "shared")
	}
	folder := filepath.Join(shared, "data", "mlebench", "grade_cases")
	file, err := os.Open(filepath.Join(folder, "cases.jsonl"))
	if err != nil {
		t.Skipf("the cases are not here: %v (LATHE_SHARED names the folder that holds data/mlebench)", err)
	}
	defer file.Close()
	opened := map[string]*Answers{}
	lines, cases := bufio.NewScanner(file), 0
	for lines.Scan() {
		var c struct {
			Competition, Submission, Answers, Why, Agrees string
			Score                                         json.RawMessage
			Invalid                                       bool
			Lower                                         bool `json:"is_lower_better"`
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		cases++
		competition, known := Lookup(c.Competition)
		if !known {
			t.Errorf("%s is not known", c.Competition)
			continue
		}
		if competition.LowerIsBetter != c.Lower || competition.AnswersFile != filepath.Base(c.Answers) {
			t.Errorf("%s: lower is better %v, answers in %s", c.Competition, competition.LowerIsBetter, competition.AnswersFile)
		}
		answers := opened[c.Competition]
		if answers == nil {
			content, err := os.ReadFile(filepath.Join(folder, c.Answers))
			if err != nil {
				t.Fatal(err)
			}
			if answers, err = competition.Open(content); err != nil {
				t.Errorf("%s: %v", c.Competition, err)
				continue
			}
			opened[c.Competition] = answers
		}
		content, err := os.ReadFile(filepath.Join(folder, c.Submission))
		if err != nil {
			t.Fatal(err)
		}
		score, _, err := answers.Score(content, frame.Bounds{})
		if (err != nil) != c.Invalid {
			t.Errorf("%s: score %v, error %v; %s (%s)", c.Submission, score, err, c.Score, c.Why)
			continue
		}
		if err != nil {
			continue
		}
		want := math.NaN()
		switch text := strings.Trim(string(c.Score), `"`); text {
		case "nan":
		case "-inf":
			want = math.Inf(-1)
		default:
			if err := json.Unmarshal(c.Score, &want); err != nil {
				t.Fatal(err)
			}
		}
		same := score == want || math.IsNaN(score) && math.IsNaN(want) || math.Abs(score-want) <= 1e-9*math.Abs(want)+1e-12
		if !same {
			t.Errorf("%s: score %v, want %v (%s)", c.Submission, score, want, c.Why)
		}
	}
	if err := lines.Err(); err != nil || cases == 0 {
		t.Errorf("%d cases, error %v", cases, err)
	}
	t.Logf("%d cases of %d competitions", cases, len(opened))
}
