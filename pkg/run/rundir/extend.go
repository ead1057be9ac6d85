package rundir

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// mayChange are the settings that an extension may change: what it has made is,
// to the byte, what it would have made with them. A name that ends with a dot is a section.
var mayChange = []string{"description", "schedule.iterations", "schedule.decay_ends", "schedule.keep_every", "schedule.max_attempts", "evaluation.every", "resources."}

// Change resolves the recipe that extends a finished run. What has been made must
// not be what other settings would have made; the error says what to do instead. Without
// a change it gives nil.
func (r *Run) Change(ctx context.Context, settings []string) (*recipe.Resolved, error) {
	resolved, err := recipe.Change(r.RecipeBytes, settings)
	if err != nil {
		return nil, err
	}
	own, err := recipe.Present(r.RecipeBytes)
	if err != nil {
		return nil, fmt.Errorf("reading the recipe of run %q: %w", r.Dir, err)
	}
	changes, err := config.Changes(own, resolved.YAML)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	for _, c := range changes {
		if !slices.ContainsFunc(mayChange, func(may string) bool {
			return c.Path == may || strings.HasSuffix(may, ".") && strings.HasPrefix(c.Path, may)
		}) {
			return nil, exitcode.WithHint(exitcode.Usagef("run %q cannot be extended by %s: its iterations used the old value", r.Dir, c),
				"an extension may change %s; to change more, start a run from its last policy: lathe run RECIPE --run NEW --from %s --set …",
				strings.ReplaceAll(strings.Join(mayChange, ", "), "resources.", "resources"), r.Dir)
		}
	}
	was, is := r.Recipe.Schedule, resolved.Recipe.Schedule
	if is.Iterations < was.Iterations {
		return nil, exitcode.Usagef("schedule.iterations: got %d, and run %q has %d already", is.Iterations, r.Dir, was.Iterations)
	}
	if err := sameRates(r.Recipe, resolved.Recipe); err != nil {
		return nil, err
	}
	if is.Iterations == was.Iterations || was.Iterations == 0 {
		return resolved, nil
	}
	return resolved, r.endIsOpen(ctx)
}

// sameRates refuses settings with which the iterations that have been made would have
// learned at other rates.
func sameRates(was, is recipe.Recipe) error {
	o, last := was.Optimizer, was.Schedule.Iterations
	steps := was.Loss.Epochs * was.Loss.MiniBatches
	rate := func(s recipe.Schedule, k int) float64 {
		rate, _ := loss.LearningRate(o, k*steps, s.DecayEnd(k)*steps) // what is wrong with o was found before
		return rate
	}
	for k := 1; k <= last; k++ {
		if rate(was.Schedule, k) == rate(is.Schedule, k) {
			continue
		}
		ends := was.Schedule.DecayEnds
		if len(ends) == 0 {
			ends = []int{last}
		}
		list := func(ends []int) string { return strings.ReplaceAll(fmt.Sprint(ends), " ", ",") }
		stays, moves := is.Schedule, is.Schedule
		stays.DecayEnds = ends
		moves.DecayEnds = append(slices.Clone(ends), is.Schedule.Iterations)
		return exitcode.WithHint(exitcode.Usagef("schedule.decay_ends: got %s, with which iteration %d would have learned at rate %.3g, and it learned at %.3g",
			list(is.Schedule.DecayEnds), k, rate(is.Schedule, k), rate(was.Schedule, k)),
			"say what the learning rate does after iteration %d: --set schedule.decay_ends=%s leaves it where it ended, at %.3g; --set schedule.decay_ends=%s gives the rest the rates of a run of %d iterations, from %.3g on",
			last, list(ends), rate(stays, last+1), list(moves.DecayEnds), is.Schedule.Iterations, rate(moves, last+1))
	}
	return nil
}

