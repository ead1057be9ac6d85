package puzzle

import (
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/rng"
)

// kind is a family of puzzles. A question is text, and an answer is text of the
// same alphabet; what the question shows is itself an answer, of quality 0.
type kind interface {
	// draw makes a question with so many parts; "" where the draw gave none.
	draw(size int, d *draws) string
	// given is the answer that the question shows.
	given(question string) string
	// best is an answer of quality 1, where it is known without a search; else "".
	best(question string) string
	// quality scores an answer: 0 to 1, or why it is none.
	quality(question, answer string) (quality float64, why string)
	// repair makes an answer better in one place; it leaves the best as it is.
	repair(question, answer string, d *draws) string
}

// sizes of a puzzle: letters to sort, places to visit, cells of the ring.
const (
	minSize     = 4
	maxSize     = 16
	maxTourSize = 10 // of the places whose best tour is found for each answer
)

var kinds = map[string]kind{"sort": sorting{}, "tour": touring{}, "colour": colouring{}}

// draws takes numbers from a stream one after the other.
type draws struct {
	stream rng.Stream
	next   uint64
}

func (d *draws) intN(n int) int {
	d.next++
	return d.stream.IntN(d.next-1, n)
}

func (d *draws) permutation(n int) []int {
	order := make([]int, n)
	for i := range order {
		j := d.intN(i + 1)
		order[i], order[j] = order[j], i
	}
	return order
}

// sorting asks for some letters of the alphabet, each another, in rising order. The
// quality is 1 less the share of the question's inversions, pairs in falling order,
// that are left: for cadb with the three inversions ca, cb and db, the answer acbd has
// one left and quality 2/3, and dcba, with six, has 0. An answer with other letters
// than the question's is none. (There are more letters than a puzzle has: were all of
// them in it, one answer would be right for every puzzle.)
type sorting struct{}

func (sorting) draw(size int, d *draws) string {
	letters := make([]byte, size)
	for i, at := range d.permutation(26)[:size] {
		letters[i] = byte('a' + at)
	}
	if inversions(string(letters)) == 0 {
		return ""
	}
	return string(letters)
}

func (sorting) given(question string) string { return question }

func (sorting) best(question string) string { return sorted(question) }

func (sorting) quality(question, answer string) (float64, string) {
	if sorted(question) != sorted(answer) {
		return 0, fmt.Sprintf("it does not have the letters of %s, each once", question)
	}
	return max(0, 1-float64(inversions(answer))/float64(inversions(question))), ""
}

// repair is a pass of bubble sort over half of the letters, anywhere.
func (sorting) repair(_, answer string, d *draws) string {
	letters := []byte(answer)
	half := (len(letters) + 1) / 2
	first := d.intN(len(letters) - half + 1)
	for i := first; i < first+half-1; i++ {
		if letters[i] > letters[i+1] {
			letters[i], letters[i+1] = letters[i+1], letters[i]
		}
	}
	return string(letters)
}

func sorted(text string) string {
	bytes := []byte(text)
	slices.Sort(bytes)
	return string(bytes)
}

func inversions(text string) int {
	n := 0
	for i := range len(text) {
		for j := range i {
			if text[j] > text[i] {
				n++
			}
		}
	}
	return n
}

// colouring asks for the free cells of a ring to be coloured so that no two
// neighbours are alike; the last cell is the first one's neighbour. Colours are a, b
// and c, and a cell in capitals is fixed. The quality is 1 less the share of the
// question's conflicts, pairs of alike neighbours, that are left: Aabb has the
// conflicts Aa and bb, and the answer Acbb, with one, has quality 1/2. An answer of
// another length, with another colour, or with a fixed cell changed is none.
type colouring struct{}

func (colouring) draw(size int, d *draws) string {
	cells := make([]byte, size)
	for i := range cells {
		cells[i] = byte('a' + d.intN(3))
		if d.intN(3) == 0 {
			cells[i] -= 'a' - 'A'
		}
	}
	// No two fixed cells are neighbours: every conflict then has a free cell, which
	// has two neighbours and three colours, so there is always a repair.
	for i := range cells {
		next := (i + 1) % size
		if fixed(cells[i]) && fixed(cells[next]) {
			cells[next] = colour(cells[next])
		}
	}
	if question := string(cells); conflicts(question) >= 2 {
		return question
	}
	return ""
}

func (colouring) given(question string) string { return question }

func (colouring) best(string) string { return "" }

func (colouring) quality(question, answer string) (float64, string) {
	if len(answer) != len(question) {
		return 0, fmt.Sprintf("it has %d cells, and the ring %d", len(answer), len(question))
	}
	for i := range len(answer) {
		switch c := colour(answer[i]); {
		case c < 'a' || c > 'c':
			return 0, fmt.Sprintf("%q is no colour", answer[i:i+1])
		case fixed(question[i]) != fixed(answer[i]), fixed(question[i]) && question[i] != answer[i]:
			return 0, fmt.Sprintf("cell %d is %q in the question: what is fixed stays, and nothing else is fixed", i+1, question[i:i+1])
		}
	}
	return max(0, 1-float64(conflicts(answer))/float64(conflicts(question))), ""
}

// repair recolours one cell that is in conflict, so that it is in fewer.
func (colouring) repair(_, answer string, d *draws) string {
	type change struct {
		at int
		to byte
	}
	var better []change
	now := conflicts(answer)
	for i := range len(answer) {
		for c := byte('a'); c <= 'c' && !fixed(answer[i]); c++ {
			if conflicts(answer[:i]+string(c)+answer[i+1:]) < now {
				better = append(better, change{i, c})
			}
		}
	}
	if len(better) == 0 {
		return answer
	}
	one := better[d.intN(len(better))]
	return answer[:one.at] + string(one.to) + answer[one.at+1:]
}

func fixed(cell byte) bool { return cell >= 'A' && cell <= 'Z' }

func colour(cell byte) byte {
	if fixed(cell) {
		return cell + 'a' - 'A'
	}
	return cell
}

func conflicts(cells string) int {
	n := 0
	for i := range len(cells) {
		if colour(cells[i]) == colour(cells[(i+1)%len(cells)]) {
			n++
		}
	}
	return n
}
