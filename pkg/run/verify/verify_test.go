package verify_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// done is a run of one iteration, or two, that is done: its files are sealed by name, but
// for plans and ledgers, which hold two responses each.
func done(t *testing.T, settings ...string) (*runtest.Board, *rundir.Run) {
	t.Helper()
	b := runtest.NewBoard(t, append([]string{"schedule.iterations=1", "rollout.group=2"}, settings...)...)
	r := b.Run()
	write := func(path string, err error) {
		if err != nil {
			t.Fatal(path, err)
		}
	}
	for k, id := range []string{"a", "b"}[:b.Recipe.Schedule.Iterations] {
		_, err := shard.Write(r.Dir.Plan(k+1), []shard.Instance{{InstanceID: id}}, nil, seal.AttemptFromEnv(), b.Expected(graph.Task{Node: runtest.Node(graph.StageBuffer, k)}))
		write("plan", err)
		_, err = shard.Write(r.Dir.Ledger(k+1), []shard.LedgerRow{{InstanceID: id, Fate: "trained"}, {InstanceID: id, Sample: 1, Fate: "trained"}}, nil, seal.AttemptFromEnv(), b.Expected(graph.Task{Node: runtest.Node(graph.StageBuffer, k+1)}))
		write("ledger", err)
	}
	for _, n := range b.Nodes() {
		b.Seal(n)
	}
	shards := b.Shards(runtest.Node(graph.StageScore, 1))
	closed := closing.Closing{Iteration: 1, Shards: shards, Included: []int{}, Late: []int{}, LeftOut: []int{}, Carried: []closing.Ref{}}
	for n := range shards {
		closed.Included = append(closed.Included, n)
	}
	write("close", closing.Seal(r, closed, seal.AttemptFromEnv(), "test"))
	m, err := seal.WriteBytes(r.Dir.Tasks(), nil, seal.AttemptFromEnv(), seal.Manifest{})
	write("tasks", err)
	r.Identity.TasksSHA256 = m.ContentSHA256
	return b, r
}

