// Package choose makes the environment that a recipe names.
package choose

import (
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math"
	"github.com/lathe-rl/lathe/pkg/env/tooluse"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// New makes the environment of a recipe. Relative names of data files start
// at folder.
func New(r *recipe.Recipe, folder string) (env.Env, error) {
	switch r.Env.Name {
	case math.Name:
		return made(math.New(r.Env, r.Data, r.Seed, folder))
	case tooluse.Name:
		return made(tooluse.New(r.Env, r.Data, r.Seed, folder))
	}
	return nil, unknown(r.Env.Name)
}

// FromRows makes the environment of a recipe from the rows of its tasks.
// Relative names of programs start at folder.
func FromRows(r *recipe.Recipe, folder string, rows []shard.TaskRow) (env.Env, error) {
	switch r.Env.Name {
	case math.Name:
		return made(math.FromRows(r.Env, rows))
	case tooluse.Name:
		return made(tooluse.FromRows(r.Env, folder, rows))
	}
	return nil, unknown(r.Env.Name)
}

// made keeps a nil pointer from becoming an environment.
func made[E env.Env](world E, err error) (env.Env, error) {
	if err != nil {
		return nil, err
	}
	return world, nil
}

func unknown(name string) error {
	return exitcode.Usagef("env.name is %q: the environments are %s and %s", name, math.Name, tooluse.Name)
}
