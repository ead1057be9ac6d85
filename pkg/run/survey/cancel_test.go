package survey_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/status"
	"github.com/lathe-rl/lathe/pkg/run/survey"
)

// countdown is a context that is cancelled when it has been looked at so often.
type countdown struct {
	context.Context
	looks  atomic.Int64
	cancel int64
}

func (c *countdown) Err() error {
	if c.looks.Add(1) > c.cancel {
		return context.Canceled
	}
	return nil
}

// TestSurveyEndsWithItsContext: whoever asks for a run of many shards can stop
// asking, wherever the answer has come to.
func TestSurveyEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "rollout.prompts=2000", "rollout.shards=2000", "schedule.iterations=20")
	b.Seal(runtest.Node(graph.StageBuffer, 0))
	b.Seal(runtest.Node(graph.StageWarm, 1))
	b.Seal(runtest.Node(graph.StageRollout, 1), 0)
	b.Seal(runtest.Node(graph.StageScore, 1), 0)
	r := b.Run()
	whole := &countdown{Context: t.Context(), cancel: 1 << 40}
	if _, err := status.Read(whole, r, nil, nil); err != nil {
		t.Fatal(err)
	}
	if looks := whole.looks.Load(); looks < 20*2000 {
		t.Errorf("the context was looked at %d times for 20 iterations of 2000 shards", looks)
	}
	for _, looks := range []int64{0, 1, 5, 100, 3000, 10000, whole.looks.Load() / 2, whole.looks.Load() - 1} {
		for name, ask := range map[string]func(ctx context.Context) error{
			"survey": func(ctx context.Context) error { _, err := survey.New(b.Graph).Survey(ctx); return err },
			"status": func(ctx context.Context) error { _, err := status.Read(ctx, r, nil, nil); return err },
		} {
			ctx := &countdown{Context: t.Context(), cancel: looks}
			err := ask(ctx)
			after := ctx.looks.Load() - looks
			if after <= 0 {
				continue // it was done before
			}
			if !errors.Is(err, context.Canceled) || exitcode.Code(err) != exitcode.Stopped {
				t.Errorf("%s, stopped after %d looks: %v", name, looks, err)
			}
			if after > 500 {
				t.Errorf("%s, stopped after %d looks, goes on for %d", name, looks, after)
			}
		}
	}
}

// TestSurveyStopsBetweenShards: with many shards nobody waits for the rest of them.
func TestSurveyStopsBetweenShards(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := survey.Of(survey.NewTold(graph.Graph{Dir: "/run", Recipe: runtest.Load(t, "rollout.prompts=100", "rollout.shards=100").Recipe}))
	for _, n := range []graph.Node{runtest.Node(graph.StageBuffer, 0), s.LastLearn(0)} {
		s.Tell(graph.Task{Node: n}, false)
	}
	asked := 0
	s.GaveUp = func(graph.Task) bool {
		if asked++; asked == 3 {
			cancel()
		}
		return false
	}
	if _, err := s.Survey(ctx); asked != 3 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d shards were asked about, want 3 (%v)", asked, err)
	}
}
