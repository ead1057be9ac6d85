package mlebench

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/frame"
	"github.com/lathe-rl/lathe/pkg/mlebench/metric"
)

// Board is a leaderboard: the score of each team, best first. One that was read has
// at least one; that of a competition whose board is not at hand is empty, and then
// only [Board.Empty] is asked.
type Board struct{ scores []float64 }

// ReadBoard reads a leaderboard, a CSV file with a column score, best first.
func ReadBoard(content []byte) (Board, error) {
	b, err := readBoard(content)
	if err != nil {
		return Board{}, fmt.Errorf("reading a leaderboard: %w", err)
	}
	return b, nil
}

func readBoard(content []byte) (Board, error) {
	t, err := ReadTable(content)
	if err != nil {
		return Board{}, err
	}
	place := slices.Index(t.Header, "score")
	if place < 0 {
		return Board{}, exitcode.Dataf("there is no column %q; the columns are %s", "score", frame.Quoted(t.Header))
	}
	b := Board{make([]float64, len(t.Rows))}
	for i, row := range t.Rows {
		v, problem := number(row[place])
		if problem != "" {
			return Board{}, exitcode.Dataf("row %d, column %q: %s", i+1, "score", problem)
		}
		b.scores[i] = v
	}
	for i := 1; i < len(b.scores); i++ {
		if b.better(b.scores[i], b.scores[i-1]) {
			return Board{}, exitcode.Dataf("row %d: the score %v is better than that of the row before, %v: the best is first", i+1, b.scores[i], b.scores[i-1])
		}
	}
	return b, nil
}

// Empty says that there is no board.
func (b Board) Empty() bool { return len(b.scores) == 0 }

// Teams is how many teams there are.
func (b Board) Teams() int { return len(b.scores) }

// LowerIsBetter says the direction: the first score is less than the last.
func (b Board) LowerIsBetter() bool { return b.scores[0] < b.scores[len(b.scores)-1] }

// Ends are the last score and the first.
func (b Board) Ends() (worst, best float64) { return b.scores[len(b.scores)-1], b.scores[0] }

// Degenerate says that all scores are equal, so that the board ranks nothing.
func (b Board) Degenerate() bool { return b.scores[0] == b.scores[len(b.scores)-1] }

// better is strict. Every number is better than NaN.
func (b Board) better(x, y float64) bool {
	switch {
	case math.IsNaN(y):
		return !math.IsNaN(x)
	case b.LowerIsBetter():
		return x < y
	}
	return x > y
}

// Thresholds are the scores that a medal takes, and the median of all.
type Thresholds struct{ Gold, Silver, Bronze, Median float64 }

// Thresholds are those of MLE-bench: Kaggle's medals by the number of teams.
func (b Board) Thresholds() Thresholds {
	gold, silver, bronze := medalPositions(len(b.scores))
	return Thresholds{b.scores[gold-1], b.scores[silver-1], b.scores[bronze-1], metric.Median(b.scores)}
}

// medalPositions are the last positions, from 1, that take each medal among n
// teams. Gold is for a tenth of the teams, 10 at most, and for one more of each
// 500; silver for a fifth, 50 at most, or a twentieth where that is more; bronze
// for twice as many.
func medalPositions(n int) (gold, silver, bronze int) {
	share := func(of float64) int { return max(1, int(float64(n)*of)) }
	return min(share(0.1), 10) + int(float64(n)*0.002), max(min(share(0.2), 50), share(0.05)), max(min(share(0.4), 100), share(0.1))
}

// Medal is the best medal of a score.
type Medal string

// The medals.
const (
	Gold    Medal = "gold"
	Silver  Medal = "silver"
	Bronze  Medal = "bronze"
	NoMedal Medal = ""
)

// Medal is that of a score: a score equal to a threshold takes its medal.
func (b Board) Medal(score float64) Medal {
	t := b.Thresholds()
	switch {
	case !b.better(t.Gold, score):
		return Gold
	case !b.better(t.Silver, score):
		return Silver
	case !b.better(t.Bronze, score):
		return Bronze
	}
	return NoMedal
}

// AboveMedian says whether a score is strictly better than the median.
func (b Board) AboveMedian(score float64) bool { return b.better(score, b.Thresholds().Median) }

// Position is the place that a score takes, 1 to Teams()+1: 1 and the number of
// strictly better scores.
func (b Board) Position(score float64) int {
	return 1 + sort.Search(len(b.scores), func(i int) bool { return !b.better(b.scores[i], score) })
}

// HumanRank is a way to turn a position p among N teams into a number, 0 to 1.
type HumanRank string

// The two ways. They differ by 1/N (reading acegrpo-humanrank).
const (
	// Paper is 1 − p/N, as AceGRPO and MLE-RL print it. A score worse than all
	// takes the last position, N.
	Paper HumanRank = "paper"
	// MLEDojo is (N − p + 1)/N, as MLE-Dojo's code has it: the best takes 1, and a
	// score worse than all has the position N + 1 and takes 0.
	MLEDojo HumanRank = "mledojo"
)

// Of is the mean of a score's rank on a competition's boards: the private one
// and, where it counts too, the public one. A second board whose scores are all
// equal does not count: any score would rank first on it, or last.
func (h HumanRank) Of(score float64, private Board, public ...Board) float64 {
	sum, boards := h.on(score, private), 1.0
	for _, b := range public {
		if !b.Degenerate() {
			sum += h.on(score, b)
			boards++
		}
	}
	return sum / boards
}

func (h HumanRank) on(score float64, b Board) float64 {
	n, p := b.Teams(), b.Position(score)
	if h == MLEDojo {
		return float64(n-p+1) / float64(n)
	}
	return float64(n-min(p, n)) / float64(n)
}
