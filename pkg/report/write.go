package report

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Write makes the report of a run in its report folder,
//
//	figures/*.svg   each drawing by itself
//	index.html      everything on one page that needs nothing else
//	summary.json    the numbers
//
// seals the metrics of complete iterations, and returns the summary. Each
// file replaces its predecessor whole, summary.json last, so the report of a
// run that is under way may be made at any time.
func Write(ctx context.Context, r *rundir.Run) (Summary, error) {
	f, err := collect(ctx, r)
	if err != nil {
		return Summary{}, fmt.Errorf("summing up run %q: %w", r.Dir, err)
	}
	for k := range f.Iterations + 1 {
		if _, _, err := Metrics(ctx, r, k); err != nil {
			return f.Summary, err
		}
	}
	attempt := seal.AttemptFromEnv()
	drawn := figures(f.Summary)
	for _, d := range drawn {
		if err := seal.Replace(filepath.Join(r.Dir.Report(), "figures", d.Name+".svg"), d.svg, attempt); err != nil {
			return f.Summary, err
		}
	}
	content, err := f.html(drawn)
	if err != nil {
		return f.Summary, err
	}
	if err := seal.Replace(filepath.Join(r.Dir.Report(), "index.html"), content, attempt); err != nil {
		return f.Summary, err
	}
	if content, err = plainjson.Document(f.Summary); err != nil {
		return f.Summary, fmt.Errorf("encoding the summary: %w", err)
	}
	return f.Summary, seal.Replace(filepath.Join(r.Dir.Report(), "summary.json"), content, attempt)
}
