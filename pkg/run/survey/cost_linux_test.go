package survey_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/internal/cputime"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// What a gate looks at: it lists each folder once, opens each manifest and each
// file that is sealed once, and nothing for what is missing.
func TestSurveyListsEachFolderOnce(t *testing.T) {
	t.Parallel()
	const shards, judged, sampled = 10_000, 40, 100 // reads go by 32 at a time
	n := fmt.Sprint(shards)
	b := runtest.NewBoard(t, "schedule.iterations=50", "rollout.prompts="+n, "rollout.shards="+n)
	b.Seal(runtest.Node(graph.StageBuffer, 0))
	b.Seal(runtest.Node(graph.StageWarm, 1))
	for shard := range sampled {
		b.Seal(runtest.Node(graph.StageRollout, 1), shard)
	}
	for shard := range judged {
		b.Seal(runtest.Node(graph.StageScore, 1), shard)
	}
	rollouts, scores := filepath.Dir(b.Dir.Rollout(1, 0)), filepath.Dir(b.Dir.Score(1, 0))
	folders := []string{string(b.Dir), filepath.Dir(b.Dir.Iteration(1)), b.Dir.Iteration(1), rollouts, scores}
	opens := runtest.CountOpens(t, folders...)

	surveyor := survey.New(b.Graph)
	found, err := surveyor.Survey(t.Context())
	if err != nil || len(found.Ready) != shards-judged || found.Ready[0].Stage != graph.StageScore || len(found.Closable) != 0 {
		t.Fatalf("%d tasks are ready, %d iterations closable (%v)", len(found.Ready), len(found.Closable), err)
	}
	listings, files := opens.Counts()
	for _, folder := range folders {
		if listings[folder] != 1 {
			t.Errorf("%s was listed %d times", b.Dir.Rel(folder), listings[folder])
		}
	}
	for path, times := range files {
		if times != 1 {
			t.Errorf("%s was opened %d times", b.Dir.Rel(path), times)
		}
	}
	// The plan is written with the first state: two files and two manifests.
	if in := 2*(judged+sampled) + 2; len(files) > in+2 || len(files) < in-2 {
		t.Errorf("%d files were opened, want %d", len(files), in)
	}

	// Nothing is looked at again until somebody asks for it, and then only
	// what was missing.
	if _, err := surveyor.Survey(t.Context()); err != nil {
		t.Fatal(err)
	}
	if listings, files := opens.Counts(); len(listings)+len(files) > 0 {
		t.Errorf("a survey of what is known lists %v and opens %d files", listings, len(files))
	}
	b.Seal(runtest.Node(graph.StageScore, 1), judged)
	opens.Counts()
	surveyor.Refresh()
	found, err = surveyor.Survey(t.Context())
	if err != nil || len(found.Ready) != shards-judged-1 {
		t.Fatalf("%d tasks are ready (%v)", len(found.Ready), err)
	}
	listings, files = opens.Counts()
	late := b.Dir.Score(1, judged)
	if listings[scores] != 1 || listings[rollouts] != 1 || files[late] != 1 || files[seal.ManifestPath(late)] != 1 || len(files) != 2 {
		t.Errorf("after a refresh, listings %v and files %v", listings, files)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = survey.NewInventory(b.Graph).Sealed(stopped, graph.Task{Node: runtest.Node(graph.StageScore, 1)})
	if _, files := opens.Counts(); !errors.Is(err, context.Canceled) || files[seal.ManifestPath(late)] > 0 {
		t.Errorf("nobody waits: %v, and %d files were opened", err, len(files))
	}
}

// Iterations that have not begun are not looked at, however many there are.
func TestSurveyLeavesTheFutureAlone(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=400", "rollout.prompts=500", "rollout.shards=500", "evaluation.problems=500", "data.test.generate.count=500", "evaluation.shards=500", "evaluation.every=1")
	b.Seal(runtest.Node(graph.StageBuffer, 0))
	b.Seal(runtest.Node(graph.StageWarm, 1))
	b.Seal(runtest.Node(graph.StageEvalPlan, 0))
	opens := runtest.CountOpens(t, string(b.Dir), b.Dir.Join("iter"), b.Dir.Iteration(1), b.Dir.Join("policy"), b.Dir.Join("eval"))
	found, err := survey.New(b.Graph).Survey(t.Context())
	if err != nil || len(found.Ready) != 1000 {
		t.Fatalf("%d tasks are ready (%v)", len(found.Ready), err)
	}
	listings, files := opens.Counts()
	for folder, times := range listings {
		if times != 1 {
			t.Errorf("%s was listed %d times", folder, times)
		}
	}
	if len(files) > 8 {
		t.Errorf("%d files were opened: %v", len(files), files)
	}
}

// A survey costs what there is to look at: neither the iterations to come nor the
// shards that are sealed take their time, which is that of processors.
//
// Alone: its time is bounded.
func TestSurveyTakesItsTime(t *testing.T) {
	for _, c := range []struct{ iterations, shards, sealed, ready int }{{1, 4000, 2000, 2000}, {1000, 10000, 0, 2}} {
		b := runtest.NewBoard(t, fmt.Sprintf("schedule.iterations=%d", c.iterations), fmt.Sprintf("rollout.prompts=%d", c.shards), fmt.Sprintf("rollout.shards=%d", c.shards))
		told := survey.NewTold(b.Graph)
		if c.sealed > 0 {
			told.Tell(graph.Task{Node: runtest.Node(graph.StageBuffer, 0)}, false)
			told.Tell(graph.Task{Node: runtest.Node(graph.StageWarm, 1)}, false)
		}
		for shard := range c.sealed {
			told.Tell(graph.Task{Node: runtest.Node(graph.StageRollout, 1), Shard: shard}, false)
			told.Tell(graph.Task{Node: runtest.Node(graph.StageScore, 1), Shard: shard}, false)
		}
		began := cputime.Spent(t, false)
		found, err := survey.Of(told).Survey(t.Context())
		took := cputime.Spent(t, false) - began
		t.Logf("%d iterations, %d of %d shards sealed: %v", c.iterations, c.sealed, c.shards, took)
		if err != nil || len(found.Ready) != c.ready || took > 2*time.Second {
			t.Errorf("%d iterations, %d of %d shards sealed: %d tasks are ready after %v: %v", c.iterations, c.sealed, c.shards, len(found.Ready), took, err)
		}
	}
}
