package warm_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

// A warm start demonstrates the kinds of tasks that it names, and all without a
// name.
func TestKindsOfDemonstrations(t *testing.T) {
	t.Parallel()
	learned := func(kinds string) (digest string, err error) {
		r := stagetest.New(t, "data.train.generate.kinds=[add, sub]", "warm_start.kinds="+kinds)
		folder := r.Path("policy")
		_, err = warm.Run(r.Context(), r.Job, warm.SettingsOf(r.Recipe), r.Env, warm.Inputs{Chunk: 1, LastStep: 2, PolicyOutput: folder})
		if err != nil {
			return "", err
		}
		return r.Digest(folder), nil
	}
	digests := map[string]string{}
	for _, kinds := range []string{"[]", "[sub]", "[s*]", "[add, sub]"} {
		var err error
		if digests[kinds], err = learned(kinds); err != nil {
			t.Fatal(err)
		}
	}
	if digests["[]"] != digests["[add, sub]"] || digests["[sub]"] != digests["[s*]"] || digests["[]"] == digests["[sub]"] {
		t.Errorf("digests by the kinds that are demonstrated: %v", digests)
	}
	_, err := learned("[mul, div]")
	if exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), `no training task of a kind in warm_start.kinds ["mul" "div"]`) {
		t.Errorf("kinds that no task has: %v", err)
	}
}

// plainAnswers is an environment that demonstrates first answers alone.
type plainAnswers struct{ env.Env }

func (p plainAnswers) Demonstration(task env.Task, kind shard.Kind, stream rng.Stream) ([]shard.Message, bool, error) {
	if kind != shard.KindInitial {
		return nil, false, nil
	}
	return p.Env.Demonstration(task, kind, stream)
}

// revisions is an environment that demonstrates no first answers.
type revisions struct{ env.Env }

func (r revisions) Demonstration(task env.Task, kind shard.Kind, stream rng.Stream) ([]shard.Message, bool, error) {
	if kind == shard.KindInitial {
		return nil, false, nil
	}
	return r.Env.Demonstration(task, kind, stream)
}

// What is to be learned from and cannot be demonstrated is refused by the setting that asks
// for it, before anything is made.
func TestCheckDemonstrations(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t)
	for _, c := range []struct {
		steps            int
		improve, diverge float64
		kinds            []string
		says             string
	}{
		{steps: 10},
		{10, 1, 0, nil, "warm_start.improve: "},
		{10, 0, 0.5, nil, "warm_start.diverge: "},
		{0, 1, 0, nil, ""},
		{10, 0, 0, []string{"mul"}, "environment \"math\" has no training task of a kind in warm_start.kinds "},
	} {
		own := warm.SettingsOf(r.Recipe)
		own.WarmStart.Steps, own.WarmStart.Kinds, own.WarmStart.Improve, own.WarmStart.Diverge = c.steps, c.kinds, c.improve, c.diverge
		err := warm.CheckDemonstrations(plainAnswers{r.Env}, own)
		if (err == nil) != (c.says == "") || err != nil && (exitcode.Code(err) != exitcode.Usage || !strings.HasPrefix(err.Error(), c.says) || strings.Contains(err.Error(), "warm_start.steps")) {
			t.Errorf("%+v: %v", c, err)
		}
		_, again := warm.Run(r.Context(), r.Job, own, plainAnswers{r.Env}, warm.Inputs{Chunk: 1, LastStep: min(1, c.steps), PolicyOutput: filepath.Join(t.TempDir(), "policy")})
		if (again == nil) != (err == nil) || err != nil && !strings.Contains(again.Error(), c.says) {
			t.Errorf("%+v: when run %v, when checked %v", c, again, err)
		}
	}
}

// First answers are asked for where the other kinds leave a share to them.
func TestCheckRevisions(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t)
	own := warm.SettingsOf(r.Recipe)
	for diverge, refused := range map[float64]bool{0.5: false, 0.25: true} {
		own.WarmStart.Improve, own.WarmStart.Diverge = 0.5, diverge
		if err := warm.CheckDemonstrations(revisions{r.Env}, own); (err != nil) != refused {
			t.Errorf("improve 0.5, diverge %g: %v", diverge, err)
		}
	}
}

// A policy of another run is cited where its digest is known, and refused where it has another.
// A checkpoint without steps reads no pool.
func TestSource(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t)
	s := warm.SettingsOf(r.Recipe)
	first, err := warm.Run(r.Context(), r.Job, s, r.Env, warm.Inputs{Chunk: 1, PolicyOutput: r.Path("first"), Pool: r.Path("no pool")})
	r.Check(err)
	s.Policy.New, s.Policy.Path = nil, r.Path("first")
	for sha256, c := range map[string]struct {
		cited int
		says  string
	}{"": {0, ""}, first.ContentSHA256: {1, ""}, first.ContentSHA256[1:]: {0, "has changed since the run was made: content sha256 " + first.ContentSHA256}} {
		m, err := warm.Run(r.Context(), r.Job, s, r.Env, warm.Inputs{Chunk: 1, Source: r.Path("first"), SourceSHA256: sha256, PolicyOutput: r.Path("second" + sha256)})
		if len(m.Inputs) != c.cited || (err == nil) != (c.says == "") || err != nil && (exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("digest %q: %d inputs, %v", sha256, len(m.Inputs), err)
		}
	}
}

