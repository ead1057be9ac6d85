package reproduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/sweep"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// CheckData refuses a plan of which a run that is still to be made has no tasks here: it
// would fail hours later, once the experiments before it are done. Runs that are taken
// from elsewhere are not made.
func (p Plan) CheckData(ctx context.Context, folder string, taken Taken) error {
	var lacking, others []string
	var first error
	for _, e := range p.Experiments {
		err := e.lacksData(ctx, folder, taken[e.Name])
		if err == nil {
			others = append(others, "--only "+e.Name)
			continue
		}
		first = cmp.Or(first, err)
		lacking = append(lacking, e.Name)
	}
	if first == nil {
		return nil
	}
	err := fmt.Errorf("nothing was started, for the tasks of %s cannot be read: %w", strings.Join(lacking, ", "), first)
	if len(others) > 0 {
		err = exitcode.WithHint(err, "without them: %s", strings.Join(others, " "))
	}
	return err
}

// lacksData is the reason why the tasks of a run that is still to be made cannot be read.
func (e Experiment) lacksData(ctx context.Context, folder string, taken map[string]bool) error {
	index, err := e.Runs(folder)
	if err != nil {
		return err
	}
	asked := map[string]bool{} // recipes, whose seeds have the same data
	for _, r := range index.Runs {
		if taken[r.Name] || asked[r.Recipe] || len(e.needs(methodOf(r.Recipe))) > 0 { // what a run begins with is not there yet
			continue
		}
		_, err := rundir.Open(ctx, graph.Dir(filepath.Join(folder, e.Name, r.Name)))
		if !errors.Is(err, seal.ErrNotSealed) {
			continue // of one that is there but cannot be opened its own command says so
		}
		asked[r.Recipe] = true
		if err := readable(r); err != nil {
			return err
		}
	}
	return nil
}

// readable reads the tasks of a run. Where the folder data beside the recipe's has a
// script that makes those of its environment, an error names it.
func readable(r sweep.Run) error {
	resolved, err := recipe.Load(r.Recipe, r.Set)
	if err != nil {
		return err
	}
	name := resolved.Recipe.Env.Name
	_, err = resolved.Recipe.NewEnv(filepath.Dir(r.Recipe))
	for at := filepath.Dir(r.Recipe); err != nil && at != filepath.Dir(at); at = filepath.Dir(at) {
		script := filepath.Join(at, "data", name, "prepare.py")
		if _, missing := os.Stat(script); missing == nil {
			return exitcode.OnlyHint(err, "python3 %s FOLDER/%s makes them, and export LATHE_DATA=FOLDER names them; README.md beside it says which packages they come from", script, name)
		}
	}
	return err
}
