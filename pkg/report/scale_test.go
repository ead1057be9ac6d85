package report

import (
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/compact"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/status"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/seal"
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
// iteration and by iterations, before and after lathe compact:
//
//	go test ./pkg/report -run NONE -bench Scale -benchtime 1x
func BenchmarkScale(b *testing.B) {
	for _, size := range []struct{ shards, iterations int }{{100, 1}, {1000, 1}, {10_000, 1}, {10, 10}, {10, 100}, {10, 1000}} {
		f := wide(b, size.shards, size.iterations)
		name := fmt.Sprintf("shards=%d/iterations=%d", size.shards, size.iterations)
		measureScale(b, f, name+"/loose", size.shards*size.iterations)
		b.Run(name+"/compact", func(b *testing.B) {
			began := time.Now()
			if _, err := compact.Compact(b.Context(), survey.NewInventory(f.run.Graph), true, false, seal.Attempt{Host: "a"}); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(1e6*time.Since(began).Seconds()/float64(size.shards*size.iterations), "µs/shard")
		})
		measureScale(b, f, name+"/packed", size.shards*size.iterations)
	}
}

// measureScale times the commands on one run.
func measureScale(b *testing.B, f *fixture, name string, shards int) {
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
		b.Run(name+"/"+c.name, func(b *testing.B) {
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				began := time.Now()
				if err := c.do(); err != nil {
					b.Fatal(err)
				}
				runtime.ReadMemStats(&after)
				b.ReportMetric(1e6*time.Since(began).Seconds()/float64(shards), "µs/shard")
				b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/(1<<20), "MB-allocated")
				b.ReportMetric(float64(files(b, f)), "files")
			}
		})
	}
}

// files counts the files of a run.
func files(b *testing.B, f *fixture) (n int) {
	if err := rundir.Walk(b.Context(), f.run.Dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			n++
		}
		return err
	}); err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkGate is the look of a gate at a run of which half of an iteration's shards are
// sampled and judged.
func BenchmarkGate(b *testing.B) {
	for _, shards := range []int{100, 1000, 10_000} {
		f := newFixture(b, fmt.Sprintf("rollout.shards=%d", shards), fmt.Sprintf("rollout.prompts=%d", shards), "schedule.iterations=1")
		f.begin()
		for n := range shards / 2 {
			f.sample(1, n, "a", [2]float64{100, 103}, [2]float64{104, 105})
		}
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			for b.Loop() {
				found, err := survey.New(f.run.Graph).Survey(b.Context())
				if err != nil || len(found.Ready) != shards/2+1 { // and the plan of evaluations
					b.Fatalf("%d tasks are ready, %v", len(found.Ready), err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*shards), "µs/shard")
		})
	}
}
