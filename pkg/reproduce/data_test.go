package reproduce

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// A plan whose tasks are not there says so before anything starts; without the
// experiments that need them, and for runs that are made, it needs none.
func TestCheckData(t *testing.T) {
	here := t.TempDir()
	smoke, err := filepath.Abs("../../jobs/smoke.yaml")
	if err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Abs("../../jobs/mle-small.yaml")
	if err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(t.TempDir(), "next.yaml")
	if err := os.WriteFile(next, []byte("base: "+smoke+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	own := map[string][]string{"next": {"data.offline={smoke}/iter/000001"}} // which there is later
	p := Plan{Experiments: []Experiment{{Name: "one", Seeds: "1-2", Recipes: []string{next, smoke}, Own: own}, {Name: "two", Seeds: "1-2", Recipes: []string{programs}}, {Name: "three", Seeds: "3", Recipes: []string{programs}}}}
	empty := t.TempDir()
	for _, c := range []struct{ data, want string }{
		{"", "LATHE_DATA, which is not set"},
		{empty, filepath.Join(empty, "mle")},
	} {
		t.Setenv("LATHE_DATA", c.data)
		err := p.CheckData(t.Context(), here, nil)
		hints := strings.Join(exitcode.Hints(err), "\n")
		if err == nil || !strings.Contains(err.Error(), "the tasks of two, three") || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(hints, "data/mle/prepare.py FOLDER/mle") || !strings.Contains(hints, "--only one") {
			t.Errorf("with LATHE_DATA=%q: %v, hints %s", c.data, err, hints)
		}
	}
	only, err := p.Only([]string{"one"})
	if err != nil {
		t.Fatal(err)
	}
	if err := only.CheckData(t.Context(), here, nil); err != nil {
		t.Errorf("without the experiments that need tasks: %v", err)
	}

	// A run keeps where its tasks are, and one that is made is gone on with.
	facts := filepath.Join(t.TempDir(), "facts")
	if err := os.MkdirAll(facts, 0o777); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"train.jsonl", "test.jsonl"} {
		var lines strings.Builder
		for n := range 20 {
			fmt.Fprintf(&lines, `{"question": "%d+%d=", "answer": "%d"}`+"\n", n, i, n+i)
		}
		if err := os.WriteFile(filepath.Join(facts, name), []byte(lines.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	set := []string{"data.train={files: [$LATHE_DATA/facts/train.jsonl]}", "data.test={files: [$LATHE_DATA/facts/test.jsonl]}"}
	made := Plan{Experiments: []Experiment{{Name: "made", Seeds: "1", Recipes: []string{smoke}, Set: set}}}
	t.Setenv("LATHE_DATA", filepath.Dir(facts))
	if err := made.CheckData(t.Context(), here, nil); err != nil {
		t.Fatal(err)
	}
	index, err := made.Experiments[0].Runs(here)
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := recipe.Load(smoke, index.Runs[0].Set)
	if err == nil {
		_, err = rundir.Create(t.Context(), graph.Dir(filepath.Join(here, "made", index.Runs[0].Name)), resolved, seal.AttemptFromEnv(), "test")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LATHE_DATA", "")
	if err := made.CheckData(t.Context(), here, nil); err != nil {
		t.Errorf("of a run that is made: %v", err)
	}
}
