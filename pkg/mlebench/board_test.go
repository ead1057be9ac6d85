package mlebench

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

func TestMedalPositions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ teams, gold, silver, bronze int }{
		{1, 1, 1, 1},
		{4, 1, 1, 1},
		{5, 1, 1, 2},
		{9, 1, 1, 3},
		{10, 1, 2, 4},
		{50, 5, 10, 20},
		{99, 9, 19, 39},
		{100, 10, 20, 40},
		{249, 10, 49, 99},
		{250, 10, 50, 100},
		{499, 10, 50, 100},
		{500, 11, 50, 100},
		{999, 11, 50, 100},
		{1000, 12, 50, 100},
		{1499, 12, 74, 149},
		{1500, 13, 75, 150},
		{4539, 19, 226, 453},
	} {
		gold, silver, bronze := medalPositions(c.teams)
		if gold != c.gold || silver != c.silver || bronze != c.bronze {
			t.Errorf("%d teams: %d, %d, %d; want %d, %d, %d", c.teams, gold, silver, bronze, c.gold, c.silver, c.bronze)
		}
	}
}

func TestSmallBoards(t *testing.T) {
	t.Parallel()
	tied := Board{[]float64{0.9, 0.8, 0.8, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.3}} // medals at 0.9, 0.8, 0.7; median 0.7
	losses := Board{[]float64{0.1, 0.2, 0.2, 0.4, 0.5}}                        // at 0.1, 0.1, 0.2; median 0.2
	for _, c := range []struct {
		name     string
		board    Board
		score    float64
		medal    Medal
		above    bool
		position int
		paper    float64
		mledojo  float64
	}{
		{"better than all", tied, 1, Gold, true, 1, .9, 1},
		{"as good as the best", tied, .9, Gold, true, 1, .9, 1},
		{"ties take the best place", tied, .8, Silver, true, 2, .8, .9},
		{"between", tied, .75, Bronze, true, 4, .6, .7},
		{"at the median, and at bronze", tied, .7, Bronze, false, 4, .6, .7},
		{"below the median", tied, .65, NoMedal, false, 7, .3, .4},
		{"as bad as the last", tied, .3, NoMedal, false, 10, 0, .1},
		{"worse than all", tied, .2, NoMedal, false, 11, 0, 0},
		{"NaN", tied, math.NaN(), NoMedal, false, 11, 0, 0},
		{"a lower loss", losses, .05, Gold, true, 1, .8, 1},
		{"gold and silver at one score", losses, .1, Gold, true, 1, .8, 1},
		{"bronze", losses, .2, Bronze, false, 2, .6, .8},
		{"a higher loss", losses, .9, NoMedal, false, 6, 0, 0},
		{"NaN of losses", losses, math.NaN(), NoMedal, false, 6, 0, 0},
		{"one team, better", Board{[]float64{3}}, 4, Gold, true, 1, 0, 1},
		{"one team, worse", Board{[]float64{3}}, 2, NoMedal, false, 2, 0, 0},
	} {
		if got := c.board.Medal(c.score); got != c.medal {
			t.Errorf("%s: medal %q; want %q", c.name, got, c.medal)
		}
		if got := c.board.AboveMedian(c.score); got != c.above {
			t.Errorf("%s: above the median %v", c.name, got)
		}
		if got := c.board.Position(c.score); got != c.position {
			t.Errorf("%s: position %d; want %d", c.name, got, c.position)
		}
		if got := Paper.Of(c.score, c.board); math.Abs(got-c.paper) > 1e-15 {
			t.Errorf("%s: HumanRank %v; want %v", c.name, got, c.paper)
		}
		if got := MLEDojo.Of(c.score, c.board); math.Abs(got-c.mledojo) > 1e-15 {
			t.Errorf("%s: MLE-Dojo's HumanRank %v; want %v", c.name, got, c.mledojo)
		}
	}
	// 0.7 is position 4 of 10 here, and 1 of 4 there: (0.7 + 1)/2.
	public := Board{[]float64{0.6, 0.5, 0.4, 0.3}}
	if got := MLEDojo.Of(.7, tied, public); math.Abs(got-.85) > 1e-15 {
		t.Errorf("over both boards %v; want 0.85", got)
	}
	if got := MLEDojo.Of(.7, tied, Board{[]float64{0, 0, 0}}); got != .7 {
		t.Errorf("a board of equal scores counts: %v", got)
	}
}

func TestReadBoardRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ content, want string }{
		{"", "the file is empty"},
		{"rank,score\n", "there is a header and no row"},
		{"rank,points\n1,2\n", `there is no column "score"; the columns are "rank", "points"`},
		{"rank,score\n1,2\n2,x\n", `row 2, column "score": "x" is not a number`},
		{"rank,score\n1,2\n2,nan\n", `row 2, column "score": it is NaN`},
		{"rank,score\n1,2\n2,-inf\n", `row 2, column "score": it is infinite`},
		{"rank,score\n1,3\n2,1\n3,2\n", "row 3: the score 2 is better than that of the row before, 1: the best is first"},
		{"rank,score\n1,2\n2,3\n3,1\n", "row 2: the score 3 is better than that of the row before, 2: the best is first"},
		{"rank,score\n1,1\n2,3\n3,2\n", "row 3: the score 2 is better than that of the row before, 3: the best is first"},
	} {
		_, err := ReadBoard([]byte(c.content))
		if want := "reading a leaderboard: " + c.want; exitcode.Code(err) != exitcode.Data || err.Error() != want {
			t.Errorf("%q: %v; want %s", c.content, err, want)
		}
	}
	b, err := ReadBoard([]byte("\ufeffscore,rank\r\n0.5,1\r\n0.25,2\r\n"))
	if worst, best := b.Ends(); err != nil || b.Teams() != 2 || b.LowerIsBetter() || b.Degenerate() || worst != 0.25 || best != 0.5 {
		t.Error(b, err)
	}
}

