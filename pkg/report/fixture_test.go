package report

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
)

// fixtureRecipe has 2 iterations of 2 prompts of 2 responses in 2 shards, and
// evaluates 2 problems with 2 samples, 1 revision and a greedy
// chain.
const fixtureRecipe = `
name: fixture
description: sealed files made by hand
preset: exit
policy:
  backend: cpu
  new: {hidden_size: 32, intermediate_size: 64, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 1, max_position_embeddings: 512}
data:
  train: {generate: {kinds: [add], levels: [1], count: 20, test_share: 0.25}}
  test: {generate: {kinds: [add], levels: [1], count: 5, test_share: 0.25}}
curriculum: {name: exit}
loss: {kl: {coef: 0}}
rollout: {prompts: 2, group: 2, max_new_tokens: 16, shards: 2}
schedule: {iterations: 2, gradient_units: 2}
evaluation: {problems: 2, samples: 2, steps: 1, shards: 1}
`

// fixture is a run whose files are made one by one.
type fixture struct {
	t   testing.TB
	run *rundir.Run
}

func newFixture(t testing.TB, settings ...string) *fixture {
	t.Helper()
	folder := t.TempDir()
	path := filepath.Join(folder, "fixture.yaml")
	must.Do(t, os.WriteFile(path, []byte(fixtureRecipe), 0o666))
	resolved := must.Get(recipe.Load(path, settings))(t)
	r := must.Get(rundir.Create(context.Background(), graph.Dir(filepath.Join(folder, "run")), resolved, seal.Attempt{Host: "a"}, "test"))(t)
	return &fixture{t, r}
}

// second is a time of the fixture's clock.
func second(n float64) time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(n * float64(time.Second)))
}

// job is who wrote a file, when and with what to tell.
func (f *fixture) job(host string, from, to float64, stage graph.Stage, k, n, of int, metrics map[string]float64) (seal.Attempt, seal.Manifest) {
	m := f.run.Graph.Expected(graph.Task{Node: graph.Node{Stage: stage, Iteration: k}, Shard: n})
	m.Of, m.Started, m.Metrics = of, second(from), metrics
	return seal.Attempt{Host: host, Clock: func() time.Time { return second(to) }}, m
}

func (f *fixture) check(_ seal.Manifest, err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// folder seals a folder with one weight file.
func (f *fixture) folder(path, weights string, a seal.Attempt, m seal.Manifest) {
	f.t.Helper()
	w, err := seal.CreateFolder(path, a)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.Path(), "model.safetensors"), []byte(weights), 0o666); err != nil {
		f.t.Fatal(err)
	}
	f.check(w.Commit(m))
}

func instanceID(k, i int) string { return fmt.Sprintf("i%d-%d", k, i) }

// plan seals a plan of the recipe's prompts.
func (f *fixture) plan(k int, a seal.Attempt, m seal.Manifest) {
	f.t.Helper()
	m.Metrics = nil
	var rows []shard.Instance
	for i := range f.run.Recipe.Rollout.Prompts {
		id := instanceID(k, i)
		rows = append(rows, shard.Instance{InstanceID: id, GroupID: id, Kind: "initial", Origin: "base", Iteration: int32(k)})
	}
	f.check(shard.Write(f.run.Dir.Plan(k), rows, nil, a, m))
}

// begin seals the warm start (0 s to 10 s) and the first plan (10 s to 11 s).
func (f *fixture) begin() {
	f.t.Helper()
	d := f.run.Dir
	a, m := f.job("a", 0, 10, graph.StageWarm, 1, 0, 1, map[string]float64{"loss": 1.5, "tokens": 1000})
	f.folder(d.Policy(0), "weights 0", a, m)
	a, m = f.job("a", 10, 11, graph.StageBuffer, 0, 0, 1, map[string]float64{"curriculum_instances": 0})
	f.check(shard.Write(d.State(0), []shard.Entry(nil), nil, a, m))
	f.check(shard.Write(d.Stats(0), []shard.Stat(nil), nil, a, m))
	f.plan(1, a, m)
}

