package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestSettings: what a recipe may not say is refused by its field, and every bound is allowed.
func TestSettings(t *testing.T) {
	t.Parallel()
	files := func(change func(*Data)) func(*Settings, *Data) {
		return func(_ *Settings, d *Data) {
			d.Train.Files, d.Test.Files = []string{"a"}, []string{"b"}
			change(d)
		}
	}
	type evaluation struct {
		Problems int `yaml:"problems"`
	}
	program := func(change func(*Program)) func(*Settings, *Data) {
		return func(s *Settings, _ *Data) { change(&s.Program) }
	}
	for _, c := range []struct {
		want   string // of the error; empty for none
		change func(*Settings, *Data)
	}{
		{"", func(*Settings, *Data) {}},
		{"", program(func(p *Program) { p.Batch, p.Retries, p.Processes, p.MaxFailed = 4096, 100, 1024, 1 })},
		{"", program(func(p *Program) { p.Batch, p.Retries, p.Processes, p.MaxFailed = 1, 0, 0, 0 })},
		{"", files(func(d *Data) { d.Test.Files = nil })},
		{"", files(func(d *Data) { d.Train.Fields.Answer = "" })},
		{"env.program.command", program(func(p *Program) { p.Command = nil })},
		{"env.program.command", program(func(p *Program) { p.Command[0] = " " })},
		{"env.program.max_turns", program(func(p *Program) { p.MaxTurns = 0 })},
		{"env.program.processes", program(func(p *Program) { p.Processes = -1 })},
		{"env.program.processes", program(func(p *Program) { p.Processes = 1025 })},
		{"env.program.batch", program(func(p *Program) { p.Batch = 0 })},
		{"env.program.batch", program(func(p *Program) { p.Batch = 4097 })},
		{"env.program.seconds", program(func(p *Program) { p.Seconds = 0 })},
		{"env.program.start_seconds", program(func(p *Program) { p.StartSeconds = 0 })},
		{"env.program.retries", program(func(p *Program) { p.Retries = -1 })},
		{"env.program.retries", program(func(p *Program) { p.Retries = 101 })},
		{"env.program.max_failed", program(func(p *Program) { p.MaxFailed = 1.1 })},
		{"", program(func(p *Program) { p.Sandbox = &Sandbox{Require: []string{"files", "network"}} })},
		{"env.program.sandbox.memory_mb", program(func(p *Program) { p.Sandbox = &Sandbox{MemoryMB: -1} })},
		{"env.program.sandbox.require.1", program(func(p *Program) { p.Sandbox = &Sandbox{Require: []string{"files", "luck"}} })},
		{"env.prompts.system", func(s *Settings, _ *Data) { s.Prompts.System = "{qestion}" }},
		{"env.prompts.improve", func(s *Settings, _ *Data) { s.Prompts.Improve = "{previous_respnse}" }},
		{"data.train.skip_repeated", files(func(d *Data) { d.Train.SkipRepeated = true })},
		{"data.train.files", func(_ *Settings, d *Data) { d.Train.Response = "r" }},
		{"data.train.files", func(_ *Settings, d *Data) { d.Train.TestShare = 0.1 }},
		{"data.test.files", func(_ *Settings, d *Data) { d.Test.Response = "r" }},
		{"data.train.files: is empty, and data.test.files is not", func(_ *Settings, d *Data) { d.Test.Files = []string{"b"} }},
		{"data.train.limit", files(func(d *Data) { d.Train.Limit = -1 })},
		{"data.test.limit", func(_ *Settings, d *Data) { d.Test.Limit = -1 }}, // of the program's own tasks
		{"", func(_ *Settings, d *Data) { d.Test.Limit = 2 }},
		{"evaluation.problems", func(_ *Settings, d *Data) { d.Test.Limit = 1 }},
	} {
		s, d := DefaultSettings(), &Data{}
		s.Program.Command = []string{"reward"}
		d.Train.SetDefaults()
		d.Test.SetDefaults()
		c.change(s, d)
		checked := config.NewChecker(&struct {
			Env        *Settings  `yaml:"env"`
			Data       *Data      `yaml:"data"`
			Evaluation evaluation `yaml:"evaluation"`
		}{s, d, evaluation{2}})
		validate(checked, s, d)
		if err := checked.Err("recipe"); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q: %v", c.want, err)
		}
	}
	s := DefaultSettings()
	if diff := cmp.Diff(Program{MaxTurns: 1, Batch: 16, Seconds: 60, StartSeconds: 300, Retries: 2, MaxFailed: 0.1}, s.Program); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	s.Program.MaxTurns, s.Program.Processes = 3, 5
	want := env.Traits{Turns: 3, Waves: 1, AtATime: 5, Batch: 16, MaxFailed: 0.1, MaxFailedSetting: "env.program.max_failed"}
	for range 2 {
		if diff := cmp.Diff(want, s.Program.traits()); diff != "" {
			t.Errorf("traits (-want +got):\n%s", diff)
		}
		s.Program.Waves, want.Waves, want.Slow = true, 3, true
	}
}

