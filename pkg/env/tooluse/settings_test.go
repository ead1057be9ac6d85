package tooluse

import (
	"encoding/json"
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
	type recipe struct {
		Env     *Settings `yaml:"env"`
		Data    *Data     `yaml:"data"`
		Rollout struct {
			Stop        []string `yaml:"stop"`
			IncludeStop bool     `yaml:"include_stop"`
		} `yaml:"rollout"`
		Evaluation struct {
			Problems int `yaml:"problems"`
		} `yaml:"evaluation"`
	}
	own := func(change func(*ToolUse, *Data)) func(*recipe) {
		return func(r *recipe) {
			u := &r.Env.ToolUse
			u.BFCL, u.Functions, u.Command = "", "f.json", []string{"run"}
			r.Data.Train.Files, r.Data.Test.Files = []string{"a"}, []string{"b", "c"}
			change(u, r.Data)
		}
	}
	tools := func(change func(*ToolUse)) func(*recipe) { return func(r *recipe) { change(&r.Env.ToolUse) } }
	for _, c := range []struct {
		want   string // of the error; empty for none
		change func(*recipe)
	}{
		{"", func(*recipe) {}},
		{"", tools(func(u *ToolUse) {
			u.Train, u.Test, u.MaxCalls, u.MaxResultBytes = EpisodeRules{Steps: 1}, EpisodeRules{Steps: 1}, 1, 64
			u.CallSeconds, u.Retries, u.Processes, u.MaxFailed = 0, -1, 0, 2 // those of a program that there is not
		})},
		{"env.prompts.initial", func(r *recipe) { r.Env.Prompts.Initial = "{qestion}" }},
		{"env.tooluse.system: must contain {tools}", tools(func(u *ToolUse) { u.System = "tools" })},
		{"env.tooluse.docs", tools(func(u *ToolUse) { u.Docs = "none" })},
		{"env.tooluse.calls", tools(func(u *ToolUse) { u.Calls = "none" })},
		{"env.tooluse.result_role", tools(func(u *ToolUse) { u.ResultRole = "assistant" })},
		{"env.tooluse.train.user_turns", tools(func(u *ToolUse) { u.Train.UserTurns = -1 })},
		{"env.tooluse.train.steps", tools(func(u *ToolUse) { u.Train.Steps = 0 })},
		{"env.tooluse.test.user_turns", tools(func(u *ToolUse) { u.Test.UserTurns = -1 })},
		{"env.tooluse.test.steps", tools(func(u *ToolUse) { u.Test.Steps = 0 })},
		{"env.tooluse.max_calls", tools(func(u *ToolUse) { u.MaxCalls = 0 })},
		{"env.tooluse.max_result_bytes", tools(func(u *ToolUse) { u.MaxResultBytes = 63 })},
		{"must have <TASK_ERROR>", func(r *recipe) { r.Rollout.Stop = []string{"</tool>", "<TASK_FINISHED>"} }},
		{"rollout.include_stop", func(r *recipe) { r.Rollout.IncludeStop = false }},
		{"data.train.limit", func(r *recipe) { r.Data.Train.Limit = -1 }},
		{"data.test.limit", func(r *recipe) { r.Data.Test.Limit = -1 }},
		{"", func(r *recipe) { r.Evaluation.Problems, r.Data.Test.Limit = 2, 2 }},
		{"evaluation.problems", func(r *recipe) { r.Evaluation.Problems, r.Data.Test.Limit = 2, 1 }},
		{"data.validation", func(r *recipe) { r.Data.Validation = -1 }},
		{"env.tooluse: names no functions", tools(func(u *ToolUse) { u.BFCL = "" })},
		{"env.tooluse.bfcl: must be empty", tools(func(u *ToolUse) { u.Functions = "f.json" })},
		{"env.tooluse.bfcl: must be empty", tools(func(u *ToolUse) { u.Command = []string{"run"} })},
		{"data.test.files: must be empty", func(r *recipe) { r.Data.Test.Files = []string{"a"} }},
		{"", own(func(u *ToolUse, _ *Data) { u.Retries, u.Processes, u.MaxFailed = 0, 1, 1 })},
		{"", own(func(u *ToolUse, _ *Data) { u.Processes, u.MaxFailed = 4096, 0 })},
		{"data.train.files: must name", own(func(_ *ToolUse, d *Data) { d.Train.Files = nil })},
		{"data.test.files.1: must not be empty", own(func(_ *ToolUse, d *Data) { d.Test.Files[1] = " " })},
		{"env.tooluse.command: must name", own(func(u *ToolUse, _ *Data) { u.Command = nil })},
		{"env.tooluse.command: must name", own(func(u *ToolUse, _ *Data) { u.Command[0] = " " })},
		{"env.tooluse.call_seconds", own(func(u *ToolUse, _ *Data) { u.CallSeconds = 0 })},
		{"env.tooluse.retries", own(func(u *ToolUse, _ *Data) { u.Retries = -1 })},
		{"env.tooluse.processes", own(func(u *ToolUse, _ *Data) { u.Processes = 0 })},
		{"env.tooluse.processes", own(func(u *ToolUse, _ *Data) { u.Processes = 4097 })},
		{"env.tooluse.max_failed", own(func(u *ToolUse, _ *Data) { u.MaxFailed = 1.1 })},
	} {
		r := recipe{Env: DefaultSettings(), Data: &Data{}}
		r.Env.ToolUse.BFCL, r.Rollout.Stop, r.Rollout.IncludeStop = "bfcl", endings(), true
		c.change(&r)
		checked := config.NewChecker(&r)
		validate(checked, r.Env, r.Data)
		if err := checked.Err("recipe"); (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Count(err.Error(), "must") > 1) {
			t.Errorf("want %q: %v", c.want, err)
		}
	}
}

