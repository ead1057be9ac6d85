package reproduce

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

const kept = "../../analysis/results/reproduce-mini/"

// The summaries that are kept are of the runs of the page beside them: every run that is
// done is there, with the policy and the numbers that the page has.
func TestKeptSummaries(t *testing.T) {
	t.Parallel()
	var page Reproduction
	text, err := os.ReadFile(kept + "reproduction.json")
	if err == nil {
		err = json.Unmarshal(text, &page)
	}
	if err != nil {
		t.Fatal(err)
	}
	plan, err := Load("../../analysis/reproduce-mini.yaml")
	if err != nil {
		t.Fatal(err)
	}
	summaries := readSummaries(t, kept+"summaries.tar.gz")
	for _, e := range page.Results {
		here, planned := summaries[e.Name], plan.Named(e.Name)
		delete(summaries, e.Name)
		for _, r := range e.Runs {
			m := here[r.Name]
			delete(here, r.Name)
			if m == nil != !r.Done {
				t.Errorf("%s/%s is done: %v, and has a summary: %v", e.Name, r.Name, r.Done, m != nil)
			}
			if m == nil || !r.Done {
				continue
			}
			if m["state"] != "done" || m["seed"] != float64(r.Seed) || m["policy_sha256"] != *r.PolicySHA256 {
				t.Errorf("the summary of %s/%s is not of the run of the page: %s, seed %v", e.Name, r.Name, m["state"], m["seed"])
			}
			for _, of := range planned.measures() {
				if got, has := numberIn(m, of.Metric); has && got != r.Measures[of.key()] {
					t.Errorf("%s/%s: %s is %v on the page, and %v in its summary", e.Name, r.Name, of.key(), r.Measures[of.key()], got)
				}
			}
		}
		for name := range here {
			t.Errorf("%s/%s is not on the page", e.Name, name)
		}
		again := Result{Runs: e.Runs}
		planned.decide(&again)
		if diff := cmp.Diff(e.Claims, again.Claims); diff != "" {
			t.Errorf("the claims of %s by what its runs measured (-page +now):\n%s", e.Name, diff)
		}
	}
	for name := range summaries {
		t.Errorf("%s is no experiment of the page", name)
	}
}

// The scores that are kept are whole, each of the run that its folder is of, and of the
// same tasks: else the runs of another machine could not take them.
func TestKeptScores(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob(kept + "scores/*.tar.gz")
	if err != nil || len(archives) == 0 {
		t.Fatalf("there are no archives of scores: %v", err)
	}
	for _, archive := range archives {
		folder, tasks := t.TempDir(), map[string]bool{} // digests of tasks.parquet
		unpack(t, archive, func(name string, content []byte) {
			file := filepath.Join(folder, filepath.FromSlash(name))
			err := os.MkdirAll(filepath.Dir(file), 0o750)
			if err == nil {
				err = os.WriteFile(file, content, 0o640)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
		runs, err := filepath.Glob(filepath.Join(folder, "*", "*"))
		if err != nil || len(runs) == 0 {
			t.Fatalf("%s has no runs: %v", archive, err)
		}
		for _, run := range runs {
			g, err := rundir.ReadGraph(t.Context(), graph.Dir(run))
			if err != nil {
				t.Error(err)
				continue
			}
			err = filepath.WalkDir(run, func(file string, _ fs.DirEntry, err error) error {
				if err != nil || filepath.Ext(file) != ".parquet" {
					return err
				}
				m, err := seal.Verify(t.Context(), file, g.Reading(0))
				for _, input := range m.Inputs {
					if input.Path == filepath.Base(g.Dir.Tasks()) {
						tasks[input.ContentSHA256] = true
					}
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		if len(tasks) != 1 {
			t.Errorf("%s is of %d sets of tasks, want one", archive, len(tasks))
		}
	}
}

// readSummaries reads an archive of EXPERIMENT/RUN/report/summary.json.
func readSummaries(t *testing.T, file string) map[string]map[string]map[string]any {
	t.Helper()
	summaries := map[string]map[string]map[string]any{}
	unpack(t, file, func(name string, content []byte) {
		parts := strings.Split(name, "/")
		if ok, _ := path.Match("*/*/report/summary.json", name); !ok {
			t.Fatalf("%s is no summary of a run", name)
		}
		var m map[string]any
		if err := json.Unmarshal(content, &m); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if summaries[parts[0]] == nil {
			summaries[parts[0]] = map[string]map[string]any{}
		}
		summaries[parts[0]][parts[1]] = m
	})
	return summaries
}

// numberIn is a number of a summary by its path; the metrics of tasks are not in one.
func numberIn(summary any, path string) (float64, bool) {
	for part := range strings.SplitSeq(path, ".") {
		switch in := summary.(type) {
		case map[string]any:
			summary = in[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(in) {
				return 0, false
			}
			summary = in[i]
		}
	}
	number, is := summary.(float64)
	return number, is
}

// unpack hands out the files of an archive.
func unpack(t *testing.T, archive string, file func(name string, content []byte)) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(files)
		if err != nil {
			t.Fatalf("%s: %v", header.Name, err)
		}
		file(header.Name, content)
	}
}
