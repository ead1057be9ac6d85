package grader

import (
	"math"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/frame"
)

// mask is which pixels of an image are set, in the order in which runs number them:
// down the columns first, unless a competition has it otherwise.
type mask struct {
	height, width int // of the image, when runs go down the columns
	set           []bool
}

// decode reads run lengths: pairs of a first pixel, from 1, and a length. Pixels
// behind the end are cut off. Of an odd count of numbers, one is an empty mask and
// three have one length for both runs, as numpy's broadcasting has it.
func decode(runs string, height, width int) (mask, error) {
	const mostSide = 1 << 17 // pixels; the largest images of MLE-bench have 2^16
	if height < 0 || height > mostSide || width < 0 || width > mostSide || height*width > 1<<32 {
		return mask{}, exitcode.Dataf("the answers have an image of %d by %d pixels", height, width)
	}
	m := mask{height, width, make([]bool, height*width)}
	var starts, lengths []int
	for i, word := range fields(runs) {
		n, ok := pythonInt(word)
		if !ok {
			return m, exitcode.Dataf("the runs have %s, which is not a whole number", frame.Shortened(word))
		}
		if i%2 == 0 {
			starts = append(starts, n)
		} else {
			lengths = append(lengths, n)
		}
	}
	if !slices.IsSorted(starts) {
		return m, exitcode.Dataf("the runs are not in order")
	}
	for _, n := range slices.Concat(starts, lengths) {
		if n < 1 {
			return m, exitcode.Dataf("the runs have the number %d; starts and lengths are at least 1", n)
		}
	}
	switch {
	case len(starts) == len(lengths):
	case len(starts) == 1:
		return m, nil
	case len(starts) == 2:
		lengths = append(lengths, lengths[0])
	default:
		return m, exitcode.Dataf("the runs are of %d numbers, and must be pairs", len(starts)+len(lengths))
	}
	for i, start := range starts {
		from := min(start-1, len(m.set))
		run := m.set[from:min(from+lengths[i], len(m.set))]
		if slices.Contains(run, true) {
			return m, exitcode.Dataf("the runs overlap")
		}
		for at := range run {
			run[at] = true
		}
	}
	return m, nil
}

func (m mask) count() int {
	n := 0
	for _, set := range m.set {
		if set {
			n++
		}
	}
	return n
}

// common counts the pixels that are set in both.
func (m mask) common(other mask) int {
	n := 0
	for i, set := range m.set {
		if set && other.set[i] {
			n++
		}
	}
	return n
}

// dice is 2·common/(sum of both); empty where both are empty.
func dice(a, b mask, empty float64) float64 {
	if all := a.count() + b.count(); all > 0 {
		return 2 * float64(a.common(b)) / float64(all)
	}
	return empty
}

// runs are the masks of each row of both sides.
func (p *pair) runs(asked, given, height, width string, row int, askedTexts, givenTexts []string) (a, g mask, err error) {
	h, w := int(p.answers.Column(height).Numbers[row]), int(p.answers.Column(width).Numbers[row])
	if a, err = decode(askedTexts[row], h, w); err != nil {
		return a, g, err
	}
	if g, err = decode(givenTexts[row], h, w); err != nil {
		return a, g, p.cell(row, given, "%w", err)
	}
	return a, g, nil
}

// meanDice is the mean over images; 1 where both masks are empty.
func meanDice(p *pair) (float64, error) {
	asked, given, err := p.texts("encoding", "predicted")
	if err != nil {
		return 0, err
	}
	return meanOfRows(len(asked), func(row int) (float64, error) {
		a, g, err := p.runs("encoding", "predicted", "height_pixels", "width_pixels", row, asked, given)
		return dice(a, g, 1), err
	})
}

// texts are the texts of a column of each side, blank where one is missing.
func (p *pair) texts(asked, given string) (a, g []string, err error) {
	if a, err = textsOf(p.answers.Column(asked)); err != nil {
		return nil, nil, err
	}
	g, err = textsOf(p.given.Column(given))
	return a, g, err
}

