package reproduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
// would fail hours later, once the experiments before it are done.
func (p Plan) CheckData(ctx context.Context, folder string) error {
	var lacking, others []string
	var first error
	for _, e := range p.Experiments {
		environment, err := e.lacksData(ctx, folder)
		if err == nil {
			others = append(others, "--only "+e.Name)
			continue
		}
		if environment == "mle" {
			err = exitcode.OnlyHint(err, "data/mle/README.md says which packages the tasks come from; python3 data/mle/prepare.py FOLDER/mle makes them, and export LATHE_DATA=FOLDER names them")
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

// lacksData is the reason why the tasks of a run that is still to be made cannot be read,
// and its environment.
func (e Experiment) lacksData(ctx context.Context, folder string) (environment string, err error) {
	index, err := e.Runs(folder)
	if err != nil {
		return "", err
	}
	asked := map[string]bool{} // recipes, whose seeds have the same data
	for _, r := range index.Runs {
		if asked[r.Recipe] || len(e.needs(methodOf(r.Recipe))) > 0 { // what a run begins with is not there yet
			continue
		}
		_, err := rundir.Open(ctx, graph.Dir(filepath.Join(folder, e.Name, r.Name)))
		if !errors.Is(err, seal.ErrNotSealed) {
			continue // of one that is there but cannot be opened its own command says so
		}
		asked[r.Recipe] = true
		if environment, err := readable(r); err != nil {
			return environment, err
		}
	}
	return "", nil
}

func readable(r sweep.Run) (environment string, err error) {
	resolved, err := recipe.Load(r.Recipe, r.Set)
	if err != nil {
		return "", err
	}
	_, err = resolved.Recipe.NewEnv(filepath.Dir(r.Recipe))
	return resolved.Recipe.Env.Name, err
}
