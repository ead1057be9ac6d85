package recipe_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/config/configtest"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// papers are the recipes of the papers that the table in jobs/README.md shows.
var papers = []struct{ name, path string }{
	{"ExIt, mathematics", "exit-math.yaml"},
	{"ExIt, tool use", "bfcl-exit.yaml"},
	{"ExIt, machine-learning engineering", "exit/mle-exit.yaml"},
	{"RL for MLE agents", "rlmle/rlmle.yaml"},
	{"FlipTS", "flipts/qwen3-4b.yaml"},
	{"AceGRPO", "ace/ace.yaml"},
	{"MLE-RL", "mlerl/mlerl.yaml"},
}

// TestReadmeCompositions: the table in jobs/README.md is what the recipes compose.
func TestReadmeCompositions(t *testing.T) {
	t.Parallel()
	const begin, end, path = "<!-- compositions -->\n", "<!-- end of compositions -->\n", jobsFolder + "/README.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("jobs/README.md lacks the marks %q and %q", begin, end)
	}
	configtest.Golden(t, path, before+begin+compositions(t)+end+after)
}

func compositions(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for i, paper := range papers {
		resolved, err := recipe.Load(jobsFolder+"/"+paper.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		axes := resolved.Recipe.Composition()[1:] // the environment stands in the paper's name
		if i == 0 {
			b.WriteString("| paper |")
			for _, axis := range axes {
				fmt.Fprintf(&b, " %s |", axis.Name)
			}
			b.WriteString("\n|" + strings.Repeat("---|", len(axes)+1) + "\n")
		}
		fmt.Fprintf(&b, "| [%s](%s) |", paper.name, paper.path)
		for _, axis := range axes {
			var names []string
			for _, choice := range axis.Choices {
				if choice.Name != "empty" && choice.Name != "min_group" { // which every recipe has
					names = append(names, "`"+choice.Name+"`")
				}
			}
			fmt.Fprintf(&b, " %s |", strings.Join(names, ", "))
		}
		b.WriteString("\n")
	}
	return b.String()
}
