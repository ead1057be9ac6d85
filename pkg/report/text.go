package report

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/guptarohit/asciigraph"

	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/webpage"
)

// The curve of the terminal summary, in characters and lines.
const (
	curveWidth  = 56
	curveHeight = 7
)

// indent is the space before each column of a table.
const indent = 3

// Text prints a summary for a terminal or a log: plain text, at most about
// 100 characters wide, without colour.
func Text(w io.Writer, s Summary) error {
	t := &textReport{out: w, s: s}
	t.head()
	t.warmStart()
	t.accuracy()
	t.submissions()
	t.kinds()
	t.curve()
	t.accounts()
	t.missing()
	if t.err != nil {
		return fmt.Errorf("printing the summary: %w", t.err)
	}
	return nil
}

type textReport struct {
	out io.Writer
	s   Summary
	err error
}

func (t *textReport) line(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.out, format+"\n", args...)
	}
}

// table prints rows of cells, the first column to the left.
func (t *textReport) table(rows [][]string) {
	if t.err != nil {
		return
	}
	tab := tabwriter.NewWriter(t.out, 0, 0, indent, ' ', tabwriter.AlignRight)
	width := 0
	for _, row := range rows {
		width = max(width, utf8.RuneCountInString(row[0]))
	}
	for _, row := range rows {
		first := row[0] + strings.Repeat(" ", width-utf8.RuneCountInString(row[0]))
		_, err := fmt.Fprintln(tab, first+"\t"+strings.Join(row[1:], "\t")+"\t")
		t.err = errors.Join(t.err, err)
	}
	t.err = errors.Join(t.err, tab.Flush())
}

func (t *textReport) head() {
	s := t.s
	t.line("%s   run %s, seed %d, %s on %s", printable(s.Name), printable(s.RunID), s.Seed, printable(s.Curriculum), printable(s.Environment))
	var choices []string
	for _, c := range s.Composition {
		choices = append(choices, c.Axis+" "+printable(c.Text))
	}
	t.line("%s", strings.Join(choices, " · "))
	hosts := ""
	if s.HostCount != nil {
		hosts = fmt.Sprintf(", %d %s", *s.HostCount, plural.Noun(*s.HostCount, "host"))
	}
	t.line("%s: %d of %d %s%s%s", stateWords(s), s.IterationsDone, s.Iterations, plural.Noun(s.Iterations, "iteration"), hosts, leftOutWords(s))
	if c := conclusion(s); c != "" {
		t.line("%s", c)
	}
}

// stateWords says in words what the files show.
func stateWords(s Summary) string {
	switch s.State {
	case "done":
		return "done"
	case "failed":
		return "failed"
	case "pending":
		return "not begun"
	}
	return "not finished"
}

func leftOutWords(s Summary) string {
	if s.LeftOutShards == 0 {
		return ""
	}
	return fmt.Sprintf(", %d %s left out", s.LeftOutShards, plural.Noun(s.LeftOutShards, "shard"))
}

// warmStart prints what the warm start did to the loss of rows that it did not learn from.
func (t *textReport) warmStart() {
	l := t.s.WarmStartLoss
	if l == nil {
		return
	}
	before := "unknown"
	if l.Before != nil {
		before = fmt.Sprintf("%.4f", *l.Before)
	}
	t.line("\nWarm start: loss of held-out rows %s before, %.4f after, in nats per token", before, l.After)
}

func (t *textReport) accuracy() {
	s := t.s
	if s.AccuracyByVersion == nil {
		return
	}
	t.line("\nHeld-out %s in %%, %s, avg@%d at temperature %g (± standard error)", measureName(s), plural.Count(s.Problems, "problem"), s.Samples, s.Temperature)
	t.table(accuracyRows(s))
	if v := s.SelectedVersion; v != nil {
		t.line("   Selected by validation: policy v%06d, %s%% there and %s%% on the benchmarks.", v.Version, percent(&v.Validation), percent(&v.Accuracy))
	}
	if c := s.Corrections; c != nil {
		t.line("   Self-improvement by the last policy: of %s %d corrected, %d broken, net %+d; %d %s better, %d worse.",
			plural.Count(c.Chains, "answer"), c.Corrected, c.Broken, c.Net, c.ProblemsImproved, plural.Noun(c.ProblemsImproved, "problem"), c.ProblemsWorsened)
	}
}

