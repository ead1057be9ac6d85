package puzzle

import (
	"fmt"
	"strings"
)

// touring asks for a short round trip. A question lists the places, a letter and two
// coordinates from 0 to 9 each; the answer is their letters in the order of the
// trip, which ends where it began. Distances go along the axes. The quality is how
// far the trip is from that in the order of the question (0, also where it is
// longer) to the shortest there is (1): of a00b99c09d90 the order abcd is 18 + 9 + 18
// + 9 = 54 long and the shortest, acbd, 36, so adcb, 54 long, has quality 0. An
// answer that does not name each place once is none.
type touring struct{}

func (touring) draw(size int, d *draws) string {
	var b strings.Builder
	taken := map[int]bool{}
	for i := 0; i < size; {
		at := d.intN(100)
		if taken[at] {
			continue
		}
		taken[at] = true
		fmt.Fprintf(&b, "%c%02d", 'a'+i, at)
		i++
	}
	question := b.String()
	given := touring{}.given(question)
	if (touring{}).repair(question, given, &draws{stream: d.stream}) == given { // nothing to begin with
		return ""
	}
	return question
}

func (touring) given(question string) string {
	var order []byte
	for i := 0; i < len(question); i += 3 {
		order = append(order, question[i])
	}
	return string(order)
}

func (touring) best(string) string { return "" }

func (t touring) quality(question, answer string) (float64, string) {
	given := t.given(question)
	if sorted(answer) != given {
		return 0, fmt.Sprintf("it does not name each of %s once", given)
	}
	longest, best := length(question, given), shortest(question)
	return max(0, float64(longest-length(question, answer))/float64(longest-best)), ""
}

// repair turns one stretch of the trip round, so that it becomes shorter; where no
// stretch does, it is as good as it gets in one place.
func (touring) repair(question, answer string, d *draws) string {
	var better []string
	now := length(question, answer)
	for i := range len(answer) {
		for j := i + 2; j <= len(answer); j++ {
			if turned := turn(answer, i, j); length(question, turned) < now {
				better = append(better, turned)
			}
		}
	}
	if len(better) == 0 {
		return answer
	}
	return better[d.intN(len(better))]
}

// turn reverses a stretch of the order.
func turn(order string, from, to int) string {
	bytes := []byte(order)
	for i, j := from, to-1; i < j; i, j = i+1, j-1 {
		bytes[i], bytes[j] = bytes[j], bytes[i]
	}
	return string(bytes)
}

// length of a round trip through places of a question.
func length(question, order string) int {
	sum := 0
	for i := range len(order) {
		sum += distance(question, order[i], order[(i+1)%len(order)])
	}
	return sum
}

func distance(question string, a, b byte) int {
	p, q := question[3*int(a-'a'):], question[3*int(b-'a'):]
	return abs(int(p[1])-int(q[1])) + abs(int(p[2])-int(q[2]))
}

func abs(x int) int { return max(x, -x) }

// shortest is the length of the shortest round trip, by the places that have been
// visited and the last of them (Held and Karp, A dynamic programming approach to
// sequencing problems, 1962).
func shortest(question string) int {
	n := len(question) / 3
	const never = 1 << 30
	best := make([][]int, 1<<n)
	for visited := range best {
		best[visited] = make([]int, n)
		for last := range n {
			best[visited][last] = never
		}
	}
	best[1][0] = 0
	between := func(i, j int) int { return distance(question, byte('a'+i), byte('a'+j)) }
	for visited := range best {
		for last := range n {
			for next := 0; next < n && best[visited][last] < never; next++ {
				if with := visited | 1<<next; with != visited {
					best[with][next] = min(best[with][next], best[visited][last]+between(last, next))
				}
			}
		}
	}
	whole := never
	for last := 1; last < n; last++ {
		whole = min(whole, best[len(best)-1][last]+between(last, 0))
	}
	return whole
}
