package learn_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/buffer"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
	"github.com/lathe-rl/lathe/pkg/stage/score"
)

// playWaves plays a shard of a plan until nothing in it waits, and returns its
// waves with the manifests of their rollouts.
func playWaves(r *stagetest.Rig, environment env.Env, plan string, first, last int, name string) (ref buffer.ShardRef, manifests []seal.Manifest) {
	r.Helper()
	var waves []buffer.WaveRef
	for wave := 0; ; wave++ {
		ref := buffer.WaveRef{Rollout: r.Path(fmt.Sprintf("%s-w%d-rollout.parquet", name, wave)), Score: r.Path(fmt.Sprintf("%s-w%d-score.parquet", name, wave))}
		in := rollout.Inputs{Plan: plan, FirstRow: first, LastRow: last, PolicyFolder: r.Policy(), Iteration: 1, Of: 1, Wave: wave, Output: ref.Rollout}
		judge := score.Inputs{Plan: plan, Rollout: ref.Rollout, Iteration: 1, Of: 1, Wave: wave, Seconds: r.Recipe.Scaffold.Seconds, Output: ref.Score}
		if wave > 0 {
			in.Before = &waves[wave-1]
			judge.Before = waves[wave-1].Score
		}
		m, err := rollout.Run(r.Context(), r.Job, rollout.SettingsOf(r.Recipe), environment, in)
		r.Check(err)
		manifests = append(manifests, m)
		m, err = score.Run(r.Context(), r.Job, r.Recipe.Score, environment, judge)
		r.Check(err)
		if waves = append(waves, ref); m.Metrics["waiting"] == 0 {
			return buffer.ShardRef{Iteration: 1, FirstRow: first, LastRow: last, Rollout: waves[0].Rollout, Score: waves[0].Score, Later: waves[1:]}, manifests
		}
	}
}

// foldWaves makes the batch of some shards.
func foldWaves(r *stagetest.Rig, environment env.Env, plan, name string, shards ...buffer.ShardRef) string {
	r.Helper()
	chooser, err := r.Recipe.NewCurriculum()
	r.Check(err)
	r.Check(buffer.Run(r.Context(), r.Job, buffer.SettingsOf(r.Recipe), environment, chooser, buffer.Inputs{
		Iteration: 1, Plans: []buffer.PlanRef{{Iteration: 1, Path: plan}}, Shards: shards,
		StateOutput: r.Path(name + "-state.parquet"), BatchOutput: r.Path(name + "-batch.arrow"), LedgerOutput: r.Path(name + "-ledger.parquet"),
		StatsOutput: r.Path(name + "-stats.parquet"),
	}))
	return r.Path(name + "-batch.arrow")
}

