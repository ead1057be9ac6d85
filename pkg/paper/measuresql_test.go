package paper

import (
	"errors"
	"math"
	"testing"

	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// holdMeasures compares every measure that analysis/ has with the rows of its file.
func holdMeasures(t *testing.T, runs []string, found map[string]map[string][]map[string]any) {
	t.Helper()
	compared := map[string]int{}
	for _, run := range runs {
		opened, err := rundir.Open(t.Context(), graph.Dir(run))
		if err != nil {
			t.Fatal(err)
		}
		rows := measure.Of(opened)
		for _, m := range measure.All {
			if m.SQL {
				compared[m.Name] += holdToSQL(t, m, rows, found[run][m.Name])
			}
		}
	}
	for name, n := range compared {
		if n == 0 {
			t.Errorf("nothing of %s was compared", name)
		}
	}
}

// holdToSQL compares a measure with the rows of its file, and counts the numbers.
func holdToSQL(t *testing.T, m measure.Measure, r *measure.Rows, rows []map[string]any) int {
	t.Helper()
	versions := []int{-1}
	if m.HeldOut() {
		versions = r.Graph.EvaluatedVersions()
	}
	used, compared := make([]bool, len(rows)), 0
	for _, version := range versions {
		values, err := m.Of(t.Context(), r, version)
		var why measure.Absent
		if err != nil && !errors.As(err, &why) {
			t.Fatal(err)
		}
		if len(values) == 0 && why != "" { // such as a figure of programs where nothing is graded
			for i, row := range rows {
				used[i] = used[i] || !m.HeldOut() || row["policy_version"] == float64(version)
			}
		}
		for _, v := range values {
			if _, grouped := m.GroupColumns[v.By]; m.GroupColumns != nil && !grouped {
				continue // over all groups, which the file does not have
			}
			at := -1
			for i, row := range rows {
				if inRow(m, v, version, row) {
					at, used[i] = i, true
				}
			}
			if at < 0 {
				t.Errorf("%s: no row has %+v of version %d", m.Name, v, version)
				continue
			}
			got, has := rows[at][v.Column].(float64)
			if !has {
				continue // the file has no such column
			}
			if compared++; math.Abs(got-v.Y) > 1e-9*max(1, math.Abs(got)) {
				t.Errorf("%s of %v is %v, and %v in Go: %+v, version %d", v.Column, rows[at], got, v.Y, v, version)
			}
		}
	}
	for i, row := range rows {
		numbers := 0
		for column, value := range row {
			if value != nil && column != m.XColumn {
				numbers++
			}
		}
		if !used[i] && !sparse(m) && numbers > 0 {
			t.Errorf("%s has nothing of %v", m.Name, row)
		}
	}
	return compared
}

// sparse reports whether the rows of a measure's file are the X at which something changes:
// a value is that of the last one up to its own.
func sparse(m measure.Measure) bool { return m.XColumn == "seconds" }

func inRow(m measure.Measure, v measure.Value, version int, row map[string]any) bool {
	if m.HeldOut() && row["policy_version"] != float64(version) {
		return false
	}
	if column := m.GroupColumns[v.By]; column != "" && row[column] != v.Group {
		return false
	}
	if by, has := row["by"]; has && by != map[string]string{"": "all", "set": "set", "task": "task"}[v.By] {
		return false
	}
	if chosen, has := row["chosen_of"]; has && chosen != v.By {
		return false
	}
	if m.XColumn == "" {
		return true
	}
	x := row[m.XColumn].(float64)
	return math.Abs(*v.X-x) < 1e-9 || sparse(m) && x <= *v.X+1e-9
}
