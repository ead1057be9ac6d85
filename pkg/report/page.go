package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/figure"
)

//go:embed page.html
var pageTemplate string

// PageStyle is the style sheet of pages.
//
//go:embed page.css
var PageStyle string

// page is what page.html shows. Everything in it that a policy or a data
// file wrote is a string, which the template escapes; only our own drawings
// and style are not.
type page struct {
	Summary
	Style       template.CSS
	State       string
	Date        string
	Headlines   []headline
	Main        []drawing // what was learned
	Training    []drawing // how training went
	Time        []drawing
	Said        []string // what is not worth a drawing
	BreakDowns  []breakDownTable
	Graded      []breakDownTable
	Accuracies  [][]string
	Stages      [][]string
	Ledger      [][2]string
	Identity    [][2]string
	Objective   []setting
	Recipe      string
	Transcripts []transcript
	Unknown     [][2]string
}

// headline is one large number.
type headline struct{ Number, Unit, Words string }

// drawing is a figure that the page holds.
type drawing struct {
	SVG     template.HTML
	Caption string
}

// setting is one part of the objective as the learner wrote it down.
type setting struct{ Name, JSON string }

// html renders the page.
func (f *findings) html(drawn []chart) ([]byte, error) {
	p := page{
		Summary: f.Summary, Style: template.CSS(PageStyle), State: stateWords(f.Summary), Date: date(f.Created),
		Headlines: headlines(f.Summary), BreakDowns: breakDowns(f.Summary), Graded: gradedTables(f.Summary), Accuracies: accuracyRows(f.Summary),
		Stages: stageRows(f.Summary), Ledger: ledgerRows(f.Summary), Identity: f.identityRows(),
		Objective: f.objective(), Recipe: string(f.run.RecipeBytes),
		Transcripts: transcripts(f.before, f.after, f.Iterations), Unknown: unknownRows(f.Summary), Said: said(f.Summary),
	}
	for _, d := range drawn {
		inlined := drawing{template.HTML(figure.Inline(d.svg)), d.Caption}
		switch d.Name {
		case "accuracy_by_step", "accuracy_by_version":
			p.Main = append(p.Main, inlined)
		case "stage_seconds":
			p.Time = append(p.Time, inlined)
		default:
			p.Training = append(p.Training, inlined)
		}
	}
	t, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return nil, fmt.Errorf("parsing the page's template: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return nil, fmt.Errorf("filling the page's template: %w", err)
	}
	return b.Bytes(), nil
}

func headlines(s Summary) []headline {
	list := []headline{
		{percent(s.AccuracyBefore), "%", "held-out accuracy before"},
		{percent(s.AccuracyAfter), "%", "held-out accuracy after"},
		{change(s.AccuracyGain), "points", "gained by training"},
	}
	if s.Steps > 0 {
		list = append(list, headline{change(s.DeltaK), "points", fmt.Sprintf("Δ over %d self-improvement %s, after", s.Steps, plural(s.Steps, "step"))})
	}
	for i := range list {
		if list[i].Number == unknown {
			list[i].Unit = ""
		}
	}
	return list
}

func accuracyRows(s Summary) [][]string {
	if s.AccuracyByVersion == nil {
		return nil
	}
	rows := [][]string{{
		"first answer, sampled", withError(s.AccuracyBefore, s.AccuracyBeforeStandardError),
		withError(s.AccuracyAfter, s.AccuracyAfterStandardError), changeWithError(s.AccuracyGain, s.AccuracyGainStandardError),
	}}
	if s.GreedyAccuracyBefore != nil || s.GreedyAccuracyAfter != nil {
		rows = append(rows, []string{
			"first answer, greedy", percent(s.GreedyAccuracyBefore), percent(s.GreedyAccuracyAfter),
			change(difference(s.GreedyAccuracyBefore, s.GreedyAccuracyAfter)),
		})
	}
	for step := 1; step <= s.Steps; step++ {
		before, after := at(s.AccuracyByStepBefore, step), at(s.AccuracyByStep, step)
		rows = append(rows, []string{fmt.Sprintf("after step %d", step), percent(before), percent(after), change(difference(before, after))})
	}
	if s.Steps > 0 {
		rows = append(rows, []string{
			fmt.Sprintf("Δ over %d %s", s.Steps, plural(s.Steps, "step")), changeWithError(s.DeltaKBefore, s.DeltaKBeforeStandardError),
			changeWithError(s.DeltaK, s.DeltaKStandardError), change(difference(s.DeltaKBefore, s.DeltaK)),
		})
		count := func(c *Corrections, of func(Corrections) int) string {
			if c == nil {
				return unknown
			}
			return fmt.Sprintf("%d of %d", of(*c), c.Chains)
		}
		rows = append(rows,
			[]string{
				"wrong answers put right", count(s.CorrectionsBefore, func(c Corrections) int { return c.Corrected }),
				count(s.Corrections, func(c Corrections) int { return c.Corrected }), "",
			},
			[]string{
				"right answers broken", count(s.CorrectionsBefore, func(c Corrections) int { return c.Broken }),
				count(s.Corrections, func(c Corrections) int { return c.Broken }), "",
			},
			[]string{
				"net corrections", count(s.CorrectionsBefore, func(c Corrections) int { return c.Net }),
				count(s.Corrections, func(c Corrections) int { return c.Net }), "",
			})
	}
	return rows
}

