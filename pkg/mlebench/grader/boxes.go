package grader

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/frame"
)

// groups cuts a text at single blanks into groups of so many tokens, and reads all
// of them but the one at name as numbers.
func groups(text string, size, name int) (names []string, numbers [][]float64, err error) {
	tokens := strings.Split(text, " ")
	if len(tokens)%size != 0 {
		return nil, nil, exitcode.Dataf("it has %d tokens, which are no groups of %d", len(tokens), size)
	}
	for group := range slices.Chunk(tokens, size) {
		var values []float64
		for i, token := range group {
			if i == name {
				names = append(names, token)
				continue
			}
			v, ok := pythonFloat(token)
			if !ok {
				return nil, nil, exitcode.Dataf("%s is not a number", frame.Shortened(token))
			}
			values = append(values, v)
		}
		numbers = append(numbers, values)
	}
	return names, numbers, nil
}

// characterF1 is the F1 of characters over all pages: a point hits where it is
// strictly inside the box of the same character and did not hit before.
func characterF1(p *pair) (float64, error) {
	asked, given, err := p.texts("labels", "labels")
	if err != nil {
		return 0, err
	}
	var hits, points, boxes float64
	for row := range asked {
		var names []string
		var at [][]float64
		if !p.given.Column("labels").IsMissing(row) {
			if names, at, err = groups(given[row], 3, 0); err != nil {
				return 0, p.cell(row, "labels", "%w", err)
			}
		}
		points += float64(len(names))
		if asked[row] == "" {
			continue
		}
		wanted, box, err := groups(asked[row], 5, 0)
		if err != nil {
			return 0, err
		}
		boxes += float64(len(wanted))
		used := make([]bool, len(names))
		for i, name := range wanted {
			for j, point := range at {
				x, y := box[i][0], box[i][1]
				if used[j] || names[j] != name || !(x < point[0] && x+box[i][2] > point[0] && y < point[1] && y+box[i][3] > point[1]) {
					continue
				}
				used[j] = true
				hits++
				break
			}
		}
	}
	if hits == 0 {
		return 0, nil
	}
	precision, recall := hits/points, hits/boxes
	return 2 * precision * recall / (precision + recall), nil
}

// finding is a box with a class and a confidence: corners (x, y, x, y).
type finding struct {
	class string
	score float64
	box   [4]float64
}

// findings reads groups of a class, a confidence and four corners, cut at white
// space, by falling confidence.
func findings(text string) ([]finding, error) {
	tokens := fields(text)
	if len(tokens) == 0 {
		return nil, nil
	}
	classes, numbers, err := groups(strings.Join(tokens, " "), 6, 0)
	if err != nil {
		return nil, err
	}
	all := make([]finding, len(numbers))
	for i, n := range numbers {
		all[i] = finding{classes[i], n[0], [4]float64(n[1:])}
	}
	slices.SortStableFunc(all, func(a, b finding) int { return cmp.Compare(b.score, a.score) })
	return all, nil
}

// overlap is the intersection over union of two boxes by their corners.
func overlap(a, b [4]float64) float64 {
	common := max(0, min(a[2], b[2])-max(a[0], b[0])) * max(0, min(a[3], b[3])-max(a[1], b[1]))
	union := (a[2]-a[0])*(a[3]-a[1]) + (b[2]-b[0])*(b[3]-b[1]) - common
	if union > 0 {
		return common / union
	}
	return 0
}