// forPools is a rig with the digest of its policy's tokenizer.
func forPools(t *testing.T, settings ...string) (*stagetest.Rig, warm.Settings, string) {
	t.Helper()
	r := stagetest.New(t, settings...)
	s := warm.SettingsOf(r.Recipe)
	r.Check(os.Mkdir(r.Path("new"), 0o755))
	r.Check(warm.InitPolicy(s, r.Env, r.Path("new")))
	content, err := os.ReadFile(r.Path("new/tokenizer.json"))
	r.Check(err)
	sum := sha256.Sum256(content)
	return r, s, hex.EncodeToString(sum[:])
}

// pool seals a pool of rows with a tokenizer, and returns its content's digest.
func pool(t *testing.T, path, tokenizer string, rows ...shard.PoolRow) string {
	m, err := shard.Write(path, rows, map[string]string{shard.PoolTokenizer: tokenizer}, seal.Attempt{}, seal.Manifest{})
	must.Do(t, err)
	return m.ContentSHA256
}

// The first loss of a policy whose weights are next to nothing is that of 256 bytes and 4
// special tokens alike, ln 260 for each target, however its tokens are split into passes.
// A step counts all tokens of its rows. By Adam, its first step moves a weight by the rate,
// here a quarter of 0.01 in a warmup of 4 steps.
func TestFirstLoss(t *testing.T) {
	t.Parallel()
	rows := []shard.PoolRow{
		{TokenIDs: []int32{1, 2, 3}, LossMask: []bool{false, true, true}},
		{TokenIDs: []int32{1, 4, 5, 6, 7}, LossMask: []bool{false, false, false, true, false}},
	}
	for _, passTokens := range []int{0, 1, 4, 64} {
		r, s, own := forPools(t, "policy.new.initializer_range=1e-9", "warm_start.batch=2",
			"warm_start.optimizer.warmup_steps=4", "warm_start.optimizer.learning_rate=0.01", "warm_start.optimizer.epsilon=1e-20")
		s.MicroBatchTokens = passTokens
		in := warm.Inputs{Chunk: 1, LastStep: 1, PolicyOutput: r.Path("policy"), Pool: r.Path("pool.parquet")}
		in.PoolSHA256 = pool(t, in.Pool, own, rows...)
		m, err := warm.Run(r.Context(), r.Job, s, r.Env, in)
		if err != nil || math.Abs(m.Metrics["loss"]-math.Log(260)) > 1e-5 || m.Metrics["tokens"] != 8 || m.Metrics["optimizer_steps"] != 1 || len(m.Inputs) != 1 {
			t.Errorf("passes of %d tokens: %v, %v", passTokens, m.Metrics, err)
		}
		_, weights, err := checkpoint.Load(r.Path("policy"))
		r.Check(err)
		if moved := float64(slices.Max(weights[0].Data)); math.Abs(moved-0.0025) > 1e-7 {
			t.Errorf("passes of %d tokens: %s moves by %g", passTokens, weights[0].Name, moved)
		}
		in.Chunk, in.FirstStep, in.LastStep, in.PolicyOutput, in.Policy = 2, 1, 3, r.Path("next"), r.Path("policy")
		if m, err = warm.Run(r.Context(), r.Job, s, r.Env, in); err != nil || m.Metrics["tokens"] != 16 {
			t.Errorf("two more steps: %v, %v", m.Metrics, err)
		}
	}
}

