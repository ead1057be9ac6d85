package floors

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
)

// citedPaper is one of the papers that the suite implements, by the name under which
// comments cite it.
type citedPaper struct {
	name, title string
	equations   []equation // those that have a number, from 1
}

type equation struct {
	what string
	why  string // it is not computed; empty where a function computes it
}

// citedPapers are written by hand from the papers.
var citedPapers = []citedPaper{
	{"ExIt", "Bootstrapping Task Spaces for Self-Improvement", []equation{
		{"the next iterate, sampled given the last one", ""},
		{"the quality that training is to maximise", "the aim: what is computed is ExIt Eq. 4"},
		{"advantage of a response in its group", ""},
		{"objective: clipped surrogate and KL penalty, the mean of means over tokens", ""},
		{"importance ratio of a token", ""},
		{"diversity of a response in its group", ""},
	}},
	{"FlipTS", "FlipTS: Failure-to-Success Mathematical Self-Refinement via Trajectory-Aware Sampling in End-to-End Online RL", []equation{
		{"objective: clipped surrogate, every turn with the same weight", ""},
		{"prior of the failure-to-success potential", ""},
		{"discounted update of the posterior", ""},
		{"the questions whose draws are nearest to the target", ""},
		{"batch size as observed and unobserved questions", "a step of the proof of FlipTS Thm. 1"},
		{"observed questions expected in a batch", "a step of the proof of FlipTS Thm. 1, which a test of the curriculum measures"},
		{"their limit in a large data set", "the end of the proof of FlipTS Thm. 1"},
	}},
	{"AceGRPO", "AceGRPO: Adaptive Curriculum Enhanced Group Relative Policy Optimization for Autonomous Machine Learning Engineering", []equation{
		{"the state that a response leads to", ""},
		{"the reward that training is to maximise", "the aim: what is computed is AceGRPO Eq. 4"},
		{"advantage of a response in its group", ""},
		{"objective: clipped surrogate and KL penalty", ""},
		{"the gradient of a group of equal rewards", "an observation: it is 0, since the advantages are"},
		{"reward of score and improvement", ""},
		{"learnability potential of a state", ""},
		{"weight of a state by its rank", ""},
		{"cooling of a state after visits", ""},
		{"probability of a state", ""},
	}},
	{"MLE-RL", "MLE-RL: Reinforcement Learning for Self-Improvement in Machine Learning Agents", []equation{
		{"objective: advantage times log-probability", ""},
		{"advantage of a response in its group", ""},
		{"a trace, written as a sequence", "notation"},
		{"a trace, cut into steps at its valid submissions", ""},
	}},
	{"RL-MLE", "Reinforcement Learning for Machine Learning Engineering Agents", []equation{
		{"the return that training is to maximise", "the aim: what is computed is RL-MLE Eq. 3, on PPO's surrogate"},
		{"policy gradient", ""},
		{"policy gradient, weighted by durations", ""},
	}},
}

const (
	paperNames = `(ExIt|FlipTS|AceGRPO|MLE-RL|RL-MLE)`
	cited      = `(?:(?:Alg|Tab|Fig|Thm)\. [0-9]+|§[0-9]+(?:\.[0-9]+)*|App\. [A-H](?:\.[0-9]+)*)`
)

var (
	equationCited = regexp.MustCompile(paperNames + ` Eq\. ([0-9]+)\b`)
	// A citation may go on to more places of the paper; an equation is always named in
	// full, so that a search for it finds all.
	citation = regexp.MustCompile(paperNames + ` (?:Eq\. [0-9]+|` + cited + `(?:(?:,| and| to|, and) (?:` + cited + `|[0-9]+))*)\b`)
	broken   = regexp.MustCompile(paperNames + `[ \t]*\n\s*(?:§|(?:Eq|Alg|Tab|Fig|Thm|App)\.)|\b(?:Eq|Alg|Tab|Fig|Thm|App)\.[ \t]*\n\s*[0-9A-H]\b|§[ \t]*\n`)
	// reference is a place of a paper, however it is written.
	reference = regexp.MustCompile(`(?:\b(?i:equations?|eqn?s?\.|sections?|secs?\.|tables?|tabs?\.|figures?|figs?\.|appendix|appendices|apps?\.|algorithms?|algs?\.|theorems?|thms?\.) ?\(?|§ ?)(?:[0-9]+(?:\.[0-9]+)*|[A-H](?:\.[0-9]+)*)\b`)
	ofThese   = regexp.MustCompile(`(?i:\bExIt\b|\bFlipTS\b|\bAceGRPO\b|\bMLE-RL\b|\bRL-MLE\b|Bootstrapping Task Spaces|Trajectory-Aware Sampling|(?:Reinforcement Learning|RL) for (?:machine.learning.engineering|MLE) agents)`)
	// ofOthers is what stands before a reference to another work: the year or number of a
	// customary citation, or the name of what is cited without one.
	ofOthers = regexp.MustCompile(`\b(?:19|20)[0-9][0-9][,;)]|\barXiv [0-9.]+|\bDAPO\b|\bUnicode Standard\b|\bDeveloper's Manual\b`)
)

