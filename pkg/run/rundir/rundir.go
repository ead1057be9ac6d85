// Package rundir is the folder of a run: who the run is, how it is made and
// opened, the tasks that it keeps, and the small records beside its sealed
// files. Nothing is kept in memory that a second process could not read again.
package rundir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// FormatVersion is the version of the layout of a run's folder. This binary reads
// and writes this one alone.
const FormatVersion = 2

// Identity is run.json: who a run is, and what outside its folder it was made
// from.
type Identity struct {
	FormatVersion int        `json:"format_version"`
	RunID         string     `json:"run_id"`
	Name          string     `json:"name"`
	Seed          uint64     `json:"seed"`
	RecipeSHA256  string     `json:"recipe_sha256"`
	RecipeFolder  string     `json:"recipe_folder"` // relative data paths of the recipe start here
	Data          []DataFile `json:"data"`          // files that the tasks were read from
	TasksSHA256   string     `json:"tasks_sha256"`  // content of tasks.parquet
	DataLeftOut   int        `json:"data_left_out"` // tasks that are not trained on because they are held out, or were generated and a file has the same

	DataLeftOutNames []string   `json:"data_left_out_names,omitempty"`
	PolicySource     string     `json:"policy_source"`             // folder that policy v000000 was copied from; empty for a new policy
	Origin           *Origin    `json:"origin,omitempty"`          // the run that policy_source is a version of
	Pool             *DataFile  `json:"pool,omitempty"`            // that the warm start learns from, by the digest of its content
	Teacher          *DataFile  `json:"teacher,omitempty"`         // folder of advantage.teacher.path, by the digest of its files
	WarmStartData    []DataFile `json:"warm_start_data,omitempty"` // files of warm_start.data
	Scores           string     `json:"scores,omitempty"`          // folder of a run whose scores are taken where they are of the same responses
	BinaryVersion    string     `json:"binary_version"`
	Created          time.Time  `json:"created"`
	Host             string     `json:"host"`
}

// DataFile is an input outside the run, pinned by its digest.
type DataFile struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Run is an opened run.
type Run struct {
	Dir      graph.Dir
	Identity Identity
	Recipe   recipe.Recipe
	Graph    graph.Graph
	// RecipeBytes is the newest recipe of the run, as stored.
	RecipeBytes []byte
	// Notes are what whoever has just made the run should know of it.
	Notes []string
}

// wayBack gives an error of reading run.json or recipe.yaml the hint that
// helps: the run is not read without them, so no other command makes them
// again.
func wayBack(d graph.Dir, path string, err error) error {
	again := fmt.Sprintf("with the recipe and the settings that the run was made with: lathe run RECIPE --run %s", d)
	switch {
	case errors.Is(err, seal.ErrDamaged):
		return exitcode.OnlyHint(err, "remove %s and its manifest %s, and have them made again %s", path, seal.ManifestPath(path), again)
	case errors.Is(err, seal.ErrNotSealed):
		return exitcode.OnlyHint(err, "have it made again %s", again)
	}
	return err
}

