package command

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/status"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// runOrRecipe takes the folder of a run in the place of a recipe: the run is resumed or
// extended.
func (o *LaunchOptions) runOrRecipe() {
	if o.Run == "" && o.Recipe != "" && isRun(o.Recipe) {
		o.Run, o.Recipe = o.Recipe, ""
	}
}

// changed opens the run and resolves the recipe that the settings extend it by; nil
// if they change nothing.
func (o LaunchOptions) changed(ctx context.Context) (*rundir.Run, *recipe.Resolved, error) {
	opened, err := openRun(ctx, o.Run)
	if err != nil || len(o.Set) == 0 {
		return opened, nil, err
	}
	changed, err := opened.Change(ctx, o.Set)
	if err != nil || changed == nil {
		return opened, nil, err
	}
	state, err := status.ReadState(ctx, opened)
	if err == nil && state != status.StateDone {
		err = exitcode.WithHint(exitcode.Usagef("--set: run %q is %s, and only a finished run is extended", o.Run, state),
			"finish it first: lathe run %s", o.Run)
	}
	return opened, changed, err
}

// extend opens the run, and extends it by the settings if there are any.
func (o LaunchOptions) extend(ctx context.Context) (*rundir.Run, error) {
	opened, changed, err := o.changed(ctx)
	if err != nil || changed == nil {
		return opened, err
	}
	was := opened.Recipe.Schedule.Iterations
	if opened, err = opened.Extend(ctx, changed, seal.AttemptFromEnv(), cmdline.Version); err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "lathe: extending run %s from %d to %s\n", opened.Dir, was, plural.Count(opened.Recipe.Schedule.Iterations, "iteration"))
	return opened, nil
}

// loadFrom resolves the recipe, with the policy version that --from names if it does.
func (o LaunchOptions) loadFrom(ctx context.Context) (*recipe.Resolved, error) {
	if o.From != "" {
		policy, err := rundir.ParseVersion(ctx, o.From)
		if err != nil {
			return nil, err
		}
		path, err := json.Marshal(policy) // a YAML string, whatever it holds
		if err != nil {
			return nil, err
		}
		o.Set = append([]string{"policy.new=null", "policy.path=" + string(path), "warm_start.steps=0", `warm_start.pool=""`, "warm_start.data=null", "start.optimizer=keep", "start.curriculum=keep"}, o.Set...)
	}
	return o.load()
}