// globalDice is one over the pixels of all records; "-" is an empty mask, and a
// blank is refused.
func globalDice(p *pair) (float64, error) {
	asked, given, err := p.texts("encoded_pixels", "encoded_pixels")
	if err != nil {
		return 0, err
	}
	if p.given.Column("encoded_pixels").AnyMissing() {
		return 0, exitcode.Dataf("column %q has empty cells: an empty mask is %q", "encoded_pixels", "-")
	}
	var common, all float64
	for row := range asked {
		for _, texts := range [][]string{asked, given} {
			if texts[row] == "-" {
				texts[row] = ""
			}
		}
		a, g, err := p.runs("encoded_pixels", "encoded_pixels", "height", "width", row, asked, given)
		if err != nil {
			return 0, err
		}
		common += float64(a.common(g))
		all += float64(a.count() + g.count())
	}
	return 2 * common / all, nil
}

// saltPrecision is the mean over images of the share of the thresholds 0.5, 0.55 to
// 0.95 that the intersection over union exceeds. Where only the prediction is
// empty, it is taken for a full one.
func saltPrecision(p *pair) (float64, error) {
	const side = 101
	asked, given, err := p.texts("rle_mask", "rle_mask")
	if err != nil {
		return 0, err
	}
	step := 0.5 + 0.05 - 0.5 // as numpy's arange has it
	return meanOfRows(len(asked), func(row int) (float64, error) {
		a, err := decode(asked[row], side, side)
		if err != nil {
			return 0, err
		}
		g, err := decode(given[row], side, side)
		if err != nil {
			return 0, p.cell(row, "rle_mask", "%w", err)
		}
		common, all := a.common(g), a.count()+g.count()
		switch {
		case a.count() == 0:
			return one(g.count() == 0), nil
		case g.count() == 0:
			common, all = a.count(), a.count()+side*side
		}
		overlap, hits := float64(common)/float64(all-common), 0.0
		for i := range 10 {
			hits += one(overlap > 0.5+float64(i)*step)
		}
		return hits / 10, nil
	})
}

// inkScore is the F0.5 over the pixels of a fragment; the runs go along its rows.
func inkScore(p *pair) (float64, error) {
	given, err := presentTexts(p.given.Column("Predicted"))
	if err != nil {
		return 0, err
	}
	asked, err := presentTexts(p.answers.Column("Predicted"))
	if err != nil {
		return 0, err
	}
	return meanOfRows(len(asked), func(row int) (float64, error) {
		if a, g := p.answers.Column(p.id).Key(row), p.given.Column(p.id).Key(row); a != g {
			return 0, exitcode.Dataf("column %q: %s stands where %s is asked for", p.id, frame.Shortened(p.given.Column(p.id).String(row)), frame.Shortened(p.answers.Column(p.id).String(row)))
		}
		a, g, err := p.runs("Predicted", "Predicted", "width", "height", row, asked, given)
		if err != nil {
			return 0, err
		}
		const square = 0.25 // of the weight of recall
		below := square*float64(a.count()) + float64(g.count())
		if below == 0 {
			return 0, nil
		}
		return (1 + square) * float64(a.common(g)) / below, nil
	})
}

// tractScore is 0.4·Dice + 0.6·(1 - Hausdorff distance), each a mean that leaves out
// pairs of empty masks. Rows are compared as they stand, as far as both go; the
// slices of a case and day, their classes merged, are one volume.
func tractScore(p *pair) (float64, error) {
	asked, given, err := p.texts("predicted", "predicted")
	if err != nil {
		return 0, err
	}
	ids, err := presentTexts(p.given.Column(p.id))
	if err != nil {
		return 0, err
	}
	rows := min(len(asked), len(given))
	var truths, masks []mask
	for row := range asked {
		h, w := int(p.answers.Column("image_height").Numbers[row]), int(p.answers.Column("image_width").Numbers[row])
		m, err := decode(asked[row], h, w)
		if err != nil {
			return 0, err
		}
		if truths = append(truths, m); row >= rows {
			continue
		}
		if m, err = decode(given[row], h, w); err != nil {
			return 0, p.cell(row, "predicted", "%w", err)
		}
		masks = append(masks, m)
	}
	var scores []float64
	for row, m := range masks {
		scores = append(scores, dice(truths[row], m, math.NaN()))
	}
	trueDays, err := volumes(truths, wordsOf(p.answers.Column(p.id)))
	if err != nil {
		return 0, err
	}
	days, err := volumes(masks, ids)
	if err != nil {
		return 0, err
	}
	var distances []float64
	for i := range min(len(days), len(trueDays)) {
		distances = append(distances, hausdorff(trueDays[i], days[i]))
	}
	return 0.4*meanPresent(scores) + 0.6*(1-meanPresent(distances)), nil
}

