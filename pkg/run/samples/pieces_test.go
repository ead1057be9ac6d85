package samples

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// TestPieces by hand, where each byte is a token: a character of several tokens is one
// piece, one that is not completed is U+FFFD, and what the policy wrote is apart from what
// it read.
func TestPieces(t *testing.T) {
	t.Parallel()
	bytes, err := tokenizer.NewBytes(nil, tokenizer.Roles{})
	if err != nil {
		t.Fatal(err)
	}
	x := reader{tokenizer: bytes}
	own := func(text string, tokens int, logProb float64) Piece {
		return Piece{Text: text, Tokens: tokens, Own: true, LogProb: logProb, Learned: true, Advantage: 0.5}
	}
	for _, c := range []struct {
		text string
		mask string // o is the policy's
		want []Piece
	}{
		{"", "", nil},
		{"ab", "oo", []Piece{own("a", 1, -1), own("b", 1, -2)}},
		{"pab", "rro", []Piece{own("b", 1, -3)}}, // the prompt is not shown
		{"pab", "ror", []Piece{own("a", 1, -2), {Text: "b", Tokens: 1}}},
		{"ab", "rr", []Piece{{Text: "a", Tokens: 1}, {Text: "b", Tokens: 1}}},
		{"é€.", "oooooo", []Piece{own("é", 2, -3), own("€", 3, -12), own(".", 1, -6)}},
		{"a\xc3", "oo", []Piece{own("a", 1, -1), own("\ufffd", 1, -2)}},
		{"\xc3b", "or", []Piece{own("\ufffd", 1, -1), {Text: "b", Tokens: 1}}},
		{"é", "or", []Piece{own("\ufffd", 1, -1), {Text: "\ufffd", Tokens: 1}}},
		{"o\xe2\x82p", "orro", []Piece{own("o", 1, -1), {Text: "\ufffd", Tokens: 2}, own("p", 1, -4)}},
	} {
		row := shard.Rollout{TokenIDs: bytes.Encode(c.text)}
		var credit []credited
		for i := range row.TokenIDs {
			mine := c.mask[i] == 'o'
			row.LossMask = append(row.LossMask, mine)
			row.LogProbs, credit = append(row.LogProbs, 0), append(credit, credited{})
			if mine {
				row.LogProbs[i], credit[i] = -float32(i+1), credited{true, 0.5}
			}
		}
		if diff := cmp.Diff(c.want, x.pieces(row, credit)); diff != "" {
			t.Errorf("%q, %s (-want +got):\n%s", c.text, c.mask, diff)
		}
	}
}

// TestLearnedFrom: a token has the advantage of its turn in the sequence of the batch that
// has the same tokens.
func TestLearnedFrom(t *testing.T) {
	t.Parallel()
	row := shard.Rollout{TokenIDs: []int32{7, 8, 9, 8}}
	other := shard.Sequence{TokenIDs: []int32{7, 8, 9}, LossMask: []bool{true, true, true}, Turns: []int32{0, 0, 0}, TurnAdvantages: []float32{9}}
	same := shard.Sequence{TokenIDs: []int32{7, 8, 9, 8}, LossMask: []bool{false, true, false, true}, Turns: []int32{0, 0, 0, 1}, TurnAdvantages: []float32{0.25, -0.5}}
	for _, sequences := range [][]shard.Sequence{{other, same}, {same, other}} {
		if diff := cmp.Diff([]credited{{}, {true, 0.25}, {}, {true, -0.5}}, learnedFrom(row, sequences), cmp.AllowUnexported(credited{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(make([]credited, 4), learnedFrom(row, []shard.Sequence{other}), cmp.AllowUnexported(credited{})); diff != "" {
		t.Errorf("of a batch without it (-want +got):\n%s", diff)
	}
}

// TestSummarise by hand: rewards 1, 0, 0.5 and 0.5 have the mean 0.5 and the variance
// (0.25 + 0.25) / 4 = 0.125; the policy's tokens are 3 + 0 + 1 + 2 = 6, of 4 responses.
func TestSummarise(t *testing.T) {
	t.Parallel()
	response := func(sample int, reward float64, tokens ...int) Response {
		r := Response{Sample: sample, Reward: reward}
		for _, n := range tokens {
			r.Contexts = append(r.Contexts, Context{[]Piece{{Tokens: n, Own: true}, {Tokens: 5}}})
		}
		return r
	}
	g := Group{Responses: []Response{response(3, 1, 2, 1), response(0, 0), response(2, 0.5, 1), response(1, 0.5, 2)}}
	g.summarise()
	if math.Abs(g.Reward-0.5) > 1e-15 || math.Abs(g.Deviation-math.Sqrt(0.125)) > 1e-15 || math.Abs(g.Tokens-1.5) > 1e-15 {
		t.Errorf("reward %v ± %v, %v tokens", g.Reward, g.Deviation, g.Tokens)
	}
	for i, r := range g.Responses {
		if r.Sample != i {
			t.Errorf("at %d is sample %d", i, r.Sample)
		}
	}
}
