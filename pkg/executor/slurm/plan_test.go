package slurm

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

func someShards(n int) []int {
	shards := make([]int, n)
	for i := range shards {
		shards[i] = i
	}
	return shards
}

func testArray(shards ...int) executor.Array {
	return executor.Array{
		Run: "r1", Stage: "rollout", Iteration: 1, Shards: shards, Command: []string{"/opt/lathe/bin/lathe-rollout", "--run", "/data/runs/r1"},
		CPUs: 4, MemoryGB: 8, GPUs: 1, Minutes: 30, LogDir: "/data/runs/r1/logs", Env: map[string]string{"LATHE_THREADS": "4"},
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	type chunk struct{ tasks, throttle, after int }
	for _, c := range []struct {
		name     string
		tasks    int
		limits   Limits
		throttle int
		want     []chunk
	}{
		{"fits", 100, Limits{MaxArraySize: 101, MaxJobCount: 10000}, 0, []chunk{{100, 0, -1}}},
		// MaxArraySize 101 allows the indices 0 to 100: 101 tasks.
		{"just fits", 101, Limits{MaxArraySize: 101, MaxJobCount: 10000}, 0, []chunk{{101, 0, -1}}},
		{"one too many", 102, Limits{MaxArraySize: 101, MaxJobCount: 10000}, 0, []chunk{{101, 0, -1}, {1, 0, -1}}},
		{"max_array_tasks", 100, Limits{MaxArraySize: 1001, MaxArrayTasks: 60, MaxJobCount: 10000}, 0, []chunk{{60, 0, -1}, {40, 0, -1}}},
		// Three places in the queue are those of controller jobs.
		{"submit limit", 20, Limits{MaxArraySize: 1001, MaxJobCount: 10000, MaxSubmit: 12}, 0, []chunk{{9, 0, -1}, {9, 0, -1}, {2, 0, -1}}},
		{"job count", 20, Limits{MaxArraySize: 1001, MaxJobCount: 17}, 0, []chunk{{14, 0, -1}, {6, 0, -1}}},
		{"throttle in one chunk", 50, Limits{MaxArraySize: 101, MaxJobCount: 10000}, 8, []chunk{{50, 8, -1}}},
		{"throttle shared out", 25, Limits{MaxArraySize: 10, MaxJobCount: 10000}, 8, []chunk{{10, 2, -1}, {10, 3, -1}, {5, 3, -1}}},
		{"more chunks than throttle", 45, Limits{MaxArraySize: 10, MaxJobCount: 10000}, 2, []chunk{{10, 1, -1}, {10, 1, -1}, {10, 1, 0}, {10, 1, 1}, {5, 1, 2}}},
	} {
		chunks, err := Plan(testArray(someShards(c.tasks)...), c.limits, c.throttle)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []chunk
		for _, k := range chunks {
			got = append(got, chunk{len(k.Shards), k.Throttle, k.After})
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: chunks are %v, want %v", c.name, got, c.want)
		}
	}
	if _, err := Plan(testArray(0), Limits{MaxArraySize: 101, MaxJobCount: 10, MaxSubmit: 1}, 0); exitcode.Code(err) != exitcode.Unavailable {
		t.Errorf("with no place for an array and its gate the error is %v", err)
	}
	if _, err := Plan(executor.Array{}, Limits{MaxArraySize: 101, MaxJobCount: 10}, 0); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("an empty array: error is %v", err)
	}
}

// Chunks hold every shard once and in order, respect every limit, and never
// let more tasks run at once than the throttle.
func TestPlanKeepsItsPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.SliceOfNDistinct(rapid.IntRange(0, 5000), 1, 300, rapid.ID[int]).Draw(t, "shards")
		slices.Sort(shards)
		limits := Limits{
			MaxArraySize: rapid.IntRange(1, 120).Draw(t, "array size"), MaxArrayTasks: rapid.IntRange(0, 90).Draw(t, "array tasks"),
			MaxJobCount: rapid.IntRange(2, 200).Draw(t, "job count"), MaxSubmit: rapid.SampledFrom([]int{0, 2, 30, 150}).Draw(t, "submit"),
		}
		throttle := rapid.IntRange(0, 20).Draw(t, "throttle")
		chunks, err := Plan(testArray(shards...), limits, throttle)
		if err != nil {
			t.Fatal(err)
		}
		var all []int
		running := map[int]int{} // chains of chunks that follow one another, by their first chunk
		chain := map[int]int{}
		for i, c := range chunks {
			all = append(all, c.Shards...)
			n := len(c.Shards)
			if c.Number != i || c.Of != len(chunks) || n == 0 || n > limits.MaxArraySize || n >= limits.MaxJobCount ||
				limits.MaxArrayTasks > 0 && n > limits.MaxArrayTasks || limits.MaxSubmit > 0 && n >= limits.MaxSubmit {
				t.Fatalf("chunk %+v of %d breaks %+v", c, len(chunks), limits)
			}
			chain[i] = i
			if c.After >= 0 {
				chain[i] = chain[c.After]
			}
			if throttle > 0 {
				if c.Throttle < 1 {
					t.Fatalf("chunk %d has throttle %d", i, c.Throttle)
				}
				running[chain[i]] = max(running[chain[i]], c.Throttle)
			}
		}
		if !slices.Equal(all, shards) {
			t.Fatalf("chunks hold %v, want %v", all, shards)
		}
		sum := 0
		for _, n := range running {
			sum += n
		}
		if sum > throttle {
			t.Fatalf("%d tasks may run at once, want at most %d", sum, throttle)
		}
	})
}