// TestDefaults are the rules of ExIt App. A.3: in training one turn of the user and 10 messages,
// in a test all turns and 60. What bounds a program of the user's own is ours.
func TestDefaults(t *testing.T) {
	t.Parallel()
	got := DefaultSettings()
	want := ToolUse{
		Halves: "split_100_100.json", System: toolsTemplate, Docs: "schema", Calls: "list", ResultRole: "system", Train: EpisodeRules{UserTurns: 1, Steps: 10},
		Test: EpisodeRules{Steps: 60}, MaxCalls: 20, MaxResultBytes: 16384, CallSeconds: 10, Retries: 2, Processes: 64, MaxFailed: 0.1,
	}
	if diff := cmp.Diff(want, got.ToolUse); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(env.Traits{Turns: 60, Waves: 1, MaxFailed: 0.1, MaxFailedSetting: "env.tooluse.max_failed", ByMessage: true, Transcript: true}, got.traits()); diff != "" {
		t.Errorf("traits (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		given ToolUse
		want  [3]string
	}{
		{ToolUse{BFCL: "b", Halves: "h"}, [3]string{"/r/b", "/r/b/h", ""}},
		{ToolUse{BFCL: "/b", Halves: "/h"}, [3]string{"/b", "/h", ""}},
		{ToolUse{BFCL: "b"}, [3]string{"/r/b", "", ""}},
		{ToolUse{Functions: "f", Halves: "h"}, [3]string{"", "", "/r/f"}},
	} {
		bfcl, halves, functions, err := c.given.Resolve("/r")
		if got := [3]string{bfcl, halves, functions}; got != c.want || err != nil {
			t.Errorf("%+v lies at %q, %v; want %q", c.given, got, err, c.want)
		}
	}
}

// TestChecker: the task sum_0 asks for 2 + 3.
func TestChecker(t *testing.T) {
	t.Parallel()
	verify := must.Get(checker.Verifier(&checkSettings{Data: small}))(t)
	for line, want := range map[string]string{
		`{"id": "sum_0", "turns": [[{"name": "add", "args": {"a": 2, "b": 3}}]]}`: `{"id":"sum_0","official_valid":true,"error_type":null,"state_equal":true,"calls_subset":true,"reward":1}`,
		`{"id": "sum_0", "turns": [[]]}`:                                          `{"id":"sum_0","official_valid":false,"error_type":"multi_turn:empty_turn_model_response","state_equal":true,"calls_subset":false,"reward":0}`,
		`{"id": "chess", "turns": [[]]}`:                                          `there is no task "chess"`,
		`{"id": "sum_0"}`:                                                         "must both be there",
		`{"turns": [[]]}`:                                                         "must both be there",
	} {
		calls := checker.Line()
		must.Do(t, json.Unmarshal([]byte(line), calls))
		row, err := verify(calls)
		got := ""
		if err == nil {
			got = string(must.Get(json.Marshal(row))(t))
		} else {
			got = err.Error()
		}
		if (err != nil) != !strings.HasPrefix(want, "{") || !strings.Contains(got, want) {
			t.Errorf("%s is %s, want %s", line, got, want)
		}
	}
}

// TestCheckerFindsTasks: without --data the tasks are those of the folder that LATHE_SHARED names.
// Alone: it sets the environment.
func TestCheckerFindsTasks(t *testing.T) {
	t.Setenv("LATHE_SHARED", "")
	if _, err := readTasks(""); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("no folder: %v", err)
	}
	folder := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(folder, "data"), 0o700))
	must.Do(t, os.Symlink(must.Get(filepath.Abs(small))(t), filepath.Join(folder, "data", "bfcl")))
	t.Setenv("LATHE_SHARED", folder)
	if tasks, err := readTasks(""); err != nil || tasks["sum_0"].ID != "sum_0" {
		t.Errorf("%d tasks: %v", len(tasks), err)
	}
}