// seals is a change of a file that must succeed.
func seals(t *testing.T) func(seal.Manifest, error) {
	return func(_ seal.Manifest, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFaults: what is wrong with a run after each damage, what fixes it, and what a repair
// removes and queues to be made again.
func TestFaults(t *testing.T) {
	t.Parallel()
	const again, restore = "it is made again, to the same bytes", "restore it from a copy"
	for _, c := range []struct {
		what           string
		settings       []string
		damage         func(t *testing.T, b *runtest.Board, r *rundir.Run) error
		want           map[string]string // problem and mend of each fault
		removed, queue []string
		left           string // what a repair cannot fix
	}{
		{what: "nothing", damage: func(*testing.T, *runtest.Board, *rundir.Run) error { return nil }},
		{
			what: "a part of a file", damage: func(_ *testing.T, b *runtest.Board, _ *rundir.Run) error { return os.Truncate(b.Dir.State(1), 3) },
			want:    map[string]string{"iter/000001/state.parquet": "3|makes it again, to the same bytes"},
			removed: []string{"iter/000001/state.parquet"}, queue: []string{"iter/000001/state.parquet"},
		},
		{
			what: "a manifest", damage: func(_ *testing.T, b *runtest.Board, _ *rundir.Run) error {
				return os.Remove(seal.ManifestPath(b.Dir.Rollout(1, 1)))
			},
			want:    map[string]string{"iter/000001/rollout/00001.parquet": "not sealed|makes it again"},
			removed: []string{"iter/000001/rollout/00001.parquet"}, queue: []string{"iter/000001/rollout/00001.parquet"},
		},
		{
			what: "a file", damage: func(_ *testing.T, b *runtest.Board, _ *rundir.Run) error { return os.Remove(b.Dir.Rollout(1, 1)) },
			want:    map[string]string{"iter/000001/rollout/00001.parquet": "is sealed by its manifest, and is not there|makes it again"},
			removed: []string{"iter/000001/rollout/00001.parquet"}, queue: []string{"iter/000001/rollout/00001.parquet"},
		},
		{
			what: "both", damage: func(_ *testing.T, b *runtest.Board, _ *rundir.Run) error { return seal.Remove(b.Dir.Score(1, 0)) },
			want:  map[string]string{"iter/000001/score/00000.parquet": `"iter/000001/score/00000.parquet" is missing; later files were made from it|` + again},
			queue: []string{"iter/000001/score/00000.parquet"},
		},
		{
			what: "a goal, which nothing was made from", damage: func(_ *testing.T, b *runtest.Board, _ *rundir.Run) error { return seal.Remove(b.Dir.Policy(1)) },
		},
		{
			what: "a file that people put there", damage: func(_ *testing.T, b *runtest.Board, _ *rundir.Run) error {
				return errors.Join(os.WriteFile(b.Dir.Join("iter", "notes.json"), nil, 0o666), os.WriteFile(b.Dir.Join("policy", ".tmp"), nil, 0o666),
					os.MkdirAll(filepath.Join(b.Dir.Logs(), "x"), 0o777), os.MkdirAll(b.Dir.Join(".half"), 0o777), os.WriteFile(filepath.Join(b.Dir.Logs(), "x.log"), nil, 0o666), os.WriteFile(filepath.Join(b.Dir.Logs(), "x.log.json"), nil, 0o666), os.WriteFile(filepath.Join(b.Dir.Jobs(), "a.json"), nil, 0o666))
			},
		},
		{
			what: "who the run is", damage: func(_ *testing.T, b *runtest.Board, _ *rundir.Run) error {
				return errors.Join(os.WriteFile(b.Dir.Identity(), nil, 0o666), os.WriteFile(b.Dir.Recipe(), nil, 0o666))
			},
			want:    map[string]string{"run.json": "not sealed|", "recipe.yaml": "not sealed|"},
			removed: []string{"recipe.yaml", "run.json"}, queue: []string{"recipe.yaml", "run.json"},
		},
		{
			what: "a file, and a ledger that lacks a response", damage: func(t *testing.T, b *runtest.Board, _ *rundir.Run) error {
				if err := errors.Join(os.Truncate(b.Dir.State(1), 3), seal.Remove(b.Dir.Ledger(1))); err != nil {
					return err
				}
				seals(t)(shard.Write(b.Dir.Ledger(1), []shard.LedgerRow{}, nil, seal.AttemptFromEnv(), b.Expected(graph.Task{Node: runtest.Node(graph.StageBuffer, 1)})))
				return nil
			},
			want:    map[string]string{"iter/000001/state.parquet": "3|makes it again"},
			removed: []string{"iter/000001/state.parquet"}, queue: []string{"iter/000001/state.parquet"},
		},
		{
			what: "the work of another task", damage: func(t *testing.T, b *runtest.Board, _ *rundir.Run) error {
				if err := seal.Remove(b.Dir.Score(1, 0)); err != nil {
					return err
				}
				seals(t)(seal.WriteBytes(b.Dir.Score(1, 0), nil, seal.AttemptFromEnv(), b.Expected(graph.Task{Node: runtest.Node(graph.StageScore, 1), Shard: 1})))
				return nil
			},
			want:    map[string]string{"iter/000001/score/00000.parquet": "it is the work of score-000001-00001|makes it again"},
			removed: []string{"iter/000001/score/00000.parquet"}, queue: []string{"iter/000001/score/00000.parquet"},
		},
		{
			what: "another input", damage: func(t *testing.T, b *runtest.Board, _ *rundir.Run) error {
				if err := seal.Remove(b.Dir.Stats(1)); err != nil {
					return err
				}
				m := b.Expected(graph.Task{Node: runtest.Node(graph.StageBuffer, 1)})
				m.Inputs = []seal.Input{{Path: "iter/000001/plan.parquet", ContentSHA256: "00"}, {Path: "/elsewhere", ContentSHA256: "11"}}
				seals(t)(seal.WriteBytes(b.Dir.Stats(1), nil, seal.AttemptFromEnv(), m))
				return nil
			},
			want: map[string]string{"iter/000001/stats.parquet": `it was made from another "iter/000001/plan.parquet": content sha256 00, now|` + restore},
			left: "iter/000001/stats.parquet cannot be made again",
		},
		{
			what: "the tasks", damage: func(_ *testing.T, b *runtest.Board, _ *rundir.Run) error { return seal.Remove(b.Dir.Tasks()) },
			want: map[string]string{"tasks.parquet": `"tasks.parquet" is missing|` + again}, queue: []string{"tasks.parquet"},
		},
		{
			what: "other tasks", damage: func(_ *testing.T, _ *runtest.Board, r *rundir.Run) error { r.Identity.TasksSHA256 = "00"; return nil },
			want:    map[string]string{"tasks.parquet": "these are not the tasks that the run was made with|makes it again"},
			removed: []string{"tasks.parquet"}, queue: []string{"tasks.parquet"},
		},
		{
			what: "the tasks and a data file", damage: func(_ *testing.T, b *runtest.Board, r *rundir.Run) error {
				r.Identity.Data = []rundir.DataFile{{Path: b.Dir.Join("notes"), SHA256: "00"}}
				return errors.Join(os.WriteFile(b.Dir.Join("notes"), []byte("x"), 0o666), seal.Remove(b.Dir.Tasks()))
			},
			want:  map[string]string{"DIR/notes": "it has changed since the run was made|put the file back", "tasks.parquet": "is missing|" + again},
			queue: []string{"tasks.parquet"}, left: "notes cannot be made again: it has changed",
		},
		{
			what: "a response without a disposition", damage: func(t *testing.T, b *runtest.Board, _ *rundir.Run) error {
				if err := seal.Remove(b.Dir.Ledger(1)); err != nil {
					return err
				}
				seals(t)(shard.Write(b.Dir.Ledger(1), []shard.LedgerRow{{InstanceID: "a", Fate: "trained"}}, nil, seal.AttemptFromEnv(), b.Expected(graph.Task{Node: runtest.Node(graph.StageBuffer, 1)})))
				return nil
			},
			want: map[string]string{"iter": "every iteration is closed and 1 responses have no disposition|bug"}, left: "iter cannot be made again",
		},
		{
			what: "shards that the iteration was closed without", settings: []string{"rollout.shards=4", "schedule.oversample=2", "schedule.quorum=0.5"},
			damage: func(_ *testing.T, b *runtest.Board, r *rundir.Run) error {
				c := closing.Closing{Iteration: 1, Shards: 4, Included: []int{0}, Late: []int{1}, LeftOut: []int{2, 3}}
				return errors.Join(seal.Remove(b.Dir.Close(1)), closing.Seal(r, c, seal.AttemptFromEnv(), "test"),
					seal.Remove(b.Dir.Rollout(1, 1)), seal.Remove(b.Dir.Score(1, 2)), seal.Remove(b.Dir.Score(1, 0)))
			},
			want: map[string]string{"iter/000001/score/00000.parquet": "is missing|" + again}, queue: []string{"iter/000001/score/00000.parquet"},
		},
		{
			what: "a late shard that a later iteration was closed with", settings: []string{"schedule.iterations=2", "schedule.oversample=2"},
			damage: func(_ *testing.T, b *runtest.Board, r *rundir.Run) error {
				err := errors.Join(seal.Remove(b.Dir.Close(1)), seal.Remove(b.Dir.Rollout(1, 1)))
				for _, c := range []closing.Closing{{Iteration: 1, Shards: 2, Included: []int{0}, Late: []int{1}}, {Iteration: 2, Shards: 2, Included: []int{0, 1}, Carried: []closing.Ref{{Iteration: 1, Shard: 1}}}} {
					err = errors.Join(err, closing.Seal(r, c, seal.AttemptFromEnv(), "test"))
				}
				return err
			},
			want:  map[string]string{"iter/000001/rollout/00001.parquet": "is missing|" + again},
			queue: []string{"iter/000001/rollout/00001.parquet"},
		},
		{
			what: "what was pruned", damage: func(t *testing.T, b *runtest.Board, _ *rundir.Run) error {
				_, err := seal.Prune(t.Context(), b.Dir.Policy(0))
				return err
			},
		},
		{
			what: "what was pruned and made again", damage: func(t *testing.T, b *runtest.Board, _ *rundir.Run) error {
				if _, err := seal.Prune(t.Context(), b.Dir.Policy(0)); err != nil {
					return err
				}
				m := b.Expected(graph.Task{Node: runtest.Node(graph.StageWarm, 1)})
				seals(t)(seal.WriteBytes(b.Dir.Policy(0), []byte("other"), seal.AttemptFromEnv(), m))
				return nil
			},
			want: map[string]string{"policy/v000000": "it was pruned and made again, to other bytes|make it again with the binaries"},
			left: "policy/v000000 cannot be made again",
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			b, r := done(t, c.settings...)
			if err := errors.Join(os.MkdirAll(b.Dir.Jobs(), 0o777), c.damage(t, b, r)); err != nil {
				t.Fatal(err)
			}
			v, err := verify.Verify(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range v.Faults {
				want, known := c.want[strings.Replace(f.Path, string(b.Dir), "DIR", 1)]
				problem, mend, _ := strings.Cut(want, "|")
				if !known || !strings.Contains(f.Problem, problem) || !strings.Contains(f.Mend, mend) {
					t.Errorf("%+v, want %q", f, want)
				}
			}
			if len(v.Faults) != len(c.want) || !slices.IsSortedFunc(v.Faults, func(a, b verify.Fault) int { return strings.Compare(a.Path, b.Path) }) {
				t.Errorf("%d faults in the order %+v, want %d", len(v.Faults), v.Faults, len(c.want))
			}
			if c.want == nil && (v.Ledger.Planned != 2 || v.Ledger.Trained != 2 || v.Files < 10 || v.Bytes < 100) {
				t.Errorf("%+v", v)
			}
			removed, err := verify.Repair(r, v, seal.AttemptFromEnv())
			if (err == nil) != (c.left == "") || err != nil && (exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), c.left) || len(exitcode.Hints(err)) == 0) {
				t.Errorf("repaired: %v, want %q", err, c.left)
			}
			queue, err := rundir.ReadRepairs(b.Dir)
			if err != nil || !slices.Equal(removed, c.removed) || !slices.Equal(queue, c.queue) {
				t.Errorf("removed %q and queued %q (%v), want %q and %q", removed, queue, err, c.removed, c.queue)
			}
			for _, rel := range c.removed {
				for _, path := range []string{b.Dir.Join(rel), seal.ManifestPath(b.Dir.Join(rel))} {
					if _, err := os.Lstat(path); err == nil {
						t.Errorf("%s is there", path)
					}
				}
			}
		})
	}
}

