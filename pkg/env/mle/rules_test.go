package mle

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/sandbox"
	"github.com/lathe-rl/lathe/pkg/shard"
)

func TestProgramIn(t *testing.T) {
	t.Parallel()
	fencedOnly, _ := over(t, nil)
	short, _ := over(t, func(s *Settings) { s.Style = "short" })
	for _, c := range []struct{ said, fenced, short string }{
		{"A plan.\n```python\nx = 1\n```", "x = 1\n", "x = 1\n"},
		{"```\n\nx\n\n\n```\n```Py\ny\n```\n```python3\nz\n```\n```bash\nls\n```", "z\n", "z\n"},
		{"````python\nx = '```'\n````", "x = '```'\n", "x = '```'\n"},
		{"```python\r\nx\r\ny\r\n```", "x\ny\n", "x\ny\n"},
		{"```python\na\n```\n</think>\nx", "", "x\n"},
		{"```python\nx\n```\nIt prints:\n```\nvalidation: 0.9\n```", "x\n", "x\n"},
		{"```\na\n```\n```python title=\"solution.py\"\nx\n```\n```python\n```\n```\nb\n```", "x\n", "x\n"},
		{"1. Run:\n\n   ```python\n   if x:\n       y\n\n   z\n   ```", "if x:\n    y\n\nz\n", "if x:\n    y\n\nz\n"},
		{"```python\n \n```", "", ""},
		{"\nx = 1\n\n", "", "x = 1\n"},
		{"x = '```'", "", ""},
		{" \n", "", ""},
	} {
		for e, want := range map[*Env]string{fencedOnly: c.fenced, short: c.short} {
			if got, ok := e.programIn(c.said); got != want || ok != (want != "") {
				t.Errorf("%q of style %s: %q, %v; want %q", c.said, e.settings.Style, got, ok, want)
			}
		}
	}
}

func TestParseAction(t *testing.T) {
	t.Parallel()
	const run = `{"action": "execute_code", "params": {"code": "1"}}`
	for message, want := range map[string]string{
		run: "", "<think>{</think> " + run: "", "```json\n" + run + "\n```": "", "</think>```\n" + run + "\n```": "",
		"```\n" + run + "\n```\n```\n" + run + "\n```": "not one JSON object", "x\n```json\n" + run + "\n```": "not one JSON object", "```json\n" + run + "\n```\nx": "not one JSON object",
		`{"action": "execute_code", "code": "1"}`: "unknown field", run + run: "more than one JSON object", run + " x": "more than one", "": "not one JSON object",
		`{"action": "request_info", "params": {"info_type": "name"}}`: "", `{"action": "request_info", "params": {"info_type": "names"}}`: `no info_type "names"; there are overview,`,
		`{"action": "validate_code", "params": {"code": "1"}}`: "", `{"action": "validate_code", "params": {"code": " "}}`: "validate_code needs a program", `{"action": "execute_code"}`: "execute_code needs a program",
		`{"action": "reset", "params": {}}`: `no action "reset"`,
	} {
		a, trouble := parseAction(message)
		if (trouble == "") != (want == "") || !strings.Contains(trouble, want) || trouble == "" && a.Params.Code != "1" && a.Params.InfoType != "name" {
			t.Errorf("%q: %+v, %q; want %q", message, a, trouble, want)
		}
	}
}