// chestPrecision is the mean over the classes of the answers of average precision.
// A finding hits the free box of the highest overlap above one half. Boxes that
// nothing hits are positives with a confidence of 0, and a row without boxes and
// findings is a negative with 0.
func chestPrecision(p *pair) (float64, error) {
	read := func(column string, texts []string) ([][]finding, error) {
		all := make([][]finding, len(texts))
		for row, text := range texts {
			var err error
			if all[row], err = findings(text); err != nil {
				return nil, exitcode.Dataf("column %q, row %d in the order of ids: %w", column, row+1, err)
			}
		}
		return all, nil
	}
	texts, err := presentTexts(p.answers.Column("PredictionString"))
	if err != nil {
		return 0, err
	}
	asked, err := read("PredictionString", texts)
	if err != nil {
		return 0, err
	}
	if texts, err = presentTexts(p.given.Column("PredictionString")); err != nil {
		return 0, err
	}
	given, err := read("PredictionString", texts)
	if err != nil {
		return 0, err
	}
	classes := map[string]bool{}
	for _, row := range asked {
		for _, f := range row {
			classes[f.class] = true
		}
	}
	of := func(all []finding, class string) []finding {
		return slices.DeleteFunc(slices.Clone(all), func(f finding) bool { return f.class != class })
	}
	var precisions []float64
	for _, class := range sortedKeys(classes) {
		var truth, scores []float64
		for row := range asked {
			boxes, found := of(asked[row], class), of(given[row], class)
			taken := make([]bool, len(boxes))
			for _, f := range found {
				best, hit := 0.5, -1
				for i, box := range boxes {
					if o := overlap(f.box, box.box); !taken[i] && o > best {
						best, hit = o, i
					}
				}
				if hit >= 0 {
					taken[hit] = true
				}
				truth, scores = append(truth, one(hit >= 0)), append(scores, f.score)
			}
			for _, is := range taken {
				if !is {
					truth, scores = append(truth, 1), append(scores, 0)
				}
			}
			if len(boxes)+len(found) == 0 {
				truth, scores = append(truth, 0), append(scores, 0)
			}
		}
		if !slices.Contains(truth, 0) {
			return 0, exitcode.Dataf("class %q is in every row and always hit: its average precision is not defined", class)
		}
		if err := allFinite("PredictionString", scores); err != nil {
			return 0, err
		}
		precisions = append(precisions, averagePrecision(truth, scores))
	}
	if len(precisions) == 0 {
		return 0, nil
	}
	return mean(precisions), nil
}