// meanPresent leaves NaN out.
func meanPresent(values []float64) float64 {
	return mean(slices.DeleteFunc(values, math.IsNaN))
}

// volume is a stack of slices.
type volume []mask

// volumes stacks the slices of each case and day, in the order of their ids. The
// masks of one slice are merged.
func volumes(masks []mask, ids []string) ([]volume, error) {
	order := make([]int, min(len(masks), len(ids)))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(ids[a], ids[b]) })
	of, days, last := map[string]*volume{}, []*volume{}, ""
	for at, i := range order {
		day, _, _ := strings.Cut(ids[i], "_slice_")
		v := of[day]
		if v == nil {
			v = &volume{}
			of[day], days = v, append(days, v)
		}
		if at > 0 && ids[i] == last {
			merged := (*v)[len(*v)-1]
			if merged.height != masks[i].height || merged.width != masks[i].width {
				return nil, exitcode.Dataf("the masks of slice %s are of different sizes", frame.Shortened(ids[i]))
			}
			for pixel, set := range masks[i].set {
				merged.set[pixel] = merged.set[pixel] || set
			}
			continue
		}
		if len(*v) > 0 && ((*v)[0].height != masks[i].height || (*v)[0].width != masks[i].width) {
			return nil, exitcode.Dataf("the slices of %s are of different sizes", frame.Shortened(day))
		}
		last = ids[i]
		*v = append(*v, mask{masks[i].height, masks[i].width, slices.Clone(masks[i].set)})
	}
	stacked := make([]volume, len(days))
	for i, v := range days {
		stacked[i] = *v
	}
	return stacked, nil
}

// at says whether a voxel is set; outside nothing is.
func (v volume) at(z, y, x int) bool {
	return z >= 0 && z < len(v) && y >= 0 && y < v[z].height && x >= 0 && x < v[z].width && v[z].set[x*v[z].height+y]
}

// voxels are those that are set, and of these the ones on the surface: with a
// neighbour that is not.
func (v volume) voxels() (all, surface [][3]int) {
	for z := range v {
		for x := range v[z].width {
			for y := range v[z].height {
				if !v.at(z, y, x) {
					continue
				}
				all = append(all, [3]int{z, y, x})
				if !v.at(z-1, y, x) || !v.at(z+1, y, x) || !v.at(z, y-1, x) || !v.at(z, y+1, x) || !v.at(z, y, x-1) || !v.at(z, y, x+1) {
					surface = append(surface, [3]int{z, y, x})
				}
			}
		}
	}
	return all, surface
}

// hausdorff is the greatest distance from a voxel of one volume to the nearest of
// the other, every axis divided by its length in the true volume and the whole by
// the cube's diagonal. NaN where both are empty; 1 where one is, or where the
// prediction is more than ten times as large.
func hausdorff(truth, given volume) float64 {
	all, surface := truth.voxels()
	others, otherSurface := given.voxels()
	switch {
	case len(all) == 0 && len(others) == 0:
		return math.NaN()
	case len(all) == 0 || len(others) == 0 || len(others) > 10*len(all):
		return 1
	}
	sides := [3]float64{float64(len(truth)), float64(truth[0].height), float64(truth[0].width)}
	square := max(farthest(all, given, otherSurface, sides), farthest(others, truth, surface, sides))
	return math.Sqrt(square) / math.Sqrt(3)
}

// farthest is the greatest squared distance from a voxel to the nearest on a
// surface; those within the volume are at none.
func farthest(from [][3]int, to volume, surface [][3]int, sides [3]float64) float64 {
	var most float64
	for _, a := range from {
		if to.at(a[0], a[1], a[2]) {
			continue
		}
		nearest := math.Inf(1)
		for _, b := range surface {
			var square float64
			for axis := range 3 {
				d := float64(a[axis]-b[axis]) / sides[axis]
				square += d * d
			}
			if nearest = min(nearest, square); nearest <= most {
				break
			}
		}
		most = max(most, nearest)
	}
	return most
}