// Open reads the identity and the recipe of a run.
func Open(ctx context.Context, dir graph.Dir) (*Run, error) {
	var identity Identity
	if _, err := seal.ReadJSON(ctx, dir.Identity(), seal.Options{}, &identity); err != nil {
		if errors.Is(err, seal.ErrNotSealed) {
			err := exitcode.Dataf("%q is not a run: its run.json is %w", dir, seal.ErrNotSealed)
			if inner := runIn(dir); inner != "" {
				return nil, exitcode.WithHint(err, "it holds runs; name one of them, such as %s", inner)
			}
			return nil, exitcode.WithHint(err, "make one with: lathe run RECIPE --run %s", dir)
		}
		return nil, wayBack(dir, dir.Identity(), err)
	}
	if identity.FormatVersion != FormatVersion {
		return nil, exitcode.Dataf("run %q has format version %d and is read by the binaries of version %s that made it; this binary reads version %d",
			dir, identity.FormatVersion, identity.BinaryVersion, FormatVersion)
	}
	g, texts, err := readGraph(ctx, dir)
	if texts == nil {
		return nil, err
	}
	made := g.RecipeSHA256
	if len(g.Extended) > 0 {
		made = g.Extended[0].RecipeSHA256
	}
	if made != identity.RecipeSHA256 {
		return nil, exitcode.WithHint(exitcode.Dataf("%q is not the recipe that the run was made from: its sha256 is %s, in run.json it is %s",
			dir.Recipe(), made, identity.RecipeSHA256), "remove it and its manifest, and put the right one back: lathe run RECIPE --run %s", dir)
	}
	if err != nil {
		// Its digest is right: whoever made the run could read it.
		return nil, exitcode.WithHint(exitcode.Dataf("recipe of run %q: %w", dir, err),
			"the run was made by version %s of lathe, which reads it: this one has other settings", identity.BinaryVersion)
	}
	g.RunID = identity.RunID
	return &Run{Dir: dir, Identity: identity, Recipe: g.Recipe, Graph: g, RecipeBytes: texts[len(texts)-1]}, nil
}

// runIn is the first run in a folder; empty for none.
func runIn(dir graph.Dir) string {
	entries, _ := os.ReadDir(string(dir)) // what cannot be read holds none to name
	for _, e := range entries {
		inner := graph.Dir(filepath.Join(string(dir), e.Name()))
		if _, err := os.Stat(inner.Identity()); err == nil {
			return string(inner)
		}
	}
	return ""
}

// ReadGraph is the graph of a run of which no more than the recipe and some outputs need
// be there.
func ReadGraph(ctx context.Context, dir graph.Dir) (graph.Graph, error) {
	g, texts, err := readGraph(ctx, dir)
	if err != nil && texts != nil {
		err = exitcode.Dataf("recipe of run %q: %w", dir, err)
	}
	return g, err
}

// sameRecipe refuses to resume a recipe that differs from the run's own.
func (r *Run) sameRecipe(resolved *recipe.Resolved) error {
	own, err := recipe.Present(r.RecipeBytes)
	if err != nil {
		return fmt.Errorf("reading the recipe of run %q: %w", r.Dir, err)
	}
	if slices.ContainsFunc(append(asBefore(resolved.YAML), resolved.YAML), func(text []byte) bool { return bytes.Equal(own, text) }) {
		return nil
	}
	differences, err := config.Differences(own, resolved.YAML)
	if err != nil {
		return fmt.Errorf("comparing the recipe of run %q: %w", r.Dir, err)
	}
	if len(differences) > mostDifferences {
		differences = append(differences[:mostDifferences], fmt.Sprintf("… and %d more", len(differences)-mostDifferences))
	}
	return exitcode.WithHint(exitcode.Usagef("run %q was made from another recipe; they differ in:\n  %s", r.Dir, strings.Join(differences, "\n  ")),
		"choose another --run folder, or leave the recipe out to resume this run")
}

// asBefore are a resolved recipe as it was while runs kept every policy version, or
// measured the first and the last alone, unless they were told otherwise: one that was made
// then goes on so.
func asBefore(resolved []byte) [][]byte {
	onlyEnds := bytes.Replace(resolved, []byte("\n  every: auto\n"), []byte("\n  every: 0\n"), 1)
	return [][]byte{onlyEnds, bytes.Replace(onlyEnds, []byte("\n  keep_every: auto\n"), []byte("\n  keep_every: 0\n"), 1)}
}

// mostDifferences bounds what a message says about two recipes.
const mostDifferences = 20

// VisibilityTimeout is how long a file that another node has sealed may stay
// invisible before it counts as missing: NFS keeps failed lookups for up to a
// minute.
const VisibilityTimeout = 90 * time.Second

// Visibility is how long a process waits for a file that ought to be there.
// Outside a Slurm job, what is not there now was not sealed by this host and
// will not appear.
func Visibility() time.Duration {
	if os.Getenv("SLURM_JOB_ID") != "" {
		return VisibilityTimeout
	}
	return 0
}