// TestJudgements: what a judgement may hold, by the bounds of data/README.md.
func TestJudgements(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		parts := map[string]int{}
		for i := range n {
			parts[fmt.Sprint(i)] = i
		}
		return string(must.Get(json.Marshal(parts))(t))
	}
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(`"m",`, n), ",") + "]" }
	for said, want := range map[string]string{ // outcome and score, or an error
		`"reward": 0.25`: "wrong 0.25", `"reward": 1`: "ok 1", `"reward": 5`: "ok 1",
		`"reward": -5`: "wrong 0", `"reward": 0, "score": 1`: "ok 1", `"reward": 5, "score": 0`: "wrong 0",
		`"reward": 5, "score": -0.1`: "score must be", `"reward": 5, "score": 1.1`: "score must be", `"reward": 1, "outcome": "wrong"`: "wrong 1",
		`"reward": 0, "outcome": "ok"`: "ok 0", `"reward": 0, "outcome": "timeout"`: "timeout 0", `"reward": 0, "outcome": "infra"`: "outcome must be",
		`"reward": 1, "parts": {"": 1}`:                                 "the name of a part",
		`"reward": 1, "parts": {"` + strings.Repeat("x", 100) + `": 1}`: "ok 1",
		`"reward": 1, "parts": {"` + strings.Repeat("x", 101) + `": 1}`: "the name of a part",
		`"reward": 1, "parts": ` + many(64):                             "ok 1",
		`"reward": 1, "parts": ` + many(65):                             "there may be 64 parts",
		`"reward": 1, "milestones": ` + list(64):                        "ok 1",
		`"reward": 1, "milestones": ` + list(65):                        "there may be 64 milestones",
		`"reward": 1, "seconds": 0`:                                     "ok 1",
		`"reward": 1, "seconds": -1`:                                    "seconds must be",
		`"score": 1`:                                                    "want {\"reward\"",
	} {
		v, err := readVerdict(json.RawMessage("{"+said+"}"), env.Attempt{Own: []int{1}})
		got := fmt.Sprint(v.Outcome, " ", v.NormalizedScore)
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%.60s is %s, want %s", said, got, want)
		}
	}
	if _, err := (judgement{Reward: new(1.0), Seconds: math.Inf(1)}).verdict(); err == nil {
		t.Error("endless seconds")
	}
	long := strings.Repeat("x", 20_000)
	v, err := judgement{Reward: new(1.0), Feedback: long, Extracted: long}.verdict()
	if err != nil || len(v.Feedback) > 16<<10+40 || len(v.Feedback) < 16<<10 || len(v.Extracted) > 16<<10+40 {
		t.Errorf("%d bytes of feedback and %d of an answer are kept (%v)", len(v.Feedback), len(v.Extracted), err)
	}
}

// TestTurns: of three messages the scores are those of earlier waves, of the program, or of the end.
func TestTurns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		said    string
		earlier []env.TurnVerdict
		want    string // rewards, and the reason
	}{
		{`{"reward": 1}`, nil, "0 0 1 ok"},
		{`{"reward": 1, "reason": "good", "turns": [{"reward": 0.5}, {"reward": 0.25}, {"reward": 7}]}`, nil, "0.5 0.25 1 good"},
		{`{"reward": 1, "turns": [{"reward": 0.5}, {"reward": 0.25}, {"reward": 7}]}`, []env.TurnVerdict{{Reward: 9}}, "9 0.25 1 ok"},
		{`{"reward": 0}`, []env.TurnVerdict{{Reward: 9}, {Reward: 8}}, "9 8 0 wrong"},
		{`{"reward": 1, "turns": [{"reward": 0.5}, {"score": 0.25}, {"reward": 7}]}`, nil, "message 2"},
		{`{"reward": 1, "turns": [{"reward": 0.5}, {"reward": 7}]}`, nil, "scores for 2 of 3 messages"},
	} {
		v, err := readVerdict(json.RawMessage(c.said), env.Attempt{Own: []int{1, 3, 5}, Earlier: c.earlier})
		got := ""
		for _, turn := range v.Turns {
			got += fmt.Sprint(turn.Reward, " ")
		}
		if got += v.Reason; err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %s, want %s", c.said, got, c.want)
		}
	}
}