// TestFaultsOfAServer: what a server sampled cannot be made again to the same bytes: what
// was learned from it stays, and what was not is sampled again with all that was made of it.
func TestFaultsOfAServer(t *testing.T) {
	t.Parallel()
	b, r := done(t, "evaluation.problems=1", "evaluation.shards=1")
	r.Recipe.Rollout.Remote = &recipe.Remote{}
	learned, unused := b.Dir.Rel(b.Dir.Rollout(1, 0)), b.Dir.Sampled(runtest.Node(graph.StageEvalRollout, 0), 0)
	m := b.Expected(graph.Task{Node: runtest.Node(graph.StageBuffer, 1)})
	m.Inputs = []seal.Input{{Path: learned}}
	if err := errors.Join(seal.Remove(b.Dir.State(1)), os.Truncate(b.Dir.Join(learned), 3), seal.Remove(b.Dir.Rollout(1, 1)), os.Truncate(unused, 3)); err != nil {
		t.Fatal(err)
	}
	seals(t)(seal.WriteBytes(b.Dir.State(1), nil, seal.AttemptFromEnv(), m))
	v, paths := runtest.Faults(t, r)
	scores := b.Dir.Rel(b.Dir.Sampled(runtest.Node(graph.StageEvalScore, 0), 0))
	want := []string{b.Dir.Rel(unused), scores, learned, b.Dir.Rel(b.Dir.Rollout(1, 1)), b.Dir.Rel(b.Dir.Score(1, 1))}
	if slices.Sort(want); !slices.Equal(paths, want) {
		t.Fatalf("faults %q, want %q", paths, want)
	}
	for _, f := range v.Faults {
		mend := map[string]string{learned: "restore it from a copy", scores: "makes it again", b.Dir.Rel(b.Dir.Score(1, 1)): "makes it again"}[f.Path]
		if mend == "" {
			mend = "has the server sample it again"
		}
		if !strings.Contains(f.Mend, mend) {
			t.Errorf("%+v, want %q", f, mend)
		}
	}
	removed, err := verify.Repair(r, v, seal.AttemptFromEnv())
	want = []string{b.Dir.Rel(unused), scores, b.Dir.Rel(b.Dir.Score(1, 1))}
	if slices.Sort(want); exitcode.Code(err) != exitcode.Data || !slices.Equal(removed, want) {
		t.Errorf("removed %q (%v), want %q", removed, err, want)
	}
}

