package tooluse

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/child/stdio"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// serve says that this process is the program of a test's functions, and how
// it misbehaves.
const serve = "LATHE_TEST_TOOLS"

func TestMain(m *testing.M) {
	if how, is := os.LookupEnv(serve); is {
		serveTools(how)
		return
	}
	os.Exit(m.Run())
}

// serveTools keeps a purse: pay(amount) takes from it, look() shows it. Its
// score is what a task says the purse should hold, reached or not.
func serveTools(how string) {
	purse, want := 0, 0
	crashed := func(name string) bool { // once for all processes of a test
		folder, isFolder := strings.CutPrefix(how, "crash once ")
		if !isFolder {
			return false
		}
		f, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return false
		}
		return f.Close() == nil
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r struct {
			ID    int
			Name  string
			Args  struct{ Amount int }
			Reset *struct {
				State struct{ Purse, Want int }
			}
			Score *struct{ Truth, Calls [][]Call }
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		result := ""
		switch {
		case r.Reset != nil:
			purse, want = r.Reset.State.Purse, r.Reset.State.Want
			result = "null"
			if purse < 0 {
				fmt.Printf(`{"id": %d, "error": "a purse cannot be less than empty"}`+"\n", r.ID)
				continue
			}
		case r.Score != nil:
			score := 0.0
			if purse == want {
				score = 1
			}
			result = fmt.Sprintf(`{"score": %g, "why": "the purse has %d", "milestones": ["calls %d", "turns %d of %d"]}`, score, purse, len(r.Score.Calls[0]), len(r.Score.Calls), len(r.Score.Truth))
			if how == "score wrongly" {
				result = `{"score": 2}`
			}
		case r.Name == "pay" && r.Args.Amount > purse:
			fmt.Printf(`{"id": %d, "error": "the purse has no more than %d"}`+"\n", r.ID, purse)
			continue
		case r.Name == "pay":
			if how == "crash" || crashed("pay") {
				fmt.Fprintln(os.Stderr, "the purse is torn")
				os.Exit(3)
			}
			purse -= r.Args.Amount
			result = `"paid"`
		case r.Name == "look":
			switch how {
			case "hang":
				time.Sleep(time.Minute)
			case "forget":
				purse += os.Getpid()
			case "babble":
				fmt.Println("hello")
			case "flood":
				result = `"` + strings.Repeat("é", 100) + `"`
			}
			if result == "" {
				result = fmt.Sprintf(`{"purse":  %d}`, purse)
			}
		}
		fmt.Printf(`{"id": %d, "result": %s}`+"\n", r.ID, result)
	}
}

const purseFunctions = `[
	{"name": "pay", "description": "Pays.", "parameters": {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}},
	{"name": "look", "description": "Looks into the purse.", "parameters": {"type": "object", "properties": {"closely": {"type": "boolean"}, "twice": {"default": false}}}}
]`

const purseTasks = `{"id": "purse", "kind": "money", "turns": ["Pay 3.", "Pay 4."], "state": {"purse": 9, "want": 2}, "truth": [[{"name": "pay", "args": {"amount": 3}}], [{"name": "pay", "args": {"amount": 4}}]]}

{"id": "look", "turns": ["Look."], "state": {"purse": 1, "want": 1}, "functions": ["look"]}
`

// newOwn is an environment of the purse, as its program misbehaves.
func newOwn(t *testing.T, how string, change func(*ToolUse)) *Env {
	t.Helper()
	t.Setenv(serve, how)
	program := must.Get(os.Executable())(t)
	folder := t.TempDir()
	for name, content := range map[string]string{"functions.json": purseFunctions, "tasks.jsonl": purseTasks} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	s := settings("", "")
	s.ToolUse.Functions, s.ToolUse.Command = "functions.json", []string{program}
	s.ToolUse.PassEnvironment = []string{serve}
	s.ToolUse.CallSeconds, s.ToolUse.Processes, s.ToolUse.Retries = 20, 4, 2
	if change != nil {
		change(&s.ToolUse)
	}
	e := must.Get(build(s, Data{Test: Source{Files: []string{"tasks.jsonl"}}}, 1, folder))(t)
	return e
}

