package grader

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/frame"
	"github.com/lathe-rl/lathe/pkg/mlebench/metric"
)

// editDistance is the mean edit distance in characters of what a reading makes of
// both sides.
func editDistance(target string, of func(*frame.Column) ([]string, error)) func(*pair) (float64, error) {
	return func(p *pair) (float64, error) {
		asked, given, err := p.bothTexts(target, of)
		if err != nil {
			return 0, err
		}
		return metric.Levenshtein(asked, given)
	}
}

// bothTexts is what a reading makes of a column of both sides.
func (p *pair) bothTexts(target string, of func(*frame.Column) ([]string, error)) (asked, given []string, err error) {
	if asked, err = of(p.answers.Column(target)); err != nil {
		return nil, nil, err
	}
	given, err = of(p.given.Column(target))
	return asked, given, err
}

// written reads a column as Python's str writes it.
func written(c *frame.Column) ([]string, error) { return wordsOf(c), nil }

// gestureDistance is the sum of the edit distances of lists of gestures over the
// number of true ones.
func gestureDistance(p *pair) (float64, error) {
	lists := func(c *frame.Column) ([][]int, error) {
		all := make([][]int, c.Len())
		for row, text := range wordsOf(c) {
			for _, word := range fields(text) {
				gesture, ok := pythonInt(word)
				if !ok {
					return nil, exitcode.Dataf("column %q, row %d in the order of ids: %s is not a whole number", c.Name, row+1, frame.Shortened(word))
				}
				all[row] = append(all[row], gesture)
			}
		}
		return all, nil
	}
	asked, err := lists(p.answers.Column("Sequence"))
	if err != nil {
		return 0, err
	}
	given, err := lists(p.given.Column("Sequence"))
	if err != nil {
		return 0, err
	}
	var sum, gestures float64
	for row := range asked {
		sum += float64(metric.EditDistance(asked[row], given[row]))
		gestures += float64(len(asked[row]))
	}
	return sum / gestures, nil
}

// jaccard is the mean over rows of the words that both texts have over those that
// either has. Where neither has one, empty decides: it is 0, or an error.
func jaccard(target string, of func(*frame.Column) ([]string, error), emptyIsZero bool) func(*pair) (float64, error) {
	return func(p *pair) (float64, error) {
		asked, given, err := p.bothTexts(target, of)
		if err != nil {
			return 0, err
		}
		return meanOfRows(len(asked), func(row int) (float64, error) {
			a, g := wordSet(asked[row]), wordSet(given[row])
			both := 0
			for word := range a {
				if g[word] {
					both++
				}
			}
			either := len(a) + len(g) - both
			switch {
			case either > 0:
				return float64(both) / float64(either), nil
			case emptyIsZero:
				return 0, nil
			}
			return 0, p.cell(row, target, "it is empty, as the answer is: the score is not defined")
		})
	}
}

// filled reads a column as Python's str writes it, blank where a value is missing.
func filled(c *frame.Column) ([]string, error) {
	words := wordsOf(c)
	for row := range words {
		if c.IsMissing(row) {
			words[row] = ""
		}
	}
	return words, nil
}

// cellOrder is Kendall's tau over the orders of cells, pooled over notebooks:
// 1 - 4·inversions / n(n-1), both summed.
func cellOrder(p *pair) (float64, error) {
	asked, given := wordsOf(p.answers.Column("cell_order")), wordsOf(p.given.Column("cell_order"))
	var inversions, most float64
	for row := range asked {
		truth, order := fields(asked[row]), fields(given[row])
		if len(truth) != len(order) {
			return 0, p.cell(row, "cell_order", "it has %d cells, and the notebook %d", len(order), len(truth))
		}
		ranks := make([]int, len(truth))
		for i, cell := range truth {
			if ranks[i] = slices.Index(order, cell); ranks[i] < 0 {
				return 0, p.cell(row, "cell_order", "it lacks the cell %s", frame.Shortened(cell))
			}
		}
		inversions += float64(countInversions(ranks))
		most += float64(len(truth) * (len(truth) - 1))
	}
	if most == 0 {
		return 0, exitcode.Dataf("no notebook has two cells: the score is not defined")
	}
	return 1 - 4*inversions/most, nil
}