// sample seals the rollout and score of one shard of iteration k.
func (f *fixture) sample(k, n int, host string, rollout, score [2]float64) {
	f.t.Helper()
	d := f.run.Dir
	of := f.run.Recipe.Rollout.Shards
	a, m := f.job(host, rollout[0], rollout[1], graph.StageRollout, k, n, of, map[string]float64{
		"prompt_tokens": 10, "tokens_read_again": float64(n), "response_tokens": float64(20 * (n + 1)), "responses": 2, "cut_off": float64(n),
	})
	f.check(shard.Write(d.Rollout(k, n), []shard.Rollout(nil), nil, a, m))
	a, m = f.job(host, score[0], score[1], graph.StageScore, k, n, of, map[string]float64{
		"outcome_ok": 1, "outcome_wrong": 1, "responses": 2,
		"reward_min": 0, "reward_max": 1, "reason/equal": 1, "reason/not equal": 1, "form/integer": 2, "form_right/integer": 1,
		"compared/exact": 2, "refuses/exact": 1,
	})
	f.check(shard.Write(d.Score(k, n), []shard.Score(nil), nil, a, m))
}

// closing seals how iteration k was closed.
func (f *fixture) closing(c closing.Closing) {
	f.t.Helper()
	a, _ := f.job("a", 0, 0, graph.StageClose, c.Iteration, 0, 2, nil)
	if err := closing.Seal(f.run, c, a, "test"); err != nil {
		f.t.Fatal(err)
	}
}

// buffer seals the buffer stage of iteration k.
func (f *fixture) buffer(k int, from, to float64, metrics map[string]float64, ledger []shard.LedgerRow) {
	f.t.Helper()
	d := f.run.Dir
	a, m := f.job("a", from, to, graph.StageBuffer, k, 0, 1, metrics)
	f.check(seal.WriteBytes(d.Batch(k), []byte("a batch"), a, m))
	m.Metrics = nil
	f.check(shard.Write(d.Ledger(k), ledger, nil, a, m))
	if k < f.run.Recipe.Schedule.Iterations {
		f.plan(k+1, a, m)
	}
	m.Metrics = map[string]float64{"curriculum_instances": float64(3 * k)}
	f.check(shard.Write(d.State(k), []shard.Entry(nil), nil, a, m))
	f.check(shard.Write(d.Stats(k), []shard.Stat(nil), nil, a, m))
}

// fates makes ledger rows for the four responses of iteration k: an empty
// reason is trained on.
func fates(k int, reasons ...string) []shard.LedgerRow {
	var rows []shard.LedgerRow
	for i, reason := range reasons {
		row := shard.LedgerRow{
			InstanceID: instanceID(k, i/2), Sample: int32(i % 2), IterationSampled: int32(k), Iteration: int32(k),
			Fate: string(shard.FateTrained), Reason: reason,
		}
		if reason != "" {
			row.Fate = string(shard.FateDropped)
		}
		rows = append(rows, row)
	}
	return rows
}

// learn seals the policy that iteration k makes.
func (f *fixture) learn(k int, from, to float64) {
	f.t.Helper()
	a, m := f.job("a", from, to, graph.StageLearn, k, 0, 1, map[string]float64{
		"tokens": 100, "trained_tokens": 60, "optimizer_steps": 1, "loss": 0.25, "entropy": 1 / float64(k), "grad_norm": 0.5, "old_kl_k3": 0,
		"ratio_deviation_max": 0, "first_step_ratio_deviation_max": 0, "clip_share": 0, "reference_kl": 0,
	})
	f.folder(f.run.Dir.Optimizer(k), "moments", a, m)
	f.folder(f.run.Dir.Policy(k), fmt.Sprintf("weights %d", k), a, m)
}

