package program

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/sandbox"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// This binary is also the programs that it tests: its first word says so, since a
// program has no more of our environment than it must.
func TestMain(m *testing.M) {
	sandbox.Enter()
	if len(os.Args) > 2 && os.Args[1] == "play" {
		play(os.Args[2:])
		return
	}
	os.Exit(m.Run())
}

// settings are those of a program of this binary.
func settings(t *testing.T, words ...string) Settings {
	t.Helper()
	self := must.Get(os.Executable())(t)
	s := *DefaultSettings()
	s.Program.Command = append([]string{self, "play"}, words...)
	return s
}

// open makes an environment whose programs end with the test.
func open(t *testing.T, s Settings, lines ...string) *Env {
	t.Helper()
	folder := t.TempDir()
	var data Data
	data.Train.SetDefaults()
	data.Test.SetDefaults()
	if len(lines) > 0 {
		must.Do(t, os.WriteFile(filepath.Join(folder, "t.jsonl"), []byte(strings.Join(lines, "\n")), 0o600))
		data.Train.Files = []string{"t.jsonl"}
	}
	e := must.Get(build(s, data, 1, folder))(t)
	t.Cleanup(e.Close)
	return e
}

// said is an attempt of one answer.
func said(e *Env, i int, text string) env.Attempt {
	task := e.Tasks(env.Train)[i]
	prompt, _ := e.Prompt(task, shard.KindInitial, env.Parent{})
	messages := append(prompt, shard.Message{Role: "assistant", Content: text})
	return env.Attempt{Task: task, Kind: shard.KindInitial, Messages: messages, Own: []int{len(messages) - 1}, Finish: "stop"}
}

// Verdicts of every form come through: a bare reward, parts, texts, an outcome.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	e := open(t, settings(t, "echo"), `{"prompt": "q", "answer": [1, 2], "own": {"x": 1.50}}`)
	for _, c := range []struct {
		text string
		want env.TurnVerdict
	}{
		{`{"reward": 1}`, env.TurnVerdict{Outcome: shard.OutcomeOK, RawScore: 1, NormalizedScore: 1, Reward: 1}},
		{`{"reward": 2.5}`, env.TurnVerdict{Outcome: shard.OutcomeOK, RawScore: 2.5, NormalizedScore: 1, Reward: 2.5}},
		{`{"reward": -3}`, env.TurnVerdict{Outcome: shard.OutcomeWrong, RawScore: -3, Reward: -3}},
		{`{"reward": 4, "score": 0.5, "parts": {"b": 1, "a": 3}}`, env.TurnVerdict{
			Outcome: shard.OutcomeWrong, RawScore: 4, NormalizedScore: 0.5, Reward: 4, Parts: []shard.RewardPart{{Name: "a", Value: 3}, {Name: "b", Value: 1}},
		}},
		{`{"reward": 0, "outcome": "invalid", "feedback": "f", "extracted": "x", "milestones": ["m"], "seconds": 2}`, env.TurnVerdict{
			Outcome: shard.OutcomeInvalid, Feedback: "f", Extracted: "x", Milestones: []string{"m"}, ExecuteSeconds: 2,
		}},
	} {
		v, err := e.Score(t.Context(), said(e, 0, c.text))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if diff := cmp.Diff(c.want, v.TurnVerdict); diff != "" {
			t.Errorf("%s: %s", c.text, diff)
		}
	}
	// The columns are the line's, every number as it was written.
	v, err := e.Score(t.Context(), said(e, 0, "columns"))
	if want := `{"answer":[1,2],"own":{"x":1.50},"prompt":"q"}`; err != nil || v.Feedback != want {
		t.Errorf("the program sees %s, want %s: %v", v.Feedback, want, err)
	}
}