func TestOwnFunctions(t *testing.T) {
	e := newOwn(t, "", nil)
	task, _ := e.Task("purse")
	if task.Kind != "money" || task.Level != 2 || len(e.Tasks(env.Test)) != 2 || len(e.Inputs) != 2 {
		t.Errorf("%+v, inputs %v", task, e.Inputs)
	}
	prompt := opening(t, e, "purse")
	if want := "Use pay(amount)\nlook(closely=?, twice=false)"; prompt[0].Content != want {
		t.Errorf("the functions are shown as %q, want %q", prompt[0].Content, want)
	}
	if p := opening(t, e, "look"); p[0].Content != "Use look(closely=?, twice=false)" {
		t.Errorf("a task with one function: %q", p[0].Content)
	}
	p := play(t, e, "purse", prompt, lines(
		`<tool>[{"name": "look", "args": {}}, {"name": "pay", "args": {"amount": 10}}, {"name": "look", "args": {}}]</tool>`,
		`<tool>[{"name": "steal", "args": {}}]</tool>`,
		`<tool>[{"name": "pay", "args": {"amount": 3}}]</tool>`, taskFinished,
		`<tool>[{"name": "pay", "args": {"amount": 4}}]</tool>`, taskFinished,
	))
	for i, want := range map[int]string{
		3:  `<tool_result> ["{\"purse\":9}","Error: the purse has no more than 9","Error: 1 more of the calls were not made, for this one failed."] </tool_result>`,
		5:  `<tool_result> ["Error: there is no function \"steal\"."] </tool_result>`,
		7:  `<tool_result> ["paid"] </tool_result>`,
		9:  "Pay 4.",
		11: `<tool_result> ["paid"] </tool_result>`,
	} {
		if got := p.conversation[i].Content; got != want {
			t.Errorf("message %d is %s, want %s", i, got, want)
		}
	}
	// look and pay succeeded in the first turn.
	v := p.verdict
	if v.Outcome != shard.OutcomeOK || v.Reward != 1 || v.Feedback != "the purse has 2" || strings.Join(v.Milestones, " ") != "calls 2 turns 2 of 2 finished" {
		t.Errorf("%+v", v)
	}
	if want := `[[{"name":"look","args":{}},{"name":"pay","args":{"amount":3}}],[{"name":"pay","args":{"amount":4}}]]`; v.Extracted != want {
		t.Errorf("the calls are %s, want %s", v.Extracted, want)
	}
	if v := play(t, e, "purse", prompt, lines(taskFinished, taskFinished)).verdict; v.Outcome != shard.OutcomeWrong || v.Reward != 0 || v.Feedback != "the purse has 9" {
		t.Errorf("a purse that is left alone: %+v", v)
	}
	// A program is told of the turns that are played: both, also of one who gives up in the first, or one.
	for turns, want := range map[int]string{0: "calls 0 turns 2 of 2", 1: "calls 0 turns 1 of 1"} {
		e := newOwn(t, "", func(u *ToolUse) { u.Test.UserTurns = turns })
		if v := play(t, e, "purse", prompt, lines(taskError)).verdict; strings.Join(v.Milestones, " ") != want {
			t.Errorf("%d turns, given up: %v, want %s", turns, v.Milestones, want)
		}
	}
	// What is cut is cut between two letters, and says by how much.
	e = newOwn(t, "flood", func(u *ToolUse) { u.MaxResultBytes = 65 })
	p = play(t, e, "look", opening(t, e, "look"), lines(`<tool>[{"name": "look", "args": {}}]</tool>`, taskFinished))
	if want := `<tool_result> ["` + strings.Repeat("é", 32) + ` … (136 bytes more)"] </tool_result>`; p.conversation[3].Content != want {
		t.Errorf("a long result is shown as %s", p.conversation[3].Content)
	}
}

