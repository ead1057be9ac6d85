package shard

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// A small file whose rows all have one long text is refused before they fill the
// memory; rows that repeat as rows do are read.
func TestReadForeignBoundsGrowth(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	text := strings.Repeat("x", 1<<20)
	rows := make([]Score, 1000)
	for i := range rows {
		rows[i].Feedback = text
	}
	data := encode(t, rows, nil)
	must.Do(t, os.WriteFile(path, data, 0o666))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := ReadForeign[Score](t.Context(), path)
	runtime.ReadMemStats(&after)
	if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "grow to more than") {
		t.Errorf("%d bytes: %v", len(data), err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 2*growthFloor {
		t.Errorf("%d bytes took %d", len(data), took)
	}
	plain := make([]Metric, 200_000)
	for i := range plain {
		plain[i] = Metric{Stage: "rollout", Name: "task_seconds", Value: 1}
	}
	must.Do(t, os.WriteFile(path, encode(t, plain, nil), 0o666))
	if got, err := ReadForeign[Metric](t.Context(), path); err != nil || len(got) != len(plain) {
		t.Errorf("%d rows that repeat: %v", len(got), err)
	}
}