// misbehaviour is what the error of a program that misbehaves says.
var misbehaviour = map[string]string{
	"exit":         "ended: exit code 0",
	"exit3":        "ended: exit status 3; its last words: ValueError: the bank is empty",
	"kill":         "ended: signal: killed",
	"hang":         "did not answer within 1.5s; its last words: waiting for a server",
	"stop":         "did not answer within 1.5s",
	"close":        "ended: signal: killed",
	"garbage":      "answered request N with Traceback",
	"binary":       "answered request N with",
	"nan":          "answered request N with",
	"infinity":     "answered request N with",
	"nantext":      `cannot score: it answered {"reward":"nan"}`,
	"null":         `cannot score: it answered {"reward":null}: want {"reward": a number}`,
	"empty":        `cannot score: it answered {}: want {"reward": a number}`,
	"text":         `cannot score: it answered "good"`,
	"few":          `answered 1 item of "score" with []`,
	"many":         `answered 1 item of "score" with`,
	"object":       `answered 1 item of "score" with {"reward":1}`,
	"otherid":      "answered request N with",
	"noid":         "answered request N with",
	"textid":       "answered request N with",
	"both":         "answered request N with",
	"neither":      "answered request N with",
	"partial":      `in the middle of an answer, {"id": N, "res`,
	"partialhang":  "did not answer within 1.5s",
	"blank":        "answered request N with : one line",
	"endless":      "its answer has more than 16777216 bytes",
	"floodlines":   "answered request N with y",
	"flooderr":     "its last words: end of the flood",
	"taskline":     "answered request N with {}",
	"range":        "score must be from 0 to 1",
	"outcome":      "outcome must be ok, wrong, invalid or timeout",
	"slip":         `there is no field "feedbak": the fields are error, reward, score,`,
	"turns":        "it has scores for 3 of 1 messages",
	"parts":        "there may be 64 parts",
	"partnan":      "cannot score: it answered",
	"huge":         "cannot score: it answered",
	"deep":         "answered request N with",
	"itemerror":    "cannot score: KeyError: 'solution' (reward.py:7)",
	"error":        "cannot score: everything is wrong",
	"orphan":       "ended: exit code 0",
	"sleeper":      "did not answer within 1.5s",
	"negativetime": "seconds must be 0 or more",
	"longname":     "the name of a part has 1 to 100 bytes",
}

// numbers are those of requests.
var numbers = regexp.MustCompile(`(request |"id": "?)[0-9]+`)

// TestMisbehaviour: whatever a program does over one response, that response is our
// failure with one clear line, nothing hangs, and those beside and after it have
// their scores.
func TestMisbehaviour(t *testing.T) {
	t.Parallel()
	if len(misbehaviour) < 40 {
		t.Errorf("%d programs misbehave, want 40", len(misbehaviour))
	}
	for mode, want := range misbehaviour {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := settings(t, "bad", mode)
			s.Program.Processes = 1
			if strings.Contains(want, "1.5s") {
				s.Program.Seconds = 1.5
			}
			e := open(t, s, `{"prompt": "1", "answer": ""}`, `{"prompt": "2", "answer": ""}`, `{"prompt": "3", "answer": ""}`)
			score := func(i int, text string) {
				v, err := e.Score(t.Context(), said(e, i, text))
				switch {
				case text == "fine" && (err != nil || v.Reward != 0.5):
					t.Errorf("a response beside it: reward %v, %v", v.Reward, err)
				case text == "bad" && (err == nil || !strings.Contains(numbers.ReplaceAllString(err.Error(), "${1}N"), want)):
					t.Errorf("got %v, want %s", err, want)
				case text == "bad" && strings.Contains(err.Error(), "\n"):
					t.Errorf("more than one line: %q", err)
				case text == "bad" && exitcode.Code(err) != exitcode.Failed:
					t.Errorf("exit code %d: a response that failed ends the others too", exitcode.Code(err))
				}
			}
			var all sync.WaitGroup
			for i, text := range []string{"fine", "bad", "fine"} {
				all.Go(func() { score(i, text) })
			}
			all.Wait()
			score(0, "fine")
		})
	}
}

// A program that goes on talking after an answer is ended before it is asked again,
// and given up when it does so always.
func TestTalks(t *testing.T) {
	t.Parallel()
	s := settings(t, "bad", "twice")
	s.Program.Processes = 1
	e := open(t, s, `{"prompt": "1", "answer": ""}`)
	var last error
	for i := range mostInARow + 2 {
		v, err := e.Score(t.Context(), said(e, 0, "bad"))
		if err == nil && v.Reward != 0.5 || err != nil && i < mostInARow/2 {
			t.Errorf("verdict %d: reward %v, %v", i, v.Reward, err)
		}
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), "printed more than was requested") {
		t.Errorf("after %d verdicts: %v", mostInARow+2, last)
	}
}

