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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

const kept = "../../analysis/results/reproduce-mini/"

// The summaries that are kept are of the runs of the page beside them: every run is there,
// done, with the policy and the numbers that the page has.
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
	summaries := readSummaries(t, kept+"summaries.tar.gz")
	for _, e := range page.Results {
		here := summaries[e.Name]
		delete(summaries, e.Name)
		done := map[string]map[uint64]*measured{}
		for _, r := range e.Runs {
			m := here[r.Name]
			if m == nil {
				t.Errorf("%s/%s has no summary", e.Name, r.Name)
				continue
			}
			if s := m.summary; s.State != "done" || s.Seed != r.Seed || !cmp.Equal(s.PolicySHA256, r.PolicySHA256) {
				t.Errorf("the summary of %s/%s is not of the run of the page: %s, seed %d", e.Name, r.Name, s.State, s.Seed)
			}
			if done[r.Method] == nil {
				done[r.Method] = map[uint64]*measured{}
			}
			done[r.Method][r.Seed] = m
			delete(here, r.Name)
		}
		for name := range here {
			t.Errorf("%s/%s is not on the page", e.Name, name)
		}
		for _, c := range e.Claims {
			if strings.Contains(c.Metric, "/") {
				continue // of metrics of iterations, which no summary has
			}
			claim := Claim{Says: c.Says, Source: c.Source, Paper: c.Paper, Metric: c.Metric, Method: c.Method, Against: c.Against, Direction: c.Direction}
			got, err := claim.judge(t.Context(), e.Runs, done)
			if diff := cmp.Diff(c, got); err != nil || diff != "" {
				t.Errorf("%s, %q: %v\n%s", e.Name, c.Says, err, diff)
			}
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
func readSummaries(t *testing.T, file string) map[string]map[string]*measured {
	t.Helper()
	summaries := map[string]map[string]*measured{}
	unpack(t, file, func(name string, content []byte) {
		parts := strings.Split(name, "/")
		if ok, _ := path.Match("*/*/report/summary.json", name); !ok {
			t.Fatalf("%s is no summary of a run", name)
		}
		m := &measured{}
		err := json.Unmarshal(content, &m.summary)
		if err == nil {
			err = json.Unmarshal(content, &m.keys)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if summaries[parts[0]] == nil {
			summaries[parts[0]] = map[string]*measured{}
		}
		summaries[parts[0]][parts[1]] = m
	})
	return summaries
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
