package report

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Write makes the report of a run in a folder, which is [graph.Dir.Report] where nobody
// names another,
//
//	figures/*.svg   each drawing by itself
//	index.html      everything on one page that needs nothing else
//	samples.html    the training groups to look at, of one iteration
//	summary.json    the numbers
//
// seals the metrics of complete iterations, and returns the summary. Each
// file replaces its predecessor whole, summary.json last, so the report of a
// run that is under way may be made at any time.
func Write(ctx context.Context, r *rundir.Run, folder string) (Summary, error) {
	rows := measure.Of(r)
	s, err := rows.Summary(ctx)
	if err != nil {
		return s, err
	}
	for k := range s.Iterations + 1 {
		if _, _, err := measure.Metrics(ctx, r, k); err != nil {
			return s, err
		}
	}
	attempt := seal.AttemptFromEnv()
	drawn := figures(s)
	for _, d := range drawn {
		if err := seal.Replace(filepath.Join(folder, "figures", d.Name+".svg"), d.svg, attempt); err != nil {
			return s, err
		}
	}
	shown, err := readTranscripts(ctx, rows)
	if err != nil {
		return s, err
	}
	looked, err := writeGroups(ctx, r, s, folder, attempt)
	if err != nil {
		return s, err
	}
	content, err := html(r, s, drawn, shown, looked)
	if err != nil {
		return s, err
	}
	if err := seal.Replace(filepath.Join(folder, "index.html"), content, attempt); err != nil {
		return s, err
	}
	if content, err = plainjson.Document(s); err != nil {
		return s, fmt.Errorf("encoding the summary: %w", err)
	}
	return s, seal.Replace(filepath.Join(folder, "summary.json"), content, attempt)
}