// TestInfo is request_info by MLE-RL App. B, and what an action's result is.
func TestInfo(t *testing.T) {
	t.Parallel()
	e, of := over(t, func(s *Settings) { s.Style, s.MaxTurns = "MLE-Dojo", 3 })
	folder := must.Get(e.folder(of))(t)
	all := ""
	for _, c := range []struct{ kind, want string }{
		{"overview", "Tell the kind of a seed from its length."},
		{"sample_submission", "id,kind\n4,a\n5,a\n6,a"},
		{"data_structure", strings.TrimSpace(folder.Preview)},
		{"data_path", "./input"},
		{"output_path", "./submission.csv"},
		{"name", "seeds"},
		{"metadata", "metric: accuracy (maximize); data: tabular; limits: 10 seconds, 256 MB of memory"},
	} {
		if got := e.info(folder, c.kind); got != c.want || !slices.Contains(infoTypes, c.kind) {
			t.Errorf("%s: %q, want %q", c.kind, got, c.want)
		}
		all += "## " + c.kind + "\n" + c.want + "\n\n"
	}
	if got := e.info(folder, "all"); got != strings.TrimSpace(all) {
		t.Errorf("all: %q, want %q", got, all)
	}
	act := func(name string) string {
		return fmt.Sprintf(`{"action": %q, "params": {"code": "1", "info_type": "name"}}`, name)
	}
	valid := env.TurnVerdict{Outcome: shard.OutcomeOK, Feedback: "out", ValidationScore: 0.75, Parts: []shard.RewardPart{{Name: env.PartValidation, Value: 0.75}}}
	for _, c := range []struct {
		said string
		last *env.TurnVerdict
		want string // empty where the score is waited for
	}{
		{act(requestInfo), nil, "seeds"},
		{"x", nil, "The reply is not one JSON object with action and params: invalid character 'x' looking for beginning of value."},
		{act(executeCode), nil, ""},
		{act(validateCode), nil, ""},
		{act(executeCode), &valid, "out\nThe submission is valid.\nIts validation score was 0.75."},
		{act(validateCode), &valid, "out"},
		{act(validateCode), &env.TurnVerdict{Outcome: shard.OutcomeWrong}, "The program ran without an error."},
		{act(executeCode), &env.TurnVerdict{Outcome: shard.OutcomeInvalid, Feedback: "Error"}, "Error"},
		{act(executeCode), &env.TurnVerdict{Outcome: shard.OutcomeInvalid}, ""},
	} {
		conversation := []shard.Message{{Role: "user"}, {Role: "assistant", Content: c.said}}
		episode := must.Get(e.Begin(t.Context(), of, conversation))(t)
		step, err := episode.Next(t.Context(), conversation, c.last)
		if err != nil || step.Fresh || step.Wait != (c.last == nil && c.want == "") || !step.Wait && step.Messages[0] != (shard.Message{Role: "user", Content: c.want + "\n\nTurns left: 2."}) {
			t.Errorf("%s after %+v: %+v, %v; want %q", c.said, c.last, step, err, c.want)
		}
		conversation = append(conversation, conversation[1], conversation[1])
		if step, err := episode.Next(t.Context(), conversation, c.last); err != nil || !step.Over() {
			t.Errorf("after the last turn: %+v, %v", step, err)
		}
	}
}

// TestNext: a program is waited for; what comes next is a new context.
func TestNext(t *testing.T) {
	t.Parallel()
	e, of := over(t, func(s *Settings) {
		s.MaxTurns, s.Prompts.Debug, s.Prompts.Improve, s.Prompts.Diverge = 2, "debug", "improve", "diverge"
		s.Prompts.System = "be brief"
	})
	conversation := []shard.Message{{Role: "user"}, {Role: "assistant", Content: "```\nx\n```"}}
	episode := must.Get(e.Begin(t.Context(), of, conversation))(t)
	for outcome, want := range map[shard.Outcome]string{"": "", shard.OutcomeOK: "improve", shard.OutcomeInvalid: "debug", shard.OutcomeTimeout: "debug"} {
		var last *env.TurnVerdict
		if outcome != "" {
			last = &env.TurnVerdict{Outcome: outcome}
		}
		step, err := episode.Next(t.Context(), conversation, last)
		if err != nil || step.Wait != (want == "") || want != "" && (!step.Fresh || !slices.Equal(step.Messages, []shard.Message{{Role: "system", Content: "be brief"}, {Role: "user", Content: want}})) {
			t.Errorf("after %q: %+v, %v", outcome, step, err)
		}
	}
	if step, err := episode.Next(t.Context(), append(conversation, conversation...), nil); err != nil || !step.Over() {
		t.Errorf("after the last turn: %+v, %v", step, err)
	}
	parent := env.Parent{Messages: conversation}
	for _, c := range []struct {
		kind    shard.Kind
		outcome shard.Outcome
		want    string
	}{{shard.KindImprove, "", "improve"}, {shard.KindImprove, shard.OutcomeInvalid, "debug"}, {shard.KindDebug, shard.OutcomeOK, "debug"}, {shard.KindDiverge, shard.OutcomeInvalid, "diverge"}} {
		parent.Verdict = nil
		if c.outcome != "" {
			parent.Verdict = &env.TurnVerdict{Outcome: c.outcome}
		}
		if got, err := e.Prompt(of, c.kind, parent); err != nil || got[1].Content != c.want {
			t.Errorf("to %s after %q: %v, %v", c.kind, c.outcome, got, err)
		}
	}
	first := must.Get(e.Prompt(of, shard.KindInitial, env.Parent{}))(t)
	for _, history := range [][]shard.Message{nil, {{Role: "assistant", Content: "no program"}}} {
		if got, err := e.Prompt(of, shard.KindImprove, env.Parent{Messages: history}); err != nil || !slices.Equal(got, first) {
			t.Errorf("to improve on nothing: %v, %v", got, err)
		}
	}
	for _, kind := range []shard.Kind{shard.KindInitial, shard.KindRefine} {
		if got, err := e.Prompt(of, kind, parent); exitcode.Code(err) != exitcode.Bug {
			t.Errorf("%s of a parent: %v, %v", kind, got, err)
		}
	}
}

