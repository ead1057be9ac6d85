package grader

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/frame"
	"github.com/lathe-rl/lathe/pkg/mlebench/metric"
)

// rmse is the mean over columns of the root of the mean squared error.
func rmse(names ...string) func(*pair) (float64, error) {
	return func(p *pair) (float64, error) {
		return meanOfColumns(names, func(name string) (float64, error) {
			truth, given, err := p.both(name, name, finiteOf)
			if err != nil {
				return 0, err
			}
			return metric.RMSE(truth, given)
		})
	}
}

// rmsle is the mean over columns of the RMSE of log(1+x); nothing is negative.
func rmsle(names ...string) func(*pair) (float64, error) {
	return func(p *pair) (float64, error) {
		return meanOfColumns(names, func(name string) (float64, error) {
			truth, given, err := p.both(name, name, finiteOf)
			if err != nil {
				return 0, err
			}
			if row := slices.IndexFunc(given, func(v float64) bool { return v < 0 }); row >= 0 {
				return 0, exitcode.Dataf("row %d: %v is negative", row+1, given[row])
			}
			return metric.RMSLE(truth, given)
		})
	}
}

// joined are the rows of the answers for each row of the submission, by id: an id
// that is there twice counts twice.
func (p *pair) joined() []int {
	at := map[string]int{}
	for row := range p.answers.Rows() {
		at[p.answers.Column(p.id).Key(row)] = row
	}
	rows := make([]int, p.given.Rows())
	for row := range rows {
		rows[row] = at[p.given.Column(p.id).Key(row)]
	}
	return rows
}

// absoluteErrors are those of a column, row by row of the submission, and the rows
// of the answers that they belong to.
func (p *pair) absoluteErrors(target string) (errors []float64, rows []int, err error) {
	truth, err := finiteOf(p.answers.Column(target))
	if err != nil {
		return nil, nil, err
	}
	given, err := finiteOf(p.given.Column(target))
	if err != nil {
		return nil, nil, err
	}
	rows = p.joined()
	for i, v := range given {
		errors = append(errors, math.Abs(truth[rows[i]]-v))
	}
	return errors, rows, nil
}

// wholeError is the mean absolute error, rounded to a whole number, halves to even.
func wholeError(p *pair) (float64, error) {
	errors, _, err := p.absoluteErrors("time_to_eruption")
	if err != nil {
		return 0, err
	}
	return math.RoundToEven(mean(errors)), nil
}

// couplingError is the mean over types of the logarithm of the mean absolute error;
// a type without error has minus infinity.
func couplingError(p *pair) (float64, error) {
	errors, rows, err := p.absoluteErrors("scalar_coupling_constant")
	if err != nil {
		return 0, err
	}
	types := p.answers.Column("type")
	of := map[string][]float64{}
	for i, row := range rows {
		of[types.Key(row)] = append(of[types.Key(row)], errors[i])
	}
	var logs []float64
	for _, kind := range sortedKeys(keys(types)) {
		logs = append(logs, math.Log(mean(of[kind])))
	}
	return mean(logs), nil
}

// breathError is the mean absolute error of the rows in which air flows in.
func breathError(p *pair) (float64, error) {
	var rows []int
	for row, out := range p.answers.Column("u_out").Numbers {
		if out == 0 {
			rows = append(rows, row)
		}
	}
	scored := pair{answers: p.answers.Take(rows), given: p.given.Take(rows)}
	truth, given, err := scored.both("pressure", "pressure", finiteOf)
	if err != nil {
		return 0, err
	}
	return metric.MAE(truth, given)
}

