package score_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/score"
)

// slow is an environment whose scores take minutes.
type slow struct {
	env.Env
	maxFailed float64
}

func (s slow) Traits() env.Traits {
	traits := s.Env.Traits()
	traits.Slow, traits.MaxFailed, traits.MaxFailedSetting = true, s.maxFailed, "env.max_failed"
	return traits
}

// TestTooManyFailed: a task of which too many scores failed by our fault fails,
// and another try asks for these alone. What is borne is left out as infra.
func TestTooManyFailed(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t)
	plan, instances := r.Plan(5)
	rollouts := answers(r, instances, func(int) (string, shard.Outcome) { return "7", shard.OutcomeOK })
	asked, down := 0, map[string]bool{instances[1].Messages[0].Content: true, instances[3].Messages[0].Content: true}
	failing := stagetest.Failing{Env: r.Env, Fail: func(conversation []shard.Message) error {
		asked++
		if down[conversation[0].Content] {
			return errors.New("no cage can be built here")
		}
		return nil
	}}
	logged := 0
	r.Job.Log = func(string, ...any) { logged++ }
	in := score.Inputs{Plan: plan, Rollout: rollouts, Iteration: 1, Of: 1, Output: r.Path("score.parquet")}
	_, err := score.Run(r.Context(), r.Job, r.Recipe.Score, slow{failing, 0.2}, in)
	if logged != 2 || err == nil || !strings.Contains(err.Error(), "2 of 5 responses could not be scored; the first: no cage can be built here") {
		t.Errorf("two of five, 0.2 borne: logged %d, %v", logged, err)
	}
	if asked != 3+2*3 {
		t.Errorf("asked %d times, want once for each verdict and three times for each failure", asked)
	}
	asked = 0
	delete(down, instances[3].Messages[0].Content)
	if _, err := score.Run(r.Context(), r.Job, r.Recipe.Score, slow{failing, 0.2}, in); err != nil || asked != 1+3 {
		t.Errorf("one of five on another node: %v, asked %d times; want one verdict that had failed, and three tries of the other", err, asked)
	}
	rows := stagetest.Read[shard.Score](r, in.Output)
	for i, row := range rows {
		if infra := row.Outcome == string(shard.OutcomeInfra); infra != (i == 1) {
			t.Errorf("row %d: outcome %s", i, row.Outcome)
		}
	}
	if _, err := os.Stat(seal.JournalPath(in.Output)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the journal of a sealed shard: %v", err)
	}

	// What the wave before has scored is not asked for again, and it is cited.
	asked, in.Before, in.Output, in.Evaluation = 0, in.Output, r.Path("next.parquet"), true
	m, err := score.Run(r.Context(), r.Job, r.Recipe.Score, slow{failing, 0.2}, in)
	if err != nil || asked != 3 || m.Stage != "evalscore" || len(m.Inputs) != 3 || m.Inputs[2].Path != "score.parquet" {
		t.Errorf("in the next wave: asked %d times, %s from %v, %v", asked, m.Stage, m.Inputs, err)
	}
}

// refusal is what a program that runs well says of an item.
type refusal string

func (r refusal) Error() string        { return string(r) }
func (r refusal) Is(target error) bool { return target == env.ErrOwnProgram }

// TestFailsTheSameWay: a task of which the program refuses each response in the same way is
// one that another try does not help.
func TestFailsTheSameWay(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t)
	plan, instances := r.Plan(5)
	rollouts := answers(r, instances, func(int) (string, shard.Outcome) { return "7", shard.OutcomeOK })
	failing := stagetest.Failing{Env: r.Env, Fail: func([]shard.Message) error { return refusal("KeyError: 'answer' (reward.py:7)") }}
	in := score.Inputs{Plan: plan, Rollout: rollouts, Iteration: 1, Of: 1, Output: r.Path("score.parquet")}
	_, err := score.Run(r.Context(), r.Job, r.Recipe.Score, slow{failing, 0.2}, in)
	if exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), "scoring failed in the same way for 5 responses") || !strings.Contains(err.Error(), "KeyError: 'answer'") {
		t.Errorf("code %d: %v", exitcode.Code(err), err)
	}
}
