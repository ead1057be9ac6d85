// Package runtest has what tests of the packages of a run share.
package runtest

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
)

// Board is a run folder whose files are sealed by name alone: the surveyor
// reads manifests, never rows.
type Board struct {
	t *testing.T
	graph.Graph
	Surveyor *survey.Surveyor
}

// Smoke is the path of jobs/smoke.yaml.
func Smoke() string {
	return sourcetree.Path("jobs", "smoke.yaml")
}

// Load resolves jobs/smoke.yaml with settings.
func Load(t *testing.T, settings ...string) *recipe.Resolved {
	t.Helper()
	return LoadOf(t, "smoke", settings...)
}

// LoadOf resolves a recipe of jobs with settings.
func LoadOf(t *testing.T, name string, settings ...string) *recipe.Resolved {
	t.Helper()
	resolved, err := recipe.Load(sourcetree.Path("jobs", name+".yaml"), settings)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// NewBoard makes a run folder in which nothing is sealed.
func NewBoard(t *testing.T, settings ...string) *Board {
	g := graph.Graph{Dir: graph.Dir(t.TempDir()), Recipe: Load(t, append([]string{"warm_start.chunk=300"}, settings...)...).Recipe}
	if !strings.Contains(strings.Join(settings, " "), "evaluation.") {
		g.Recipe.Evaluation.Problems = 0
	}
	return BoardOf(t, g)
}

// BoardOf is the folder of a run that is there.
func BoardOf(t *testing.T, g graph.Graph) *Board { return &Board{t, g, survey.New(g)} }

// Run is the run of the folder, as opened.
func (b *Board) Run() *rundir.Run {
	return &rundir.Run{Dir: b.Dir, Recipe: b.Recipe, Graph: b.Graph, Identity: rundir.Identity{RunID: b.RunID, Name: b.Recipe.Name}}
}

// Node is a node without a step.
func Node(stage graph.Stage, k int) graph.Node { return graph.Node{Stage: stage, Iteration: k} }

// Seal makes the outputs of shards of a node; of all when none is named.
func (b *Board) Seal(n graph.Node, shards ...int) {
	b.t.Helper()
	if len(shards) == 0 {
		for shard := range b.Shards(n) {
			shards = append(shards, shard)
		}
	}
	for _, shard := range shards {
		if err := sealOutputs(b.Graph, graph.Task{Node: n, Shard: shard}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// sealOutputs seals the outputs of a task that are not there, by their names.
func sealOutputs(g graph.Graph, task graph.Task) error {
	for _, path := range g.Outputs(task) {
		if _, err := os.Lstat(seal.ManifestPath(path)); err == nil {
			continue
		}
		if _, err := seal.WriteBytes(path, []byte(path), seal.AttemptFromEnv(), g.Expected(task)); err != nil {
			return err
		}
	}
	return nil
}

// Survey looks at the files again.
func (b *Board) Survey() survey.Result {
	b.t.Helper()
	b.Surveyor.Refresh()
	s, err := b.Surveyor.Survey(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// Close seals the closings that a survey found.
func (b *Board) Close() []closing.Closing {
	b.t.Helper()
	closable := b.Survey().Closable
	for _, c := range closable {
		if err := closing.Seal(b.Run(), c, seal.AttemptFromEnv(), "test"); err != nil {
			b.t.Fatal(err)
		}
	}
	return closable
}

// Ready checks which tasks a survey finds ready, in their order.
func (b *Board) Ready(want ...string) {
	b.t.Helper()
	var got []string
	for _, task := range b.Survey().Ready {
		got = append(got, task.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("ready (-want +got):\n%s", diff)
	}
}
