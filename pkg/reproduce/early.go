package reproduce

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/sweep"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Early says what one run of an experiment, once it is done, already shows about the plan:
// which claims it cannot be measured for, and whether it did not do what its method is
// called. Nothing of an outcome is looked at. folder holds the sweeps of the plan.
func (e Experiment) Early(ctx context.Context, folder string, planned sweep.Run) ([]string, error) {
	run, err := e.readRun(ctx, folder, planned)
	if err != nil || !run.Done {
		return nil, err
	}
	return e.early(run), nil
}

func (e Experiment) early(run Run) (words []string) {
	for _, c := range e.Claims {
		if run.Method != c.Method && run.Method != c.Against {
			continue
		}
		key := c.key()
		if why, lacks := run.Lacking[key]; lacks {
			words = append(words, fmt.Sprintf("the claim %q cannot be measured: %s", c.Says, why))
		} else if slices.Contains(run.Never, key) {
			words = append(words, fmt.Sprintf("the claim %q counts 0 for this run, which has nothing called %s", c.Says, key))
		}
	}
	run.Never = nil // a count of what only another method has may be 0 here
	for _, c := range e.checks(run.Method) {
		if checked := c.against(run.Method, []Run{run}); checked.Fails != "" {
			words = append(words, fmt.Sprintf("%s is not what it is called, and no claim about it will have an outcome: %s", run.Method, checked.failure()))
		}
	}
	return words
}

// readRun measures a run, as far as it is there.
func (e Experiment) readRun(ctx context.Context, folder string, planned sweep.Run) (Run, error) {
	run := Run{Name: planned.Name, Method: methodOf(planned.Recipe), Seed: planned.Seed}
	opened, err := rundir.Open(ctx, graph.Dir(filepath.Join(folder, e.Name, planned.Name)))
	if errors.Is(err, seal.ErrNotSealed) {
		return run, nil
	}
	if err != nil {
		return run, err
	}
	run.Fingerprint = opened.Recipe.Fingerprint()
	if err := run.take(ctx, measure.Of(opened), e.measures()); err != nil {
		return run, fmt.Errorf("run %q: %w", planned.Name, err)
	}
	return run, nil
}