// citationProblems lists the citations of a text that are not in the one form. A place
// that no work is named for is a problem in a comment, where it would be of whatever
// paper the reader has in mind; a literal may speak of its own tables.
func citationProblems(text string, comment bool) (problems []string) {
	for _, found := range broken.FindAllString(text, -1) {
		problems = append(problems, fmt.Sprintf("%q is broken over a line, where no search finds it", strings.Join(strings.Fields(found), " ")))
	}
	text = strings.Join(strings.Fields(text), " ")
	rest := citation.ReplaceAllString(text, "$1")
	for _, at := range reference.FindAllStringIndex(rest, -1) {
		ours, others := last(ofThese, rest[:at[0]]), last(ofOthers, rest[:at[0]])
		if others > ours || ours < 0 && !comment && !ofThese.MatchString(rest) {
			continue
		}
		problems = append(problems, fmt.Sprintf("%q, of %q: cite one of the five papers as ExIt Eq. 4, FlipTS Alg. 1, AceGRPO Tab. 3, MLE-RL §4.2 or RL-MLE App. C.3, and another work by authors, title and year",
			rest[at[0]:at[1]], strings.TrimSpace(rest[max(0, at[0]-40):at[1]])))
	}
	for _, found := range equationCited.FindAllStringSubmatch(text, -1) {
		if paper, number := paperCited(found); number < 1 || number > len(paper.equations) {
			problems = append(problems, found[0]+" is none of the paper's")
		}
	}
	return problems
}

// last is where the last match begins, or -1.
func last(pattern *regexp.Regexp, text string) int {
	all := pattern.FindAllStringIndex(text, -1)
	if len(all) == 0 {
		return -1
	}
	return all[len(all)-1][0]
}

func paperCited(match []string) (paper citedPaper, number int) {
	paper = citedPapers[slices.IndexFunc(citedPapers, func(p citedPaper) bool { return p.name == match[1] })]
	number, _ = strconv.Atoi(match[2]) // too large a number is none of the paper's either
	return paper, number
}

// computedBy are the functions whose doc comments name an equation, by its citation.
type computedBy map[string][]string

// spelled is a place of a paper that does not have the short name of its kind.
var spelled = regexp.MustCompile(`\b(?:Tables?|Figures?|Sections?|Equations?|Appendix) [0-9A-H]`)

// marker begins a line of a comment in a recipe or a query.
var marker = regexp.MustCompile(`(?m)^[ \t]*(?:#|--) ?`)

// textProblems lists those of a recipe, a query or a script: a block of comments is one
// text, and each other line is.
func textProblems(name, content string) (problems []string) {
	block, first := "", 0
	check := func() {
		for _, problem := range citationProblems(block, true) {
			problems = append(problems, fmt.Sprintf("%s:%d: %s", name, first, problem))
		}
		block = ""
	}
	for i, line := range strings.Split(content, "\n") {
		comment := marker.MatchString(line)
		if !comment || block == "" {
			check()
			first = i + 1
		}
		block += marker.ReplaceAllString(line, "") + "\n"
		if !comment {
			check()
		}
	}
	check()
	return problems
}

// TestCitationsOfFiles: recipes, queries and scripts cite the five papers in the one form
// too.
func TestCitationsOfFiles(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"jobs/*.yaml", "jobs/*/*.yaml", "jobs/*/*/*.yaml", "analysis/*.sql", "analysis/*.py"} {
		files, err := filepath.Glob(sourcetree.Path(filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, problem := range textProblems(file, string(content)) {
				t.Error(problem)
			}
		}
	}
}