// rnaError is the mean of the RMSE of three columns over the rows to keep. A row of
// the submission is kept by its place in the file, not by its id.
func rnaError(p *pair) (float64, error) {
	keep := p.answers.Column("keep").Numbers
	answers, given := placed(p.answers), placed(p.given)
	sortedAnswers, sortedGiven := answers.SortedBy(p.id), given.SortedBy(p.id)
	kept := func(f *frame.Frame) *frame.Frame {
		var rows []int
		for row, place := range f.Column(placeColumn).Numbers {
			if keep[int(place)] == 1 {
				rows = append(rows, row)
			}
		}
		return f.Take(rows)
	}
	scored := pair{answers: kept(sortedAnswers), given: kept(sortedGiven)}
	return rmse("reactivity", "deg_Mg_pH10", "deg_Mg_50C")(&scored)
}

// placeColumn holds where a row stood in its file. No file has it: a header has no
// line end.
const placeColumn = "place\n"

func placed(f *frame.Frame) *frame.Frame {
	places := &frame.Column{Name: placeColumn, Kind: frame.Float, Numbers: make([]float64, f.Rows())}
	for row := range places.Numbers {
		places.Numbers[row] = float64(row)
	}
	return &frame.Frame{Columns: append(slices.Clone(f.Columns), places)}
}

// sameIDsInOrder compares ids as [sameIDs] does, and leaves the rows in their order.
var sameIDsInOrder = check{after: Columns, of: func(p *pair) error {
	copied := *p
	copied.answers = p.answers.SortedBy(p.id)
	return sameIDs.of(&copied)
}}

// lungScore is the mean Laplace log-likelihood of the last three weeks of each
// patient that have an FVC: of those that the submission has.
func lungScore(p *pair) (float64, error) {
	type visit struct {
		row  int
		week int
	}
	fvc, names := p.answers.Column("FVC"), wordsOf(p.answers.Column(p.id))
	visits := map[string][]visit{}
	for row, patient := range wordsOf(p.answers.Column("Patient")) {
		week, ok := pythonInt(names[row][strings.LastIndexByte(names[row], '_')+1:])
		if fvc.IsMissing(row) || !ok {
			continue
		}
		visits[patient] = append(visits[patient], visit{row, week})
	}
	scored := map[string]int{}
	for _, of := range visits {
		slices.SortStableFunc(of, func(a, b visit) int { return cmp.Compare(a.week, b.week) })
		for _, v := range of[max(0, len(of)-3):] {
			scored[names[v.row]] = v.row
		}
	}
	values, confidence := p.given.Column("FVC"), p.given.Column("Confidence")
	seen := map[string]bool{}
	var likelihoods []float64
	for row, id := range wordsOf(p.given.Column(p.id)) {
		answer, is := scored[id]
		if !is {
			continue
		}
		if seen[id] {
			return 0, p.cell(row, p.id, "it is there twice")
		}
		seen[id] = true
		spread := confidence.Numbers[row]
		if !(spread > 70) { // nor of what is missing
			spread = 70
		}
		off := min(math.Abs(fvc.Numbers[answer]-values.Numbers[row]), 1000)
		likelihoods = append(likelihoods, -math.Sqrt2*off/spread-math.Log(math.Sqrt2*spread))
	}
	return mean(likelihoods), nil
}

// meanAngle is the mean angle between directions, in radians.
func meanAngle(p *pair) (float64, error) {
	azimuth, givenAzimuth, err := p.both("azimuth", "azimuth", finiteOf)
	if err != nil {
		return 0, err
	}
	zenith, givenZenith, err := p.both("zenith", "zenith", finiteOf)
	if err != nil {
		return 0, err
	}
	return meanOfRows(len(azimuth), func(row int) (float64, error) {
		sa1, ca1 := sincos(azimuth[row])
		sz1, cz1 := sincos(zenith[row])
		sa2, ca2 := sincos(givenAzimuth[row])
		sz2, cz2 := sincos(givenZenith[row])
		product := sz1*sz2*(ca1*ca2+sa1*sa2) + cz1*cz2
		return math.Acos(min(max(product, -1), 1)), nil
	})
}