// TestSharedBoards: the boards of the competitions of MLE-bench Lite, 21 of them,
// have the thresholds that are written beside them; and at every threshold,
// just above and just below it, medals and ranks are those that counting gives.
func TestSharedBoards(t *testing.T) {
	t.Parallel()
	shared := os.Getenv("LATHE_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "shared")
	}
	folder := filepath.Join(shared, "data", "mlebench")
	raw, err := os.ReadFile(filepath.Join(folder, "competitions_lite.json"))
	if err != nil {
		t.Skipf("the leaderboards are not here: %v (LATHE_SHARED names the folder that holds data/mlebench)", err)
	}
	type sharedBoard struct {
		File                         string
		Teams                        int
		Gold, Silver, Bronze, Median float64
		Positions                    []int
		Degenerate                   bool
	}
	var competitions []struct {
		ID            string
		IsLowerBetter bool `json:"is_lower_better"`
		Leaderboards  map[string]sharedBoard
	}
	if err := json.Unmarshal(raw, &competitions); err != nil {
		t.Fatal(err)
	}
	boards, cases, ranked := 0, 0, 0
	for _, c := range competitions {
		if len(c.Leaderboards) > 0 {
			ranked++
		}
		for which, want := range c.Leaderboards {
			boards++
			raw, err := os.ReadFile(filepath.Join(folder, want.File))
			if err != nil {
				t.Fatal(err)
			}
			b, err := ReadBoard(raw)
			if err != nil {
				t.Fatalf("%s, %s: %v", c.ID, which, err)
			}
			name := c.ID + ", " + which
			gold, silver, bronze := medalPositions(b.Teams())
			if got := b.Thresholds(); b.Teams() != want.Teams || !slices.Equal([]int{gold, silver, bronze}, want.Positions) ||
				got != (Thresholds{want.Gold, want.Silver, want.Bronze, want.Median}) {
				t.Errorf("%s: %d teams, %v; want %+v", name, b.Teams(), got, want)
			}
			if b.Degenerate() != want.Degenerate || b.LowerIsBetter() != (c.IsLowerBetter && !want.Degenerate) {
				t.Errorf("%s: degenerate %v, lower is better %v", name, b.Degenerate(), b.LowerIsBetter())
			}
			cases += checkBoard(t, name, b, want.Gold, want.Silver, want.Bronze, want.Median)
		}
	}
	t.Logf("%d competitions, %d boards, %d scores", ranked, boards, cases)
	if ranked != 21 || boards != 42 || cases != 42*4*5 {
		t.Errorf("%d competitions, %d boards, %d scores; want 21, 42 and 840", ranked, boards, cases)
	}
}

// checkBoard grades scores at, just beside and a little beside each threshold,
// against a count of all teams.
func checkBoard(t *testing.T, name string, b Board, gold, silver, bronze, median float64) (cases int) {
	t.Helper()
	lower, n := b.LowerIsBetter(), b.Teams()
	atLeast := func(x, y float64) bool { return x == y || (x < y) == lower }
	for _, threshold := range []float64{gold, silver, bronze, median} {
		for _, score := range []float64{
			threshold, math.Nextafter(threshold, math.Inf(1)), math.Nextafter(threshold, math.Inf(-1)), threshold + 1e-5, threshold - 1e-5,
		} {
			cases++
			better := 0
			for _, s := range b.scores {
				if s != score && atLeast(s, score) {
					better++
				}
			}
			medal := NoMedal
			switch {
			case atLeast(score, gold):
				medal = Gold
			case atLeast(score, silver):
				medal = Silver
			case atLeast(score, bronze):
				medal = Bronze
			}
			if got := b.Medal(score); got != medal {
				t.Errorf("%s: %v takes %q; want %q", name, score, got, medal)
			}
			if got := b.AboveMedian(score); got != (score != median && atLeast(score, median)) {
				t.Errorf("%s: %v is above the median: %v", name, score, got)
			}
			paper := max(0, 1-float64(better+1)/float64(n))
			if got := Paper.Of(score, b); math.Abs(got-paper) > 1e-12 {
				t.Errorf("%s: %v ranks %v; want %v", name, score, got, paper)
			}
			mledojo := float64(n-better) / float64(n)
			if got := MLEDojo.Of(score, b); math.Abs(got-mledojo) > 1e-12 {
				t.Errorf("%s: %v ranks %v in MLE-Dojo; want %v", name, score, got, mledojo)
			}
		}
	}
	return cases
}
