package report

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/shard"
)

func (f *fixture) write() (Summary, string) {
	f.t.Helper()
	s, err := Write(context.Background(), f.run, f.run.Dir.Report())
	if err != nil {
		f.t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(f.run.Dir.Report(), "index.html"))
	if err != nil {
		f.t.Fatal(err)
	}
	return s, string(page)
}

// names lists the files of the report.
func (f *fixture) names() []string {
	f.t.Helper()
	var names []string
	for _, dir := range []string{"", "figures"} {
		entries, err := os.ReadDir(filepath.Join(f.run.Dir.Report(), dir))
		if err != nil {
			f.t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names
}

func TestWrite(t *testing.T) {
	t.Parallel()
	f := finished(t)
	s, page := f.write()
	want := []string{
		"figures", "index.html", "summary.json",
		"figures/accuracy_by_step.svg", "figures/buffer_size.svg", "figures/depth.svg",
		"figures/dropped.svg", "figures/entropy.svg", "figures/grad_norm.svg", "figures/kinds.svg", "figures/response_tokens.svg",
		"figures/reward.svg", "figures/stage_seconds.svg",
	}
	if diff := cmp.Diff(want, f.names()); diff != "" {
		t.Errorf("files of the report (-want +got):\n%s", diff)
	}
	content := must.Get(os.ReadFile(filepath.Join(f.run.Dir.Report(), "summary.json")))(t)
	var read Summary
	must.Do(t, json.Unmarshal(content, &read))
	s.Newest = nil // which the file does not have
	if diff := cmp.Diff(s, read); diff != "" {
		t.Errorf("summary.json is not the summary (-want +got):\n%s", diff)
	}
	for _, words := range []string{
		"fixture", "25.0 ±\u00a025.0", "75.0 ±\u00a025.0", "corrected by self-improvement", "exactly 1 at every token", "learning_rate:", sha("weights 2"),
	} {
		if !strings.Contains(page, words) {
			t.Errorf("the page does not say %q", words)
		}
	}
	// A second report takes the place of the first, and equal summaries give
	// equal bytes.
	if _, again := f.write(); again != page {
		t.Error("a second report of the same run differs")
	}
	if diff := cmp.Diff(want, f.names()); diff != "" {
		t.Errorf("files after a second report (-want +got):\n%s", diff)
	}
}

// A report may be made of a run in any state.
func TestWriteUnderWay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if s, page := f.write(); s.State != "pending" || !strings.Contains(page, "not begun") {
		t.Errorf("state %s before anything is sealed", s.State)
	}
	f.begin()
	f.evaluate(0, 11, 14, evaluationRows(0, scoresBefore))
	f.sample(1, 0, "a", [2]float64{12, 15}, [2]float64{16, 17})
	s, page := f.write()
	if s.State != "unknown" {
		t.Errorf("state %s of a run under way", s.State)
	}
	if reason := s.Missing["accuracy_after"]; reason == "" || !strings.Contains(page, reason) {
		t.Errorf("the page does not say that %s", reason)
	}
	if _, err := os.Stat(f.run.Dir.Metrics(1)); err == nil {
		t.Error("the metrics of an iteration that is not complete were sealed")
	}
}

// The page of a run under way says what is still to do, and shows a version as soon as
// it is measured.
func TestPageOfALiveRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "schedule.iterations=12", "evaluation.every=2")
	const first, others = "The policy that the run starts from.", "The evaluation of policies that do not exist yet: "
	for _, step := range []struct {
		make     func()
		has, not []string
	}{
		{func() {}, []string{first, "Iterations 1 to 12.", others + "v000000, v000002, v000004, …, v000012."}, []string{"What it learned"}},
		{f.begin, []string{"Iterations 1 to 12.", "The evaluation of policy v000000: 0 of 1 shard sealed."}, []string{first, "What it learned"}},
		{func() { f.evaluate(0, 11, 14, evaluationRows(0, scoresBefore)) }, []string{"What it learned", "25.0 ±\u00a025.0", others + "v000002, v000004, v000006, …, v000012."}, []string{"so far", "before: policy", first}},
		{
			func() {
				f.iterations()
				f.evaluate(2, 50, 60, evaluationRows(2, scoresAfter))
			},
			[]string{
				"Iterations 3 to 12.", "<b>75.0</b>", "held-out accuracy of v000002, the newest measured", "gained so far, up to v000002",
				"<th>v000002, so far</th>", "v000002, so far:", "after: policy v000002", others + "v000004,",
			},
			[]string{"policy v000000: 0 of 1"},
		},
	} {
		step.make()
		_, page := f.write()
		for _, words := range step.has {
			if !strings.Contains(page, words) {
				t.Errorf("the page does not say %q", words)
			}
		}
		for _, words := range step.not {
			if strings.Contains(page, words) {
				t.Errorf("the page says %q", words)
			}
		}
	}
	if _, page := finished(t).write(); strings.Contains(page, "Still to do") || strings.Contains(page, "so far") {
		t.Error("a run that is done has something to do")
	}
}