// A pool that cannot be learned from is refused by its fault.
func TestPoolRefused(t *testing.T) {
	t.Parallel()
	r, s, own := forPools(t, "warm_start.batch=1")
	row := shard.PoolRow{TokenIDs: []int32{1, 2}, LossMask: []bool{false, true}}
	r.Check(os.WriteFile(r.Path("open"), nil, 0o666))
	r.Check(stagetest.Write(r.Path("other"), []shard.TaskRow{{}}))
	changed := pool(t, r.Path("whole"), own, row)
	for name, c := range map[string]struct{ sha256, says string }{
		"open":  {"", "is not a sealed pool"},
		"other": {"", `and is no pool`},
		"empty": {pool(t, r.Path("empty"), own), "is empty"},
		"alien": {pool(t, r.Path("alien"), "00", row), "holds tokens of another tokenizer"},
		"whole": {changed[1:], "has changed since the run was made"},
		"odd":   {pool(t, r.Path("odd"), own, row, shard.PoolRow{TokenIDs: []int32{1, 2, 3}, LossMask: []bool{true}}), "row 1 has 3 tokens and a mask of 1"},
	} {
		_, err := warm.Run(r.Context(), r.Job, s, r.Env, warm.Inputs{Chunk: 1, LastStep: 1, Pool: r.Path(name), PoolSHA256: c.sha256, PolicyOutput: r.Path("policy")})
		if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), r.Path(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A warm start that goes below its loss stops there, in this checkpoint and in those after
// it, and each cites what it goes on from.
func TestStopLoss(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "warm_start.stop_loss=5.5", "warm_start.batch=4")
	s := warm.SettingsOf(r.Recipe)
	first, err := warm.Run(r.Context(), r.Job, s, r.Env, warm.Inputs{Chunk: 1, LastStep: 50, PolicyOutput: r.Path("1"), OptimizerOutput: r.Path("1.optim"), PolicyVersion: -1})
	r.Check(err)
	steps, sum := first.Metrics["optimizer_steps"], first.Metrics["recent_loss_sum"]
	if mean := sum / (1 - math.Pow(0.95, steps)); steps < 2 || steps > 49 || steps != first.Metrics["recent_loss_steps"] || mean >= 5.5 || first.PolicyVersion != -1 || first.Shard != 0 || first.Of != 1 {
		t.Errorf("stopped after %v", first.Metrics)
	}
	second, err := warm.Run(r.Context(), r.Job, s, r.Env, warm.Inputs{Chunk: 2, FirstStep: 50, LastStep: 100, Policy: r.Path("1"), Optimizer: r.Path("1.optim"), PolicyOutput: r.Path("2")})
	r.Check(err)
	if second.Metrics["optimizer_steps"] != 0 || second.Metrics["recent_loss_sum"] != sum || second.PolicyVersion != 0 || len(second.Inputs) != 2 || second.Inputs[0].ContentSHA256 != first.ContentSHA256 {
		t.Errorf("after it: %v from %v", second.Metrics, second.Inputs)
	}
}

// The first checkpoint of adapters seals what they adapt, and a later one reads it.
func TestBaseOfAdapters(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "policy.lora={rank: 2, alpha: 4}", "loss.kl.ref_every=0", "warm_start.batch=2")
	s := warm.SettingsOf(r.Recipe)
	in := warm.Inputs{Chunk: 1, LastStep: 1, PolicyOutput: r.Path("1"), OptimizerOutput: r.Path("1.optim"), Base: r.Path("base")}
	_, err := warm.Run(r.Context(), r.Job, s, r.Env, in)
	r.Check(err)
	base := r.Digest(in.Base)
	in = warm.Inputs{Chunk: 2, FirstStep: 1, LastStep: 2, Policy: r.Path("1"), Optimizer: r.Path("1.optim"), PolicyOutput: r.Path("2"), Base: r.Path("base")}
	_, err = warm.Run(r.Context(), r.Job, s, r.Env, in)
	r.Check(err)
	if r.Digest(in.Base) != base || r.Digest(r.Path("1")) == r.Digest(r.Path("2")) {
		t.Error("a later checkpoint makes another base, or learns nothing")
	}
}

// Where a run's first policy has its chat format and its shape from, and what a new one is.
func TestNewPolicies(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "policy.dtype=bfloat16")
	s := warm.SettingsOf(r.Recipe)
	folder := r.Path("new")
	r.Check(os.Mkdir(folder, 0o755))
	r.Check(warm.InitPolicy(s, r.Env, folder))
	config, weights, err := checkpoint.Load(folder)
	r.Check(err)
	if config.VocabSize != 260 || config.HeadDim != 16 || config.BOSTokenID != -1 || len(config.EOSTokenIDs) != 1 || weights[0].DType != "BF16" {
		t.Errorf("%+v of %s", config, weights[0].DType)
	}
	if inputs, err := warm.CheckData(s, r.Env, "", r.Dir); warm.Shape(s.Policy).VocabSize != 260 || inputs != nil || err != nil {
		t.Errorf("%d tokens, data %v, %v", warm.Shape(s.Policy).VocabSize, inputs, err)
	}
	for _, from := range []string{folder, ""} {
		format, positions, err := warm.Chat(s.Policy, r.Env, from)
		if err != nil || positions != 128 || format.StopTokens()[0] != config.EOSTokenIDs[0] {
			t.Errorf("chat of %q: %d positions, %v", from, positions, err)
		}
	}
	s.Policy.New.Tokenizer, s.Policy.New.VocabSize = "bpe", 500
	if shape := warm.Shape(s.Policy); shape.VocabSize != 500 {
		t.Errorf("%d tokens", shape.VocabSize)
	}
	s.Policy.New.Tokenizer = "letters"
	if _, _, err := warm.Chat(s.Policy, r.Env, ""); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("an unknown tokenizer: %v", err)
	}
	s.Policy.New = nil
	var none chat.Chat
	if format, positions, err := warm.Chat(s.Policy, r.Env, ""); format != none || positions != 0 || err != nil {
		t.Errorf("of no policy: %v, %d, %v", format, positions, err)
	}
	if _, _, err := warm.Chat(s.Policy, r.Env, r.Path("none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a folder that is not there: %v", err)
	}
}