// TestSlots is what templates say of a task and of a solution.
func TestSlots(t *testing.T) {
	t.Parallel()
	const draft = "{task_name}|{title}|{metric}|{data_files}|{packages}|{hardware}|{wall_seconds}|{validate_seconds}|{turns}|{validation_format}|{program}{response}{terminal_output}{debug_info}{memory}{score}|{sample_submission}"
	const improve = "{program}|{response}|{terminal_output}|{score}|{debug_info}"
	said := []shard.Message{{Role: "assistant", Content: "first"}, {Role: "assistant", Content: "Do.\n```\nx\n```"}}
	part := func(names ...string) (parts []shard.RewardPart) {
		for _, name := range names {
			parts = append(parts, shard.RewardPart{Name: name})
		}
		return parts
	}
	for _, c := range []struct {
		tell    string
		verdict *env.TurnVerdict
		want    string
	}{
		{"validation", nil, "x\n|Do.\n```\nx\n```|||"},
		{"validation", &env.TurnVerdict{Outcome: shard.OutcomeOK, Feedback: "out"}, "x\n|Do.\n```\nx\n```|out||"},
		{"validation", &env.TurnVerdict{Outcome: shard.OutcomeOK, Extracted: "y", ValidationScore: 0.5, Parts: part(env.PartValidation, partHumanRank)}, "y|Do.\n```\nx\n```|Its validation score was 0.5.| (Its validation score was 0.5)|"},
		{"rank", &env.TurnVerdict{Outcome: shard.OutcomeOK, RawScore: 0.5, Feedback: "a", Parts: part(partHumanRank)}, "x\n|Do.\n```\nx\n```|a\nIts place on the leaderboard was 3 of 4.| (Its place on the leaderboard was 3 of 4)|"},
		{"rank", &env.TurnVerdict{Outcome: shard.OutcomeOK, RawScore: 0, Parts: part(partHumanRank)}, "x\n|Do.\n```\nx\n```|Its place on the leaderboard was 4 of 4.| (Its place on the leaderboard was 4 of 4)|"},
		{"rank", &env.TurnVerdict{Outcome: shard.OutcomeOK}, "x\n|Do.\n```\nx\n```|||"},
		{"none", &env.TurnVerdict{Outcome: shard.OutcomeOK, ValidationScore: 0.5, Parts: part(env.PartValidation, partHumanRank)}, "x\n|Do.\n```\nx\n```|||"},
		{"validation", &env.TurnVerdict{Outcome: shard.OutcomeInvalid, Feedback: "```"}, "x\n|Do.\n```\nx\n```|```||\n\nThe script fails:\n\n````\n```\n````"},
		{"validation", &env.TurnVerdict{Outcome: shard.OutcomeInvalid}, "x\n|Do.\n```\nx\n```|||"},
	} {
		e, of := over(t, func(s *Settings) {
			s.Feedback.Score, s.Prompts.Draft, s.Prompts.Improve, s.Prompts.Debug, s.MaxTurns = c.tell, draft, improve, improve, 4
			s.Limits.MemoryMB = 7
		})
		if got, err := e.Prompt(of, shard.KindImprove, env.Parent{Messages: said, Verdict: c.verdict}); err != nil || got[0].Content != c.want {
			t.Errorf("%s %+v:\n%q, want\n%q (%v)", c.tell, c.verdict, got, c.want, err)
		}
		want := "seeds|Kinds of seeds|accuracy|sample_submission.csv, test.csv, train.csv|'numpy', 'pandas', 'scikit-learn'|one CPU core|10|30|4|" + validationFormat + "|" + e.style.starter + "|id,kind\n4,a\n5,a\n6,a\n"
		if got, err := e.Prompt(of, shard.KindInitial, env.Parent{}); err != nil || strings.TrimSpace(got[0].Content) != strings.TrimSpace(want) {
			t.Errorf("%q, want\n%q", got, want)
		}
		folder, _ := e.folder(of)
		limits := folder.Limits
		limits.MemoryMB = 7
		if got := e.settings.limits(folder); got != limits {
			t.Errorf("limits %+v", got)
		}
		e.settings.Limits = Limits{WallSeconds: 2.5}
		limits.WallSeconds, limits.MemoryMB = 2.5, 256
		if got := e.settings.limits(folder); got != limits {
			t.Errorf("limits %+v", got)
		}
	}
}

