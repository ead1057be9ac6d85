package mle

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// TestHeldOut: what is held out is never trained on, by name or by answers.
func TestHeldOut(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{"one", "twin", "three"} {
		seeds(t, filepath.Join(root, name))
	}
	other := filepath.Join(root, "three/private/answers.csv")
	must.Do(t, os.WriteFile(other, []byte("id,kind\n4,a\n5,a\n6,b\n"), 0o644))
	e := must.Get(build(*DefaultSettings(), Data{Tasks: []string{root}, Train: []string{"*"}, Test: []string{"one"}}, ""))(t)
	count, names := e.LeftOut, e.LeftOutNames
	if want := []string{"one", "twin"}; count != 2 || !slices.Equal(names, want) {
		t.Errorf("left out %d: %q, want %q", count, names, want)
	}
	if train := e.Tasks(env.Train); len(train) != 1 || train[0].ID != "three" {
		t.Errorf("trained on: %v", train)
	}
}

// TestHeldOutSets: sets have tasks of their own, which are not trained on unless the recipe
// says so; a task is in as many sets as name it, and rows say so too.
func TestHeldOutSets(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for i, name := range []string{"one", "two", "three", "four"} {
		seeds(t, filepath.Join(root, name))
		answers := filepath.Join(root, name, "private/answers.csv")
		must.Do(t, os.WriteFile(answers, fmt.Appendf(nil, "id,kind\n4,%c\n5,%c\n6,b\n", "aabb"[i], "abab"[i]), 0o644))
	}
	must.Do(t, os.WriteFile(filepath.Join(root, "few.txt"), []byte("# two of them\ntwo\n\nthree\n"), 0o644))
	data := Data{
		Tasks: []string{root}, Train: []string{"*"}, Test: []string{"one"},
		HeldOut: []HeldOut{{"validation", []string{"list:few.txt"}}, {"seen", []string{"four", "two"}}}, Trained: []string{"seen"},
	}
	e := must.Get(build(*DefaultSettings(), data, root))(t)
	again := must.Get(rebuild(*DefaultSettings(), e.Rows()))(t)
	for _, e := range []*Env{e, again} {
		for split, want := range map[env.Split][]string{env.Train: {"four"}, env.Test: {"one"}, "validation": {"three", "two"}, "seen": {"four", "two"}} {
			var got []string
			for _, task := range e.Tasks(split) {
				got = append(got, task.ID)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", split, got, want)
			}
		}
	}
	for _, list := range []string{"list:mle-bench-lite", "list:none.txt"} {
		data.Train = []string{list}
		if _, err := build(*DefaultSettings(), data, root); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("%s: %v, want a usage error", list, err)
		}
	}
}

// TestData: a recipe's sets have tasks and names of their own, and data.trained names sets that there are.
func TestData(t *testing.T) {
	t.Parallel()
	set := HeldOut{"seen", []string{"a"}}
	for _, c := range []struct {
		want string // of the error; empty for none
		data Data
	}{
		{"", Data{Tasks: []string{"t"}}},
		{"", Data{Tasks: []string{"t"}, HeldOut: []HeldOut{set}, Trained: []string{"seen", "test"}}},
		{"data.tasks", Data{}},
		{"data.held_out.1.tasks", Data{Tasks: []string{"t"}, HeldOut: []HeldOut{set, {Name: "other"}}}},
		{"data.held_out.1.name", Data{Tasks: []string{"t"}, HeldOut: []HeldOut{set, set}}},
		{"data.trained", Data{Tasks: []string{"t"}, HeldOut: []HeldOut{set}, Trained: []string{"unseen"}}},
	} {
		checked := config.NewChecker(&struct {
			Data *Data `yaml:"data"`
		}{&c.data})
		c.data.validate(checked)
		if err := checked.Err("recipe"); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q: %v", c.want, err)
		}
	}
}