// countInversions counts pairs in the wrong order, by merging.
func countInversions(ranks []int) int {
	if len(ranks) < 2 {
		return 0
	}
	left, right := slices.Clone(ranks[:len(ranks)/2]), slices.Clone(ranks[len(ranks)/2:])
	count := countInversions(left) + countInversions(right)
	slices.Sort(left)
	slices.Sort(right)
	i := 0
	for _, r := range right {
		for i < len(left) && left[i] <= r {
			i++
		}
		count += len(left) - i
	}
	return count
}

// question is one of tensorflow2-question-answering, with its right answers.
type question struct {
	id          string
	long, short []answer
}

// answer is a span of tokens, or YES or NO.
type answer struct {
	from, to int
	word     string
}

// readQuestions reads lines of JSON in the form of simplified-nq-train.jsonl; the
// first annotation counts.
func readQuestions(content []byte) (*pair, error) {
	p := &pair{}
	type span struct {
		From int `json:"start_token"`
		To   int `json:"end_token"`
	}
	for decoder := json.NewDecoder(bytes.NewReader(content)); ; {
		var line struct {
			ID          string `json:"example_id"`
			Annotations []struct {
				YesNo string `json:"yes_no_answer"`
				Long  span   `json:"long_answer"`
				Short []span `json:"short_answers"`
			} `json:"annotations"`
		}
		if err := decoder.Decode(&line); err == io.EOF {
			return p, nil
		} else if err != nil {
			return nil, exitcode.Dataf("question %d: %w", len(p.questions)+1, err)
		}
		if len(line.Annotations) == 0 {
			return nil, exitcode.Dataf("question %d has no annotation", len(p.questions)+1)
		}
		q, first := question{id: line.ID}, line.Annotations[0]
		if first.Long.From != -1 {
			q.long = append(q.long, answer{from: first.Long.From, to: first.Long.To})
		}
		for _, s := range first.Short {
			q.short = append(q.short, answer{from: s.From, to: s.To})
		}
		if first.YesNo != "NONE" {
			q.short = append(q.short, answer{word: first.YesNo})
		}
		p.questions = append(p.questions, q)
	}
}

// questionIDs refuses other ids than one for the long and one for the short answer
// of every question, each once.
var questionIDs = check{after: Columns, of: func(p *pair) error {
	c := p.given.Column(p.id)
	seen := map[string]bool{}
	for row := range c.Len() {
		seen[c.String(row)] = true
	}
	if len(seen) < c.Len() {
		return exitcode.Dataf("column %q has an id twice", p.id)
	}
	for _, q := range p.questions {
		for _, id := range []string{q.id + "_long", q.id + "_short"} {
			if !seen[id] {
				return exitcode.Dataf("column %q lacks id %s", p.id, frame.Shortened(id))
			}
		}
	}
	return nil
}}

// answeredRight is the share of rows that are right: one of the right answers, or
// none where there is none.
func answeredRight(p *pair) (float64, error) {
	right := map[string][]answer{}
	for _, q := range p.questions {
		right[q.id+"_long"], right[q.id+"_short"] = q.long, q.short
	}
	ids := wordsOf(p.given.Column(p.id))
	words, err := filled(p.given.Column("PredictionString"))
	if err != nil {
		return 0, err
	}
	return meanOfRows(len(ids), func(row int) (float64, error) {
		text := strings.TrimFunc(words[row], isSpace)
		given := answer{word: text}
		if from, to, is := strings.Cut(text, ":"); is && !strings.Contains(to, ":") {
			var ok1, ok2 bool
			given = answer{}
			given.from, ok1 = pythonInt(from)
			given.to, ok2 = pythonInt(to)
			if !ok1 || !ok2 {
				return 0, p.cell(row, "PredictionString", "%s is no span of whole numbers", frame.Shortened(text))
			}
		} else if text != "YES" && text != "NO" && text != "" {
			return 0, p.cell(row, "PredictionString", "%s is neither a span as 5:9, nor YES, NO or nothing", frame.Shortened(text))
		}
		if text == "" {
			return one(len(right[ids[row]]) == 0), nil
		}
		return one(slices.Contains(right[ids[row]], given)), nil
	})
}