var (
	tag      = regexp.MustCompile(`(?s)<[a-zA-Z!?/][^>]*>`)
	external = regexp.MustCompile(`(?i)\b(src|href|xlink:href|action|data|poster|srcset|background|xmlns(:\w+)?)\s*=|@import|url\(|javascript:|https?:|<\s*(script|iframe|object|embed|link|form|base|img|image|use)\b`)
)

// The page loads nothing and runs nothing, whatever a policy wrote.
func TestPageIsSelfContained(t *testing.T) {
	t.Parallel()
	const hostile = `</pre></style></script><script>alert("x")</script><img src=x onerror=alert(1)>{{.RunID}}]]>` + "\x00\x1b[2J\u202e"
	f := newFixture(t)
	f.begin()
	f.iterations()
	rows := evaluationRows(2, scoresAfter)
	for i := range rows {
		rows[i].Prompt, rows[i].Response, rows[i].Extracted, rows[i].Kind = hostile, hostile, hostile+"!", hostile
	}
	f.evaluate(0, 11, 14, evaluationRows(0, scoresBefore))
	f.evaluate(2, 50, 60, rows)
	f.run.Identity.Name = hostile
	f.run.Recipe.Description = hostile
	f.run.RecipeBytes = append(f.run.RecipeBytes, hostile...)
	_, page := f.write()
	if !strings.Contains(page, "&lt;script&gt;alert(&#34;x&#34;)") {
		t.Error("the hostile response is not on the page, escaped")
	}
	for _, found := range tag.FindAllString(page, -1) {
		if m := external.FindString(found); m != "" {
			t.Errorf("tag %q has %q", found, m)
		}
	}
	style := page[strings.Index(page, "<style>"):strings.Index(page, "</style>")]
	if m := external.FindString(style); m != "" {
		t.Errorf("the style has %q", m)
	}
	if !strings.Contains(page, `Content-Security-Policy" content="default-src 'none'`) {
		t.Error("the page has no content security policy")
	}
}

func TestTranscripts(t *testing.T) {
	t.Parallel()
	before, after := evaluationRows(0, scoresBefore), evaluationRows(2, scoresAfter)
	var got []string
	for _, tr := range transcripts(before, after) {
		got = append(got, tr.Pattern+": "+tr.Task+" "+tr.Sample)
	}
	// Each problem is shown once, so t1 sample 1, which was broken, is not.
	want := []string{"corrected by self-improvement: t2 sample 1", "learned: wrong before training, right after: t1 greedy"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("transcripts (-want +got):\n%s", diff)
	}
	long := shard.EvaluationRow{TaskID: "t", Response: strings.Repeat("é", answerRunes+1), Extracted: "7", Outcome: "wrong"}
	picked := transcripts([]shard.EvaluationRow{long}, []shard.EvaluationRow{long})
	if len(picked) != 1 || len(picked[0].Chains) != 1 {
		t.Fatalf("of a run under way %+v, want one transcript of one policy", picked)
	}
	if text := picked[0].Chains[0].Steps[0].Text; text != strings.Repeat("é", answerRunes)+" […]" {
		t.Errorf("a long answer is cut to %d bytes", len(text))
	}
}