// TestHistory: a later prompt keeps all before the request that it replaces, or what the system says.
func TestHistory(t *testing.T) {
	t.Parallel()
	s := settings(t, "echo")
	s.Prompts = Prompts{System: "S", Initial: "Q: {question}", Improve: "{instruction}+{previous_response}", Diverge: "not {previous_response}"}
	e := open(t, s, `{"prompt": "1+1?", "answer": "2", "id": "a"}`, `{"prompt": [{"role": "user", "content": "u"}], "answer": "2", "id": "b"}`)
	m := func(words ...string) (all []shard.Message) {
		for _, word := range words {
			all = append(all, shard.Message{Role: map[byte]string{'s': "system", 'u': "user", 'a': "assistant"}[word[0]], Content: word[1:]})
		}
		return all
	}
	task, chat := e.Tasks(env.Train)[0], e.Tasks(env.Train)[1]
	first := []string{"sS", "uQ: 1+1?"}
	for _, c := range []struct {
		task env.Task
		kind shard.Kind
		said []string
		want []string // nil for a bug
	}{
		{task, shard.KindInitial, nil, first},
		{chat, shard.KindInitial, nil, []string{"uu"}},
		{chat, shard.KindImprove, []string{"uu", "a3"}, []string{"uu+3"}},
		{task, shard.KindImprove, append(first, "a3"), []string{"sS", "uQ: 1+1?+3"}},
		{task, shard.KindDebug, append(first, "a3"), []string{"sS", "uQ: 1+1?+3"}},
		{task, shard.KindRefine, append(first, "a3"), []string{"sS", "uQ: 1+1?+3"}},
		{task, shard.KindDiverge, append(first, "a3", "uno", "a4"), []string{"sS", "uQ: 1+1?", "a3", "unot 4"}},
		{task, shard.KindImprove, first, nil},
		{task, shard.KindCrossover, append(first, "a3"), nil},
		{env.Task{ID: "none"}, shard.KindInitial, nil, nil},
	} {
		got, err := e.Prompt(c.task, c.kind, env.Parent{Messages: m(c.said...)})
		if diff := cmp.Diff(m(c.want...), got); diff != "" || (c.want == nil) != (exitcode.Code(err) == exitcode.Bug) {
			t.Errorf("%s after %q: %v %s", c.kind, c.said, err, diff)
		}
	}
	for _, c := range []struct {
		said []string
		want int
	}{{first, 2}, {append(first, "a1", "ux"), 2}, {[]string{"uother", "a1", "ux", "a2"}, 1}, {[]string{"uother"}, 1}, {[]string{"sS"}, 1}, {nil, 0}} {
		if got := e.opening(task, m(c.said...)); got != c.want {
			t.Errorf("%q: %d messages open the episode, want %d", c.said, got, c.want)
		}
	}
	// What is no response of the policy's has no score and no answer.
	for _, own := range [][]int{nil, {0}} {
		if _, err := e.Score(t.Context(), env.Attempt{Task: task, Messages: m("uq", "aa"), Own: own}); exitcode.Code(err) != exitcode.Bug {
			t.Errorf("a score of the messages %v: %v", own, err)
		}
	}
	for _, said := range [][]string{nil, {"uq"}, {"uq", "aa", "uq"}} {
		if _, err := (&episode{env: e, task: task}).Next(t.Context(), m(said...), nil); exitcode.Code(err) != exitcode.Bug {
			t.Errorf("an answer to %q: %v", said, err)
		}
	}
}

// TestMessages are what a program may give as a prompt or an answer.
func TestMessages(t *testing.T) {
	t.Parallel()
	for roles, want := range map[string]string{"": "must not be empty", "user": "", "system user": "", "user assistant user": "", "assistant tool": "", "user assistant": "nothing is asked", "human": `the role "human"`} {
		var messages []message
		for _, role := range strings.Fields(roles) {
			messages = append(messages, message{role, "x"})
		}
		if err := checkMessages(messages); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", roles, err, want)
		}
	}
	for raw, want := range map[string]string{`"a"`: "a", `1.50`: "1.50", `[1]`: "none", `true`: "none"} {
		if got, ok := responseText(json.RawMessage(raw)); ok != (want != "none") || ok && got != want {
			t.Errorf("the response %s is %q, %v", raw, got, ok)
		}
	}
	for _, c := range []struct {
		words [4]uint32
		want  uint64
	}{{[4]uint32{1, 1 << 11}, 1<<21 + 1}, {[4]uint32{math.MaxUint32, math.MaxUint32}, 1<<53 - 1}, {[4]uint32{0, 1<<11 - 1, 9, 9}, 0}} {
		if got := small(c.words); got != c.want {
			t.Errorf("%v is the seed %d, want %d", c.words, got, c.want)
		}
	}
	if viewOf(nil) != nil {
		t.Error("a score that there is not is shown")
	}
	want := &verdictView{Outcome: "ok", Reward: 2, Score: 1, Parts: map[string]float64{"a": 3}, Feedback: "f"}
	if diff := cmp.Diff(want, viewOf(&env.TurnVerdict{Outcome: shard.OutcomeOK, Reward: 2, NormalizedScore: 1, Feedback: "f", Parts: []shard.RewardPart{{Name: "a", Value: 3}}})); diff != "" {
		t.Errorf("a score as it is shown: %s", diff)
	}
}

