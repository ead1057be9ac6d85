package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/webpage"
)

//go:embed page.html
var pageTemplate string

// page is what page.html shows. Everything in it that a policy or a data
// file wrote is a string, which the template escapes; only our own drawings
// are not.
type page struct {
	Summary
	State       string
	Measure     string // what the mean of held-out scores is called
	Date        string
	Conclusion  string
	Headlines   []headline
	ToDo        []string         // of a run that is not done
	Main        []webpage.Figure // what was learned
	Training    []webpage.Figure // how training went
	Time        []webpage.Figure
	Said        []string // what is not worth a drawing
	Groups      *groups  // of training to look at; nil for none
	BreakDowns  []webpage.Table
	Graded      []gradedTable
	Accuracies  *webpage.Table
	StageTable  *webpage.Table
	Ledger      webpage.Table
	Identity    [][2]string
	Objective   []setting
	Recipe      string
	Transcripts []transcript
	Unknown     [][2]string
}

// headline is one large number.
type headline struct{ Number, Unit, Words string }

// setting is one part of the objective as the learner wrote it down.
type setting struct{ Name, JSON string }

// html renders the page.
func html(r *rundir.Run, s Summary, drawn []chart, shown []transcript, looked *groups) ([]byte, error) {
	p := page{
		Summary: s, State: stateWords(s), Measure: measureName(s), Date: date(s.Created),
		Conclusion: conclusion(s), Headlines: headlines(s), ToDo: toDo(s), BreakDowns: breakDowns(s), Graded: gradedTables(s), Accuracies: accuracyTable(s),
		StageTable: stageTable(s), Ledger: webpage.Table{Rows: ledgerRows(s)}, Identity: identityRows(r, s),
		Objective: objective(s.Newest), Recipe: string(r.RecipeBytes),
		Transcripts: shown, Unknown: unknownRows(s), Said: said(s), Groups: looked,
	}
	for _, d := range drawn {
		drawing := webpage.NewFigure(d.svg, d.Caption)
		switch d.Name {
		case "accuracy_by_step", "accuracy_by_version":
			p.Main = append(p.Main, drawing)
		case "stage_seconds":
			p.Time = append(p.Time, drawing)
		default:
			p.Training = append(p.Training, drawing)
		}
	}
	return webpage.Render(pageTemplate, p)
}

// headlines are the numbers to see first. Those of a run that is not done are of the
// newest version that is measured.
func headlines(s Summary) []headline {
	before, after, _ := beforeAndAfter(s)
	of, by := "after", "by training"
	if after != nil && after.Version < s.Iterations {
		of = fmt.Sprintf("of v%06d, the newest measured", after.Version)
		by = fmt.Sprintf("so far, up to v%06d", after.Version)
	}
	was, is := value(before, accuracyOf), value(after, accuracyOf)
	list := []headline{
		{percent(was), "%", "held-out " + measureName(s) + " before"},
		{percent(is), "%", "held-out " + measureName(s) + " " + of},
		{change(difference(was, is)), "points", "gained " + by},
	}
	if s.Steps > 0 {
		list = append(list, headline{change(value(after, deltaOf)), "points", fmt.Sprintf("Δ over %d %s, %s", s.Steps, plural.Noun(s.Steps, "revision"), of)})
	}
	for i := range list {
		if list[i].Number == unknown {
			list[i].Unit = ""
		}
	}
	return list
}

// accuracyRows is the table of held-out scores, with its head.
func accuracyRows(s Summary) [][]string {
	before, after, head := beforeAndAfter(s)
	row := func(name string, value func(*Version) string, change string) []string {
		return []string{name, value(before), value(after), change}
	}
	gain := change(difference(value(before, accuracyOf), value(after, accuracyOf)))
	if s.AccuracyGain != nil {
		gain = changeWithError(s.AccuracyGain, s.AccuracyGainStandardError)
	}
	rows := [][]string{
		{"", "before", head, "change"},
		row("first answer, sampled", func(v *Version) string { return withError(value(v, accuracyOf), value(v, errorOf)) }, gain),
	}
	if was, is := value(before, greedyOf), value(after, greedyOf); was != nil || is != nil {
		rows = append(rows, []string{"first answer, greedy", percent(was), percent(is), change(difference(was, is))})
	}
	for step := 1; step <= s.Steps; step++ {
		of := func(v Version) *float64 { return at(v.AccuracyByStep, step) }
		was, is := value(before, of), value(after, of)
		rows = append(rows, []string{fmt.Sprintf("after revision %d", step), percent(was), percent(is), change(difference(was, is))})
	}
	if s.Steps > 0 {
		rows = append(rows, row(fmt.Sprintf("Δ over %d %s", s.Steps, plural.Noun(s.Steps, "revision")), func(v *Version) string {
			return changeWithError(value(v, deltaOf), value(v, func(v Version) *float64 { return v.DeltaKStandardError }))
		}, change(difference(value(before, deltaOf), value(after, deltaOf)))))
	}
	return rows
}