// TestCitationsOfFilesCanFail shows it texts that are wrong.
func TestCitationsOfFilesCanFail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"# The settings of ExIt Tab. 4\n# and ExIt App. A.5.\nname: a # ExIt Eq. 6\n", ""},
		{"-- of both (FlipTS Fig. 8\n-- and 9).\nSELECT 1\n", ""},
		{"# Table 4 of ExIt.\n", `a:1: "Table 4"`},
		{"name: a\n# The ratio of ExIt\n# Eq. 5.\n", `a:2: "ExIt Eq." is broken over a line`},
		{"name: a\ndescription: ExIt with the settings of Table 4\n", `a:2: "Table 4"`},
		{"name: a # appendix A.5\n", `a:1: "appendix A.5"`},
		{"-- (ExIt, Figure 7)\n", `a:1: "Figure 7"`},
		{"-- (ExIt Eq. 7)\n", "a:1: ExIt Eq. 7 is none of the paper's"},
	} {
		if all := strings.Join(textProblems("a", c.text), "\n"); (c.want == "") != (all == "") || !strings.Contains(all, c.want) {
			t.Errorf("%q: got %q, want %q", c.text, all, c.want)
		}
	}
}

// readCitations reads the comments of all files, and the literals of those that are no
// tests, whose literals hold what others print.
func readCitations(t *testing.T, files map[string][]byte) (functions computedBy, problems []string) {
	t.Helper()
	functions = computedBy{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, files[name], parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		check := func(at token.Pos, text string, comment bool) {
			for _, problem := range citationProblems(text, comment) {
				problems = append(problems, fmt.Sprintf("%s: %s", set.Position(at), problem))
			}
		}
		for _, group := range file.Comments {
			check(group.Pos(), group.Text(), true)
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
					check(n.Pos(), text, false)
					if found := spelled.FindString(text); found != "" && strings.HasPrefix(name, "pkg/paper/") {
						problems = append(problems, fmt.Sprintf("%s: %q: write Tab., Fig., §, Eq. or App.", set.Position(n.Pos()), found))
					}
				}
			case *ast.FuncDecl:
				// The page has no line numbers. They would be stale after every edit above a
				// function, in changes and merges that have nothing to do with it.
				row := fmt.Sprintf("`%s.%s` | [%s](%[3]s)", file.Name.Name, funcName(n), strings.TrimPrefix(name, "pkg/"))
				for _, found := range equationCited.FindAllString(n.Doc.Text(), -1) {
					if !slices.Contains(functions[found], row) {
						functions[found] = append(functions[found], row)
					}
				}
			}
			return true
		})
	}
	return functions, problems
}

// problems lists the equations that no function names, and those that one names
// although they are not computed.
func (functions computedBy) problems() (problems []string) {
	for _, p := range citedPapers {
		for i, e := range p.equations {
			key := fmt.Sprintf("%s Eq. %d", p.name, i+1)
			switch by := functions[key]; {
			case e.why == "" && len(by) == 0:
				problems = append(problems, key+" ("+e.what+") is named in no function's doc comment")
			case e.why != "" && len(by) > 0:
				problems = append(problems, key+" is listed as not computed, and is named by "+strings.Join(by, ", "))
			}
		}
	}
	return problems
}

func (functions computedBy) page() string {
	var b strings.Builder
	b.WriteString("# Equations\n\nThe numbered equations of the five papers, and the functions that compute or choose them, by their doc comments. `grep -rn 'ExIt Eq. 4' pkg` finds\n" +
		"all places of one. `TestEquations` writes this page with `go test ./pkg/floors -run TestEquations -update`.\n\n| paper | title |\n| --- | --- |\n")
	for _, p := range citedPapers {
		fmt.Fprintf(&b, "| %s | %s |\n", p.name, p.title)
	}
	b.WriteString("\n## Computed\n\n| paper | equation | what it is | function | file |\n| --- | --- | --- | --- | --- |\n")
	each := func(row func(p citedPaper, number int, e equation)) {
		for _, p := range citedPapers {
			for i, e := range p.equations {
				row(p, i+1, e)
			}
		}
	}
	each(func(p citedPaper, number int, e equation) {
		for _, by := range functions[fmt.Sprintf("%s Eq. %d", p.name, number)] {
			fmt.Fprintf(&b, "| %s | Eq. %d | %s | %s |\n", p.name, number, e.what, by)
		}
	})
	b.WriteString("\n## Not computed\n\n| paper | equation | what it is | why |\n| --- | --- | --- | --- |\n")
	each(func(p citedPaper, number int, e equation) {
		if e.why != "" {
			fmt.Fprintf(&b, "| %s | Eq. %d | %s | %s |\n", p.name, number, e.what, e.why)
		}
	})
	return b.String()
}

