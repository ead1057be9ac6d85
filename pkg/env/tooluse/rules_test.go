package tooluse

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// everything is an environment in which all small tasks are in one split.
func everything(t testing.TB, split env.Split, change func(*Settings)) *Env {
	t.Helper()
	s := settings(small, filepath.Join(t.TempDir(), "halves.json"))
	problems, _ := must.Get2(readBFCL(small))(t)
	var ids []string
	for _, p := range problems {
		ids = append(ids, p.id)
	}
	must.Do(t, os.WriteFile(s.ToolUse.Halves, fmt.Appendf(nil, `{%q: ["%s"]}`, split, strings.Join(ids, `", "`)), 0o600))
	if change != nil {
		change(&s)
	}
	return newEnv(t, s)
}

// roles lists a conversation in short.
func roles(conversation []shard.Message) string {
	var said []string
	for _, m := range conversation {
		said = append(said, m.Role+": "+m.Content)
	}
	return strings.Join(said, "\n")
}

// An episode of all the user's turns, by hand: the word count of "w w " is 2,
// and 2 + 0 is 2.
func TestEpisode(t *testing.T) {
	t.Parallel()
	e := everything(t, env.Test, nil)
	const count = `<reasoning>count</reasoning><tool>[{"name": "cd", "args": {"folder": "box"}}, {"name": "wc", "args": {"file_name": "a.txt", "mode": "w"}}]</tool>`
	const count2 = `<tool>[{"name": "wc", "args": {"file_name": "a.txt", "mode": "w"}}]</tool>`
	const add = `<tool>[{"name": "add", "args": {"a": 2, "b": 0}}]</tool>`
	p := play(t, e, "count_0", opening(t, e, "count_0"), lines(count, count2, taskFinished, add, taskFinished))
	want := `system: Use mkdir(dir_name)
touch(file_name)
cd(folder)
cat(file_name)
echo(content, file_name=?)
wc(file_name, mode=?)
add(a, b)
subtract(a, b)
multiply(a, b)
user: Count the words of a.txt.
assistant: ` + count + `
system: <tool_result> ["Error during execution: cd: box: No such directory","Error: 1 more of the calls were not made, for this one failed."] </tool_result>
assistant: ` + count2 + `
system: <tool_result> ["{\"count\": 2, \"type\": \"words\"}"] </tool_result>
assistant: <TASK_FINISHED>
user: Add 0 to that number.
assistant: ` + add + `
system: <tool_result> ["{\"result\": 2}"] </tool_result>
assistant: <TASK_FINISHED>`
	got := roles(p.conversation)
	// How an error is worded is package bfcl's.
	got = strings.Replace(got, p.conversation[3].Content, `<tool_result> ["Error during execution: cd: box: No such directory","Error: 1 more of the calls were not made, for this one failed."] </tool_result>`, 1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conversation (-want +got):\n%s", diff)
	}
	if said := p.conversation[3].Content; !strings.Contains(said, `error`) || !strings.Contains(said, "1 more of the calls were not made") {
		t.Errorf("a call that fails: %s", said)
	}
	verdict := env.TurnVerdict{
		Outcome: shard.OutcomeOK, RawScore: 1, NormalizedScore: 1, Reward: 1, Parts: []shard.RewardPart{{Name: "task", Value: 1}},
		Milestones: []string{"state", "calls", "first_turn", "official_valid", "finished"}, Feedback: "state and calls are right",
		Extracted: `[[{"name":"wc","args":{"file_name":"a.txt","mode":"w"}}],[{"name":"add","args":{"a":2,"b":0}}]]`,
	}
	if diff := cmp.Diff(verdict, p.verdict.TurnVerdict); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}