// TestSharedWarmStart: checkpoints are not missed where another run has them.
func TestSharedWarmStart(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"warm/000001", "/other/policy/v000000"} {
		b, r := done(t, "warm_start.chunk=100")
		if err := errors.Join(seal.Remove(b.Dir.Warm(1)), seal.Remove(b.Dir.Policy(0))); err != nil {
			t.Fatal(err)
		}
		m := b.Expected(graph.Task{Node: runtest.Node(graph.StageWarm, 3)})
		m.Inputs = []seal.Input{{Path: from}}
		seals(t)(seal.WriteBytes(b.Dir.Policy(0), nil, seal.AttemptFromEnv(), m))
		_, paths := runtest.Faults(t, r)
		var want []string
		if !filepath.IsAbs(from) {
			want = []string{"warm/000001"}
		}
		if diff := cmp.Diff(want, paths); diff != "" {
			t.Errorf("from %s (-want +got):\n%s", from, diff)
		}
	}
}

// TestLaterWaves: a shard whose traces go on has a next wave, and is missed without it.
func TestLaterWaves(t *testing.T) {
	t.Parallel()
	b, r := done(t)
	r.Graph.Recipe.Env, r.Graph.Recipe.Data = runtest.LoadOf(t, "mle-smoke", "env.max_turns=2").Recipe.Env, runtest.LoadOf(t, "mle-smoke").Recipe.Data
	first := runtest.Node(graph.StageScore, 1)
	if err := seal.Remove(b.Dir.Score(1, 1)); err != nil {
		t.Fatal(err)
	}
	m := b.Expected(graph.Task{Node: first, Shard: 1})
	m.Metrics = map[string]float64{shard.MetricWaiting: 1}
	seals(t)(seal.WriteBytes(b.Dir.Score(1, 1), nil, seal.AttemptFromEnv(), m))
	_, paths := runtest.Faults(t, r)
	want := []string{b.Dir.Rel(b.Dir.Sampled(first.InWave(1).Sampling(), 1)), b.Dir.Rel(b.Dir.Sampled(first.InWave(1), 1))}
	if slices.Sort(want); !slices.Equal(paths, want) {
		t.Errorf("missed are %q, want %q", paths, want)
	}
}

