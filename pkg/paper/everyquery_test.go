package paper

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// tables writes what the tables of papers do without, of both iterations.
func tables(t *testing.T, run string) {
	t.Helper()
	d, a := graph.Dir(run), seal.AttemptFromEnv()
	metric := func(k int, stage string, part int32, name string, value float64) shard.Metric {
		return shard.Metric{Iteration: int32(k), Stage: stage, Shard: part, Name: name, Value: value}
	}
	write := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for k := 1; k <= 2; k++ {
		m := seal.Manifest{PolicyVersion: -1, Iteration: k, Of: 1}
		write(errors.Join(seal.Remove(d.State(k)), seal.Remove(d.Stats(k)), seal.Remove(d.Waiting(k))))
		_, err := shard.Write(d.State(k), []shard.Entry{{Kind: "improve", Depth: 1, BaseScore: 1, Potential: .5, Visits: 1}, {Kind: "improve", Depth: 2, BaseScore: .5, Potential: .25}}, nil, a, m)
		write(err)
		_, err = shard.Write(d.Stats(k), []shard.Stat{
			{Axis: shard.StatReward, Scope: "scratch", Key: "a", Name: "score", Value: .25}, {Axis: shard.StatReward, Scope: "scratch", Key: "a", Name: "score", Value: .75}, {Axis: shard.StatCurriculum, Key: "a"},
		}, nil, a, m)
		write(err)
		_, err = shard.Write(d.Waiting(k), []shard.Waiting{{IterationSampled: int32(k) - 1, Reward: 1}, {IterationSampled: int32(k), Reward: .5, Masked: "constant_group"}}, nil, a, m)
		write(err)
		var usage []shard.Usage
		for part, seconds := range []float64{1, 2, 6} {
			usage = append(usage, shard.Usage(metric(k, "rollout", int32(part), "task_seconds", seconds)), shard.Usage(metric(k, "rollout", int32(part), "attempt", 1)))
		}
		_, err = shard.Write(d.Usage(k), usage, nil, a, m)
		write(err)
		_, err = shard.Write(d.Metrics(k), []shard.Metric{
			metric(k, "buffer", 0, "reward_mean", .5),
			metric(k, "rollout", 0, "prompt_tokens", 30), metric(k, "rollout", 0, "response_tokens", 300), metric(k, "rollout", 1, "response_tokens", 240), metric(k, "rollout", 0, "responses", 9),
			metric(k, "learn", 0, "step-000/entropy", 1), metric(k, "learn", 0, "step-001/entropy", 2),
		}, nil, a, m)
		write(err)
	}
}

// Every file of analysis/ can be asked, of answers and of programs. Those that have no
// numbers in common with a paper's table answer what is worked out here by hand. It ran
// with duckdb 2.0.1 (Python 3.11.7), TestExamples with pyarrow 26.0.1 and polars 2.1.0.
func TestEveryQuery(t *testing.T) {
	t.Parallel()
	interpreter := python(t, "duckdb")
	answers, graded := filepath.Join(t.TempDir(), "one"), filepath.Join(programsRun(t), "one")
	made(t, answers, byHand(0))
	files, err := filepath.Glob("../../analysis/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	found := map[string]map[string][]map[string]any{} // rows by run and file
	for _, run := range []string{answers, graded} {
		tables(t, run)
		found[run] = rowsOf(t, interpreter, run, files)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".sql")
		if len(found[answers][name])+len(found[graded][name]) == 0 && name != "pool_selection" && name != "selected_version" { // which have rows of runs without iterations alone, and with a validation set
			t.Errorf("%s has no row", name)
		}
	}
	for _, c := range []struct {
		file, run string
		row       int
		want      map[string]float64
	}{
		// Deviations of p and q sum to ½ and −½: √(2/1 · ½)/4.
		{"accuracy_by_step", answers, 0, map[string]float64{"accuracy": 25, "standard_error": 25, "delta": 0, "problems": 2, "responses": 4}},
		{"accuracy_by_step", answers, 1, map[string]float64{"accuracy": 50, "delta": 25}},
		{"buffer", answers, 0, map[string]float64{"states": 2, "sampled": 1, "potential_mean": .375, "base_score": .75, "depth": 1.5}},
		{"corrections", answers, 0, map[string]float64{"corrected": 2, "broken": 1, "kept_right": 0, "kept_wrong": 1}},
		{"kinds", answers, 0, map[string]float64{"iteration": 1, "responses": 3, "ok": 100. / 3, "reward": .5, "depth": 0}},
		{"transitions", answers, 0, map[string]float64{"iteration": 1, "traces": 3, "f2s": 100. / 3, "s2s": 0, "s2f": 100. / 3, "f2f": 100. / 3}},
		{"hardest_tasks", answers, 0, map[string]float64{"tries": 3, "solved": 0, "last_iteration": 2}},
		{"hardest_tasks", answers, 1, map[string]float64{"tries": 4, "solved": 3}},
		{"windows", answers, 0, map[string]float64{"scores": 2, "mean": .5, "deviation": .25}},
		{"waiting", answers, 1, map[string]float64{"iteration": 2, "segments": 2, "with_gradient": 1, "age_mean": .5, "age_max": 1, "reward": .75}},
		// 540 tokens of nine responses an iteration, in 1 + 2 + 6 seconds of tasks.
		{"tokens", answers, 1, map[string]float64{"prompt_tokens": 60, "response_tokens": 1080, "task_seconds": 18, "tokens_per_second": 60}},
		{"slowest_shards", answers, 0, map[string]float64{"shard": 2, "seconds": 6, "attempt": 1, "median_seconds": 2, "lost_seconds": 4}},
		{"learning_curve", answers, 0, map[string]float64{"reward": .5, "tokens_per_response": 60, "entropy": 1.5}},
		{"ledger", graded, 0, map[string]float64{"trained": 1, "dropped": 1, "masked": 0}},
		// Of four programs of iteration 1 three are valid, of scores −5, −3 and −4.
		{"programs", graded, 0, map[string]float64{"programs": 4, "valid": 75, "quality_of_valid": .35, "score_or_minus_10": -5.5, "execute_seconds": 3, "execute_seconds_of_valid": 11. / 3}},
		{"steps", graded, 0, map[string]float64{"submission": 1, "submissions": 2, "quality": .225, "gain": 0, "share_above_0_01": 0}},
	} {
		rows := found[c.run][c.file]
		if len(rows) <= c.row {
			t.Errorf("%s: %d rows", c.file, len(rows))
			continue
		}
		for column, want := range c.want {
			if got, is := rows[c.row][column].(float64); !is || math.Abs(got-want) > 1e-9 {
				t.Errorf("%s, row %d: %s is %v, want %v", c.file, c.row, column, rows[c.row][column], want)
			}
		}
	}
}