// Programs that cannot be used are refused before anything is made.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		words []string
		turns int
		want  string
		code  int
	}{
		{[]string{"start", "crash"}, 1, "ended: exit status 1; its last words: ModuleNotFoundError: No module named 'torch'", exitcode.Unavailable},
		{[]string{"start", "protocol"}, 1, `want {"protocol": 1, "does": […]}`, exitcode.Unavailable},
		{[]string{"start", "error"}, 1, "cannot start: no licence", exitcode.Unavailable},
		{[]string{"start", "noscore"}, 1, "does not score (score)", exitcode.Data},
		{[]string{"echo"}, 3, "answers no messages", exitcode.Usage},
		{[]string{"start", "hang"}, 1, "did not answer within 500ms", exitcode.Unavailable},
		{[]string{"start", "twice"}, 1, `the id "train/a" is that of line 1 too`, exitcode.Data},
		{[]string{"start", "notask"}, 1, `task 1 of split "train": no field "prompt"`, exitcode.Data},
		{[]string{"start", "assistant"}, 1, `field "prompt" asks nothing`, exitcode.Data},
		{[]string{"start", "slip"}, 1, `there is no field "answer", and "anwser" is too like it`, exitcode.Data},
		{[]string{"start", "toolcalls"}, 1, `field "prompt", message 2 has "tool_calls"`, exitcode.Data},
		{[]string{"start", "midway"}, 1, "asking for the tasks", exitcode.Unavailable},
	} {
		s := settings(t, c.words...)
		s.Program.MaxTurns, s.Program.StartSeconds = c.turns, 20
		if slices.Contains(c.words, "hang") {
			s.Program.StartSeconds = 0.5
		}
		var data Data
		data.Train.SetDefaults()
		data.Test.SetDefaults()
		_, err := build(s, data, 1, t.TempDir())
		if err == nil || !strings.Contains(err.Error(), c.want) || exitcode.Code(err) != c.code {
			t.Errorf("%v: %v (exit code %d), want %s (%d)", c.words, err, exitcode.Code(err), c.want, c.code)
		}
	}
	s := settings(t)
	s.Program.Command = []string{"./there-is-none"}
	if _, err := build(s, Data{}, 1, t.TempDir()); exitcode.Code(err) != exitcode.Unavailable {
		t.Errorf("no program: %v", err)
	}
}

// A program that fails at every request is given up, however many there are.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	s := settings(t, "bad", "exit3")
	s.Program.Processes = 2
	e := open(t, s, `{"prompt": "1", "answer": ""}`)
	var last error
	for range mostInARow + 5 {
		_, last = e.Score(t.Context(), said(e, 0, "bad"))
	}
	if last == nil || !strings.Contains(last.Error(), "32 requests in a row failed; the last: the program") {
		t.Errorf("after %d failures: %v", mostInARow+5, last)
	}
}

