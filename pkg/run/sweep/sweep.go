// Package sweep is many runs in one folder: recipes, seeds and values of settings,
// each combination a run, and an index of them.
package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Format names the layout of an index.
const Format = "lathe-sweep/1.0"

// IndexName is the name of the index in the folder of a sweep.
const IndexName = "sweep.json"

// Index is sweep.json: the runs of a sweep, in the order in which they are started.
type Index struct {
	Format string `json:"format"`
	Runs   []Run  `json:"runs"`
}

// Run is one run of a sweep.
type Run struct {
	Name   string   `json:"name"`   // of its folder below that of the sweep
	Recipe string   `json:"recipe"` // absolute path
	Set    []string `json:"set"`    // settings over the recipe, as --set takes them
	Seed   uint64   `json:"seed"`   // the last of the settings
}

// Grid is a setting and the values that it takes in turn.
type Grid struct {
	Field  string
	Values []string
}

// ParseGrid reads FIELD=VALUE,VALUE…; a value in brackets or braces may hold commas.
func ParseGrid(text string) (Grid, error) {
	field, list, found := strings.Cut(text, "=")
	if !found || field == "" || list == "" {
		return Grid{}, exitcode.Usagef("--grid %q is not FIELD=VALUE,VALUE", text)
	}
	g := Grid{Field: field}
	depth, from := 0, 0
	for i, c := range list + "," {
		switch c {
		case '[', '{', '(':
			depth++
		case ']', '}', ')':
			depth--
		case ',':
			if depth == 0 {
				g.Values, from = append(g.Values, list[from:i]), i+1
			}
		}
	}
	if depth != 0 || slices.Contains(g.Values, "") {
		return Grid{}, exitcode.Usagef("--grid %q has an empty value or an open bracket", text)
	}
	return g, nil
}

// ParseSeeds reads a list of seeds and ranges of seeds, such as 1,3,7-9.
func ParseSeeds(text string) ([]uint64, error) {
	const most = 10_000
	var seeds []uint64
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.ParseUint(from, 10, 64)
		last := first
		if isRange && err == nil {
			last, err = strconv.ParseUint(to, 10, 64)
		}
		if err != nil || last < first || last-first >= most {
			return nil, exitcode.Usagef("--seeds %q: %q is not a seed, nor a range of at most %d such as 1-5", text, part, most)
		}
		for seed := first; ; seed++ {
			if slices.Contains(seeds, seed) {
				return nil, exitcode.Usagef("--seeds %q has %d twice", text, seed)
			}
			if seeds = append(seeds, seed); seed == last {
				break
			}
		}
	}
	return seeds, nil
}

// Recipes lists recipe files: those that are named, and those directly in a folder
// that is named, sorted.
func Recipes(paths []string) ([]string, error) {
	var all []string
	for _, path := range paths {
		absolute, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		entry, err := os.Stat(absolute)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, exitcode.Usagef("there is no recipe %q", path)
		case err != nil:
			return nil, err
		case !entry.IsDir():
			all = append(all, absolute)
			continue
		}
		found, err := filepath.Glob(filepath.Join(absolute, "*.yaml"))
		if err != nil || len(found) == 0 {
			return nil, exitcode.Usagef("folder %q has no recipe: no file in it ends with .yaml", path)
		}
		all = append(all, found...)
	}
	return all, nil
}

// ParseGrids reads several grids.
func ParseGrids(texts []string) ([]Grid, error) {
	var grids []Grid
	for _, text := range texts {
		g, err := ParseGrid(text)
		if err != nil {
			return nil, err
		}
		grids = append(grids, g)
	}
	return grids, nil
}

// Combinations lists the settings of each combination of the values of grids, the
// values of the last changing first; one without settings where there is no grid.
func Combinations(grids []Grid) [][]string {
	combinations := [][]string{nil}
	for _, g := range grids {
		var longer [][]string
		for _, combination := range combinations {
			for _, value := range g.Values {
				longer = append(longer, append(slices.Clone(combination), g.Field+"="+value))
			}
		}
		combinations = longer
	}
	return combinations
}

