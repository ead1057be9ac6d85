package mlebench

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/metric"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

// Report is what MLE-bench says of a submission, with its names of fields.
type Report struct {
	CompetitionID    string    `json:"competition_id"`
	Score            *float64  `json:"score"`          // rounded to 5 decimals; null of a submission that is not valid
	GoldThreshold    *float64  `json:"gold_threshold"` // null, as the others, where there is no leaderboard
	SilverThreshold  *float64  `json:"silver_threshold"`
	BronzeThreshold  *float64  `json:"bronze_threshold"`
	MedianThreshold  *float64  `json:"median_threshold"`
	AnyMedal         bool      `json:"any_medal"`
	GoldMedal        bool      `json:"gold_medal"` // at most one of the three is true
	SilverMedal      bool      `json:"silver_medal"`
	BronzeMedal      bool      `json:"bronze_medal"`
	AboveMedian      bool      `json:"above_median"`
	SubmissionExists bool      `json:"submission_exists"` // there is a file, and its name ends in .csv
	ValidSubmission  bool      `json:"valid_submission"`
	IsLowerBetter    bool      `json:"is_lower_better"`
	CreatedAt        time.Time `json:"created_at"`
	SubmissionPath   string    `json:"submission_path"`
}

// Grade reports on the submission at a path. The error says why a submission is
// not valid; the report is whole all the same.
func (c *Competition) Grade(path string, at time.Time) (Report, error) {
	r := Report{CompetitionID: c.spec.ID, IsLowerBetter: c.LowerIsBetter(), CreatedAt: at, SubmissionPath: path}
	if !c.board.Empty() {
		t := c.board.Thresholds()
		r.GoldThreshold, r.SilverThreshold, r.BronzeThreshold, r.MedianThreshold = &t.Gold, &t.Silver, &t.Bronze, &t.Median
	}
	content, exists, err := c.readFile(path)
	r.SubmissionExists = exists
	if err != nil {
		return r, err
	}
	score, err := c.Score(content)
	if err != nil {
		return r, err
	}
	r.ValidSubmission = true
	if r.Score = &score; math.IsNaN(score) || math.IsInf(score, 0) {
		r.Score = nil // which JSON has no number for; MLE-bench holds it for valid
	}
	if c.board.Empty() {
		return r, nil
	}
	medal := c.board.Medal(score)
	r.AnyMedal, r.GoldMedal, r.SilverMedal, r.BronzeMedal = medal != NoMedal, medal == Gold, medal == Silver, medal == Bronze
	r.AboveMedian = c.board.AboveMedian(score)
	return r, nil
}

// ScoreFile scores the submission at a path, not rounded.
func (c *Competition) ScoreFile(path string) (float64, error) {
	content, _, err := c.readFile(path)
	if err != nil {
		return 0, err
	}
	score, _, err := c.grade(content)
	if err != nil {
		err = fmt.Errorf("checking a submission to %q: %w", c.spec.ID, err)
	}
	return score, err
}

// readFile reads a submission; exists says that there is a file of a name in .csv.
func (c *Competition) readFile(path string) (content []byte, exists bool, err error) {
	// A link is no submission: it may lead to the answers, which whoever made it
	// need not be able to read.
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, false, exitcode.Dataf("checking a submission to %q: there is no file %q", c.spec.ID, path)
	}
	if !strings.EqualFold(filepath.Ext(path), ".csv") {
		return nil, false, exitcode.Dataf("checking a submission to %q: the name of %q does not end in .csv", c.spec.ID, path)
	}
	if content, err = plainfile.Read(path, c.MaxBytes()); err != nil {
		err = fmt.Errorf("checking a submission to %q: %w", c.spec.ID, err)
	}
	return content, true, err
}

// LowerIsBetter says the direction of the scores.
func (c *Competition) LowerIsBetter() bool {
	if c.mle != nil {
		return c.mle.LowerIsBetter
	}
	return c.metric.Direction == metric.Minimize
}

// Round rounds a score to 5 decimals as Python's round does: the decimal that
// is nearest to the float64.
func Round(score float64) float64 {
	if math.IsNaN(score) || math.IsInf(score, 0) {
		return score
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(score, 'f', 5, 64), 64) // the one reads what the other writes
	return rounded + 0                                                           // no -0
}

// Normalise maps a score to [0, 1]: worst, and all beyond it, to 0, and best, and
// all beyond it, to 1. Where lower is better, best is the lower of the two.
func Normalise(score, worst, best float64) (float64, error) {
	share := (score - worst) / (best - worst)
	if math.IsNaN(share) || math.IsInf(best-worst, 0) || worst == best {
		return 0, exitcode.Usagef("normalising the score %v: %v to %v is no range", score, worst, best)
	}
	return min(max(share, 0), 1), nil
}

// Signed is the score with its sign flipped where lower is better, so that more
// is better always.
func Signed(score float64, lowerIsBetter bool) float64 {
	if lowerIsBetter {
		return -score
	}
	return score
}