// TestProgramIsLost: a program that ends is started again and brought back to
// where it was; so is one that had to make room.
func TestProgramIsLost(t *testing.T) {
	pay := `<tool>[{"name": "look", "args": {}}, {"name": "pay", "args": {"amount": 3}}]</tool>`
	e := newOwn(t, "crash once "+t.TempDir(), nil)
	p := play(t, e, "purse", opening(t, e, "purse"), lines(pay, taskFinished, strings.ReplaceAll(pay, "3", "4"), taskFinished))
	if p.verdict.Reward != 1 || p.conversation[3].Content != `<tool_result> ["{\"purse\":9}","paid"] </tool_result>` {
		t.Errorf("%+v", p)
	}

	for retries, code := range []int{exitcode.Failed, exitcode.OK} {
		e := newOwn(t, "crash once "+t.TempDir(), func(u *ToolUse) { u.Retries = retries })
		task, _ := e.Task("purse")
		said := append(opening(t, e, "purse"), assistant(pay))
		begun := must.Get(e.Begin(t.Context(), task, said[:2]))(t)
		if _, err := begun.Next(t.Context(), said, nil); exitcode.Code(err) != code {
			t.Errorf("one crash and %d retries: %v", retries, err)
		}
		must.Do(t, begun.Close())
	}

	e = newOwn(t, "", func(u *ToolUse) { u.Processes = 2 })
	task, _ := e.Task("purse")
	// Of two programs the one that rested longest makes room: the second, since the first was used again.
	var used []*programBackend
	for _, i := range []int{0, 1, 0, 2} {
		if i == len(used) {
			used = append(used, e.tasks["purse"].open(2).(*programBackend))
		}
		must.Get(used[i].Call(t.Context(), Call{"look", []byte(`{}`)}))(t)
	}
	if used[0].process == nil || used[1].process != nil || used[2].process == nil {
		t.Error("another program than the one that rested longest made room")
	}
	end := e.program.waits.Begin(env.Wait{Request: "call look"})
	if got := e.Waiting(); len(got) != 1 || got[0].Request != "call look" {
		t.Errorf("waiting for %+v", got)
	}
	end()
	last := used[2].process
	if e.Close(); len(e.program.alive) != 0 || used[0].process != nil || last.Send(stdio.Request{}, 0) == nil {
		t.Errorf("%d programs are alive after the environment", len(e.program.alive))
	}
	var episodes []env.Episode
	var conversations [][]shard.Message
	for range 5 {
		begun := must.Get(e.Begin(t.Context(), task, opening(t, e, "purse")))(t)
		episodes = append(episodes, begun)
		conversations = append(conversations, opening(t, e, "purse"))
	}
	for round, want := range []string{`["{\"purse\":9}","paid"]`, `["{\"purse\":6}","paid"]`, `["{\"purse\":3}","paid"]`} {
		for i, episode := range episodes {
			conversations[i] = append(conversations[i], assistant(pay))
			answer := must.Get(episode.Next(t.Context(), conversations[i], nil))(t)
			if got := answer.Messages[0].Content; got != "<tool_result> "+want+" </tool_result>" {
				t.Errorf("round %d, episode %d: %s", round, i, got)
			}
			conversations[i] = append(conversations[i], answer.Messages...)
		}
	}
	alive := episodes[0].(*episode).backend.(*programBackend).program.alive
	if len(alive) != 2 {
		t.Errorf("%d programs are alive, want 2", len(alive))
	}
	for _, episode := range episodes {
		if err := episode.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(alive) != 0 {
		t.Errorf("%d programs are alive at the end", len(alive))
	}
}

// TestProgramFails: what the program does wrong is ours, and never a score.
func TestProgramFails(t *testing.T) {
	const look, pay = `<tool>[{"name": "look", "args": {}}]</tool>`, `<tool>[{"name": "pay", "args": {"amount": 1}}]</tool>`
	for _, c := range []struct {
		how, said string
		code      int
		want      string
	}{
		{"crash", pay, exitcode.Failed, "ended: exit status 3; its last words: the purse is torn"},
		{"hang", look, exitcode.Failed, "did not answer within 300ms"},
		{"babble", look, exitcode.Failed, "answered request 2 with hello: one line"},
	} {
		e := newOwn(t, c.how, func(u *ToolUse) {
			u.Retries = 1
			if c.how == "hang" {
				u.CallSeconds = 0.3
			}
		})
		task, _ := e.Task("purse")
		begun, err := e.Begin(t.Context(), task, opening(t, e, "purse"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = begun.Next(t.Context(), append(opening(t, e, "purse"), assistant(c.said)), nil)
		if exitcode.Code(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: exit code %d, %v; want %d, %s", c.how, exitcode.Code(err), err, c.code, c.want)
		}
		if err := begun.Close(); err != nil {
			t.Error(err)
		}
	}

	conversation := func(e *Env) []shard.Message {
		return append(opening(t, e, "look"), assistant(look), shard.Message{Role: roleSystem, Content: `<tool_result> ["{\"purse\":1}"] </tool_result>`}, assistant(taskFinished))
	}
	for how, want := range map[string]string{
		"score wrongly": `scores task "look" with {"score": 2}`,
		"forget":        `the same calls now give`,
	} {
		e := newOwn(t, how, nil)
		task, _ := e.Task("look")
		_, err := e.Score(t.Context(), env.Attempt{Task: task, Messages: conversation(e), Own: env.Said(conversation(e), 0), Finish: "stop"})
		if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: exit code %d, %v", how, exitcode.Code(err), err)
		}
	}

	poor := newOwn(t, "", nil)
	broke := programBackend{program: poor.program, start: start{Task: "purse", State: []byte(`{"purse": -1}`)}, functions: map[string]bool{"look": true}}
	if _, err := broke.Call(t.Context(), Call{"look", []byte(`{}`)}); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), `cannot start task "purse": a purse cannot be less than empty`) {
		t.Errorf("a task that cannot start: %v", err)
	}

	// A program that cannot be run, and one that there is not.
	broken := filepath.Join(t.TempDir(), "broken")
	must.Do(t, os.WriteFile(broken, []byte{0}, 0o700))
	e := newOwn(t, "", func(u *ToolUse) { u.Command = []string{broken} })
	task, _ := e.Task("look")
	_, err := e.Score(t.Context(), env.Attempt{Task: task, Messages: conversation(e), Own: env.Said(conversation(e), 0), Finish: "stop"})
	if exitcode.Code(err) != exitcode.Unavailable || len(exitcode.Hints(err)) == 0 {
		t.Errorf("a program that cannot be run: %v", err)
	}
	for _, path := range []string{"./nowhere", "no-such-program", "/nowhere"} {
		if _, err := newProgram(&ToolUse{Command: []string{path}}, t.TempDir()); exitcode.Code(err) != exitcode.Unavailable || len(exitcode.Hints(err)) == 0 {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestBadOwnFiles(t *testing.T) {
	t.Parallel()
	const good = purseFunctions
	for _, c := range []struct{ functions, tasks, want string }{
		{`{}`, "", "a list of functions"},
		{`[]`, "", "has no function"},
		{`[{"description": "x"}]`, "", "function 1 has no name"},
		{`[{"name": "f", "parameters": {}}, {"name": "f", "parameters": {}}]`, "", `two functions are called "f"`},
		{`[{"name": "f", "parameters": []}]`, "", "parameters of f"},
		{`[{"name": "f", "parameters": {"properties": []}}]`, "", "parameters of f"},
		{good, `[]`, "line 1"},
		{good, "\n" + `{"turns": ["a"]}`, "line 2: the task has no id"},
		{good, "\n\uFEFF" + `{"id": "a", "turns": ["x"]}`, "line 2"}, // a byte order mark is the file's first character
		{good, `{"id": "a", "turns": []}`, "turns must be"},
		{good, `{"id": "a", "turns": [""]}`, "turns must be"},
		{good, `{"id": "a", "turns": ["x"], "truth": []}`, "1 turns and reference calls for 0"},
		{good, `{"id": "a", "turns": ["x"], "truth": [[{"name": "f", "args": {}}]]}`, "reference call 1 of turn 1"},
		{good, `{"id": "a", "turns": ["x"], "truth": [[{"name": "pay"}]]}`, "reference call 1 of turn 1"},
		{good, `{"id": "a", "turns": ["x"], "truth": [[{"name": "pay", "arguments": {}}]]}`, `there is no field "arguments"`},
		{good, `{"id": "a", "turns": ["x"], "trut": []}`, `there is no field "trut"`},
		{good, `{"id": "a", "turns": ["x"], "functions": ["f"]}`, `no function "f"`},
		{good, `{"id": "a", "turns": ["x"]}` + "\n" + `{"id": "a", "turns": ["x"]}`, `two tasks have the id "a"`},
	} {
		folder := t.TempDir()
		for name, content := range map[string]string{"functions.json": c.functions, "tasks.jsonl": c.tasks} {
			must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
		}
		s := settings("", "")
		s.ToolUse.Functions, s.ToolUse.Command = "functions.json", []string{"true"}
		_, err := build(s, Data{Train: Source{Files: []string{"tasks.jsonl"}}}, 1, folder)
		if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %s", c.functions, c.tasks, err, c.want)
		}
	}
}

// A pipe is refused, and not waited for.
func TestPipeForAFile(t *testing.T) {
	t.Parallel()
	for _, pipe := range []string{"functions.json", "tasks.jsonl"} {
		folder := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(folder, "functions.json"), []byte(purseFunctions), 0o600))
		_ = os.Remove(filepath.Join(folder, pipe))
		must.Do(t, syscall.Mkfifo(filepath.Join(folder, pipe), 0o600))
		s := settings("", "")
		s.ToolUse.Functions, s.ToolUse.Command = "functions.json", []string{"true"}
		_, err := build(s, Data{Train: Source{Files: []string{"tasks.jsonl"}}}, 1, folder)
		if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "a pipe") {
			t.Errorf("%s: %v", pipe, err)
		}
	}
}