// Tasks come from the program, and back from their rows to the same environment,
// seeds and messages included, without a program.
func TestTasksOfTheProgram(t *testing.T) {
	t.Parallel()
	s := settings(t, "game")
	s.Program.MaxTurns = 8
	e := open(t, s)
	if n, m := len(e.Tasks(env.Train)), len(e.Tasks(env.Test)); n != 5 || m != 3 {
		t.Fatalf("%d and %d tasks, want 5 and 3", n, m)
	}
	rows := e.Rows()
	again, err := fromTasks(&Settings{Program: Program{Command: []string{"./there-is-none"}}}, env.TasksOf(Name, rows), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range append(e.Tasks(env.Train), e.Tasks(env.Test)...) {
		was, errWas := e.known(task)
		is, errIs := again.known(task)
		if diff := cmp.Diff(was.source, is.source); diff != "" || errWas != nil || errIs != nil {
			t.Errorf("%s: %v, %v: %s", task.ID, errWas, errIs, diff)
		}
		prompt, err := again.Prompt(task, shard.KindInitial, env.Parent{})
		if err != nil || len(prompt) != 2 || prompt[0].Role != "system" {
			t.Errorf("%s is asked by %v: %v", task.ID, prompt, err)
		}
	}
	again, err = build(s, Data{}, 2, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	was, _ := e.Facts("train/0")
	if is, _ := again.Facts("train/0"); is.Source == was.Source {
		t.Error("another seed of the run gives the same seed of a task")
	}
}

// A sandboxed program scores, and sees no file but what it was granted.
func TestCage(t *testing.T) {
	t.Parallel()
	s := settings(t, "cage")
	s.Program.Sandbox = &Sandbox{Require: []string{sandbox.Files}}
	if err := sandbox.Probe().Require(s.Program.Sandbox.Require); err != nil {
		t.Skipf("no sandbox here: %v", err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(secret, []byte("x"), 0o600))
	e := open(t, s, `{"prompt": "q", "answer": ""}`)
	for text, want := range map[string]float64{"t.jsonl": 1, secret: 0} {
		v, err := e.Score(t.Context(), said(e, 0, text))
		if err != nil || v.Reward != want {
			t.Errorf("reading %s: reward %v, %v, want %v", text, v.Reward, err, want)
		}
	}
	if _, err := e.Score(t.Context(), said(e, 0, "exit")); err == nil || !strings.Contains(err.Error(), "ended: exit code 4; its last words: out of luck") {
		t.Errorf("got %v", err)
	}
}

// Later prompts keep what was said before the request that they take the place of.
func TestPrompts(t *testing.T) {
	t.Parallel()
	s := settings(t, "echo")
	s.Prompts = Prompts{System: "Be brief.", Initial: "Q: {question}", Improve: "{instruction} | {previous_response}", Diverge: "not {previous_response}"}
	e := open(t, s, `{"prompt": "1+1?", "answer": "2"}`)
	task := e.Tasks(env.Train)[0]
	first := must.Get(e.Prompt(task, shard.KindInitial, env.Parent{}))(t)
	said := append(slices.Clone(first), shard.Message{Role: "assistant", Content: "{question}3"})
	for kind, want := range map[shard.Kind]string{shard.KindInitial: "Q: 1+1?", shard.KindImprove: "Q: 1+1? | {question}3", shard.KindDiverge: "not {question}3"} {
		parent := env.Parent{}
		if kind != shard.KindInitial {
			parent.Messages = said
		}
		got, err := e.Prompt(task, kind, parent)
		if diff := cmp.Diff([]shard.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: want}}, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", kind, err, diff)
		}
	}
}

// A prompt that ends with a message of the assistant is the beginning of the
// response, which a reward is shown as one message.
func TestBegunResponse(t *testing.T) {
	t.Parallel()
	s := settings(t, "echo")
	s.Prompts.Improve = "{instruction} | {previous_response}"
	e := open(t, s, `{"prompt": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "It is "}], "answer": "It is 2", "response": "2"}`)
	task := e.Tasks(env.Train)[0]
	if task.Question != "1+1?" {
		t.Errorf("the question is %q", task.Question)
	}
	user := shard.Message{Role: "user", Content: "1+1?"}
	begun := []shard.Message{user, {Role: "assistant", Content: "It is "}}
	first, err := e.Prompt(task, shard.KindInitial, env.Parent{})
	if diff := cmp.Diff(begun, first); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	said, prompt := env.Answer(first, len(first), "2")
	whole := []shard.Message{user, {Role: "assistant", Content: "It is 2"}}
	if diff := cmp.Diff(whole, said); prompt != 1 || diff != "" {
		t.Errorf("a prompt of %d: %s", prompt, diff)
	}
	if diff := cmp.Diff(begun, first); diff != "" {
		t.Errorf("the prompt has changed: %s", diff)
	}
	if n := e.opening(task, said); n != 1 {
		t.Errorf("%d messages open the episode, want 1", n)
	}
	improve, err := e.Prompt(task, shard.KindImprove, env.Parent{Messages: said})
	if diff := cmp.Diff([]shard.Message{{Role: "user", Content: "1+1? | It is 2"}}, improve); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// FuzzVerdict: whatever a program says is a score with finite numbers or an error.
func FuzzVerdict(f *testing.F) {
	for _, text := range []string{`{"reward": 1}`, `{"reward": 1e308, "score": 0.5, "turns": [{"reward": 0}]}`, `[]`, `{"reward": "1"}`, `{"parts": {"a": 1}}`} {
		f.Add(text)
	}
	a := env.Attempt{Own: []int{1}}
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			return
		}
		v, err := readVerdict(json.RawMessage(text), a)
		if err == nil && (len(v.Turns) != 1 || !(v.NormalizedScore >= 0 && v.NormalizedScore <= 1) || !v.Outcome.Policys()) {
			t.Errorf("%s is the verdict %+v", text, v)
		}
	})
}

// A row whose source cannot be read is refused when the rows are, by name.
func TestDamagedRow(t *testing.T) {
	t.Parallel()
	_, err := fromTasks(&Settings{Program: Program{Command: []string{"./there-is-none"}}}, env.TasksOf(Name, []shard.TaskRow{{TaskID: "a", Split: "train", Source: "{"}}), t.TempDir())
	if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), `task "a": its source`) {
		t.Errorf("error %v", err)
	}
}

// build is the environment of data.
func build(settings Settings, data Data, seed uint64, folder string) (*Env, error) {
	tasks, err := load(&settings, &data, seed, folder)
	if err != nil {
		return nil, err
	}
	return fromTasks(&settings, tasks, folder)
}