// submissions prints the tables of the first version and of the last.
func (t *textReport) submissions() {
	for _, table := range gradedTables(t.s) {
		t.line("\n%s, in %%: mean ± population standard deviation (standard error)", table.Title)
		t.table(append([][]string{table.Table.Head}, table.Table.Rows...))
	}
}

func at(values []float64, i int) *float64 {
	if i >= len(values) {
		return nil
	}
	return &values[i]
}

func (t *textReport) kinds() {
	for _, b := range kindTables(t.s) {
		t.line("\n%s", b.title)
		t.table(b.rows())
	}
}

func kindName(kind string) string {
	if kind == "" {
		return "(none)"
	}
	return printable(kind)
}

// curve draws the mean reward over iterations.
func (t *textReport) curve() {
	var rewards []float64
	first, last := 0, 0
	for _, it := range t.s.Series {
		if it.RewardMean == nil {
			continue
		}
		if len(rewards) == 0 {
			first = it.Iteration
		}
		rewards, last = append(rewards, *it.RewardMean), it.Iteration
	}
	if len(rewards) < 2 {
		return
	}
	t.line("\nMean training reward, iterations %d to %d", first, last)
	options := []asciigraph.Option{asciigraph.Height(curveHeight), asciigraph.Precision(2), asciigraph.Offset(4)}
	if len(rewards) != curveWidth {
		options = append(options, asciigraph.Width(curveWidth))
	}
	for _, line := range strings.Split(asciigraph.Plot(rewards, options...), "\n") {
		t.line("%s", strings.TrimRight(line, " "))
	}
}

func (t *textReport) accounts() {
	s := t.s
	t.line("")
	rows := [][2]string{{"ledger", ledgerWords(s)}}
	if words := counts(s.Outcomes); words != "" {
		rows = append(rows, [2]string{"outcomes", words})
	}
	if a := s.RewardAudit; a != nil {
		rows = append(rows, [2]string{"scores", counts(a.Reasons)})
		for _, warning := range a.Warnings {
			rows = append(rows, [2]string{"warning", warning})
		}
	}
	if taken := s.ScoresTaken; taken != nil {
		words := fmt.Sprintf("%s as in %s", plural.Of(taken.Taken, taken.Files, "score file"), taken.From)
		if taken.Taken < taken.Files {
			words += "; why the others were scored again: lathe logs RUN --stage score"
		}
		rows = append(rows, [2]string{"taken", words})
	}
	for _, warning := range s.Room.Warnings() {
		rows = append(rows, [2]string{"warning", warning})
	}
	for _, under := range byCount(s.Sandboxes) {
		rows = append(rows, [2]string{"sandbox", fmt.Sprintf("%s (%s)", under, plural.Count(s.Sandboxes[under], "response"))})
	}
	if words := tokenWords(s.Tokens); words != "" {
		rows = append(rows, [2]string{"tokens", words})
	}
	if s.WallSeconds != nil {
		rows = append(rows, [2]string{"time", timeWords(s)})
		for _, tail := range s.Tails {
			if words := tailWords(tail); words != "" {
				rows = append(rows, [2]string{"tail", words})
			}
		}
	}
	if s.LateFiles != nil {
		rows = append(rows, [2]string{"files", lateWords(*s.LateFiles)})
	}
	if iteration, why, fell := lookAt(s); fell {
		rows = append(rows, [2]string{"look at", fmt.Sprintf("%s: lathe samples RUN --iteration %d --sort reward --worst 5", why, iteration)})
	}
	if s.PolicySHA256 != nil {
		rows = append(rows, [2]string{"policy", fmt.Sprintf("v%06d, sha256 %s", *s.PolicyVersion, *s.PolicySHA256)})
	}
	for _, row := range rows {
		t.line("%-10s%s", row[0], row[1])
	}
}