// A task of one split is not in the other by another id. Without state and
// reference a program may know by the id what a request means.
func TestSplitsShareNoTask(t *testing.T) {
	t.Parallel()
	const train = `{"id": "a", "turns": ["Pay."], "state": {"purse": 9}, "truth": [[{"name": "pay", "args": {"amount": 3}}]]}
{"id": "b", "turns": ["Look."]}
`
	for test, want := range map[string]string{
		`{"id": "c", "turns": ["Pay."], "state": { "purse":9 }, "truth": [[{"name": "pay", "args": {"amount":3}}]]}`:     `shares 1 task with data.train.files ("c" is "a")`,
		`{"id": "c", "turns": ["Pay."], "state": {"purse": 8}, "truth": [[{"name": "pay", "args": {"amount": 3}}]]}`:     "",
		`{"id": "c", "turns": ["Pay."], "state": {"purse": 9}, "truth": [[{"name": "pay", "args": {"amount": 4}}]]}`:     "",
		`{"id": "c", "turns": ["Pay now."], "state": {"purse": 9}, "truth": [[{"name": "pay", "args": {"amount": 3}}]]}`: "",
		`{"id": "c", "turns": ["Look."]}`: "",
	} {
		folder := t.TempDir()
		for name, content := range map[string]string{"functions.json": purseFunctions, "train.jsonl": train, "test.jsonl": test} {
			must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
		}
		s := settings("", "")
		s.ToolUse.Functions, s.ToolUse.Command = "functions.json", []string{"true"}
		_, err := build(s, Data{Train: Source{Files: []string{"train.jsonl"}}, Test: Source{Files: []string{"test.jsonl"}}}, 1, folder)
		if want == "" && err != nil || want != "" && (exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", test, err, want)
		}
	}
}

// A file of tasks may begin with a byte order mark, end its lines as Windows
// does, and have blank ones.
func TestTasksOfOtherEditors(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks.jsonl")
	text := "\uFEFF" + `{"id": "a", "turns": ["Go."]}` + "\r\n\r\n" + `{"id": "b", "turns": ["Stop."]}` + "\r\n"
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	problems, err := readCustom(path, nil)
	if err != nil || len(problems) != 2 || problems[0].id != "a" {
		t.Fatalf("got %d tasks, %v", len(problems), err)
	}
}