// iterations seals both iterations.
func (f *fixture) iterations() {
	f.t.Helper()
	f.sample(1, 0, "a", [2]float64{12, 15}, [2]float64{16, 17})
	f.sample(1, 1, "b", [2]float64{12, 20}, [2]float64{20, 21})
	f.closing(closing.Closing{Iteration: 1, Shards: 2, Included: []int{0, 1}})
	f.buffer(1, 22, 23, map[string]float64{
		"reward_mean": 0.25, "score_mean": 0.25, "depth_mean": 0, "kind_initial": 2, "origin_base": 2,
	}, fates(1, "", "", "constant_group", "constant_group"))
	f.learn(1, 23, 33)
	f.sample(2, 0, "a", [2]float64{34, 36}, [2]float64{37, 38})
	f.sample(2, 1, "b", [2]float64{34, 37}, [2]float64{37, 38})
	f.closing(closing.Closing{Iteration: 2, Shards: 2, Included: []int{0, 1}})
	f.buffer(2, 38, 39, map[string]float64{
		"reward_mean": 0.75, "score_mean": 0.5, "depth_mean": 0.5, "kind_initial": 1, "kind_improve": 1, "origin_base": 1, "origin_buffer": 1,
	}, fates(2, "", "", "", "infra"))
	f.learn(2, 40, 50)
}

// scoredChains is one problem's chains as pairs of first and second answer, the
// greedy chain first: r is right, w is wrong, n had no room.
type scoredChains struct {
	task, kind string
	level      int32
	chains     string
}

// Two problems of two samples. Of policy v000000, 1 of 4 first answers is
// right and 2 of 4 second answers; of v000002, 3 and 3.
var (
	scoresBefore = []scoredChains{{"t1", "add", 2, "ww wr rr"}, {"t2", "digits + sub", 10, "rr ww ww"}}
	scoresAfter  = []scoredChains{{"t1", "add", 2, "rr rr rw"}, {"t2", "digits + sub", 10, "rr rr wr"}}
)

func evaluationRows(version int, problems []scoredChains) []shard.EvaluationRow {
	var rows []shard.EvaluationRow
	for _, p := range problems {
		for i := 0; i < len(p.chains); i += 3 {
			for step := range 2 {
				row := shard.EvaluationRow{
					TaskID: p.task, Kind: p.kind, Level: p.level, PolicyVersion: int32(version), Sample: int32(i/3 - 1), Step: int32(step),
					Prompt: "What is " + p.task + "?", Response: fmt.Sprintf("answer %d", step), Extracted: fmt.Sprint(step),
					Outcome: string(shard.OutcomeWrong), ResponseTokens: int32(2 + step),
				}
				switch p.chains[i+step] {
				case 'r':
					row.Outcome, row.Score, row.Milestones = string(shard.OutcomeOK), 1, []string{"right"}
				case 'n':
					row.Outcome, row.Response, row.Extracted, row.ResponseTokens = string(shard.OutcomeNoRoom), "", "", 0
				}
				rows = append(rows, row)
			}
		}
	}
	return rows
}

func (f *fixture) evaluate(version int, from, to float64, rows []shard.EvaluationRow) {
	f.t.Helper()
	a, m := f.job("a", from, to, graph.StageEvaluate, version, 0, 1, map[string]float64{"response_tokens": 30, "responses": float64(len(rows))})
	f.check(shard.Write(f.run.Dir.Evaluation(version, 0), rows, nil, a, m))
}

// finished is a run with everything.
func finished(t *testing.T, settings ...string) *fixture {
	t.Helper()
	f := newFixture(t, settings...)
	f.begin()
	f.iterations()
	f.evaluate(0, 11, 14, evaluationRows(0, scoresBefore))
	f.evaluate(2, 50, 60, evaluationRows(2, scoresAfter))
	return f
}

func (f *fixture) collect() Summary {
	f.t.Helper()
	s, err := measure.Of(f.run).Summary(context.Background())
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