func sortedKeys(set map[string]bool) []string {
	var all []string
	for key := range set {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// averagePrecision is Σ (Rₖ - Rₖ₋₁)·Pₖ over falling scores, equal ones together.
func averagePrecision(truth, scores []float64) float64 {
	order := make([]int, len(truth))
	var positives float64
	for i := range order {
		order[i] = i
		positives += truth[i]
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	var hits, sum float64
	for from := 0; from < len(order); {
		before, to := hits, from
		for ; to < len(order) && scores[order[to]] == scores[order[from]]; to++ {
			hits += truth[order[to]]
		}
		sum += (hits - before) / positives * hits / float64(to)
		from = to
	}
	return sum
}

// solid is a box turned about the vertical axis.
type solid struct {
	class      string
	score      float64
	low, high  float64       // along the vertical axis
	volume     float64       // of the box
	ground     [4][2]float64 // corners, anticlockwise
	sizeIsGood bool
}

// solids reads groups of a confidence, a centre, width, length and height, a turn in
// radians and a class.
func solids(text string) ([]solid, error) {
	if strings.TrimFunc(text, isSpace) == "" {
		return nil, nil
	}
	names, numbers, err := groups(text, 9, 8)
	if err != nil {
		return nil, err
	}
	all := make([]solid, len(names))
	for i, n := range numbers {
		width, length, height := n[4], n[5], n[6]
		s := solid{class: names[i], score: n[0], low: n[3] - height/2, high: n[3] + height/2, volume: width * length * height}
		s.sizeIsGood = width > 0 && length > 0 && height > 0 && !slices.ContainsFunc(n[1:], math.IsNaN)
		sin, cos := math.Sincos(n[7])
		for corner, sign := range [4][2]float64{{-1, -1}, {1, -1}, {1, 1}, {-1, 1}} {
			along, across := sign[0]*length/2, sign[1]*width/2
			s.ground[corner] = [2]float64{n[1] + along*cos - across*sin, n[2] + along*sin + across*cos}
		}
		all[i] = s
	}
	return all, nil
}

// overlap is the intersection over union of two solids.
func (s solid) overlap(other solid) float64 {
	common := max(0, min(s.high, other.high)-max(s.low, other.low)) * commonArea(s.ground[:], other.ground[:])
	return min(max(common/(s.volume+other.volume-common), 0), 1)
}

// commonArea is that of two convex polygons, anticlockwise (Sutherland and Hodgman,
// "Reentrant Polygon Clipping", 1974).
func commonArea(polygon, by [][2]float64) float64 {
	for i := range by {
		from, to := by[i], by[(i+1)%len(by)]
		side := func(p [2]float64) float64 {
			return (to[0]-from[0])*(p[1]-from[1]) - (to[1]-from[1])*(p[0]-from[0])
		}
		var clipped [][2]float64
		for j, a := range polygon {
			b := polygon[(j+1)%len(polygon)]
			da, db := side(a), side(b)
			if da >= 0 {
				clipped = append(clipped, a)
			}
			if da > 0 && db < 0 || da < 0 && db > 0 {
				t := da / (da - db)
				clipped = append(clipped, [2]float64{a[0] + t*(b[0]-a[0]), a[1] + t*(b[1]-a[1])})
			}
		}
		polygon = clipped
	}
	var twice float64
	for i, a := range polygon {
		// Relative to the first corner: far from the origin, products of coordinates
		// would lose what their differences hold.
		b, o := polygon[(i+1)%len(polygon)], polygon[0]
		twice += (a[0]-o[0])*(b[1]-o[1]) - (b[0]-o[0])*(a[1]-o[1])
	}
	return math.Abs(twice) / 2
}

// solidPrecision is the mean over samples and the overlaps 0.5, 0.55 to 0.95 of the
// mean over the sample's true classes of average precision: the area under the
// envelope of precision. A prediction hits where its overlap with the box that it
// overlaps most is above the threshold and the box is free.
func solidPrecision(p *pair) (float64, error) {
	asked, given, err := p.texts("PredictionString", "PredictionString")
	if err != nil {
		return 0, err
	}
	return meanOfRows(len(asked), func(row int) (float64, error) {
		truths, err := solids(asked[row])
		if err != nil {
			return 0, err
		}
		found, err := solids(given[row])
		if err != nil {
			return 0, p.cell(row, "PredictionString", "%w", err)
		}
		slices.SortStableFunc(found, func(a, b solid) int { return cmp.Compare(b.score, a.score) })
		classes := map[string]bool{}
		for _, s := range truths {
			classes[s.class] = true
		}
		for _, s := range found {
			if classes[s.class] && !s.sizeIsGood {
				return 0, p.cell(row, "PredictionString", "a box has a size that is not above 0, or a number that is NaN")
			}
		}
		of := func(all []solid, class string) []solid {
			return slices.DeleteFunc(slices.Clone(all), func(s solid) bool { return s.class != class })
		}
		var sum, count float64
		for _, class := range sortedKeys(classes) {
			boxes, predictions := of(truths, class), of(found, class)
			best, most := make([]int, len(predictions)), make([]float64, len(predictions))
			for i, s := range predictions {
				most[i] = math.Inf(-1)
				for j, box := range boxes {
					if o := s.overlap(box); o > most[i] {
						best[i], most[i] = j, o
					}
				}
			}
			for _, threshold := range []float64{0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95} {
				taken := make([]bool, len(boxes))
				hit := make([]bool, len(predictions))
				for i := range predictions {
					if most[i] > threshold && !taken[best[i]] {
						hit[i], taken[best[i]] = true, true
					}
				}
				sum += envelopeArea(hit, float64(len(boxes)))
				count++
			}
		}
		return sum / count, nil
	})
}

// envelopeArea is the area under the envelope of precision over recall.
func envelopeArea(hit []bool, positives float64) float64 {
	precisions, recalls := []float64{0}, []float64{0}
	var right float64
	for i, is := range hit {
		right += one(is)
		precisions, recalls = append(precisions, right/float64(i+1)), append(recalls, right/positives)
	}
	precisions, recalls = append(precisions, 0), append(recalls, 1)
	var area float64
	for i := len(precisions) - 1; i > 0; i-- {
		precisions[i-1] = max(precisions[i-1], precisions[i])
		area += (recalls[i] - recalls[i-1]) * precisions[i]
	}
	return area
}