// TestEnds: how an episode ends, and what it is worth. The task has the turns
// "log in and open a ticket" (two calls), "thank you" (none) and "close it".
func TestEnds(t *testing.T) {
	t.Parallel()
	const task = "ticket_printer"
	const login, open, closing = `{"name": "ticket_login", "args": {"username": "ann", "password": "x"}}`, `{"name": "create_ticket", "args": {"title": "printer"}}`, `{"name": "close_ticket", "args": {"ticket_id": 1}}`
	const look = `{"name": "get_ticket", "args": {"ticket_id": 1}}`
	tool := func(calls ...string) string { return "<tool>[" + strings.Join(calls, ", ") + "]</tool>" }
	many := func(n int, call string) string { return strings.Repeat(call+", ", n-1) + call }
	train := everything(t, env.Train, nil)
	all := everything(t, env.Test, func(s *Settings) { s.ToolUse.Test.Steps = 6 })
	for _, c := range []struct {
		what     string
		e        *Env
		said     []string // the last is said for ever
		steps    int
		reward   float64
		outcome  shard.Outcome
		feedback string
	}{
		{"right", train, []string{tool(login, open), taskFinished}, 2, 1, shard.OutcomeOK, "state and calls are right"},
		{"right and given up", train, []string{tool(login, open), taskError}, 2, 1, shard.OutcomeOK, "state and calls are right; the policy gave up"},
		{"right and never finished", train, []string{tool(login), tool(open), tool(look)}, 10, 1, shard.OutcomeOK, "state and calls are right; out of steps"},
		{"the last step counts", all, []string{tool(login, open), taskFinished, tool(look), taskFinished, tool(look), tool(closing)}, 6, 1, shard.OutcomeOK, "state and calls are right; out of steps"},
		{"finished at once", train, []string{taskFinished}, 1, 0, shard.OutcomeWrong, "the state is not that of the reference calls; reference calls are missing"},
		{"given up", train, []string{taskError}, 1, 0, shard.OutcomeWrong, "the state is not that of the reference calls; reference calls are missing; the policy gave up"},
		{"wrong order", train, []string{tool(open, login), taskFinished}, 2, 0, shard.OutcomeWrong, "the state is not that of the reference calls; reference calls are missing"},
		{"wrong order, one by one", train, []string{tool(open), tool(login), tool(open), taskFinished}, 4, 1, shard.OutcomeOK, "state and calls are right"},
		{"part", train, []string{tool(login), taskFinished}, 2, 0, shard.OutcomeWrong, "the state is not that of the reference calls; reference calls are missing"},
		{"one too many that changes nothing", train, []string{tool(login, open, look), taskFinished}, 2, 1, shard.OutcomeOK, "state and calls are right"},
		{"one too many that changes the state", train, []string{tool(login, open, open), taskFinished}, 2, 0, shard.OutcomeWrong, "the state is not that of the reference calls"},
		{"another argument", train, []string{tool(login, strings.Replace(open, "printer", "Printer", 1)), taskFinished}, 2, 0, shard.OutcomeWrong, "the state is not that of the reference calls; reference calls are missing"},
		{"malformed and then right", train, []string{"<tool>[{]</tool>", "<tool>[]</tool>", "x</tool>", tool("3", login), tool(login, open), taskFinished}, 6, 1, shard.OutcomeOK, "state and calls are right"},
		{"malformed for ever", train, []string{"<tool>oops</tool>"}, 10, 0, shard.OutcomeWrong, "the state is not that of the reference calls; reference calls are missing; out of steps"},
		{"no ending", train, []string{tool(login, open), "I am done."}, 2, 0, shard.OutcomeInvalid, "the last message ends neither in calls nor in <TASK_FINISHED> or <TASK_ERROR>"},
		{"a flood after the right calls", train, []string{tool(login, open, many(500, look)), taskFinished}, 2, 1, shard.OutcomeOK, "state and calls are right"},
		{"a flood before them", train, []string{tool(many(20, strings.Replace(login, "ann", "bob", 1)), login, open), taskFinished}, 2, 0, shard.OutcomeWrong, "the state is not that of the reference calls; reference calls are missing"},
		{"calls of a later turn", all, []string{tool(login, open, closing), taskFinished, taskFinished, taskFinished}, 4, 0, shard.OutcomeWrong, "reference calls are missing"},
		{"all turns", all, []string{tool(login, open), taskFinished, taskFinished, tool(closing), taskFinished}, 5, 1, shard.OutcomeOK, "state and calls are right"},
	} {
		p := play(t, c.e, task, opening(t, c.e, task), func(step int) string { return c.said[min(step, len(c.said)-1)] })
		steps := 0
		for _, m := range p.conversation {
			if m.Role == roleAssistant {
				steps++
			}
		}
		reason := string(c.outcome)
		for _, how := range []string{"the policy gave up", "out of steps"} {
			if strings.HasSuffix(c.feedback, "; "+how) {
				reason += ", " + how
			}
		}
		if c.outcome == shard.OutcomeInvalid {
			reason = "no valid ending"
		}
		if p.verdict.Reason != reason {
			t.Errorf("%s: reason %q, want %q", c.what, p.verdict.Reason, reason)
		}
		if v := p.verdict; v.Reward != c.reward || v.Outcome != c.outcome || v.Feedback != c.feedback || steps != c.steps {
			t.Errorf("%s: %d steps, reward %g, %s, %q; want %d, %g, %s, %q", c.what, steps, v.Reward, v.Outcome, v.Feedback, c.steps, c.reward, c.outcome, c.feedback)
		}
	}
	// Of a flood the first calls are executed, and the policy is told.
	p := play(t, train, task, opening(t, train, task), lines(tool(login, open, many(30, look)), taskFinished))
	if said := p.conversation[3].Content; !strings.HasSuffix(said, `"Error: 12 more of the calls were not made, for there may be 20 in one message."] </tool_result>`) {
		t.Errorf("a flood is answered with %s", said)
	}
}