// TestEquations: the five papers are cited in one form, and EQUATIONS.md lists the
// function of every numbered equation.
func TestEquations(t *testing.T) {
	t.Parallel()
	functions, problems := readCitations(t, sources(t))
	for _, problem := range slices.Concat(problems, functions.problems()) {
		t.Error(problem)
	}
	golden.Check(t, sourcetree.Path("pkg", "EQUATIONS.md"), functions.page())
}

// TestEquationsCanFail shows the test comments, texts and lists that are wrong.
func TestEquationsCanFail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ source, want, file string }{
		{"// F is ExIt Eq. 3, FlipTS Alg. 1, AceGRPO Tab. 3, MLE-RL §4.2 and §5.1, RL-MLE App. C.3, Fig. 2\n// to 4 and FlipTS Thm. 1.", "", ""},
		{"// F is of Adam (Kingma and Ba, Adam, ICLR 2015, section 3).", "", ""},
		{"// F is DAPO's (Yu et al., arXiv 2503.14476): clip-higher (section 3.1).", "", ""},
		{"// F is (ExIt, equation 4).", `"equation 4"`, ""},
		{"// F is AceGRPO's (section 4.1, AceGRPO Eq. 6).", `"section 4.1"`, ""},
		{"// F is Table 4 of ExIt.", `"Table 4"`, ""},
		{"// F is Eq. 3.", `"Eq. 3"`, ""},
		{"// F is AceGRPO Eq. 8 and Eq. 10.", `"Eq. 10"`, ""},
		{"// F is ExIt §4 and section 5.", `"section 5"`, ""},
		{"// F is MLE-RL §\u00a04.", `"§ 4"`, ""},
		{"// F is \"Reinforcement Learning for Machine Learning Engineering\n// Agents\", appendix C.3.", `"appendix C.3"`, ""},
		{"// F is DAPO's clip-higher, and ExIt's equation 4.", `"equation 4"`, ""},
		{"// F is the mean of ExIt\n// Eq. 4.", `"ExIt Eq." is broken over a line`, ""},
		{"// F is the mean of ExIt Eq.\n// 4.", `"Eq. 4" is broken over a line`, ""},
		{"// F is ExIt Eq. 7.", "ExIt Eq. 7 is none of the paper's", ""},
		{"// G is fine.\nconst g = \"settings (ExIt, Table 4)\"\n\n// F too.", `"Table 4"`, ""},
		{"// G is fine.\nconst g = \"Table 4 of ExIt\"\n\n// F too.", `"Table 4"`, ""},
		{"// G is fine.\nconst g = \"Table 4\"\n\n// F too.", "", ""},
		{"// G is fine.\nconst g = \"Table 4\"\n\n// F too.", `"Table 4"`, "pkg/paper/a.go"},
	} {
		_, problems := readCitations(t, map[string][]byte{cmp.Or(c.file, "pkg/a/a.go"): []byte("package a\n\n" + c.source + "\nfunc F() {}\n")})
		if all := strings.Join(problems, "\n"); (c.want == "") != (all == "") || !strings.Contains(all, c.want) {
			t.Errorf("%s: got %q, want %q", c.source, all, c.want)
		}
	}

	everything := computedBy{}
	for _, p := range citedPapers {
		for i, e := range p.equations {
			if e.why == "" {
				everything[fmt.Sprintf("%s Eq. %d", p.name, i+1)] = []string{"`a.F` | [a/a.go](a/a.go)"}
			}
		}
	}
	if problems := everything.problems(); len(problems) > 0 {
		t.Errorf("all equations are named: got %q", problems)
	}
	delete(everything, "ExIt Eq. 4")
	everything["MLE-RL Eq. 3"] = []string{"`a.F` | [a/a.go](a/a.go)"}
	problems := everything.problems()
	if len(problems) != 2 || !strings.HasPrefix(problems[0], "ExIt Eq. 4") || !strings.HasPrefix(problems[1], "MLE-RL Eq. 3 is listed as not computed") {
		t.Errorf("one equation is not named, and one is that is not computed: got %q", problems)
	}
	functions, _ := readCitations(t, map[string][]byte{
		"pkg/a/b/c.go":      []byte("package b\n\ntype T struct{}\n\n// F is ExIt Eq. 4,\n// ExIt Eq. 4 again.\nfunc (*T) F() {}\n"),
		"pkg/a/b/c_test.go": []byte("package b\n\n// TestF is ExIt Eq. 3.\nfunc TestF() {}\n"),
	})
	if got := fmt.Sprint(functions); got != "map[ExIt Eq. 4:[`b.T.F` | [a/b/c.go](a/b/c.go)]]" {
		t.Errorf("a method that names an equation twice, and a test: got %s", got)
	}
}
