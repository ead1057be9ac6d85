package grader

import (
	"cmp"
	"maps"
	"slices"
	"sort"
)

// xrayPrecision is COCO's average precision at the overlap 0.4 (101 points of
// recall, 100 findings of an image and class), the mean over the classes of the
// answers. Two slips of the original are kept, as they decide scores: corners are
// taken for x, y, width and height; and boxes are numbered from 0 where 0 stands for
// "not matched", so that the first row of the answers is never hit, and a box that
// the first finding hits stays free.
func xrayPrecision(p *pair) (float64, error) {
	asked, given := p.answers, p.given
	images, classes := map[string]int{}, map[int]bool{}
	imageOf := asked.Column("image_id")
	type box struct {
		number int // over all
		area   float64
		rect   [4]float64 // x, y, width, height
		score  float64
	}
	type place struct{ image, class int }
	truths, found := map[place][]box{}, map[place][]box{}
	for row := range asked.Rows() {
		if _, known := images[imageOf.Key(row)]; !known {
			images[imageOf.Key(row)] = len(images)
		}
		var c [4]float64
		for i, name := range []string{"x_min", "y_min", "x_max", "y_max"} {
			c[i] = asked.Column(name).Numbers[row]
		}
		class := int(asked.Column("class_id").Numbers[row])
		classes[class] = true
		at := place{images[imageOf.Key(row)], class}
		truths[at] = append(truths[at], box{number: row, area: (c[2] - c[0]) * (c[3] - c[1]), rect: c})
	}
	texts, err := presentTexts(given.Column("PredictionString"))
	if err != nil {
		return 0, err
	}
	number := 0
	for row, text := range texts {
		_, numbers, err := groups(text, 6, -1)
		if err != nil {
			return 0, p.cell(row, "PredictionString", "%w", err)
		}
		for _, n := range numbers {
			if !finite(n[0]) {
				return 0, p.cell(row, "PredictionString", "%v is no class", n[0])
			}
			at := place{images[given.Column("image_id").Key(row)], int(n[0])}
			found[at] = append(found[at], box{number, (n[4] - n[2]) * (n[5] - n[3]), [4]float64(n[2:]), n[1]})
			number++
		}
	}
	const threshold, mostFound, largest = 0.4, 100, 1e10
	outside := func(area float64) bool { return area < 0 || area > largest }
	var precisions []float64
	for _, class := range slices.Sorted(maps.Keys(classes)) { // one order of adding
		type outcome struct {
			score         float64
			hit, isIgnore bool
		}
		var outcomes []outcome
		var positives float64
		for image := range len(images) {
			at := place{image, class}
			boxes := slices.Clone(truths[at])
			sort.SliceStable(boxes, func(i, j int) bool { return !outside(boxes[i].area) && outside(boxes[j].area) })
			hits := slices.Clone(found[at])
			slices.SortStableFunc(hits, func(a, b box) int { return cmp.Compare(b.score, a.score) })
			hits = hits[:min(mostFound, len(hits))]
			takenBy := make([]int, len(boxes)) // the number of a finding; 0 is free
			for _, b := range boxes {
				positives += one(!outside(b.area))
			}
			for _, f := range hits {
				best, match := threshold, -1
				for i, b := range boxes {
					if takenBy[i] > 0 {
						continue
					}
					if match >= 0 && !outside(boxes[match].area) && outside(b.area) {
						break
					}
					if o := rectOverlap(f.rect, b.rect); o >= best {
						best, match = o, i
					}
				}
				o := outcome{score: f.score, isIgnore: outside(f.area)}
				if match >= 0 {
					takenBy[match] = f.number
					o.hit = boxes[match].number > 0
					o.isIgnore = outside(boxes[match].area) || !o.hit && outside(f.area)
				}
				outcomes = append(outcomes, o)
			}
		}
		if positives == 0 {
			continue
		}
		slices.SortStableFunc(outcomes, func(a, b outcome) int { return cmp.Compare(b.score, a.score) })
		var recalls, envelope []float64
		var right, wrong float64
		for _, o := range outcomes {
			if !o.isIgnore {
				right += one(o.hit)
				wrong += one(!o.hit)
			}
			recalls, envelope = append(recalls, right/positives), append(envelope, right/(right+wrong+epsilon))
		}
		for i := len(envelope) - 1; i > 0; i-- {
			envelope[i-1] = max(envelope[i-1], envelope[i])
		}
		var sum float64
		for i := range 101 {
			if at := sort.SearchFloat64s(recalls, float64(i)*0.01); at < len(envelope) {
				sum += envelope[at]
			}
		}
		precisions = append(precisions, sum/101)
	}
	if len(precisions) == 0 {
		return -1, nil
	}
	return mean(precisions), nil
}

// rectOverlap is the intersection over union of two boxes by x, y, width, height.
func rectOverlap(a, b [4]float64) float64 {
	common := max(0, min(a[0]+a[2], b[0]+b[2])-max(a[0], b[0])) * max(0, min(a[1]+a[3], b[1]+b[3])-max(a[1], b[1]))
	return common / (a[2]*a[3] + b[2]*b[3] - common)
}