func TestLateAndCarriedShards(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "schedule.oversample=2")
	f.begin()
	f.sample(1, 0, "a", [2]float64{12, 15}, [2]float64{16, 17})
	f.closing(closing.Closing{Iteration: 1, Shards: 2, Included: []int{0}, Late: []int{1}})
	f.buffer(1, 22, 23, nil, fates(1, "", ""))
	f.learn(1, 23, 33)
	f.sample(1, 1, "b", [2]float64{12, 30}, [2]float64{30, 31}) // after the iteration was closed
	f.closing(closing.Closing{Iteration: 2, Shards: 2, Included: []int{0}, Carried: []closing.Ref{{Iteration: 1, Shard: 1}}})
	f.sample(2, 0, "a", [2]float64{34, 36}, [2]float64{37, 38})
	f.buffer(2, 38, 39, nil, nil)
	f.learn(2, 40, 50)
	s := f.collect()
	if *s.Series[0].LateShards != 1 || *s.Series[1].CarriedShards != 1 || s.LeftOutShards != 0 {
		t.Errorf("series %+v", s.Series)
	}
	shards := func(k int) (list []int32) {
		rows, _ := must.Get2(measure.Metrics(context.Background(), f.run, k))(t)
		for _, row := range rows {
			if row.Stage == "rollout" && row.Name == "responses" {
				list = append(list, 10*row.Iteration+row.Shard)
			}
		}
		return list
	}
	if diff := cmp.Diff([]int32{10}, shards(1)); diff != "" {
		t.Error("rollouts of iteration 1:", diff)
	}
	if diff := cmp.Diff([]int32{11, 20}, shards(2)); diff != "" {
		t.Error("rollouts of iteration 2:", diff)
	}
}

// The drawings are well-formed, and the same in every run of the program.
func TestFigures(t *testing.T) {
	t.Parallel()
	s := finished(t).collect()
	once, again := figures(s), figures(s)
	for i, f := range once {
		if !bytes.Equal(f.svg, again[i].svg) {
			t.Errorf("%s differs when drawn again", f.Name)
		}
		decoder := xml.NewDecoder(bytes.NewReader(f.svg))
		for {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s is not XML: %v", f.Name, err)
			}
		}
		if bytes.Contains(f.svg, []byte("NaN")) || bytes.Contains(f.svg, []byte("Inf")) {
			t.Errorf("%s draws a number that is none", f.Name)
		}
		if f.Name == "accuracy_by_step" {
			golden.Check(t, "testdata/accuracy_by_step.svg", f.svg)
		}
	}
	if len(figures(Summary{})) != 0 {
		t.Error("something is drawn of nothing")
	}
}

// What the axes of held-out scores and the headlines say is true by itself: the mean of
// scores between 0 and 1, such as a puzzle's, is no accuracy.
func TestScoreLabels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wrong float64 // score of an answer that is not right
		want  string
	}{{0, "accuracy"}, {0.5, "mean score"}} {
		f := newFixture(t, "evaluation.every=1")
		f.begin()
		f.iterations()
		for version, chains := range [][]scoredChains{scoresBefore, scoresBefore, scoresAfter} {
			rows := evaluationRows(version, chains)
			for i := range rows {
				rows[i].Score = max(rows[i].Score, c.wrong)
			}
			f.evaluate(version, 11, 14, rows)
		}
		s := f.collect()
		axes := map[string]string{"accuracy_by_step": "held-out " + c.want + " (%)", "accuracy_by_version": "first-answer " + c.want + " (%)"}
		for _, drawn := range figures(s) {
			if label := axes[drawn.Name]; label != "" && (!bytes.Contains(drawn.svg, []byte(">"+label+"<")) || !strings.HasPrefix(drawn.Caption, "Held-out "+c.want)) {
				t.Errorf("%s does not say %q, or its caption %q", drawn.Name, label, drawn.Caption)
			}
			delete(axes, drawn.Name)
		}
		if len(axes) > 0 {
			t.Errorf("not drawn: %v", axes)
		}
		if got := headlines(s)[1].Words; got != "held-out "+c.want+" after" {
			t.Errorf("headline %q", got)
		}
	}
}