// TestWaves: traces that wait for their scores, five waves of them, come to
// the same tokens and the same batch as those that are answered at once, in one
// shard or three. Only those that wait take part in a wave, and what a wave
// costs is counted.
func TestWaves(t *testing.T) {
	t.Parallel()
	fresh := func(turn int) bool { return turn%2 == 0 }
	r := stagetest.New(t, "curriculum.name=uniform", "score.embedding=none", "factors=[]", "select=[]")
	plan, instances := r.Plan(9)
	n := len(instances)
	atOnce := stagetest.Turns{Env: r.Env, Of: 5, Fresh: fresh}
	waiting := atOnce
	waiting.Wait = true
	whole, _ := playWaves(r, atOnce, plan, 0, n, "at-once")
	want := foldWaves(r, atOnce, plan, "at-once", whole)

	one, manifests := playWaves(r, waiting, plan, 0, n, "one")
	if len(whole.Later) != 0 || len(one.Later) == 0 {
		t.Fatalf("%d waves of traces that are answered at once, %d of those that wait", 1+len(whole.Later), 1+len(one.Later))
	}
	responses := manifests[0].Metrics["responses"]
	for wave, m := range manifests[1:] {
		if m.Metrics["responses"] != manifests[wave].Metrics["waiting"] || m.Metrics["responses"] > responses || m.Metrics["tokens_read_again"] <= 0 {
			t.Errorf("wave %d: metrics %v after %v", wave+1, m.Metrics, manifests[wave].Metrics)
		}
	}
	ended := false
	for _, m := range manifests[1:] {
		ended = ended || m.Metrics["responses"] < responses
	}
	if !ended {
		t.Error("no trace ended before the last wave: the test shows little")
	}
	var three []buffer.ShardRef
	for i, cut := range [][2]int{{0, 2}, {2, 3}, {3, n}} {
		ref, _ := playWaves(r, waiting, plan, cut[0], cut[1], fmt.Sprintf("three-%d", i))
		three = append(three, ref)
	}
	for name, shards := range map[string][]buffer.ShardRef{"one": {one}, "three": three} {
		if got := foldWaves(r, waiting, plan, name, shards...); r.Digest(got) != r.Digest(want) {
			t.Errorf("%s: the batch of waves is not that of traces that are answered at once", name)
		}
		if r.Digest(r.Path(name+"-ledger.parquet")) != r.Digest(r.Path("at-once-ledger.parquet")) {
			t.Errorf("%s: the ledgers differ", name)
		}
	}
	// The last row of a trace is whole: that of one wave.
	last := map[shard.TraceName][]shard.Rollout{}
	for _, wave := range append([]buffer.WaveRef{{Rollout: one.Rollout}}, one.Later...) {
		for _, trace := range shard.Traces(stagetest.Read[shard.Rollout](r, wave.Rollout)) {
			last[trace[0].Name()] = trace
		}
	}
	parts := 0
	for _, trace := range shard.Traces(stagetest.Read[shard.Rollout](r, whole.Rollout)) {
		parts = max(parts, len(trace))
		if diff := cmp.Diff(trace, last[trace[0].Name()], cmpopts.IgnoreFields(shard.Rollout{}, "GenerateSeconds", "Wave", "Waits")); diff != "" {
			t.Errorf("%v (-at once +in waves):\n%s", trace[0].Name(), diff)
		}
	}
	if parts != 3 {
		t.Errorf("traces have up to %d contexts, want 3", parts)
	}
}

// TestBudget: under a budget that generation alone uses up each trace ends before its
// second turn, and with time for all it is played to its end, every turn in a wave of its
// own. A rollout that is run again ends where it did: it looks at sealed seconds alone.
func TestBudget(t *testing.T) {
	t.Parallel()
	for seconds, short := range map[string]bool{"1e-9": true, "1e9": false} {
		r := stagetest.New(t, "curriculum.name=uniform", "score.embedding=none", "factors=[]", "select=[]", "scaffold.seconds="+seconds)
		plan, instances := r.Plan(9)
		environment := stagetest.Turns{Env: r.Env, Of: 5, Fresh: func(turn int) bool { return turn%2 == 0 }, Wait: true}
		ref, _ := playWaves(r, environment, plan, 0, len(instances), "budget")
		turns, generated := 0, 0.0
		for _, wave := range append([]buffer.WaveRef{{Score: ref.Score}}, ref.Later...) {
			for _, row := range stagetest.Read[shard.Score](r, wave.Score) {
				turns = max(turns, len(row.Turns))
				for _, turn := range row.Turns {
					generated += turn.GenerateSeconds
					if turn.GenerateSeconds <= 0 {
						t.Errorf("%s s: a turn took %g s to generate", seconds, turn.GenerateSeconds)
					}
				}
			}
		}
		if (turns == 1) != short || generated == 0 {
			t.Errorf("%s s: %d turns in %d waves", seconds, turns, 1+len(ref.Later))
		}
		again := rollout.Inputs{
			Plan: plan, LastRow: len(instances), PolicyFolder: r.Policy(), Iteration: 1, Of: 1, Wave: 1, Output: r.Path("again.parquet"),
			Before: &stage.WaveRef{Rollout: ref.Rollout, Score: ref.Score},
		}
		_, err := rollout.Run(r.Context(), r.Job, rollout.SettingsOf(r.Recipe), environment, again)
		r.Check(err)
		if r.Digest(again.Output) != r.Digest(ref.Later[0].Rollout) {
			t.Errorf("%s s: a rollout that is run again differs", seconds)
		}
	}
}