func ledgerWords(s Summary) string {
	dropped := 0
	for _, n := range s.Ledger.Dropped {
		dropped += n
	}
	words := grouped(int64(s.Ledger.Planned)) + " responses planned"
	if n := s.Ledger.Segments; n > s.Ledger.Planned-s.Ledger.Pending {
		words += ", " + grouped(int64(n)) + " " + plural.Noun(n, "segment")
	}
	words += fmt.Sprintf(": %s trained on, %s dropped", grouped(int64(s.Ledger.Trained)), grouped(int64(dropped)))
	if dropped > 0 {
		words += " (" + counts(s.Ledger.Dropped) + ")"
	}
	words += fmt.Sprintf(", %s pending", grouped(int64(s.Ledger.Pending)))
	if s.Ledger.Waiting > 0 {
		words += fmt.Sprintf(", %s %s waiting for a batch", grouped(int64(s.Ledger.Waiting)), plural.Noun(s.Ledger.Waiting, "segment"))
	}
	if n := len(s.Ledger.Problems); n > 0 {
		words += fmt.Sprintf("; %d %s: see lathe verify", n, plural.Noun(n, "contradiction"))
	}
	return words
}

func tokenWords(k Tokens) string {
	var parts []string
	for _, part := range []struct {
		name string
		n    *int64
	}{
		{"read", k.Prompt}, {"read again in later waves", k.ReadAgain}, {"sampled", k.Response}, {"trained on", k.Trained}, {"in the warm start", k.WarmStart}, {"in evaluations", k.Evaluation},
	} {
		if part.n != nil && *part.n > 0 {
			parts = append(parts, grouped(*part.n)+" "+part.name)
		}
	}
	return strings.Join(parts, ", ")
}

func timeWords(s Summary) string {
	words := duration(*s.WallSeconds)
	var parts []string
	for _, stage := range s.Stages {
		parts = append(parts, fmt.Sprintf("%s %s", stage.Stage, duration(stage.WallSeconds)))
	}
	words += ": " + strings.Join(parts, ", ")
	if s.OrchestrationSeconds != nil {
		words += fmt.Sprintf("; %s an iteration between tasks", duration(*s.OrchestrationSeconds))
	}
	return words
}

// missing prints each reason once.
func (t *textReport) missing() {
	if t.s.State == "pending" {
		return
	}
	var reasons []string
	for _, reason := range t.s.Missing {
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	if len(reasons) == 0 {
		return
	}
	slices.Sort(reasons)
	t.line("\nNot known, because")
	for _, reason := range reasons {
		t.line("   %s", printable(reason))
	}
}

// PrintSubmissions writes the tables of submissions for people, in percent: mean ±
// population standard deviation (standard error).
func PrintSubmissions(out io.Writer, s Submissions) error {
	t := textReport{out: out}
	t.table(submissionRows(s))
	return t.err
}

// submissionRows are the table's lines for people: percent, mean ± population
// standard deviation (standard error).
func submissionRows(s Submissions) [][]string {
	rows := [][]string{{"", "valid", "above median", "any medal", "rank 1−p/N", "MLE-Dojo's", "quality"}}
	show := func(v Spread) string {
		text := fmt.Sprintf("%.1f ± %.1f", 100*v.Mean, 100*v.StandardDeviation)
		if v.StandardError != nil {
			text += fmt.Sprintf(" (%.1f)", 100**v.StandardError)
		}
		return text
	}
	for _, r := range s.Rows {
		rows = append(rows, []string{r.Chosen, show(r.Valid), show(r.AboveMedian), show(r.AnyMedal), show(r.HumanRank), show(r.HumanRankMLEDojo), show(r.Quality)})
	}
	return rows
}

// gradedTable is the table of a version.
type gradedTable struct {
	Title string
	Table webpage.Table
}

// gradedTables are the tables of the first version and of the last.
func gradedTables(s Summary) (tables []gradedTable) {
	for i, v := range s.Submissions {
		if i == 0 || i == len(s.Submissions)-1 {
			head := fmt.Sprintf("Submissions of policy v%06d to %d %s, %d %s", v.Version, v.Tasks, plural.Noun(v.Tasks, "task"), v.Samples, plural.Noun(v.Samples, "sample"))
			tables = append(tables, gradedTable{head, *webpage.NewTable(submissionRows(v))})
		}
	}
	return tables
}