// TestCut: an episode that the context had no more room for ends with results
// instead of a message of the policy, and is scored by what was done; one whose
// message was cut is invalid.
func TestCut(t *testing.T) {
	t.Parallel()
	e := everything(t, env.Train, nil)
	task, _ := e.Task("sum_0")
	calls := assistant(`<tool>[{"name": "add", "args": {"a": 2, "b": 3}}]</tool>`)
	begun, err := e.Begin(t.Context(), task, opening(t, e, "sum_0"))
	if err != nil {
		t.Fatal(err)
	}
	conversation := append(opening(t, e, "sum_0"), calls)
	answer, err := begun.Next(t.Context(), conversation, nil)
	if err != nil {
		t.Fatal(err)
	}
	conversation = append(conversation, answer.Messages...)
	v, err := e.Score(t.Context(), env.Attempt{Task: task, Messages: conversation, Own: env.Said(conversation, 0), Finish: "length"})
	if err != nil || v.Reward != 1 || v.Feedback != "state and calls are right; out of room" || v.Reason != "ok, out of room" {
		t.Errorf("%+v, %v", v, err)
	}
	v, err = e.Score(t.Context(), env.Attempt{Task: task, Messages: append(conversation, assistant("<reasoning>Now")), Own: env.Said(append(conversation, assistant("<reasoning>Now")), 0), Finish: "length"})
	if err != nil || v.Reward != 0 || v.Outcome != shard.OutcomeInvalid || !strings.HasSuffix(v.Feedback, "it was cut by the length limit") ||
		v.Reason != "no valid ending, out of room" {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := e.Score(t.Context(), env.Attempt{Task: task, Messages: opening(t, e, "sum_0"), Own: env.Said(opening(t, e, "sum_0"), 0), Finish: "length"}); exitcode.Code(err) != exitcode.Failed {
		t.Errorf("a silent policy: %v", err)
	}
}

// TestIterate: every prefix of an episode that ends with a message of the
// policy can be iterated on; the backend is brought back to where the prefix
// leaves it, and the prompts of earlier iterations leave no trace.
func TestIterate(t *testing.T) {
	t.Parallel()
	e := everything(t, env.Test, nil)
	const touch, echo, cat = `<tool>[{"name": "touch", "args": {"file_name": "home.txt"}}]</tool>`, `<tool>[{"name": "echo", "args": {"content": "hello", "file_name": "home.txt"}}]</tool>`, `<tool>[{"name": "cat", "args": {"file_name": "home.txt"}}]</tool>`
	task, _ := e.Task("file_home")
	said := []string{touch, taskFinished, echo, taskFinished, cat, taskFinished}
	whole := play(t, e, task.ID, opening(t, e, task.ID), lines(said...)).conversation
	request := []string{"Make the file home.txt.", "Make the file home.txt.", "Write hello into home.txt.", "Write hello into home.txt.", "Show home.txt.", "Show home.txt."}
	step := 0
	for i, m := range whole {
		if m.Role != roleAssistant {
			continue
		}
		prompt := must.Get(e.Prompt(task, shard.KindImprove, env.Parent{Messages: whole[:i+1]}))(t)
		want := slices.Clone(whole[:i])
		if want[i-1].Role == roleUser {
			want = want[:i-1]
		}
		want = append(want, shard.Message{Role: roleUser, Content: request[step] + " Not " + said[step] + "!"})
		if diff := cmp.Diff(want, prompt); diff != "" {
			t.Errorf("prompt of step %d (-want +got):\n%s", step, diff)
		}
		// The same message once more, and the rest of the episode.
		again := play(t, e, task.ID, prompt, lines(said[step:]...))
		if again.verdict.Reward != 1 {
			t.Errorf("from step %d: %+v", step, again.verdict)
		}
		// Iterated on again, the history is as if there had been no iteration.
		twice := must.Get(e.Prompt(task, shard.KindDiverge, env.Parent{Messages: again.conversation}))(t)
		want = append(slices.Clone(whole[:len(whole)-1]), shard.Message{Role: roleUser, Content: "Other than " + taskFinished + ": Show home.txt."})
		if diff := cmp.Diff(want, twice); diff != "" {
			t.Errorf("prompt after an iteration on step %d (-want +got):\n%s", step, diff)
		}
		step++
	}

	// Steps of the history count.
	short := everything(t, env.Test, func(s *Settings) { s.ToolUse.Test.Steps = 3 })
	prompt := must.Get(short.Prompt(task, shard.KindImprove, env.Parent{Messages: whole[:7]}))(t)
	begun := must.Get(short.Begin(t.Context(), task, prompt))(t)
	if answer, err := begun.Next(t.Context(), append(prompt, assistant(echo)), nil); err != nil || !answer.Over() {
		t.Errorf("after the third of three steps: %v, %v", answer, err)
	}
}

// TestHistoryMustReplay: results that do not come out again are an error of
// the data, as is a history that goes on after its end.
func TestHistoryMustReplay(t *testing.T) {
	t.Parallel()
	e := everything(t, env.Train, nil)
	task, _ := e.Task("sum_1")
	add := assistant(`<tool>[{"name": "add", "args": {"a": 4, "b": 4}}]</tool>`)
	results := func(text string) shard.Message { return shard.Message{Role: roleSystem, Content: text} }
	begin := func(more ...shard.Message) error {
		_, err := e.Begin(t.Context(), task, append(opening(t, e, task.ID), more...))
		return err
	}
	user := shard.Message{Role: roleUser, Content: "more"}
	if err := begin(add, results(`<tool_result> ["{\"result\": 8}"] </tool_result>`), user); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"another result": begin(add, results(`<tool_result> ["{\"result\": 9}"] </tool_result>`), user),
		"another role":   begin(add, shard.Message{Role: roleUser, Content: `<tool_result> ["{\"result\": 8}"] </tool_result>`}, user),
		"after the end":  begin(assistant(taskFinished), user, assistant(taskFinished), user),
		"ended already":  begin(assistant(taskError), user),
	} {
		if exitcode.Code(err) != exitcode.Data {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := e.Prompt(task, shard.KindImprove, env.Parent{Messages: append(opening(t, e, task.ID), assistant(taskFinished), user, assistant("x"))}); exitcode.Code(err) != exitcode.Data {
		t.Errorf("iterating on what comes after the end: %v", err)
	}
	if _, err := e.Prompt(task, shard.KindImprove, env.Parent{Messages: opening(t, e, task.ID)}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("iterating on nothing: %v", err)
	}
}

// TestStratify: halves of equal size, in which every stratum is split evenly,
// the same for a seed and others for another.
func TestStratify(t *testing.T) {
	t.Parallel()
	folder := small
	if _, err := os.Stat(filepath.Join("..", "..", "..", "..", "shared", "data", "bfcl")); err == nil {
		folder = shared(t)
	}
	problems, _ := must.Get2(readBFCL(folder))(t)
	ids := func(seed uint64) (all [2][]string, strata map[string]int) {
		strata = map[string]int{}
		halves := stratify(problems, rng.New(seed, rng.PurposeData, 0, "halves", 0))
		for i, split := range []env.Split{env.Train, env.Test} {
			for _, p := range halves[split] {
				all[i] = append(all[i], p.id)
				strata[fmt.Sprint(len(p.turns), p.kind)] += 1 - 2*i
			}
		}
		return all, strata
	}
	halves, strata := ids(1)
	if n := len(problems) / 2; len(halves[0]) != n || len(halves[1]) != n {
		t.Errorf("halves of %d and %d problems", len(halves[0]), len(halves[1]))
	}
	for name, difference := range strata {
		if math.Abs(float64(difference)) > 1 {
			t.Errorf("%s: %d more in one half", name, difference)
		}
	}
	again, _ := ids(1)
	other, _ := ids(2)
	if !cmp.Equal(halves, again) || cmp.Equal(halves, other) {
		t.Error("the seed does not decide")
	}
}

func TestBadHalves(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"train": ["sum_0", "sum_0"]}`: `names the task "sum_0" twice`,
		`{"test": ["chess"]}`:           `the task "chess", which there is not`,
		`[`:                             "halves.json",
	} {
		path := filepath.Join(t.TempDir(), "halves.json")
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := build(settings(small, path), Data{}, 1, ""); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := build(settings(small, "nowhere.json"), Data{}, 1, ""); exitcode.Code(err) != exitcode.Data {
		t.Errorf("no file of halves: %v", err)
	}
	if _, err := build(settings("nowhere", ""), Data{}, 1, ""); exitcode.Code(err) != exitcode.Data {
		t.Errorf("no folder: %v", err)
	}
}

// TestDemonstrations: what is demonstrated is right, whatever the kind and the
// draws, and iterates on right and on wrong messages.
func TestDemonstrations(t *testing.T) {
	t.Parallel()
	for _, split := range []env.Split{env.Train, env.Test} {
		e := everything(t, split, nil)
		wrong := 0
		for i, task := range e.Tasks(split) {
			for _, kind := range []shard.Kind{shard.KindInitial, shard.KindImprove, shard.KindDiverge} {
				for draw := range 4 {
					conversation, ok, err := e.Demonstration(task, kind, rng.New(1, rng.PurposeWarmStart, i, task.ID, draw))
					if !ok || err != nil {
						t.Fatalf("%s: no demonstration of %s: %v", task.ID, kind, err)
					}
					v, err := e.Score(t.Context(), env.Attempt{Task: task, Messages: conversation, Own: env.Said(conversation, 0), Finish: "stop"})
					if err != nil || v.Reward != 1 || v.Milestones[len(v.Milestones)-1] != "finished" {
						t.Errorf("%s, %s: %+v, %v", task.ID, kind, v, err)
					}
					if strings.Contains(roles(conversation), "Not <TASK_ERROR>!") {
						wrong++
					}
				}
			}
		}
		if wrong == 0 {
			t.Error("no demonstration mends a wrong message")
		}
	}
}