// Plan makes the runs of recipes with each combination of seeds and of the values of
// grids, and refuses those whose recipes are wrong. The seeds of a recipe stand together:
// of runs that are started side by side few then wait for each other's warm start.
func Plan(recipes []string, seeds []uint64, grids []Grid, set []string) (Index, error) {
	index := Index{Format: Format, Runs: []Run{}}
	combinations := Combinations(grids)
	for _, path := range recipes {
		for _, combination := range combinations {
			for _, seed := range seeds {
				r := Run{Recipe: path, Seed: seed, Set: slices.Concat(set, combination, []string{fmt.Sprintf("seed=%d", seed)})}
				resolved, err := recipe.Load(path, r.Set)
				if err != nil {
					return index, err
				}
				r.Name = nameOf(resolved.Recipe.Name, combination, seed)
				if err := index.Add(r); err != nil {
					return index, err
				}
			}
		}
	}
	return index, nil
}

// Add adds runs, and refuses two of one name.
func (x *Index) Add(runs ...Run) error {
	for _, r := range runs {
		if slices.ContainsFunc(x.Runs, func(other Run) bool { return other.Name == r.Name }) {
			return exitcode.Usagef("two runs would be named %q: recipes of one name cannot be in one sweep", r.Name)
		}
		x.Runs = append(x.Runs, r)
	}
	return nil
}

// unfit is what the name of a folder does without.
var unfit = lazyregexp.New(`[^A-Za-z0-9._=+-]+`)

// nameOf names a run by its recipe, the last parts of its fields, and its seed.
func nameOf(name string, combination []string, seed uint64) string {
	parts := []string{name}
	for _, setting := range combination {
		field, value, _ := strings.Cut(setting, "=")
		parts = append(parts, unfit().ReplaceAllString(field[strings.LastIndex(field, ".")+1:]+"="+value, "_"))
	}
	return strings.Join(append(parts, fmt.Sprintf("s%d", seed)), "-")
}

// Read reads the index of a folder. known is false where there is none.
func Read(folder string) (index Index, known bool, err error) {
	path := filepath.Join(folder, IndexName)
	content, err := plainfile.Read(path, plainfile.MaxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return index, false, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &index)
	}
	if err == nil && index.Format != Format {
		err = fmt.Errorf("its format is %q and not %q", index.Format, Format)
	}
	if err != nil {
		return index, false, exitcode.Dataf("reading %q: %w", path, err)
	}
	return index, true, nil
}

// Begin writes the index of a sweep, or resumes the one that is there: more runs
// may be added to it, and none changed.
func Begin(folder string, planned Index) (Index, error) {
	there, known, err := Read(folder)
	if err != nil {
		return there, err
	}
	if !known {
		there = Index{Format: Format, Runs: []Run{}}
	}
	for _, r := range planned.Runs {
		at := slices.IndexFunc(there.Runs, func(other Run) bool { return other.Name == r.Name })
		switch {
		case at < 0:
			there.Runs = append(there.Runs, r)
		case there.Runs[at].Recipe != r.Recipe || !slices.Equal(there.Runs[at].Set, r.Set):
			return there, exitcode.Usagef("%q has a run %q of recipe %q with %s, and not of %q with %s: name another folder", folder, r.Name,
				there.Runs[at].Recipe, strings.Join(there.Runs[at].Set, " "), r.Recipe, strings.Join(r.Set, " "))
		}
	}
	content, err := json.MarshalIndent(there, "", "  ")
	if err != nil {
		return there, fmt.Errorf("encoding the index of a sweep: %w", err)
	}
	return there, seal.Replace(filepath.Join(folder, IndexName), append(content, '\n'), seal.AttemptFromEnv())
}
