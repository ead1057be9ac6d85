package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/webpage/webpagetest"
)

// Nothing of a page is cut off on screens and paper, whatever is on it: that of a run
// that is done, of one under way, and of one with everything that is long.
func TestPagesInBrowser(t *testing.T) {
	t.Parallel()
	done, begun, full := finished(t), newFixture(t, "schedule.iterations=12", "evaluation.every=2"), finished(t)
	done.write()
	begun.begin()
	begun.evaluate(0, 11, 14, evaluationRows(0, scoresBefore))
	begun.write()

	f := full.collect()
	long := strings.Repeat("longer than any column ", 4) + strings.Repeat("unbroken", 30)
	f.Name, f.Description, f.LeftOutShards = long, long, 3
	many := Spread{Mean: .5, StandardDeviation: .4321, StandardError: f.AccuracyAfterStandardError}
	f.Submissions = []Submissions{{Tasks: 75, Samples: 16, Rows: []SubmissionRow{{Chosen: long, Valid: many, AboveMedian: many, AnyMedal: many, HumanRank: many, HumanRankMLEDojo: many, Quality: many}}}}
	for i := range f.AccuracyByKind {
		f.AccuracyByKind[i].Kind = strings.Repeat("Kind", 20*i+3)
	}
	f.RewardAudit.Warnings = []string{long}
	f.RewardAudit.Disagreements = []measure.VerifierAudit{{Verifier: "another verifier", Compared: 123456, Accepts: 1234, Refuses: 2345}}
	rows := evaluationRows(2, scoresAfter)
	for i := range rows {
		rows[i].Prompt, rows[i].Response, rows[i].Extracted = long, long, long+"!"
	}
	page := must.Get(html(full.run, f, figures(f), transcripts(evaluationRows(0, scoresBefore), rows), &groups{Iteration: 2, Why: "The mean reward fell most in iteration 2, from 0.5 to 0.25", Page: groupsName, Link: "5 prompts with the lowest reward, response by response"}))(t)
	file := filepath.Join(t.TempDir(), "full.html")
	must.Do(t, os.WriteFile(file, page, 0o666))
	webpagetest.Check(t, filepath.Join(done.run.Dir.Report(), "index.html"), filepath.Join(begun.run.Dir.Report(), "index.html"), file)
}