// endIsOpen refuses to go on from a last iteration that has dropped responses because it
// was the last.
func (r *Run) endIsOpen(ctx context.Context) error {
	last := r.Recipe.Schedule.Iterations
	rows, _, err := shard.Read[shard.LedgerRow](ctx, r.Dir.Ledger(last), r.Graph.Reading(0))
	if err != nil {
		return err
	}
	dropped := 0
	for _, row := range rows {
		if row.Reason == shard.ReasonRunEnded || row.Reason == shard.ReasonBatchNotFull {
			dropped++
		}
	}
	if dropped > 0 {
		return exitcode.WithHint(exitcode.Usagef("run %q cannot be extended: its last iteration dropped %s because the run ended, and would have kept more of them with more iterations", r.Dir, plural.Count(dropped, "segment")),
			"start a run from its last policy: lathe run RECIPE --run NEW --from %s", r.Dir)
	}
	return nil
}

// Extend extends a finished run by another recipe, which [Run.Change] has checked.
// The recipes before it stay, and what was made with them is the run's.
func (r *Run) Extend(ctx context.Context, resolved *recipe.Resolved, attempt seal.Attempt, version string) (*Run, error) {
	m := createManifest(r.Identity, version)
	m.RecipeSHA256 = resolved.SHA256
	m.Inputs = []seal.Input{{Path: r.Dir.Rel(r.Dir.Extension(len(r.Graph.Extended))), ContentSHA256: r.Graph.RecipeSHA256}}
	if _, err := seal.WriteBytes(r.Dir.Extension(len(r.Graph.Extended)+1), resolved.YAML, attempt, m); err != nil {
		return nil, fmt.Errorf("extending run %q: %w", r.Dir, err)
	}
	return Open(ctx, r.Dir)
}

// AwaitExtension waits until this node sees that a run was extended so many times.
func AwaitExtension(ctx context.Context, dir graph.Dir, times int) error {
	if times == 0 {
		return nil
	}
	_, err := seal.Read(ctx, dir.Extension(times), seal.Options{Visibility: Visibility()})
	return err
}

// readRecipes reads the recipe of a run and those that extended it, the last one last.
func readRecipes(ctx context.Context, dir graph.Dir) (texts [][]byte, manifests []seal.Manifest, err error) {
	for n := 0; ; n++ {
		text, m, err := seal.OpenDocument(ctx, dir.Extension(n), seal.Options{})
		switch {
		case n > 0 && errors.Is(err, seal.ErrNotSealed):
			return texts, manifests, nil
		case err != nil:
			return nil, nil, wayBack(dir, dir.Extension(n), err)
		case n > 0 && (m.Run != manifests[0].Run || len(m.Inputs) != 1 || m.Inputs[0].ContentSHA256 != manifests[n-1].SHA256):
			return nil, nil, exitcode.Dataf("%q does not extend this run: it is of run %q", dir.Extension(n), m.Run)
		}
		texts, manifests = append(texts, text), append(manifests, m)
	}
}

// readGraph is the graph of a run by its newest recipe, the last of texts.
func readGraph(ctx context.Context, dir graph.Dir) (g graph.Graph, texts [][]byte, err error) {
	texts, manifests, err := readRecipes(ctx, dir)
	if err != nil {
		return g, nil, err
	}
	last := len(texts) - 1
	g = graph.Graph{Dir: dir, RunID: manifests[0].Run, RecipeSHA256: manifests[last].SHA256}
	for n, text := range texts {
		r, err := recipe.Parse(text)
		if err != nil {
			return g, texts, err
		}
		g.Recipe = *r
		if n < last {
			g.Extended = append(g.Extended, graph.Extended{Iterations: r.Schedule.Iterations, RecipeSHA256: manifests[n].SHA256, At: manifests[n+1].Ended})
		}
	}
	return g, texts, nil
}

// Lineage says in sentences what a run comes from, the last first: each extension, and
// the runs that it and those before it started from.
func (r *Run) Lineage() []string {
	var lines []string
	is := r.Recipe.Schedule.Iterations
	for _, e := range slices.Backward(r.Graph.Extended) {
		lines = append(lines, fmt.Sprintf("extended from %d to %s", e.Iterations, plural.Count(is, "iteration")))
		is = e.Iterations
	}
	for o := r.Identity.Origin; o != nil; o = o.From {
		lines = append(lines, o.String())
	}
	return lines
}