// TestRemember: a prompt to improve remembers the last solutions, the latest last (AceGRPO App. C).
func TestRemember(t *testing.T) {
	t.Parallel()
	e, of := over(t, func(s *Settings) { s.Style, s.Feedback.History = "AceGRPO", 2 })
	solution := func(n int, program string) string {
		return fmt.Sprintf("## Solution %d\n```python\n%s\n```\n\n### Execution output\n```\nof %s\n```\n", n, program, program)
	}
	var history []shard.Message
	for i, want := range []string{solution(1, "x0"), solution(1, "x0") + solution(2, "x1"), solution(1, "x1") + solution(2, "x2")} {
		program := fmt.Sprintf("x%d", i)
		history = append(history, shard.Message{Role: "assistant", Content: "```python\n" + program + "\n```"})
		got, err := e.Prompt(of, shard.KindImprove, env.Parent{Messages: history, Verdict: &env.TurnVerdict{Outcome: shard.OutcomeOK, Feedback: "of " + program}})
		if err != nil || !strings.HasPrefix(got[0].Content, memoryTitle+want+"# End of memory\n\nYou are") {
			t.Fatalf("%d: %v\n%s\nwant\n%s", i, err, got[0].Content, want)
		}
		history = append(history, got...)
	}
	for _, prompt := range []string{"Another.", memoryTitle + solution(1, "x") + "and no end"} {
		got := e.remember(map[string]string{"program": "x", "terminal_output": "of x"}, []shard.Message{{Content: prompt}, {Role: "assistant"}})
		if got != memoryTitle+solution(1, "x")+"# End of memory\n\n" {
			t.Errorf("after %q: %q", prompt, got)
		}
	}
}