// TestTasks: each split keeps as many tasks of the program as its limit says, the files of the
// command are inputs, and a warm start learns from responses alone.
func TestTasks(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(folder, "reward.py"), []byte("x"), 0o600))
	s := settings(t, "game", "reward.py:score", "nothing.py")
	s.Program.MaxTurns = 8
	var data Data
	data.Train.SetDefaults()
	data.Test.SetDefaults()
	data.Train.Limit, data.Test.Limit = 2, 1
	e := must.Get(build(s, data, 1, folder))(t)
	if n, m := len(e.Tasks(env.Train)), len(e.Tasks(env.Test)); n != 2 || m != 1 {
		t.Errorf("%d and %d tasks, want 2 and 1", n, m)
	}
	if len(e.Inputs) != 2 || e.Inputs[1].Path != filepath.Join(folder, "reward.py") {
		t.Errorf("inputs %+v, want this binary and the reward", e.Inputs)
	}
	// What training has is left out of the test before the limit, which else would keep none of it.
	ask := func(names string) (text []byte) {
		for _, name := range names {
			text = fmt.Appendf(text, `{"prompt": "%c", "answer": "a"}`+"\n", name)
		}
		return text
	}
	must.Do(t, errors.Join(os.WriteFile(filepath.Join(folder, "a.jsonl"), ask("abcdefg"), 0o600), os.WriteFile(filepath.Join(folder, "b.jsonl"), ask("abcdefgh"), 0o600)))
	data.Train.Files, data.Test.Files, data.Test.SkipRepeated, data.Train.Limit = []string{"a.jsonl"}, []string{"b.jsonl"}, true, 0
	if e := must.Get(build(settings(t, "echo"), data, 1, folder))(t); len(e.Tasks(env.Train)) != 7 || len(e.Tasks(env.Test)) != 1 || e.Tasks(env.Test)[0].Question != "h" {
		t.Errorf("held out are %v", e.Tasks(env.Test))
	}
	e = open(t, settings(t, "echo"), `{"prompt": "p", "answer": [1], "response": "r", "id": "a"}`, `{"prompt": "q", "answer": "2", "id": "b"}`)
	e.tasks[e.Tasks(env.Train)[0].ID] = known{task: e.Tasks(env.Train)[0], split: env.Train, source: source{Response: "r", Answer: json.RawMessage("[1]"), Seed: 7}}
	for _, c := range []struct {
		task env.Task
		kind shard.Kind
		ok   bool
	}{{e.Tasks(env.Train)[0], shard.KindInitial, true}, {e.Tasks(env.Train)[0], shard.KindImprove, false}, {e.Tasks(env.Train)[1], shard.KindInitial, false}} {
		shown, ok, err := e.Demonstration(c.task, c.kind, rng.New(1, rng.PurposeWarmStart, 0, "", 0))
		if ok != c.ok || err != nil || ok && (len(shown) != 2 || shown[1] != (shard.Message{Role: "assistant", Content: "r"})) {
			t.Errorf("%s of %s: %v, %v, %v", c.kind, c.task.ID, shown, ok, err)
		}
	}
	for i, want := range []any{json.RawMessage("[1]"), "2"} {
		if v, err := e.view(e.Tasks(env.Train)[i]); err != nil || !cmp.Equal(v.Answer, want) {
			t.Errorf("the answer is shown as %v, %v; want %v", v.Answer, err, want)
		}
	}
	if _, err := e.Begin(t.Context(), env.Task{ID: "none"}, nil); err != nil { // of one turn nothing is asked
		t.Error(err)
	}
	e.settings.Program.MaxTurns = 2
	if _, err := e.Begin(t.Context(), env.Task{ID: "none"}, nil); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("an episode of no task: %v", err)
	}
}