// accuracyTable is that table with what self-improvement corrected; nil where nothing
// is measured.
func accuracyTable(s Summary) *webpage.Table {
	if s.AccuracyByVersion == nil {
		return nil
	}
	rows := accuracyRows(s)
	before, after, _ := beforeAndAfter(s)
	count := func(v *Version, of func(Corrections) int) string {
		if v == nil || v.Corrections == nil {
			return unknown
		}
		return fmt.Sprintf("%d of %d", of(*v.Corrections), v.Corrections.Chains)
	}
	for _, c := range []struct {
		name string
		of   func(Corrections) int
	}{
		{"wrong answers put right", func(c Corrections) int { return c.Corrected }},
		{"right answers broken", func(c Corrections) int { return c.Broken }},
		{"net corrections", func(c Corrections) int { return c.Net }},
	} {
		if s.Steps > 0 {
			rows = append(rows, []string{c.name, count(before, c.of), count(after, c.of), ""})
		}
	}
	if v := s.SelectedVersion; v != nil {
		rows = append(rows, []string{fmt.Sprintf("policy v%06d, selected by validation", v.Version), "", percent(&v.Accuracy), ""})
	}
	return webpage.NewTable(rows)
}

// kindTable is the accuracy of first answers by a property of problems.
type kindTable struct {
	title, head string
	kinds       []KindAccuracy
}

// kindTables lists those that have something to compare.
func kindTables(s Summary) []kindTable {
	return slices.DeleteFunc([]kindTable{
		{"By held-out set", "held-out set", bySet(s)},
		{"By kind", "kind", s.AccuracyByKind},
		{"By level", "level", s.AccuracyByLevel},
		{"Milestones", "milestone", s.Milestones},
	}, func(b kindTable) bool {
		return len(b.kinds) == 0 || len(b.kinds) == 1 && (b.head == "kind" || b.head == "level")
	})
}

// rows is the table, with its head.
func (b kindTable) rows() [][]string {
	rows := [][]string{{b.head, "problems", "before", "after", "change"}}
	for _, k := range b.kinds {
		rows = append(rows, []string{
			kindName(k.Kind), fmt.Sprint(k.Problems), withError(k.Before, k.BeforeStandardError),
			withError(k.After, k.AfterStandardError), change(difference(k.Before, k.After)),
		})
	}
	return rows
}

func breakDowns(s Summary) (tables []webpage.Table) {
	for _, b := range kindTables(s) {
		tables = append(tables, *webpage.NewTable(b.rows()))
	}
	return tables
}

func stageTable(s Summary) *webpage.Table {
	if len(s.Stages) == 0 {
		return nil
	}
	t := webpage.Table{Head: []string{"stage", "tasks", "wall", "summed", "longest", "tokens/s"}}
	for _, st := range s.Stages {
		rate := ""
		if st.TokenRate != nil {
			rate = grouped(int64(*st.TokenRate + 0.5))
		}
		t.Rows = append(t.Rows, []string{
			st.Stage, grouped(int64(st.Tasks)), duration(st.WallSeconds), duration(st.TaskSeconds), duration(st.LongestSeconds), rate,
		})
	}
	return &t
}

func ledgerRows(s Summary) [][]string {
	var rows [][]string
	if l := s.WarmStartLoss; l != nil {
		if l.Before != nil {
			rows = append(rows, []string{"loss of held-out rows before the warm start", fmt.Sprintf("%.4f", *l.Before)})
		}
		rows = append(rows, []string{"loss of held-out rows after the warm start", fmt.Sprintf("%.4f", l.After)})
	}
	rows = append(rows, [][]string{
		{"responses planned", grouped(int64(s.Ledger.Planned))},
		{"segments with a disposition", grouped(int64(s.Ledger.Segments))},
		{"trained on", grouped(int64(s.Ledger.Trained))},
	}...)
	for _, reason := range byCount(s.Ledger.Dropped) {
		n := grouped(int64(s.Ledger.Dropped[reason]))
		if of := counts(s.Ledger.DroppedOf[reason]); of != "" {
			n += " (" + of + ")"
		}
		rows = append(rows, []string{"dropped: " + reason, n})
	}
	rows = append(rows, []string{"pending", grouped(int64(s.Ledger.Pending))})
	if s.Ledger.Waiting > 0 {
		rows = append(rows, []string{"segments that wait for a batch", grouped(int64(s.Ledger.Waiting))})
	}
	rows = append(rows, auditRows(s.RewardAudit)...)
	for _, outcome := range byCount(s.Outcomes) {
		rows = append(rows, []string{"outcome " + outcome, grouped(int64(s.Outcomes[outcome]))})
	}
	for _, under := range byCount(s.Sandboxes) {
		rows = append(rows, []string{"programs ran under " + under, grouped(int64(s.Sandboxes[under]))})
	}
	for _, t := range []struct {
		name string
		n    *int64
	}{
		{"tokens read by rollouts", s.Tokens.Prompt},
		{"tokens read again in later waves", s.Tokens.ReadAgain},
		{"tokens sampled by rollouts", s.Tokens.Response},
		{"tokens in the loss", s.Tokens.Trained},
		{"tokens of demonstrations", s.Tokens.WarmStart},
		{"tokens sampled by evaluations", s.Tokens.Evaluation},
	} {
		rows = append(rows, []string{t.name, groupedOr(t.n)})
	}
	return rows
}