// breakDownTable is a table for people: of first answers by a property of problems,
// or of submissions.
type breakDownTable struct {
	Head string
	Rows [][]string
}

// breakDowns lists the tables that have something to compare.
func breakDowns(s Summary) []breakDownTable {
	var tables []breakDownTable
	for _, b := range []struct {
		head  string
		kinds []KindAccuracy
		least int
	}{
		{"held-out set", s.bySet(), 1},
		{"kind", s.AccuracyByKind, 1},
		{"level", s.AccuracyByLevel, 2},
		{"milestone", s.Milestones, 1},
	} {
		if len(b.kinds) >= b.least {
			tables = append(tables, breakDownTable{b.head, kindRows(b.kinds)})
		}
	}
	return tables
}

func kindRows(kinds []KindAccuracy) [][]string {
	var rows [][]string
	for _, k := range kinds {
		rows = append(rows, []string{
			kindName(k.Kind), fmt.Sprint(k.Problems), withError(k.Before, k.BeforeStandardError),
			withError(k.After, k.AfterStandardError), change(difference(k.Before, k.After)),
		})
	}
	return rows
}

func stageRows(s Summary) [][]string {
	var rows [][]string
	for _, st := range s.Stages {
		rate := ""
		if st.TokenRate != nil {
			rate = grouped(int64(*st.TokenRate + 0.5))
		}
		rows = append(rows, []string{
			st.Stage, grouped(int64(st.Tasks)), duration(st.WallSeconds), duration(st.TaskSeconds), duration(st.LongestSeconds), rate,
		})
	}
	return rows
}

func ledgerRows(s Summary) [][2]string {
	rows := [][2]string{
		{"responses planned", grouped(int64(s.Ledger.Planned))},
		{"segments with a fate", grouped(int64(s.Ledger.Segments))},
		{"trained on", grouped(int64(s.Ledger.Trained))},
	}
	for _, reason := range byCount(s.Ledger.Dropped) {
		rows = append(rows, [2]string{"dropped: " + reason, grouped(int64(s.Ledger.Dropped[reason]))})
	}
	rows = append(rows, [2]string{"pending", grouped(int64(s.Ledger.Pending))})
	if s.Ledger.Waiting > 0 {
		rows = append(rows, [2]string{"segments that wait for a batch", grouped(int64(s.Ledger.Waiting))})
	}
	rows = append(rows, auditRows(s.RewardAudit)...)
	for _, outcome := range byCount(s.Outcomes) {
		rows = append(rows, [2]string{"outcome " + outcome, grouped(int64(s.Outcomes[outcome]))})
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
		rows = append(rows, [2]string{t.name, groupedOr(t.n)})
	}
	return rows
}

func (f *findings) identityRows() [][2]string {
	s := f.Summary
	rows := [][2]string{
		{"run", s.RunID},
		{"made", date(s.Created) + " by " + s.BinaryVersion},
		{"seed", fmt.Sprint(s.Seed)},
		{"recipe sha256", s.RecipeSHA256},
	}
	for _, data := range f.run.Identity.Data {
		rows = append(rows, [2]string{"data sha256", data.SHA256 + "  " + data.Path})
	}
	if f.last != nil {
		for _, file := range f.last.Files {
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
func (f *findings) objective() []setting {
	if f.last == nil {
		return nil
	}
	var names []string
	for name := range f.last.Notes {
		names = append(names, name)
	}
	slices.Sort(names)
	var settings []setting
	for _, name := range names {
		var b bytes.Buffer
		if err := json.Indent(&b, f.last.Notes[name], "", "  "); err != nil {
			b.Reset()
			b.Write(f.last.Notes[name])
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
		words = append(words, fmt.Sprintf("%d %s used up the attempts and was left out; the responses are in the ledger as dropped.", s.LeftOutShards, plural(s.LeftOutShards, "shard")))
	}
	if n := len(s.Ledger.Problems); n > 0 {
		words = append(words, fmt.Sprintf("The ledger has %d contradictions: see lathe verify.", n))
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