// TestRatioOverParts: over a trace of four contexts the importance ratio is 1 to
// the last bit, and each turn can have a credit of its own.
func TestRatioOverParts(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "curriculum.name=uniform", "score.embedding=none", "factors=[]", "select=[]", "loss.epochs=2")
	plan, instances := r.Plan(12)
	environment := stagetest.Turns{Env: r.Env, Of: 4, Fresh: func(int) bool { return true }}
	ref, _ := playWaves(r, environment, plan, 0, len(instances), "parts")
	contexts := 0
	for _, trace := range shard.Traces(stagetest.Read[shard.Rollout](r, ref.Rollout)) {
		contexts = max(contexts, len(trace))
		for i, row := range trace {
			if int(row.Part) != i || row.Turns != 1 || int(row.PromptMessages) != len(row.Messages)-1 {
				t.Fatalf("context %d of a trace: %+v", i, row)
			}
		}
	}
	if contexts != 4 {
		t.Fatalf("traces have up to %d contexts, want 4", contexts)
	}
	for _, s := range stagetest.Read[shard.Score](r, ref.Score) {
		for i, turn := range s.Turns {
			if int(turn.Part) != i {
				t.Errorf("turn %d is judged as of context %d", i, turn.Part)
			}
		}
	}
	got := update(r, inputs(r, foldWaves(r, environment, plan, "parts", ref), "learned"))
	if got["trained_tokens"] == 0 || got["first_step_ratio_deviation_max"] != 0 || got["ratio_deviation_max"] == 0 {
		t.Errorf("the first epoch's ratios deviate from 1 by up to %g: %v", got["first_step_ratio_deviation_max"], got)
	}
}

// TestJournal: a score task that is killed does not score again what it had
// scored, and seals what one that is not killed does.
func TestJournal(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t)
	r.Job.Threads = 2
	plan, instances := r.Plan(8)
	calls := map[string]int{}
	var mutex sync.Mutex
	environment := stagetest.Turns{Env: r.Env, Of: 1, Wait: true, Judged: func(task env.Task, turn int) error {
		mutex.Lock()
		defer mutex.Unlock()
		calls[task.ID]++
		return nil
	}}
	_, err := rollout.Run(r.Context(), r.Job, rollout.SettingsOf(r.Recipe), environment, rollout.Inputs{
		Plan: plan, LastRow: len(instances), PolicyFolder: r.Policy(), Iteration: 1, Of: 1, Output: r.Path("rollout.parquet"),
	})
	r.Check(err)
	run := func(ctx context.Context, environment env.Env, name string) error {
		_, err := score.Run(ctx, r.Job, r.Recipe.Score, environment, score.Inputs{Plan: plan, Rollout: r.Path("rollout.parquet"), Iteration: 1, Of: 1, Output: r.Path(name)})
		return err
	}
	r.Check(run(t.Context(), environment, "whole.parquet"))
	whole := 0
	for _, n := range calls {
		whole += n
	}
	clear(calls)
	tries := 0
	for ; tries < 100; tries++ {
		ctx, kill := context.WithCancel(t.Context())
		killed := environment
		judged := 0
		killed.Judged = func(task env.Task, turn int) error {
			mutex.Lock()
			judged++
			now := judged > 3
			mutex.Unlock()
			if now {
				kill()
				return ctx.Err()
			}
			return environment.Judged(task, turn)
		}
		err := run(ctx, killed, "killed.parquet")
		kill()
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	again := 0
	for _, n := range calls {
		again += n
	}
	if again != whole || tries < whole/4 {
		t.Errorf("%d kills: %d verdicts were given, %d are needed", tries, again, whole)
	}
	if r.Digest(r.Path("killed.parquet")) != r.Digest(r.Path("whole.parquet")) {
		t.Error("what was killed came to other verdicts")
	}
}