// TestReward is what a score is worth under each setting; the board is 1, 0.6, 0.4, 0.3, so 0.7 has one score above it, and
// the range is 0.5 to 1. Of four teams one has each medal: the first.
func TestReward(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		quality, reward     string
		score               float64
		milestones          int // of no submission; -1 for one
		normalised, want    float64
		rank, dojo          float64
		above, medal, share float64
	}{
		{"range", "quality", 0.7, -1, 0.4, 0.4, 0.5, 0.75, 1, 0, 0.7},
		{"humanrank", "quality", 0.7, -1, 0.5, 0.5, 0.5, 0.75, 1, 0, 0.7},
		{"humanrank_mledojo", "quality", 0.7, -1, 0.75, 0.75, 0.5, 0.75, 1, 0, 0.7},
		{"range", "valid", 0.1, -1, 0, 1, 0, 0, 0, 0, 0.1},
		{"range", "partial_credit", 1, -1, 1, 1, 0.75, 1, 1, 3, 1},
		{"range", "partial_credit", 0, 2, 0, -9.8, 0, 0, 0, 0, -9.8},
		{"range", "valid", 0, 2, 0, 0, 0, 0, 0, 0, -9.8},
	} {
		e, of := over(t, func(s *Settings) { s.Quality, s.Reward = c.quality, c.reward })
		folder := must.Get(e.folder(of))(t)
		v := env.TurnVerdict{Milestones: make([]string, max(0, c.milestones))}
		want := []shard.RewardPart{
			{Name: partScore, Value: c.score},
			{Name: partHumanRank, Value: c.rank},
			{Name: partHumanRankMLEDojo, Value: c.dojo},
			{Name: partAboveMedian, Value: c.above},
			{Name: partMedal, Value: c.medal},
			{Name: partPartialCredit, Value: c.share},
		}
		if c.milestones < 0 {
			e.reward(&v, folder, c.score)
		} else {
			e.reward(&v, nil, c.score)
			want = want[5:]
		}
		if d := v.NormalizedScore - c.normalised; v.Reward != v.NormalizedScore && v.Reward != c.want || d > 1e-9 || d < -1e-9 || v.RawScore != c.score || !slices.Equal(v.Parts, want) {
			t.Errorf("%+v: %+v", c, v)
		}
	}
	e, of := over(t, nil)
	folder := must.Get(e.folder(of))(t)
	long := strings.Repeat("z", outputBytes+1)
	for said, want := range map[string]float64{
		"validation: 0.5\nvalidation score = 1e-1\nx": 0.1, "Validation: -2\n\nvalidation: 1e999": -2, "validation: 1.2.3": 9, "x validation: 1": 9, "": 9,
		"validation: 0.5\r\n": 0.5, "epoch 1\rvalidation: 0.5\n": 0.5, long + "\nvalidation: 0.5\n" + long + "\n" + long: 0.5, long + "validation: 0.5": 9,
	} {
		for _, size := range []int{1, 7, 4096, 1 << 20} { // of a piece
			l := newListener(&e.settings)
			for piece := range slices.Chunk([]byte(said), size) {
				if n, err := l.Write(piece); n != len(piece) || err != nil {
					t.Fatalf("%d of %d bytes are taken, %v", n, len(piece), err)
				}
			}
			l.end()
			var v env.TurnVerdict
			addValidation(&v, folder, l.validation)
			if part, ok := v.Validation(); ok != (want != 9) || ok && (part != want || v.ValidationScore != want) {
				t.Errorf("%.80q in pieces of %d: %+v", said, size, v)
			}
		}
	}
	folder.Direction = "minimize"
	var v env.TurnVerdict
	addValidation(&v, folder, 3)
	if part, _ := v.Validation(); part != -3 || v.ValidationScore != 3 {
		t.Errorf("where less is better: %+v", v)
	}
	for x, want := range map[*execution]string{
		{Report: sandbox.Report{End: sandbox.OverTime}}: "ran for more than 2s.", {Report: sandbox.Report{End: sandbox.OverMemory}}: "took more memory",
		{Report: sandbox.Report{End: sandbox.OverDisk}}: "wrote more than", {Report: sandbox.Report{End: sandbox.OverProcesses}}: "more processes",
		{Report: sandbox.Report{End: sandbox.Killed, Signal: syscall.SIGKILL}}: "by signal 9.", {Report: sandbox.Report{End: sandbox.Exited, ExitCode: 3}}: "exit code 3.",
	} {
		if got := ended(*x, 2*time.Second); !strings.Contains(got, want) {
			t.Errorf("%v: %q", x.End, got)
		}
	}
	for text, want := range map[string]string{"12345678": "12345678", "123456789": "…23456789", "": ""} {
		if got := tailOfCharacters(text, 2); got != want {
			t.Errorf("two tokens of %q: %q", text, got)
		}
	}
	if got := plain("a\xff\x00 0x7f0012345678 0x1234567"); got != "a\ufffd\ufffd 0x… 0x1234567" {
		t.Errorf("plain text: %q", got)
	}
}