// TestWhatIsNotAsked: a task that there is not, and prompts that no run asks for, are refused.
func TestWhatIsNotAsked(t *testing.T) {
	t.Parallel()
	e := everything(t, env.Train, func(s *Settings) { s.Prompts.Diverge = " " })
	task, _ := e.Task("sum_0")
	none := env.Task{ID: "chess"}
	said := env.Parent{Messages: append(opening(t, e, task.ID), assistant(taskError))}
	for _, c := range []struct {
		task   env.Task
		kind   shard.Kind
		parent env.Parent
		code   int
	}{
		{none, shard.KindInitial, env.Parent{}, exitcode.Bug},
		{task, shard.KindInitial, said, exitcode.Bug},
		{task, shard.KindCrossover, said, exitcode.Bug},
		{task, shard.KindDiverge, said, exitcode.Usage},
		{task, shard.KindDebug, said, exitcode.OK},
	} {
		if got, err := e.Prompt(c.task, c.kind, c.parent); exitcode.Code(err) != c.code {
			t.Errorf("%s of %s: %v, %v; want exit code %d", c.kind, c.task.ID, got, err, c.code)
		}
	}
	if _, err := e.Begin(t.Context(), none, said.Messages); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("an episode: %v", err)
	}
	if _, err := e.Score(t.Context(), env.Attempt{Task: none, Messages: said.Messages, Own: []int{2}}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("a score: %v", err)
	}
	if got, ok, err := e.Demonstration(none, shard.KindInitial, rng.New(1, rng.PurposeWarmStart, 0, "", 0)); ok || err != nil {
		t.Errorf("a demonstration: %v, %v", got, err)
	}
	begun := must.Get(e.Begin(t.Context(), task, opening(t, e, task.ID)))(t)
	for _, conversation := range [][]shard.Message{nil, opening(t, e, task.ID)} {
		if _, err := begun.Next(t.Context(), conversation, nil); exitcode.Code(err) != exitcode.Bug {
			t.Errorf("an answer to %v: %v", conversation, err)
		}
	}
	if err := file(env.NewTaskSet(Name), env.Train, problem{id: "a"}); exitcode.Code(err) != exitcode.Data {
		t.Errorf("a user who says nothing: %v", err)
	}
	e.Start(1, t.Logf) // there is no program
	if e.Close(); e.Waiting() != nil {
		t.Error("a program that there is not is waited for")
	}
}

