package simulate

import (
	"cmp"
	"slices"
)

// Row is one combination of settings and what a run with them took.
type Row struct {
	Set      []string `json:"set"`
	Unbeaten bool     `json:"unbeaten"` // see Order
	Outcome  Outcome  `json:"outcome"`
}

// Order orders rows by wall time, those of runs that fail behind all others, and marks
// those that no other beats: that takes no more wall time and no more GPU-hours, and
// less of one; core-hours, where no run asks for GPUs.
func Order(rows []Row) {
	gpus := useGPUs(rows)
	slices.SortStableFunc(rows, func(a, b Row) int {
		if fails := a.Outcome.Stuck != ""; fails != (b.Outcome.Stuck != "") {
			return map[bool]int{false: -1, true: 1}[fails]
		}
		return cmp.Or(cmp.Compare(a.Outcome.WallSeconds, b.Outcome.WallSeconds), cmp.Compare(a.Outcome.hours(gpus), b.Outcome.hours(gpus)))
	})
	var last *Outcome // that is unbeaten, and so has the fewest hours of those before
	for i := range rows {
		o := &rows[i].Outcome
		rows[i].Unbeaten = o.Stuck == "" && (last == nil || o.hours(gpus) < last.hours(gpus) ||
			o.hours(gpus) == last.hours(gpus) && o.WallSeconds == last.WallSeconds)
		if rows[i].Unbeaten {
			last = o
		}
	}
}

func useGPUs(rows []Row) bool {
	return slices.ContainsFunc(rows, func(r Row) bool { return r.Outcome.GPUHours > 0 })
}

// hours are what a run is charged.
func (o Outcome) hours(gpus bool) float64 {
	if gpus {
		return o.GPUHours
	}
	return o.CoreHours
}
