package report

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/status"
	"github.com/lathe-rl/lathe/pkg/run/verify"
)

// wide makes a run of so many shards of two responses each, whose files are small and
// truly sealed.
func wide(t testing.TB, shards, iterations int) *fixture {
	t.Helper()
	f := newFixture(t, fmt.Sprintf("rollout.shards=%d", shards), fmt.Sprintf("rollout.prompts=%d", shards),
		fmt.Sprintf("schedule.iterations=%d", iterations), "schedule.gradient_units=1")
	f.begin()
	all := make([]int, shards)
	for n := range all {
		all[n] = n
	}
	for k := 1; k <= iterations; k++ {
		at := float64(100 * k)
		for n := range shards {
			f.sample(k, n, "a", [2]float64{at, at + 3}, [2]float64{at + 4, at + 5})
		}
		f.closing(closing.Closing{Iteration: k, Shards: shards, Included: all})
		f.buffer(k, at+6, at+7, map[string]float64{"reward_mean": 0.25, "score_mean": 0.25}, fates(k, make([]string, 2*shards)...))
		f.learn(k, at+8, at+9)
	}
	f.evaluate(0, 11, 14, evaluationRows(0, verdictsBefore))
	f.evaluate(iterations, 11, 14, evaluationRows(iterations, verdictsAfter))
	return f
}

// BenchmarkScale says what the commands that look at a whole run take, by shards of an
// iteration and by iterations:
//
//	go test ./pkg/report -run NONE -bench Scale -benchtime 1x
func BenchmarkScale(b *testing.B) {
	for _, size := range []struct{ shards, iterations int }{{100, 1}, {1000, 1}, {10_000, 1}, {10, 10}, {10, 100}, {10, 1000}} {
		f := wide(b, size.shards, size.iterations)
		for _, c := range []struct {
			name string
			do   func() error
		}{
			{"status", func() error { _, err := status.Read(b.Context(), f.run, &advance.Seen{}, nil); return err }},
			{"verify", func() error {
				found, err := verify.Verify(b.Context(), f.run)
				for _, fault := range found.Faults {
					if !strings.HasPrefix(fault.Path, "eval/") { // nobody planned these evaluations
						b.Error(fault)
					}
				}
				return err
			}},
			{"report", func() error { _, err := Write(b.Context(), f.run); return err }},
		} {
			b.Run(fmt.Sprintf("shards=%d/iterations=%d/%s", size.shards, size.iterations, c.name), func(b *testing.B) {
				for b.Loop() {
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					began := time.Now()
					if err := c.do(); err != nil {
						b.Fatal(err)
					}
					runtime.ReadMemStats(&after)
					b.ReportMetric(1e6*time.Since(began).Seconds()/float64(size.shards*size.iterations), "µs/shard")
					b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/(1<<20), "MB-allocated")
				}
			})
		}
	}
}
