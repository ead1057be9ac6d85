//go:build cgo

package efficiency

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// A job that holds the eight GPUs of a node, and one that holds four of each of two:
// the first has a line with eight GPUs, the second one with two nodes, and the
// remark that one would have done.
// Alone: the script is named by the environment.
func TestTraceOfSeveralNodes(t *testing.T) {
	whole := traced{"rollout-000001-00000", 0, "80_0", 0, 0, 600, true, 0, nil}
	spread := traced{"learn-000001-00000", 0, "81_0", 2, 700 * time.Second, 400, true, 0, nil}
	r := makeRun(t, func(library string, r *rundir.Run) {
		record(t, library, string(r.Dir), whole, "n1", 8)
		record(t, library, string(r.Dir), spread, "n1", 4)
		record(t, library, string(r.Dir), spread, "n2", 4)
		seals(t, r, whole)
		seals(t, r, spread)
	})
	report, err := Read(context.Background(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	var text, lines bytes.Buffer
	if err := errors.Join(report.Text(&text), report.Jobstats(&lines, "")); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/nodes.txt", text.Bytes())
	golden.Check(t, "testdata/nodes.jobstats.jsonl", lines.Bytes())
	if want := 8*600.0 + 2*4*400; math.Abs(report.Total.GPUSeconds-want) > 1e-6 || len(report.GPUs) != 8+4 || len(report.Lost) != 0 {
		t.Errorf("%v GPU-seconds, want %v, of %d GPUs; lost %+v", report.Total.GPUSeconds, want, len(report.GPUs), report.Lost)
	}
	jobs := readJobstats(t, lines.Bytes())
	if len(jobs) != 2 {
		t.Fatalf("%d jobs", len(jobs))
	}
	for i, want := range []struct {
		seconds int64
		nodes   map[string]string // the indices of their GPUs
	}{{600, map[string]string{"n1": "0 1 2 3 4 5 6 7"}}, {400, map[string]string{"n1": "2 3 4 5", "n2": "2 3 4 5"}}} {
		job := jobs[i]
		if job.GPUs != 8 || job.TotalTime != want.seconds || len(job.Nodes) != len(want.nodes) {
			t.Errorf("job %d: %+v", i, job)
		}
		for name, indices := range want.nodes {
			n := job.Nodes[name]
			used, total := slices.Sorted(maps.Keys(n.GPUUsedMemory)), slices.Sorted(maps.Keys(n.GPUTotalMemory))
			if strings.Join(used, " ") != indices || !slices.Equal(used, total) || !slices.Equal(used, slices.Sorted(maps.Keys(n.GPUUtilization))) {
				t.Errorf("job %d, node %s: %+v, want GPUs %s", i, name, n, indices)
			}
			// Of host: two of four cores are busy.
			if n.CPUs != 4 || n.TotalTime != 2*float64(want.seconds) || n.UsedMemory != 6<<30 {
				t.Errorf("job %d, node %s: %+v", i, name, n)
			}
		}
	}
}
