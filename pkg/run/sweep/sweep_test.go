package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
)

func TestParseSeeds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]uint64{"1": {1}, "1-3": {1, 2, 3}, "7,1-2,9": {7, 1, 2, 9}, "10-12": {10, 11, 12}, "18446744073709551615": {1<<64 - 1}} {
		if got, err := ParseSeeds(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	if got, err := ParseSeeds("0-9999"); err != nil || len(got) != 10_000 || got[9999] != 9999 {
		t.Errorf("the longest range: %d seeds, %v", len(got), err)
	}
	for _, text := range []string{"", "a", "1,", "3-1", "1-", "-1", "1-x", "1,1", "1-3,2", "0-10000", "0-99999999999", "18446744073709551616"} {
		if got, err := ParseSeeds(text); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("%q: %v, %v; want wrong usage", text, got, err)
		}
	}
}

func TestParseGrid(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Grid{
		"a.b=1,2":               {"a.b", []string{"1", "2"}},
		"a=x":                   {"a", []string{"x"}},
		"a=[1,2],[3]":           {"a", []string{"[1,2]", "[3]"}},
		"a={b: 1, c: 2},{b: 3}": {"a", []string{"{b: 1, c: 2}", "{b: 3}"}},
		"a=b=c,d":               {"a", []string{"b=c", "d"}},
		"a=(1,[2,3]),é,4":       {"a", []string{"(1,[2,3])", "é", "4"}},
	} {
		if got, err := ParseGrid(text); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a", "=1", "a=", "a=1,", "a=[1,2", "a=1],2"} {
		if got, err := ParseGrid(text); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("%q: %+v, %v; want wrong usage", text, got, err)
		}
	}
}

// However many seeds and values, there is a run for each combination, each of its own
// name and each with its seed.
func TestPlan(t *testing.T) {
	t.Parallel()
	smoke := "../../../jobs/smoke.yaml"
	rapid.Check(t, func(t *rapid.T) {
		seeds := rapid.SliceOfNDistinct(rapid.Uint64Range(0, 99), 1, 3, rapid.ID).Draw(t, "seeds")
		rates := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"1e-3", "2e-3", "3e-3"}), 1, 3, rapid.ID).Draw(t, "rates")
		sizes := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"4", "8"}), 1, 2, rapid.ID).Draw(t, "sizes")
		index, err := Plan([]string{smoke}, seeds, []Grid{{"optimizer.learning_rate", rates}, {"rollout.prompts", sizes}}, []string{"schedule.iterations=1"})
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, r := range index.Runs {
			names[r.Name] = true
			if len(r.Set) != 4 || r.Set[0] != "schedule.iterations=1" || !strings.HasPrefix(r.Set[3], "seed=") || !strings.HasSuffix(r.Name, "-s"+strings.TrimPrefix(r.Set[3], "seed=")) {
				t.Fatalf("run %+v", r)
			}
		}
		if want := len(seeds) * len(rates) * len(sizes); len(index.Runs) != want || len(names) != want {
			t.Fatalf("%d runs of %d names, want %d", len(index.Runs), len(names), want)
		}
	})
	index, err := Plan([]string{smoke}, []uint64{5, 3}, []Grid{{"optimizer.learning_rate", []string{"1e-3", "2e-3"}}, {"select", []string{"[]", "[constant_group, invalid]"}}}, nil)
	var names []string
	for _, r := range index.Runs { // the seeds of a combination stand together, and the last grid changes first
		names = append(names, r.Name)
		if r.Recipe != smoke || r.Seed != 5 && r.Seed != 3 {
			t.Errorf("run %+v", r)
		}
	}
	if want := []string{
		"smoke-learning_rate=1e-3-select=_-s5", "smoke-learning_rate=1e-3-select=_-s3", "smoke-learning_rate=1e-3-select=_constant_group_invalid_-s5", "smoke-learning_rate=1e-3-select=_constant_group_invalid_-s3",
		"smoke-learning_rate=2e-3-select=_-s5", "smoke-learning_rate=2e-3-select=_-s3", "smoke-learning_rate=2e-3-select=_constant_group_invalid_-s5", "smoke-learning_rate=2e-3-select=_constant_group_invalid_-s3",
	}; err != nil || !slices.Equal(names, want) || index.Format != Format {
		t.Errorf("runs %q of %s (%v), want %q", names, index.Format, err, want)
	}
	if grids, err := ParseGrids([]string{"a=1,2", "b=3"}); err != nil || !cmp.Equal(Combinations(grids), [][]string{{"a=1", "b=3"}, {"a=2", "b=3"}}) {
		t.Errorf("grids %+v, %v", grids, err)
	}
	if _, err := ParseGrids([]string{"a=1", "b"}); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("a grid that is wrong: %v", err)
	}
	if _, err := Plan([]string{smoke, smoke}, []uint64{1}, nil, nil); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("a recipe that is named twice: %v", err)
	}
	if _, err := Plan([]string{smoke}, []uint64{1}, []Grid{{"rollout.prompts", []string{"8", "none"}}}, nil); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("a value that the recipe does not take: %v", err)
	}
}

func TestRecipes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"b.yaml", "a.yaml", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Recipes([]string{folder, filepath.Join(folder, "notes.txt")})
	want := []string{filepath.Join(folder, "a.yaml"), filepath.Join(folder, "b.yaml"), filepath.Join(folder, "notes.txt")}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("recipes %q (%v), want %q", got, err, want)
	}
	if _, err := Recipes([]string{filepath.Join(folder, "a.yaml", "b.yaml")}); err == nil || exitcode.Code(err) == exitcode.Usage {
		t.Errorf("a recipe below a file: %v", err)
	}
	for _, path := range []string{t.TempDir(), filepath.Join(folder, "c.yaml")} {
		if _, err := Recipes([]string{path}); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// A sweep resumes its index; runs may be added to it, and none changed.
func TestBegin(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	one, two := Run{"a", "/r.yaml", []string{"seed=1"}, 1}, Run{"b", "/r.yaml", []string{"seed=2"}, 2}
	for _, runs := range [][]Run{{one}, {one, two}, {two}} {
		if _, err := Begin(folder, Index{Format, runs}); err != nil {
			t.Fatal(err)
		}
	}
	index, known, err := Read(folder)
	if err != nil || !known || !cmp.Equal(index.Runs, []Run{one, two}) {
		t.Errorf("index %+v, %v, %v", index, known, err)
	}
	for _, other := range []Run{{"a", "/r.yaml", []string{"seed=3"}, 3}, {"a", "/q.yaml", []string{"seed=1"}, 1}} {
		if _, err := Begin(folder, Index{Format, []Run{other}}); exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), fmt.Sprintf("not of %q with %s:", other.Recipe, other.Set[0])) {
			t.Errorf("another run of the name: %v", err)
		}
	}
	if _, known, err := Read(t.TempDir()); known || err != nil {
		t.Errorf("an empty folder: %v, %v", known, err)
	}
	for _, content := range []string{"{", `{"format": "lathe-sweep/9.0"}`} {
		if err := os.WriteFile(filepath.Join(folder, IndexName), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		_, known, err := Read(folder)
		if _, begun := Begin(folder, index); known || exitcode.Code(err) != exitcode.Data || exitcode.Code(begun) != exitcode.Data {
			t.Errorf("%s: known %v, %v; begun: %v", content, known, err, begun)
		}
	}
}
