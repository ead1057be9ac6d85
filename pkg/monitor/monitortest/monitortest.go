// Package monitortest has what tests of monitors share: a run to watch, and what was
// sampled of it.
package monitortest

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Run makes a folder that a monitor takes for that of a run.
func Run(t *testing.T) string {
	t.Helper()
	run := t.TempDir()
	if _, err := seal.WriteJSON(filepath.Join(run, "run.json"), map[string]string{"run_id": "id"}, seal.Attempt{}, seal.Manifest{}); err != nil {
		t.Fatal(err)
	}
	return run
}

// Samples are all that a run has, by name.
func Samples(t *testing.T, run string) map[string][]shard.Sample {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(run, monitor.Folder, "*", "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string][]shard.Sample{}
	for _, path := range paths {
		rows, _, err := shard.Read[shard.Sample](t.Context(), path, seal.Options{Visibility: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			byName[row.Name] = append(byName[row.Name], row)
		}
	}
	return byName
}
