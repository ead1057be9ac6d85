package simulate_test

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/run/simulate"
)

// Rows stand in the order of their wall times, and those that are marked are what one
// may choose between: hours for time.
func TestOrder(t *testing.T) {
	t.Parallel()
	row := func(name string, wall, cores, gpus float64, stuck string) simulate.Row {
		return simulate.Row{Set: []string{name}, Outcome: simulate.Outcome{WallSeconds: wall, CoreHours: cores, GPUHours: gpus, Stuck: stuck}}
	}
	for name, c := range map[string]struct {
		rows []simulate.Row
		want string
	}{
		"cores": {[]simulate.Row{row("a", 30, 1, 0, ""), row("b", 10, 3, 0, ""), row("c", 20, 3, 0, ""), row("d", 20, 2, 0, "")}, "b* d* c a*"},
		"GPUs":  {[]simulate.Row{row("a", 30, 1, 5, ""), row("b", 10, 9, 4, ""), row("c", 40, 1, 3, "")}, "b* a c*"},
		"fails": {[]simulate.Row{row("a", 1, 1, 0, "no"), row("b", 10, 3, 0, "")}, "b* a"},
		"equal": {[]simulate.Row{row("a", 10, 3, 0, ""), row("b", 10, 3, 0, ""), row("c", 11, 3, 0, "")}, "a* b* c"},
		"none":  {nil, ""},
	} {
		simulate.Order(c.rows)
		var got []string
		for _, r := range c.rows {
			got = append(got, r.Set[0]+map[bool]string{true: "*"}[r.Unbeaten])
		}
		if said := strings.Join(got, " "); said != c.want {
			t.Errorf("%s: %s, want %s", name, said, c.want)
		}
	}
}