// TestFileResponses: a response to learn from is a text or a number, and one line at least has it.
func TestFileResponses(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]string{
		`{"prompt": "p", "answer": "a", "r": "x"}`:                                            "x",
		`{"prompt": "p", "answer": "a", "r": 1.50}` + "\n" + `{"prompt": "q", "answer": "a"}`: "1.50",
		`{"prompt": "p", "answer": "a", "r": [1]}`:                                            `field "r" must be a text or a number (data.train.response)`,
		`{"prompt": "p", "answer": "a"}`:                                                      `no line has a field "r"; the first has answer, prompt: set data.train.response`,
	} {
		folder := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(folder, "t.jsonl"), []byte(lines), 0o600))
		var data Data
		data.Train.SetDefaults()
		data.Test.SetDefaults()
		data.Train.Files, data.Train.Response = []string{"t.jsonl"}, "r"
		e, err := build(settings(t, "echo"), data, 1, folder)
		got := fmt.Sprint(err)
		if err == nil {
			got = e.tasks[e.Tasks(env.Train)[0].ID].source.Response
		}
		if got != want && (exitcode.Code(err) != exitcode.Data || !strings.Contains(got, want)) {
			t.Errorf("%s: %s, want %s", lines, got, want)
		}
	}
}

// TestWordedPrompts: a program that words the prompts is told of the task, the kind, what was said and its score.
func TestWordedPrompts(t *testing.T) {
	t.Parallel()
	e := open(t, settings(t, "words"), `{"prompt": "ask", "answer": ""}`, `{"prompt": "empty", "answer": ""}`, `{"prompt": "slip", "answer": ""}`)
	said := env.Parent{Messages: []shard.Message{{Role: "user", Content: "q"}, {Role: "assistant", Content: "a"}}, Verdict: &env.TurnVerdict{Reward: 0.5}}
	for _, c := range []struct {
		task   int
		kind   shard.Kind
		parent env.Parent
		want   string
	}{
		{0, shard.KindInitial, env.Parent{}, "ask initial 0"},
		{0, shard.KindImprove, said, "ask improve 2 0.5"},
		{1, shard.KindInitial, env.Parent{}, `env.program.command cannot prompt: it answered {"messages":[]}: a list of messages must not be empty`},
		{2, shard.KindInitial, env.Parent{}, `there is no field "message"`},
	} {
		got, err := e.Prompt(e.Tasks(env.Train)[c.task], c.kind, c.parent)
		text := fmt.Sprint(err)
		if err == nil && len(got) == 1 && got[0].Role == "user" {
			text = got[0].Content
		}
		if text != c.want && (c.task == 0 || !strings.Contains(text, c.want)) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
	// What opens an episode is what comes before the policy's first message.
	if n := e.opening(e.Tasks(env.Train)[0], said.Messages); n != 1 {
		t.Errorf("%d messages open the episode, want 1", n)
	}
}

// TestExecutable: a path starts at the recipe's folder, a name is looked for.
func TestExecutable(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(folder, "reward.py"), nil, 0o600))
	for command, want := range map[string]string{"./run": filepath.Join(folder, "run"), "/x/run": "/x/run", "there-is-none": ""} {
		got, err := newLauncher(Program{Command: []string{command}}, folder).executable()
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s is %q, %v; want %q", command, got, err, want)
		}
	}
	other := t.TempDir()
	file := filepath.Join(other, "data.json")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	l := newLauncher(Program{Command: []string{"/bin/sh", "reward.py", file, other, "nothing"}, Sandbox: &Sandbox{Read: []string{"venv"}, MemoryMB: 3, Require: []string{"files"}}}, folder)
	p, remove, err := l.sandbox()
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	named, gone, err := newLauncher(Program{Command: []string{"sh"}, Sandbox: &Sandbox{}}, folder).sandbox()
	if err != nil || !filepath.IsAbs(named.Args[0]) || gone() != nil {
		t.Errorf("sh is run as %q: %v", named.Args, err)
	}
	// What is granted: the setting, the recipe, the program's folder, and those of the files that it names.
	if want := []string{filepath.Join(folder, "venv"), folder, "/bin", folder, other}; p.Args[0] != "/bin/sh" || !slices.Equal(p.Read, want) || p.Dir != folder || p.Limits.Memory != 3<<20 || !slices.Equal(p.Require, []string{"files"}) {
		t.Errorf("it reads %q, want %q; runs in %s with %d bytes, requires %q", p.Read, want, p.Dir, p.Limits.Memory, p.Require)
	}
	if len(p.Write) != 1 || !slices.Contains(p.Env, "HOME="+p.Write[0]) || !slices.Contains(p.Env, "TMPDIR="+p.Write[0]) {
		t.Errorf("it writes %q, with %q", p.Write, p.Env)
	}
}