func identityRows(r *rundir.Run, s Summary) [][2]string {
	rows := [][2]string{
		{"run", s.RunID},
		{"made", date(s.Created) + " by " + s.BinaryVersion},
		{"seed", fmt.Sprint(s.Seed)},
		{"recipe sha256", s.RecipeSHA256},
	}
	for _, line := range r.Lineage() {
		rows = append(rows, [2]string{"lineage", line})
	}
	for _, choice := range s.Composition {
		rows = append(rows, [2]string{choice.Axis, choice.Text})
	}
	for _, data := range r.Identity.Data {
		rows = append(rows, [2]string{"data sha256", data.SHA256 + "  " + data.Path})
	}
	if s.Newest != nil {
		for _, file := range s.Newest.Files {
			rows = append(rows, [2]string{fmt.Sprintf("policy v%06d", *s.PolicyVersion), file.SHA256 + "  " + file.Name})
		}
	}
	if s.HostCount != nil {
		rows = append(rows, [2]string{"hosts", fmt.Sprint(*s.HostCount)})
	}
	if s.WallSeconds != nil {
		rows = append(rows, [2]string{"first start to last end", duration(*s.WallSeconds)})
	}
	if s.OrchestrationSeconds != nil {
		rows = append(rows, [2]string{"no task running, per iteration", duration(*s.OrchestrationSeconds) + " (median)"})
	}
	return rows
}

// objective is what the learner that made the newest policy wrote into its
// manifest.
func objective(newest *seal.Manifest) []setting {
	if newest == nil {
		return nil
	}
	var names []string
	for name := range newest.Notes {
		names = append(names, name)
	}
	slices.Sort(names)
	var settings []setting
	for _, name := range names {
		var b bytes.Buffer
		if err := json.Indent(&b, newest.Notes[name], "", "  "); err != nil {
			b.Reset()
			b.Write(newest.Notes[name])
		}
		settings = append(settings, setting{name, b.String()})
	}
	return settings
}

// said puts into words what figures leaves out because it is constant.
func said(s Summary) []string {
	var ratio, first, drift *float64
	for _, it := range s.Series {
		ratio, first, drift = larger(ratio, it.RatioDeviationMax), larger(first, it.FirstStepRatioDeviationMax), larger(drift, it.OldKL)
	}
	var words []string
	switch {
	case ratio != nil && *ratio == 0:
		words = append(words, "The importance ratio was exactly 1 at every token of every optimizer step.")
	case ratio != nil && first != nil:
		words = append(words, fmt.Sprintf("The largest deviation of an importance ratio from 1 was %.3g over first optimizer steps and %.3g over all.", *first, *ratio))
	}
	if s.LeftOutShards > 0 {
		verb := "were"
		if s.LeftOutShards == 1 {
			verb = "was"
		}
		words = append(words, fmt.Sprintf("%d %s used up the attempts and %s left out; the responses are in the ledger as dropped.", s.LeftOutShards, plural.Noun(s.LeftOutShards, "shard"), verb))
	}
	if s.LateFiles != nil {
		words = append(words, capitalised(lateWords(*s.LateFiles))+".")
	}
	if n := len(s.Ledger.Problems); n > 0 {
		words = append(words, fmt.Sprintf("The ledger has %d %s: see lathe verify.", n, plural.Noun(n, "contradiction")))
	}
	return words
}

func larger(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

func unknownRows(s Summary) [][2]string {
	var rows [][2]string
	for key, reason := range s.Missing {
		rows = append(rows, [2]string{key, reason})
	}
	slices.SortFunc(rows, func(a, b [2]string) int { return strings.Compare(a[1]+a[0], b[1]+b[0]) })
	return rows
}

// auditRows are the audit's counts in a table of the page.
func auditRows(a *RewardAudit) [][]string {
	if a == nil {
		return nil
	}
	var rows [][]string
	for _, reason := range byCount(a.Reasons) {
		rows = append(rows, []string{"score: " + reason, grouped(int64(a.Reasons[reason]))})
	}
	for _, f := range a.Forms {
		rows = append(rows, []string{"right answers to " + f.Form, fmt.Sprintf("%s of %s", grouped(int64(f.Right)), grouped(int64(f.Responses)))})
	}
	for _, d := range a.Disagreements {
		compared := grouped(int64(d.Compared))
		rows = append(rows,
			[]string{"accepted by " + d.Verifier + " alone", grouped(int64(d.Accepts)) + " of " + compared},
			[]string{"refused by " + d.Verifier + " alone", grouped(int64(d.Refuses)) + " of " + compared})
	}
	return rows
}