// TestTurns: a message has the score of what was done up to it, and only the last one can have
// finished. A prefix that the policy did not write in this attempt has none.
func TestTurns(t *testing.T) {
	t.Parallel()
	e := everything(t, env.Train, nil)
	p := play(t, e, "sum_0", opening(t, e, "sum_0"), lines(`<tool>[{"name": "add", "args": {"a": 2, "b": 3}}]</tool>`, taskFinished))
	own := env.Said(p.conversation, 0)
	task, _ := e.Task("sum_0")
	for n, want := range map[int][]string{2: {"1 false", "1 true"}, 1: {"1 true"}} {
		v := must.Get(e.Score(t.Context(), env.Attempt{Task: task, Messages: p.conversation, Own: own[2-n:], Finish: "stop"}))(t)
		var got []string
		for _, turn := range v.Turns {
			got = append(got, map[bool]string{true: "1 ", false: "0 "}[turn.Reward == 1]+map[bool]string{true: "true", false: "false"}[slices.Contains(turn.Milestones, "finished")])
		}
		if !slices.Equal(got, want) {
			t.Errorf("the last %d messages have the scores %v, want %v", n, got, want)
		}
	}
	// Finished once of three turns, and given up after all that was asked, is not finished.
	all := everything(t, env.Test, func(s *Settings) { s.ToolUse.Test.Steps = 1 })
	for _, c := range []struct {
		e    *Env
		said string
	}{{all, taskFinished}, {e, taskError}} {
		if v := play(t, c.e, "ticket_printer", opening(t, c.e, "ticket_printer"), lines(c.said)).verdict; slices.Contains(v.Milestones, "finished") {
			t.Errorf("%s: %v", c.said, v.Milestones)
		}
	}
}

// TestReferenceMessages: a message for all calls of a turn or one for each, and none for a turn
// without calls; half of the demonstrations have one for each.
func TestReferenceMessages(t *testing.T) {
	t.Parallel()
	e := everything(t, env.Test, nil)
	for oneByOne, want := range map[bool]string{false: "2 F F 1 F", true: "1 1 F F 1 F"} {
		var got []string
		for _, said := range must.Get(e.tasks["ticket_printer"].perfect(oneByOne))(t) {
			got = append(got, map[bool]string{true: "F", false: string('0' + rune(strings.Count(said, `"name"`)))}[said == taskFinished])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("one by one %v: messages of %v calls, want %s", oneByOne, got, want)
		}
	}
	task, _ := e.Task("ticket_printer")
	each := 0
	for draw := range 200 {
		shown, ok, err := e.Demonstration(task, shard.KindInitial, rng.New(1, rng.PurposeWarmStart, 0, task.ID, draw))
		if !ok || err != nil {
			t.Fatal(err)
		}
		if len(env.Said(shown, 0)) == 6 {
			each++
		}
	}
	if each < 80 || each > 120 { // 100 of 200, by four standard deviations of 7
		t.Errorf("%d of 200 demonstrations have a message for each call", each)
	}
}

// TestTaskLimits: each split keeps as many tasks as its limit says, a file of halves names what
// is played, and validation leaves training a task.
func TestTaskLimits(t *testing.T) {
	t.Parallel()
	named := filepath.Join(t.TempDir(), "halves.json")
	must.Do(t, os.WriteFile(named, []byte(`{"note": "x", "train": ["sums_0", "sum_0"], "test": ["sum_1"]}`), 0o600))
	for _, c := range []struct {
		halves string
		data   Data
		want   [3]int // train, test, validation; each half of the 24 tasks is 12
	}{
		{"", Data{Train: Source{Limit: 2}, Test: Source{Limit: 3}}, [3]int{2, 3, 0}},
		{"", Data{Validation: 11}, [3]int{1, 12, 11}},
		{named, Data{}, [3]int{2, 1, 0}},
	} {
		e := must.Get(build(settings(small, c.halves), c.data, 1, ""))(t)
		if got := [3]int{len(e.Tasks(env.Train)), len(e.Tasks(env.Test)), len(e.Tasks(Validation))}; got != c.want {
			t.Errorf("%+v: %v tasks, want %v", c.data, got, c.want)
		}
	}
}
