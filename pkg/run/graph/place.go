package graph

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// A sealed file is a task's if its manifest says so, and not because it lies
// where the task's output ought to: a file of another run, or of another shard,
// may have been copied there.

// Expected is what the manifests of a task's outputs say of their place.
func (g Graph) Expected(t Task) seal.Manifest {
	return seal.Manifest{
		Run: g.RunID, RecipeSHA256: g.RecipeSHA256, Seed: g.Recipe.Seed,
		Stage: string(t.Stage), Iteration: t.Iteration, Step: t.Step, Wave: t.Wave, Shard: t.Shard, Of: g.Shards(t.Node),
		PolicyVersion: -1,
	}
}

// Foreign says why an output is not of a task; empty if it is.
func (g Graph) Foreign(t Task, m seal.Manifest) string {
	want := g.Expected(t)
	is := Task{Node{Stage(m.Stage), m.Iteration, m.Step, m.Wave}, m.Shard}
	switch {
	case m.Run != want.Run:
		return fmt.Sprintf("it is of run %q, and this is run %q", m.Run, want.Run)
	case m.RecipeSHA256 != want.RecipeSHA256 && !slices.ContainsFunc(g.Extended, func(e Extended) bool { return e.RecipeSHA256 == m.RecipeSHA256 }):
		return fmt.Sprintf("it was made by a recipe with sha256 %s, and the run's has %s", m.RecipeSHA256, want.RecipeSHA256)
	case m.Seed != want.Seed:
		return fmt.Sprintf("it was made with seed %d, and the run's is %d", m.Seed, want.Seed)
	case is != t:
		return fmt.Sprintf("it is the work of %s, and here belongs that of %s", is, t)
	case m.Of != want.Of:
		return fmt.Sprintf("it is one of %d shards, and here belongs one of %d", m.Of, want.Of)
	}
	return ""
}

// Reading is how to read sealed files of the run: with patience for what other
// nodes have sealed, and none for what does not belong where it lies.
func (g Graph) Reading(visibility time.Duration) seal.Options {
	return seal.Options{Visibility: visibility, Accept: g.Accept}
}

// Accept is an error about a sealed file or folder of the run that is of another
// run or of another place. What the run was made from is pinned in its identity.
func (g Graph) Accept(path string, m seal.Manifest) error {
	t, made := g.TaskOf(path)
	if !made {
		return nil
	}
	return g.acceptAs(t, path, m)
}

// ReadingAs is [Graph.Reading] of an output whose task is known, which need not
// be found by its path.
func (g Graph) ReadingAs(t Task, visibility time.Duration) seal.Options {
	accept := func(path string, m seal.Manifest) error { return g.acceptAs(t, path, m) }
	return seal.Options{Visibility: visibility, Accept: accept}
}

func (g Graph) acceptAs(t Task, path string, m seal.Manifest) error {
	reason := g.Foreign(t, m)
	if reason == "" {
		return nil
	}
	return exitcode.WithHint(exitcode.Dataf("%q does not belong there: %s", g.Dir.Rel(path), reason),
		"lathe verify %s lists what does not belong; with --repair it removes that, and the run makes its own", g.Dir)
}

// pathForms are the files and folders of a run, by what of their task their
// names say.
var pathForms = sync.OnceValue(func() []pathForm {
	var forms []pathForm
	for _, f := range []struct{ stage, form string }{
		{"warm", `warm/(?P<iteration>\d{6,})(\.optim)?`},
		{"policy", `policy/v(?P<iteration>\d{6,})(\.ref|(\.critic)?(\.optim)?)`},
		{"base", `policy/base`},
		{"plan", `iter/(?P<iteration>\d{6,})/plan\.parquet`},
		{"rollout", `iter/(?P<iteration>\d{6,})/(w(?P<wave>\d\d+)/)?rollout/(?P<shard>\d{5,})\.parquet`},
		{"score", `iter/(?P<iteration>\d{6,})/(w(?P<wave>\d\d+)/)?score/(?P<shard>\d{5,})\.parquet`},
		{"metrics", `iter/(?P<iteration>\d{6,})/(metrics|usage)\.parquet`},
		{"close", `iter/(?P<iteration>\d{6,})/close\.json`},
		{"buffer", `iter/(?P<iteration>\d{6,})/(state\.parquet|stats\.parquet|batch\.arrow|waiting\.parquet|ledger\.parquet)`},
		{"gradient", `iter/(?P<iteration>\d{6,})/grad/step-(?P<step>\d{3,})/(?P<shard>\d{5,})\.arrow`},
		{"sum", `iter/(?P<iteration>\d{6,})/grad/step-(?P<step>\d{3,})/part/(?P<shard>\d{5,})\.arrow`},
		{"apply", `iter/(?P<iteration>\d{6,})/step/(?P<step>\d{3,})\.parts/(?P<shard>\d{5,})`},
		{"last apply", `policy/v(?P<iteration>\d{6,})\.parts/(?P<shard>\d{5,})`},
		{"learn", `iter/(?P<iteration>\d{6,})/step/(?P<step>\d{3,})(\.critic)?(\.optim)?`},
		{"evalplan", `eval/plan\.parquet`},
		{"evalrollout", `eval/v(?P<iteration>\d{6,})/(w(?P<wave>\d\d+)/)?rollout/(?P<shard>\d{5,})\.parquet`},
		{"evalscore", `eval/v(?P<iteration>\d{6,})/(w(?P<wave>\d\d+)/)?score/(?P<shard>\d{5,})\.parquet`},
		{"evaluate", `eval/v(?P<iteration>\d{6,})/(?P<shard>\d{5,})\.parquet`},
	} {
		forms = append(forms, pathForm{f.stage, regexp.MustCompile("^" + f.form + "$")})
	}
	return forms
})

type pathForm struct {
	stage string // or what else tells the stage
	form  *regexp.Regexp
}

// TaskOf is the task that makes a file or folder of the run, the inverse of
// [Graph.Outputs]. Closings and metrics have tasks of stages of their own.
func (g Graph) TaskOf(path string) (Task, bool) {
	rel := g.Dir.Rel(path)
	for _, f := range pathForms() {
		found := f.form.FindStringSubmatch(rel)
		if found == nil {
			continue
		}
		number := func(name string) int {
			i := f.form.SubexpIndex(name)
			if i < 0 {
				return 0
			}
			n, _ := strconv.Atoi(found[i]) // empty where there is no wave; what is too large is no output
			return n
		}
		t := Task{Node{Stage(f.stage), number("iteration"), number("step"), number("wave")}, number("shard")}
		switch f.stage {
		case "policy":
			t.Node = g.LastLearn(t.Iteration)
		case "last apply":
			t.Node = Node{Stage: StageApply, Iteration: t.Iteration, Step: g.OptimizerSteps() - 1}
		case "base":
			t.Node = Node{Stage: StageWarm, Iteration: 1}
		case "plan":
			t.Node = g.PlanMaker(Node{Stage: StageRollout, Iteration: t.Iteration})
		}
		return t, g.has(t) && slices.Contains(g.Outputs(t), g.Dir.Join(strings.Split(rel, "/")...))
	}
	return Task{}, false
}

// has reports whether the run has a task, or somebody who does its work.
func (g Graph) has(t Task) bool {
	return g.Check(t) == nil
}
