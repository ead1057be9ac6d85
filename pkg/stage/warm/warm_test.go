package warm_test

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
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

// What is to be learned from and cannot be demonstrated is refused by the setting that asks
// for it, before anything is made.
func TestCheckDemonstrations(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t)
	own := warm.SettingsOf(r.Recipe)
	own.WarmStart.Steps, own.WarmStart.Pool, own.WarmStart.Kinds = 10, "", nil
	for _, c := range []struct {
		improve, diverge float64
		says             string
	}{{0, 0, ""}, {0.5, 0, "warm_start.improve: "}, {0, 0.5, "warm_start.diverge: "}} {
		own.WarmStart.Improve, own.WarmStart.Diverge = c.improve, c.diverge
		err := warm.CheckDemonstrations(plainAnswers{r.Env}, own)
		if (err == nil) != (c.says == "") || err != nil && (exitcode.Code(err) != exitcode.Usage || !strings.HasPrefix(err.Error(), c.says) || strings.Contains(err.Error(), "warm_start.steps")) {
			t.Errorf("improve %g, diverge %g: %v, want %q", c.improve, c.diverge, err, c.says)
		}
	}
	own.WarmStart.Steps = 0
	if err := warm.CheckDemonstrations(plainAnswers{r.Env}, own); err != nil {
		t.Errorf("without a warm start: %v", err)
	}
}