// TestDamagedPack: what a pack holds undamaged is put back; one of a server's answers that
// nobody can read is left to a person.
func TestDamagedPack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		remote, unreadable bool
		mend               string
		left               bool
	}{{mend: "puts back what is not damaged"}, {remote: true, mend: "puts back what is not damaged"}, {unreadable: true, mend: "makes it again"}, {unreadable: true, remote: true, mend: "put it back from a copy", left: true}} {
		b, r := done(t, "rollout.shards=3")
		if c.remote {
			r.Recipe.Rollout.Remote = &recipe.Remote{}
		}
		var paths []string
		for n := range 3 {
			paths = append(paths, b.Dir.Score(1, n))
			if err := seal.Remove(paths[n]); err != nil {
				t.Fatal(err)
			}
			seals(t)(shard.Write(paths[n], []shard.Score{{Sample: int32(n)}}, nil, seal.AttemptFromEnv(), b.Expected(graph.Task{Node: runtest.Node(graph.StageScore, 1), Shard: n})))
		}
		second, err := os.ReadFile(paths[1])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := shard.Compact(t.Context(), paths, seal.AttemptFromEnv()); err != nil {
			t.Fatal(err)
		}
		if v, paths := runtest.Faults(t, r); len(paths) > 0 || v.Files == 0 {
			t.Errorf("packed: %q", paths)
		}
		pack, ok := seal.PackOf(paths[0])
		content, err := os.ReadFile(pack)
		if err != nil || !ok {
			t.Fatal(err)
		}
		if at := bytes.Index(content, second); c.unreadable {
			content = content[:len(content)/4]
		} else {
			content[at+len(second)/2]++
		}
		if err := os.WriteFile(pack, content, 0o666); err != nil {
			t.Fatal(err)
		}
		v, _ := runtest.Faults(t, r)
		at := slices.IndexFunc(v.Faults, func(f verify.Fault) bool { return f.Path == b.Dir.Rel(pack) })
		if at < 0 || !strings.Contains(v.Faults[at].Mend, c.mend) {
			t.Fatalf("%+v: faults %+v", c, v.Faults)
		}
		if _, err := verify.Repair(r, v, seal.AttemptFromEnv()); (err != nil) != c.left {
			t.Errorf("%+v: repaired: %v", c, err)
		}
		if _, err := os.Lstat(paths[0]); (err == nil) == c.unreadable {
			t.Errorf("%+v: a shard that is not damaged: %v", c, err)
		}
	}
}
