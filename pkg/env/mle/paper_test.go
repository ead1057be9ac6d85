package mle

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// TestPaperPrompts: whatever a style's prompts say between their slots stands in
// the paper, word by word, but for what is ours and listed here.
func TestPaperPrompts(t *testing.T) {
	t.Parallel()
	shared := os.Getenv("LATHE_SHARED")
	if shared == "" {
		shared = "../../../../shared"
	}
	papers, err := filepath.Glob(filepath.Join(shared, "papers", "00*.txt"))
	if err != nil || len(papers) != 5 {
		t.Skip("LATHE_SHARED names the folder that holds papers")
	}
	letters := regexp.MustCompile(`[^a-z0-9]+`)
	plain := func(s string) string {
		return letters.ReplaceAllString(strings.NewReplacer("<sup>", "", "</sup>", "", "&quot;", "").Replace(strings.ToLower(s)), "")
	}
	slots := regexp.MustCompile(`\{[a-z_]+\}|\n+`)
	ours := []string{
		"your code will be run on a machine with", // 000: a single H100 GPU
		"datasets", "are available in input", "in input", // 001: the folders of its machines
		"submissions are evaluated on",                     // 001: an example's metric
		"you can use pre installed packages such as", "'.", // 001 says "your can use", and ends the list
		"its terminal output", // RL-MLE §3.3: the prompt shows it, RL-MLE App. C.2 prints no slot
		"feel free to use any other packages",
	}
	for i := range ours {
		ours[i] = plain(ours[i])
	}
	for _, c := range []struct {
		paper int
		texts []string
	}{
		{0, []string{text("exit/task.md"), text("exit/goal_improve.md"), text("exit/goal_debug.md"), text("exit/goal_diverge.md")}},
		{1, []string{text("agents/system.md"), text("agents/draft.md"), text("agents/improve.md"), text("agents/instrument.md")}},
		{3, []string{text("ace/draft.md"), text("ace/debug.md"), text("ace/improve.md"), text("ace/implementation.md")}},
	} {
		content := must.Get(os.ReadFile(papers[c.paper]))(t)
		paper, found := plain(string(content)), 0
		for _, prompt := range c.texts {
			for _, piece := range slots.Split(prompt, -1) {
				own := plain(piece)
				if own == "" || strings.Contains(paper, own) {
					found += len(own)
					continue
				}
				listed := false
				for _, o := range ours {
					listed = listed || strings.Contains(own, o) && o != ""
				}
				if !listed {
					t.Errorf("%s does not have: %s", filepath.Base(papers[c.paper]), strings.TrimSpace(piece))
				}
			}
		}
		t.Logf("%s: %d letters", filepath.Base(papers[c.paper]), found)
	}
}
