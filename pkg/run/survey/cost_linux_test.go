package survey_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// What a gate looks at: it lists each folder once, opens each manifest and each
// file that is sealed once, and nothing for what is missing.
func TestSurveyListsEachFolderOnce(t *testing.T) {
	t.Parallel()
	const shards, judged, sampled = 10_000, 100, 250
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
// shards that are sealed take their time.
//
// Alone: its time is bounded.
func TestSurveyTakesItsTime(t *testing.T) {
	survey := func(b *runtest.Board) (survey.Result, time.Duration) {
		t.Helper()
		began := time.Now()
		found, err := survey.New(b.Graph).Survey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return found, time.Since(began)
	}
	half := runtest.NewBoard(t, "schedule.iterations=1", "rollout.prompts=4000", "rollout.shards=4000")
	half.Seal(runtest.Node(graph.StageBuffer, 0))
	half.Seal(runtest.Node(graph.StageWarm, 1))
	for shard := range 2000 {
		half.Seal(runtest.Node(graph.StageRollout, 1), shard)
		half.Seal(runtest.Node(graph.StageScore, 1), shard)
	}
	found, took := survey(half)
	t.Logf("2,000 of 4,000 shards sealed: %v", took)
	if len(found.Ready) != 2000 || took > 2*time.Second {
		t.Errorf("2,000 of 4,000 shards sealed: %d tasks are ready after %v", len(found.Ready), took)
	}
	long := runtest.NewBoard(t, "schedule.iterations=1000", "rollout.prompts=10000", "rollout.shards=10000")
	found, took = survey(long)
	t.Logf("1,000 iterations of 10,000 shards to come: %v", took)
	if len(found.Ready) != 2 || took > 2*time.Second {
		t.Errorf("1,000 iterations of 10,000 shards to come: %d tasks are ready after %v", len(found.Ready), took)
	}
}
