package report

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/internal/cputime"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/compact"
	"github.com/lathe-rl/lathe/pkg/run/graph"
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
	f.evaluate(0, 11, 14, evaluationRows(0, scoresBefore))
	f.evaluate(iterations, 11, 14, evaluationRows(iterations, scoresAfter))
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

// commands are those that look at a whole run, and a gate.
var commands = map[string]func(context.Context, *rundir.Run) error{
	"nothing": func(context.Context, *rundir.Run) error { return nil },
	"status": func(ctx context.Context, r *rundir.Run) error {
		_, err := status.Read(ctx, r, &advance.Seen{}, nil)
		return err
	},
	"verify": func(ctx context.Context, r *rundir.Run) error {
		found, err := verify.Verify(ctx, r)
		for _, fault := range found.Faults {
			if !strings.HasPrefix(fault.Path, "eval/") { // nobody planned these evaluations
				return fmt.Errorf("%+v", fault)
			}
		}
		return err
	},
	"report":  func(ctx context.Context, r *rundir.Run) error { _, err := Write(ctx, r, r.Dir.Report()); return err },
	"advance": advanceOnce,
}

// measureScale measures the commands on one run.
func measureScale(b *testing.B, f *fixture, name string, shards int) {
	for _, command := range []string{"nothing", "status", "verify", "report"} {
		b.Run(name+"/"+command, func(b *testing.B) {
			for b.Loop() {
				timed(b, f.run, command, shards)
			}
			b.ReportMetric(float64(files(b, f)), "files")
		})
	}
}

// timed runs a command on a run: here for the time and the bytes allocated, the least
// of three times, since other work only adds to them; then by itself for the most memory
// that it held, and once more under strace for the operations on files of the run.
func timed(b *testing.B, r *rundir.Run, command string, shards int) {
	b.Helper()
	wall, cpu, allocated := math.Inf(1), math.Inf(1), math.Inf(1)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began, used := time.Now(), cputime.Spent(b, true)
		must.Do(b, commands[command](b.Context(), r))
		wall, cpu = min(wall, time.Since(began).Seconds()), min(cpu, (cputime.Spent(b, true)-used).Seconds())
		runtime.ReadMemStats(&after)
		allocated = min(allocated, float64(after.TotalAlloc-before.TotalAlloc)/(1<<20))
	}
	b.ReportMetric(wall, "s")
	b.ReportMetric(cpu, "CPU-s")
	b.ReportMetric(1e6*wall/float64(shards), "µs/shard")
	b.ReportMetric(allocated, "MB-allocated")
	b.ReportMetric(peak(b, r, command), "MB-peak")
	b.ReportMetric(operations(b, r, command)/float64(shards), "operations/shard")
	if command == "advance" && wall > longestGate.Seconds() {
		b.Errorf("a gate took %v s, longer than %v", wall, longestGate)
	}
}

// scaleVariable has TestScaleCommand run a command, and names the run.
const scaleVariable = "LATHE_TEST_SCALE"

// alone is a process that runs a command on a run, under another program or none.
func alone(b *testing.B, r *rundir.Run, command string, under ...string) (printed string) {
	b.Helper()
	argv := append(under, os.Args[0], "-test.run=^TestScaleCommand$", "-test.v", "-test.count=1")
	cmd := exec.CommandContext(b.Context(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), scaleVariable+"="+command+" "+string(r.Dir))
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%s: %v\n%s", argv, err, out)
	}
	return string(out)
}

// peak is the most memory that the process of a command holds, in MB of 2^20 bytes.
func peak(b *testing.B, r *rundir.Run, command string) float64 {
	b.Helper()
	_, rest, _ := strings.Cut(alone(b, r, command), "VmHWM:")
	number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	kilobytes := must.Get(strconv.ParseFloat(number, 64))(b)
	return kilobytes / (1 << 10)
}

// operations counts the system calls of a command, and of what it starts, that name a
// file of the run, list a folder of it, or ask for its size or for its safety on disk.
func operations(b *testing.B, r *rundir.Run, command string) (n float64) {
	b.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		b.Skip("there is no strace")
	}
	trace := filepath.Join(b.TempDir(), "trace")
	alone(b, r, command, "strace", "-f", "-y", "-o", trace, "-e", "trace=%file,getdents64,fstat,fsync,fdatasync")
	file := must.Get(os.Open(trace))(b)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if line := lines.Text(); strings.Contains(line, string(r.Dir)) && !strings.Contains(line, " resumed>") && !strings.Contains(line, "execve(") {
			n++
		}
	}
	must.Do(b, lines.Err())
	return n
}

// TestScaleCommand runs one command on a run that a benchmark made.
//
// Alone: it says how much memory its process took.
func TestScaleCommand(t *testing.T) {
	command, folder, asked := strings.Cut(os.Getenv(scaleVariable), " ")
	if !asked {
		t.Skip("benchmarks run this by itself")
	}
	r, err := rundir.Open(t.Context(), graph.Dir(folder))
	if err == nil {
		err = commands[command](t.Context(), r)
	}
	if err != nil {
		t.Fatal(err)
	}
	said := must.Get(os.ReadFile("/proc/self/status"))(t)
	t.Logf("%s", said)
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
