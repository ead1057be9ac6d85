package reproduce

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// readSummaries reads an archive of EXPERIMENT/RUN/report/summary.json.
func readSummaries(t *testing.T, file string) map[string]map[string]*measured {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	summaries := map[string]map[string]*measured{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return summaries
		}
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(header.Name, "/")
		if ok, _ := path.Match("*/*/report/summary.json", header.Name); !ok {
			t.Fatalf("%s is no summary of a run", header.Name)
		}
		text, err := io.ReadAll(archive)
		m := &measured{}
		if err == nil {
			err = json.Unmarshal(text, &m.summary)
		}
		if err == nil {
			err = json.Unmarshal(text, &m.keys)
		}
		if err != nil {
			t.Fatalf("%s: %v", header.Name, err)
		}
		if summaries[parts[0]] == nil {
			summaries[parts[0]] = map[string]*measured{}
		}
		summaries[parts[0]][parts[1]] = m
	}
}
