package cuda

import "github.com/lathe-rl/lathe/pkg/policy"

// What tests of package cuda_test need.
const (
	RowAlign        = rowAlign
	LibraryVariable = libraryVariable
)

// OpenWith opens an engine under budgets instead of those of a plan.
func OpenWith(source policy.Source, options Options, b Budgets) (*Engine, error) {
	return open(source, options, func(s shape, _ policy.Workload, bytes int64) (Plan, error) {
		f := footprint(s, b)
		return Plan{shape: s, Budgets: b, Footprint: f, TotalBytes: f.Total(), FreeBytes: bytes}, nil
	})
}

// Predicted is the footprint of an engine's shape and budgets.
func (e *Engine) Predicted() Footprint { return e.plan.Footprint }
