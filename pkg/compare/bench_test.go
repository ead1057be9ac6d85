package compare

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkManyRuns compares ten methods of two seeds, and where LATHE_MANY_RUNS is set of
// twenty and ten times as many iterations, with every manifest that costs are read from.
// These million take longer to make than to read: TMPDIR may name a folder in memory.
//
//	LATHE_MANY_RUNS=1 go test ./pkg/compare -run NONE -bench ManyRuns -benchtime 1x
func BenchmarkManyRuns(b *testing.B) {
	type size struct{ seeds, iterations int }
	sizes := []size{{2, 40}}
	if os.Getenv("LATHE_MANY_RUNS") != "" {
		sizes = append(sizes, size{20, 400})
	}
	for _, size := range sizes {
		b.Run(fmt.Sprintf("runs=%d/iterations=%d", 10*size.seeds, size.iterations), func(b *testing.B) {
			sweep := b.TempDir()
			for method := range 10 {
				for seed := range size.seeds {
					made(b, filepath.Join(sweep, fmt.Sprintf("%d-%d", method, seed)), halves, fmt.Sprintf("seed=%d", seed),
						fmt.Sprintf("optimizer.learning_rate=%de-4", method+1), fmt.Sprintf("schedule.iterations=%d", size.iterations), "evaluation.every=40")
				}
			}
			debug.FreeOSMemory()
			if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // forget the peak so far
				b.Skip(err)
			}
			for b.Loop() {
				c, err := Runs(b.Context(), []string{sweep}, Options{Resamples: 10_000, Seed: 1})
				if err != nil {
					b.Fatal(err)
				}
				if points := c.Methods[9].Curve; len(c.Methods) != 10 || points[len(points)-1].Seconds.Mean != 2.25*float64(size.iterations) {
					b.Fatalf("%d methods, the last %+v", len(c.Methods), points)
				}
			}
			b.ReportMetric(peakMegabytes(b), "peak-MB")
		})
	}
}

// peakMegabytes is the most memory that the process has had resident.
func peakMegabytes(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			kilobytes, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kilobytes / 1e3
		}
	}
	return 0
}