// tripDistance is the mean over trips of the mean of the 50th and 95th percentiles
// of the distances in metres. Within a trip the order of the file counts.
func tripDistance(p *pair) (float64, error) {
	const radius = 6_371_000 // metres
	latitude, longitude := p.answers.Column("LatitudeDegrees"), p.answers.Column("LongitudeDegrees")
	givenLatitude, givenLongitude := p.given.Column("LatitudeDegrees"), p.given.Column("LongitudeDegrees")
	rows := map[string][]int{}
	for row := range p.given.Rows() {
		trip := p.given.Column(p.id).Key(row)
		rows[trip] = append(rows[trip], row)
	}
	distances, order := map[string][]float64{}, []string{}
	for row := range p.answers.Rows() {
		trip := p.answers.Column(p.id).Key(row)
		at := len(distances[trip])
		if at == 0 {
			order = append(order, trip)
		}
		if at >= len(rows[trip]) {
			return 0, exitcode.Dataf("trip %s has fewer rows than are asked for", frame.Shortened(p.answers.Column(p.id).String(row)))
		}
		given := rows[trip][at]
		radians := func(degrees float64) float64 { return degrees * math.Pi / 180 }
		φ1, φ2 := radians(latitude.Numbers[row]), radians(givenLatitude.Numbers[given])
		sinφ, sinλ := math.Sin((φ2-φ1)/2), math.Sin(radians(givenLongitude.Numbers[given]-longitude.Numbers[row])/2)
		a := sinφ*sinφ + math.Cos(φ1)*math.Cos(φ2)*sinλ*sinλ
		distances[trip] = append(distances[trip], 2*radius*math.Asin(math.Sqrt(a)))
	}
	return meanOfRows(len(order), func(i int) (float64, error) {
		return (percentile(distances[order[i]], 0.5) + percentile(distances[order[i]], 0.95)) / 2, nil
	})
}

// percentile interpolates between the two nearest of values; NaN where one is.
func percentile(values []float64, share float64) float64 {
	if slices.ContainsFunc(values, math.IsNaN) {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	place := share * float64(len(sorted)-1)
	below := int(place)
	if below+1 == len(sorted) {
		return sorted[below]
	}
	return sorted[below] + (sorted[below+1]-sorted[below])*(place-float64(below))
}

// votes are the columns of hms-harmful-brain-activity-classification.
var votes = []string{"seizure_vote", "lpd_vote", "gpd_vote", "lrda_vote", "grda_vote", "other_vote"}

// probabilities refuses rows whose columns beside the id, all of them, are not
// probabilities that sum to 1; missing ones are left out.
var probabilities = check{after: IDs, of: func(p *pair) error {
	var names []string
	for _, name := range p.given.Names() {
		if name != p.id {
			names = append(names, name)
		}
	}
	sums, err := rowSums(p.given, names)
	if err != nil {
		return err
	}
	for row, sum := range sums {
		if !isClose(1e-8)(sum) {
			return p.cell(row, names[0], "the row sums to %v, not to 1", sum)
		}
		for _, name := range names {
			if v := p.given.Column(name).Numbers[row]; v < 0 || v > 1 {
				return p.cell(row, name, "%v is outside 0 to 1", v)
			}
		}
	}
	return nil
}}

// voteDivergence is the mean Kullback-Leibler divergence from the shares of votes; a
// term whose prediction is missing is left out.
func voteDivergence(p *pair) (float64, error) {
	const clip = 1e-15
	answers, given := p.answers.SortedBy(p.id), p.given.SortedBy(p.id)
	sums, err := rowSums(answers, votes)
	if err != nil {
		return 0, err
	}
	return meanOfRows(len(sums), func(row int) (float64, error) {
		var divergence float64
		for _, name := range votes {
			share := answers.Column(name).Numbers[row] / sums[row]
			q := given.Column(name).Numbers[row]
			if share != 0 && !math.IsNaN(q) {
				divergence += share * math.Log(share/min(max(q, clip), 1-clip))
			}
		}
		return divergence, nil
	})
}
