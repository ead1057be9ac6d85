package mle

import (
	"context"
	"os"
	"path/filepath"
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
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

func TestMain(m *testing.M) {
	sandbox.Enter()
	os.Exit(m.Run())
}

// seeds is a small task: the kind of a seed is b where it is longer than 2.5.
// The answers of the test rows 4, 5 and 6 are a, b, b.
func seeds(t testing.TB, folder string) string {
	t.Helper()
	for name, text := range map[string]string{
		"task.yaml": "title: Kinds of seeds\nmetric: accuracy\ndirection: maximize\nid_column: id\ntarget_columns: [kind]\n" +
			"score_range: {worst: 0.5, best: 1}\nleaderboard: {of: reference}\nmodality: tabular\nlimits: {wall_seconds: 10, memory_mb: 256}\n",
		"description.md":               "Tell the kind of a seed from its length.",
		"public/train.csv":             "id,length,kind\n1,2,a\n2,3,b\n3,4,b\n",
		"public/test.csv":              "id,length\n4,2\n5,3\n6,5\n",
		"public/sample_submission.csv": "id,kind\n4,a\n5,a\n6,a\n",
		"private/answers.csv":          "id,kind\n4,a\n5,b\n6,b\n",
		"leaderboard.csv":              "rank,score\n1,1\n2,0.6\n3,0.4\n4,0.3\n",
	} {
		path := filepath.Join(folder, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return folder
}

// open is the environment over a folder of tasks.
func open(t *testing.T, change func(*Settings)) (*Env, env.Task) {
	t.Helper()
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("there is no /usr/bin/python3")
	}
	s := DefaultSettings()
	s.Program.Interpreter = "/usr/bin/python3"
	if missing := sandbox.Probe().Missing(s.Sandbox.Require); len(missing) > 0 {
		t.Skipf("this kernel does not give %s", strings.Join(missing, ", "))
	}
	return over(t, change)
}

// python3 is looked for once for all tests.
var python3 = sync.OnceValues(func() (interpreter, error) { return find("/usr/bin/python3", "") })

// over is the same where no program runs.
func over(t *testing.T, change func(*Settings)) (*Env, env.Task) {
	t.Helper()
	s := DefaultSettings()
	s.Program.Interpreter = "/usr/bin/python3"
	if change != nil {
		change(s)
	}
	e := must.Get(build(*s, Data{Tasks: []string{seeds(t, filepath.Join(t.TempDir(), "seeds"))}}, ""))(t)
	e.runner.interpreter = python3
	return e, e.Tasks(env.Train)[0]
}

// attempt is one in which the policy has said one thing.
func attempt(of env.Task, said string) env.Attempt {
	return env.Attempt{
		Task: of, Kind: shard.KindInitial, Finish: "stop", Own: []int{1},
		Messages: []shard.Message{{Role: "user", Content: "?"}, {Role: "assistant", Content: said}},
	}
}

const threshold = `import csv
rows = list(csv.DictReader(open("input/test.csv")))
with open("submission.csv", "w") as f:
    print("id,kind", file=f)
    for r in rows:
        print(r["id"] + "," + ("b" if float(r["length"]) > CUT else "a"), file=f)
print("validation: 0.75")
`

func program(cut string) string {
	return "First a plan.\n```python\n" + strings.ReplaceAll(threshold, "CUT", cut) + "```\n"
}

// TestScore: what becomes of a program is a score with one outcome, and
// nothing that it leaves behind is a submission unless it ended well.
func TestScore(t *testing.T) {
	t.Parallel()
	e, of := open(t, func(s *Settings) { s.Milestones = "submission"; s.Reward = "partial_credit" })
	submit := "open('submission.csv','w').write('id,kind\\n4,a\\n5,b\\n6,b\\n')\n"
	private := filepath.Join(filepath.Dir(e.entries[of.ID].folder), "seeds/private/answers.csv")
	for _, c := range []struct {
		what, said string
		outcome    shard.Outcome
		score      float64
		reward     float64 // −10 and 0.1 for each milestone, or the score
		feedback   string  // a part of it
	}{
		{"right", program("2.5"), shard.OutcomeOK, 1, 1, "validation: 0.75"},
		{"two of three", program("4"), shard.OutcomeOK, 0.66667, 0.66667, ""},
		{"no program", "I would take a forest.", shard.OutcomeInvalid, 0, -10, "no program"},
		{"a shell block is no program", "```bash\nls\n```", shard.OutcomeInvalid, 0, -10, "no program"},
		{"the last block counts", "```\nimport nothing\n```\n" + program("2.5"), shard.OutcomeOK, 1, 1, ""},
		{"thoughts do not count", "<think>\n```python\n1/0\n```\n</think>\n" + program("2.5"), shard.OutcomeOK, 1, 1, ""},
		{"fails", "```python\n1/0\n```", shard.OutcomeInvalid, 0, -10, "ZeroDivisionError"},
		{"does not parse", "```python\nif\n```", shard.OutcomeInvalid, 0, -10, "SyntaxError"},
		{"fails after it has submitted", "```python\n" + submit + "1/0\n```", shard.OutcomeInvalid, 0, -10, "exit code 1"},
		{"submits nothing", "```python\npass\n```", shard.OutcomeInvalid, 0, -10, "without a submission.csv"},
		{"other columns", "```python\nopen('submission.csv','w').write('a,b\\n1,2\\n')\n```", shard.OutcomeInvalid, 0, -9.8, `column "id" is missing`},
		{"other ids", "```python\nopen('submission.csv','w').write('id,kind\\n1,a\\n')\n```", shard.OutcomeInvalid, 0, -9.7, "not asked for"},
		{"an empty file", "```python\nopen('submission.csv','w')\n```", shard.OutcomeInvalid, 0, -9.9, "empty"},
		{"takes too much", "```python\nx = bytearray(400 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nimport time; time.sleep(1)\n```", shard.OutcomeInvalid, 0, -10, "memory"},
		{"ends itself", "```python\nimport os; os.kill(os.getpid(), 9)\n```", shard.OutcomeInvalid, 0, -10, "signal 9"},
		{"reads the answers", "```python\nprint(open('" + private + "').read())\n```", shard.OutcomeInvalid, 0, -10, "Error"},
		{"submits the answers by a link", "```python\nimport os; os.symlink('" + private + "', 'submission.csv')\n```", shard.OutcomeInvalid, 0, -10, "cannot be read"},
		{"submits the answers by a linked folder", "```python\nimport os; os.rmdir('submission'); os.symlink('" + filepath.Dir(private) + "', 'submission')\n```", shard.OutcomeInvalid, 0, -10, ""},
		{"submits a pipe", "```python\nimport os; os.mkfifo('submission.csv')\n```", shard.OutcomeInvalid, 0, -10, "Operation not permitted"},
		{"submits a folder", "```python\nimport os; os.mkdir('submission.csv')\n```", shard.OutcomeInvalid, 0, -10, "not a file"},
		{"leaves what is hard to delete", "```python\nimport os\n" + submit + "os.makedirs('a/b'); open('a/b/c','w'); os.chmod('a/b',0); os.chmod('a',0)\n```", shard.OutcomeOK, 1, 1, ""},
		{"says a deadline passed by a child", "```python\nimport os,time\nif os.fork()==0:\n os.setsid(); time.sleep(.3); " + strings.TrimSpace(submit) + "\n```", shard.OutcomeInvalid, 0, -10, "without a submission"},
		{"writes where AceGRPO says", "```python\nopen('submission/submission.csv','w').write('id,kind\\n4,a\\n5,b\\n6,b\\n')\n```", shard.OutcomeOK, 1, 1, ""},
		{"reads where ExIt says", "```python\nimport os\nprint(sorted(os.listdir(os.environ['PUBLIC_RESOURCE_PATH'])))\n```", shard.OutcomeInvalid, 0, -10, "['sample_submission.csv', 'test.csv', 'train.csv']"},
		{"says where it is", "```python\nimport os; print(os.getcwd(), object())\n```", shard.OutcomeInvalid, 0, -10, ". <object object at 0x…>"},
	} {
		v, err := e.Score(t.Context(), attempt(of, c.said))
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if v.Outcome != c.outcome || v.RawScore != c.score || v.Reward != c.reward || !strings.Contains(v.Feedback, c.feedback) {
			t.Errorf("%s: %s, score %v, reward %v, feedback:\n%s\nwant %s, %v, %v and %q", c.what, v.Outcome, v.RawScore, v.Reward, v.Feedback, c.outcome, c.score, c.reward, c.feedback)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "lathe-work-mle-*", "a", "b")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestTimeout: what a program submits before it is stopped does not count.
func TestTimeout(t *testing.T) {
	t.Parallel()
	e, of := open(t, func(s *Settings) { s.Limits.WallSeconds = 1 })
	v := must.Get(e.Score(t.Context(), attempt(of, "```python\nopen('submission.csv','w').write('id,kind\\n4,a\\n5,b\\n6,b\\n')\nwhile True: pass\n```")))(t)
	if v.Outcome != shard.OutcomeTimeout || v.RawScore != 0 || v.ExecuteSeconds < 1 || !strings.Contains(v.Feedback, "more than 1s") {
		t.Errorf("%s after %g s, score %g: %s", v.Outcome, v.ExecuteSeconds, v.RawScore, v.Feedback)
	}
}

// TestParts: two of three seeds are right. The board is 1, 0.6, 0.4, 0.3: one
// score is better, so p = 2 of N = 4.
func TestParts(t *testing.T) {
	t.Parallel()
	e, of := open(t, func(s *Settings) { s.Fingerprint = true })
	v := must.Get(e.Score(t.Context(), attempt(of, program("4"))))(t)
	want := []shard.RewardPart{
		{Name: env.PartValidation, Value: 0.75},
		{Name: partScore, Value: 0.66667},
		{Name: partHumanRank, Value: 0.5},
		{Name: partHumanRankMLEDojo, Value: 0.75},
		{Name: partAboveMedian, Value: 1},
		{Name: partMedal, Value: 0},
		{Name: partPartialCredit, Value: 0.66667},
	}
	if diff := cmp.Diff(want, v.Parts); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	// (0.66667 − 0.5) / (1 − 0.5)
	if got := v.NormalizedScore; got < 0.33333 || got > 0.33335 {
		t.Errorf("normalised score %v, want 0.33334", got)
	}
	if v.Fingerprint == "" {
		t.Error("it has no fingerprint")
	}
	blind := v.Blind()
	if blind.RawScore != 0 || blind.NormalizedScore != 0 || blind.Reward != 0 || len(blind.Parts) != 1 {
		t.Errorf("a blind verdict shows %+v", blind)
	}
	if score, ok := blind.Validation(); !ok || score != 0.75 {
		t.Errorf("a blind verdict's validation score is %v, %v", score, ok)
	}
}

// TestFeedbackTokens: what is said of a program is cut to the policy's tokens, its
// end first: what we say of it, then the end of the traceback.
func TestFeedbackTokens(t *testing.T) {
	t.Parallel()
	e, _ := open(t, func(s *Settings) { s.Feedback.MaxTokens = 40 })
	bytes := must.Get(tokenizer.NewBytes(nil, tokenizer.Roles{}))(t)
	output := strings.Repeat("epoch 1\n", 100) + "ValueError: no\n"
	if got := e.feedback(output, "It ended."); len([]rune(got)) != 1+4*40 || !strings.HasSuffix(got, "epoch 1\nValueError: no\nIt ended.") {
		t.Errorf("without a policy %d characters, want four for each of 40 tokens: %q", len([]rune(got)), got)
	}
	e.CutBy(bytes.Tail)
	for trouble, want := range map[string]string{ // the ellipsis has three bytes
		"":          "…poch 1\nepoch 1\nepoch 1\nValueError: no",
		"It ended.": "…ch 1\nepoch 1\nValueError: no\nIt ended.",
	} {
		if got := e.feedback(output, trouble); got != want || len(got) != 40 {
			t.Errorf("trouble %q: %q of %d bytes, want %q", trouble, got, len(got), want)
		}
	}
}

func TestTerminalMilestones(t *testing.T) {
	t.Parallel()
	e, of := open(t, func(s *Settings) { s.Milestones, s.Reward = "terminal", "partial_credit" })
	v := must.Get(e.Score(t.Context(), attempt(of, "```python\nprint('imported packages')\nprint('epoch 1 training loss: 0.5')\nprint('training loss: 0.4')\nprint('Loaded Data')\nprint('trained model')\nfor i in range(9999): print('[Warning] no further splits')\n1/0\n```")))(t)
	if want := []string{"imported packages", "training loss:", "trained model"}; !slices.Equal(v.Milestones, want) || v.Reward != -9.7 {
		t.Errorf("milestones %q, reward %v; want %q and −10 + 3 × 0.1", v.Milestones, v.Reward, want)
	}
}

// TestInstrument: a program that fails on its way has the credit of as far as it
// came, by prints that it did not write itself.
func TestInstrument(t *testing.T) {
	t.Parallel()
	e, of := open(t, func(s *Settings) { s.Milestones, s.Reward, s.Instrument = "terminal", "partial_credit", "rules" })
	v := must.Get(e.Score(t.Context(), attempt(of, "```python\nimport csv\nrows = list(csv.DictReader(open('input/train.csv')))\n1/0\n```")))(t)
	if want := []string{"imported packages", "loaded data"}; !slices.Equal(v.Milestones, want) || v.Reward != -9.8 || !strings.Contains(v.Extracted, "1/0") || strings.Contains(v.Extracted, "print") {
		t.Errorf("milestones %q, reward %v, program\n%s\nwant %q, −10 + 2 × 0.1 and the policy's own program", v.Milestones, v.Reward, v.Extracted, want)
	}
}

// TestAssistant: what the assistant makes of a program runs in its place if it
// differs by prints alone, and else the program itself does.
func TestAssistant(t *testing.T) {
	t.Parallel()
	const program = "import csv\nrows = list(csv.DictReader(open('input/train.csv')))\n1/0\n"
	const instrumented = "import csv\nprint('imported packages')\nrows = list(csv.DictReader(open('input/train.csv')))\nprint('loaded data')\n1/0\n"
	for _, c := range []struct {
		name, answer string
		cut          bool
		err          error
		milestones   []string
	}{
		{"prints alone", "Here it is:\n```python\n" + instrumented + "```\n", false, nil, []string{"imported packages", "loaded data"}},
		{"a mended program", "```python\nprint('imported packages')\nprint('loaded data')\nprint('trained model')\n```", false, nil, nil},
		{"prints that claim", "```python\n" + strings.Replace(instrumented, "1/0", "pass", 1) + "```", false, nil, nil},
		{"no program", "I cannot do that.", false, nil, nil},
		{"cut off", "```python\n" + instrumented + "```", true, nil, nil},
		{"no answer", "", false, exitcode.Unavailablef("the server is down"), nil},
	} {
		e, of := open(t, func(s *Settings) { s.Milestones, s.Reward, s.Instrument = "terminal", "partial_credit", "assistant" })
		e.Assist(func(_ context.Context, messages []shard.Message) (string, bool, error) {
			if len(messages) != 1 || !strings.HasSuffix(messages[0].Content, "for this python script: "+program) {
				t.Errorf("%s: the assistant was asked %q", c.name, messages)
			}
			return c.answer, c.cut, c.err
		})
		v, err := e.Score(t.Context(), attempt(of, "```python\n"+program+"```"))
		if c.err != nil {
			if exitcode.Code(err) != exitcode.Unavailable {
				t.Errorf("%s: error %v", c.name, err)
			}
			continue
		}
		if err != nil || !slices.Equal(v.Milestones, c.milestones) || v.Extracted != program {
			t.Errorf("%s: milestones %q, program %q, error %v; want %q and the policy's own program", c.name, v.Milestones, v.Extracted, err, c.milestones)
		}
	}
}

// trace plays a scripted policy: what it says in each turn, over as many waves as
// it takes. It returns the prompts, one for each turn, as the policy reads them.
func trace(t *testing.T, e *Env, of env.Task, says func(turn int) string, blind bool) (prompts []string, verdicts []env.TurnVerdict, waves int) {
	t.Helper()
	ctx := context.Background()
	prompt, err := e.Prompt(of, shard.KindInitial, env.Parent{})
	if err != nil {
		t.Fatal(err)
	}
	conversation, own := slices.Clone(prompt), []int{}
	last := prompt
	for turn := 0; ; turn++ {
		prompts = append(prompts, last[len(last)-1].Content)
		own = append(own, len(conversation))
		conversation = append(conversation, shard.Message{Role: "assistant", Content: says(turn)})
		episode, err := e.Begin(ctx, of, conversation) // anew in each turn, as after a wave
		if err != nil {
			t.Fatal(err)
		}
		step, err := episode.Next(ctx, conversation, nil)
		if err == nil && step.Wait {
			waves++
			v, scoreErr := e.Score(ctx, env.Attempt{Task: of, Messages: conversation, Own: own, Finish: "stop", Earlier: verdicts})
			if scoreErr != nil {
				t.Fatal(scoreErr)
			}
			verdicts = v.Turns
			seen := v.TurnVerdict
			if blind {
				seen = seen.Blind()
			}
			step, err = episode.Next(ctx, conversation, &seen)
		}
		if err != nil {
			t.Fatal(err)
		}
		if step.Over() {
			v := must.Get(e.Score(ctx, env.Attempt{Task: of, Messages: conversation, Own: own, Finish: "stop", Earlier: verdicts}))(t)
			return prompts, v.Turns, waves
		}
		last = step.Messages
		conversation = append(conversation, step.Messages...)
	}
}

// TestTransitions: a draft that fails is debugged, one that works is improved
// on (AceGRPO §4.1, the operator Φ), turn after turn.
func TestTransitions(t *testing.T) {
	t.Parallel()
	says := func(turn int) string {
		if turn%3 == 0 {
			return "A plan.\n```python\nprint('turn', " + string(rune('0'+turn%10)) + ")\n1/0\n```"
		}
		return program([]string{"4", "2.5"}[turn%2])
	}
	for style, debug := range map[string]string{ // AceGRPO's prompts remember, which takes a second round to see
		"ExIt": "Your goal is to debug this python script", "AceGRPO": "Your previous solution had a bug", "MLE-agents": "You have implemented a previous solution.", "short": "seeds accuracy debug",
	} {
		turns := map[bool]int{true: 7, false: 3}[style == "AceGRPO"]
		e, of := open(t, func(s *Settings) { s.Style, s.MaxTurns = style, turns })
		prompts, verdicts, waves := trace(t, e, of, says, false)
		if len(prompts) != turns || len(verdicts) != turns || waves != turns-1 {
			t.Fatalf("%s: %d turns, %d verdicts, %d waves between them; want %d, and one wave less", style, len(prompts), len(verdicts), waves, turns)
		}
		for turn, prompt := range prompts[1:] {
			failed := turn%3 == 0
			if failed != (verdicts[turn].Outcome == shard.OutcomeInvalid) {
				t.Errorf("%s turn %d: %s", style, turn, verdicts[turn].Outcome)
			}
			if style != "MLE-agents" && failed != strings.Contains(prompt, debug) {
				t.Errorf("%s: after turn %d, which failed: %v, the prompt is\n%s", style, turn, failed, prompt)
			}
			if failed && style != "short" && !strings.Contains(prompt, "ZeroDivisionError") {
				t.Errorf("%s: after turn %d the prompt does not show what happened:\n%s", style, turn, prompt)
			}
			if style == "AceGRPO" && !failed {
				// A prompt to debug remembers nothing, so of three turns the second
				// begins a memory and the third adds to it.
				if got := strings.Count(prompt, "### Execution output"); got != turn%3 {
					t.Errorf("after turn %d the prompt remembers %d solutions, want %d", turn, got, turn%3)
				}
			}
		}
	}
}

// TestActions plays MLE-Dojo's actions, 15 turns, and masks nothing: what is
// invalid is said to be.
func TestActions(t *testing.T) {
	t.Parallel()
	good := strings.NewReplacer("\\", `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ReplaceAll(threshold, "CUT", "2.5"))
	script := []string{
		`{"action": "request_info", "params": {"info_type": "all"}}`,
		`{"action": "request_info", "params": {"info_type": "everything"}}`,
		`{"action": "validate_code", "params": {"code": "import nothing"}}`,
		`{"action": "validate_code", "params": {"code": "print(1)"}}`,
		"```json\n" + `{"action": "execute_code", "params": {"code": "` + good + `"}}` + "\n```",
		`I think {"action": "execute_code"}`,
		`{"action": "execute_code", "params": {"code": "1/0"}}`,
		`{"action": "execute_code", "params": {"code": ""}}`,
		`{"action": "request_info", "params": {"info_type": "name"}} {}`,
	}
	e, of := open(t, func(s *Settings) { s.Style, s.MaxTurns = "MLE-Dojo", 15 })
	prompts, verdicts, waves := trace(t, e, of, func(turn int) string { return script[turn%len(script)] }, true)
	if len(prompts) != 15 || waves != 7 { // turns 2, 3, 4, 6 and then 11, 12 and 13; the last needs none
		t.Fatalf("%d turns and %d waves between them, want 15 and 7", len(prompts), waves)
	}
	wants := []struct {
		outcome shard.Outcome
		next    string // in the message that follows
	}{
		{shard.OutcomeWrong, "Tell the kind of a seed"},
		{shard.OutcomeInvalid, `no info_type "everything"`},
		{shard.OutcomeWrong, "ModuleNotFoundError"},
		{shard.OutcomeWrong, "1\n"},
		{shard.OutcomeOK, "The submission is valid.\nIts validation score was 0.75."},
		{shard.OutcomeInvalid, "not one JSON object"},
		{shard.OutcomeInvalid, "ZeroDivisionError"},
		{shard.OutcomeInvalid, "needs a program"},
		{shard.OutcomeInvalid, "more than one JSON object"},
	}
	for turn, v := range verdicts {
		want := wants[turn%len(wants)]
		if _, credited := v.Part(partPartialCredit); v.Outcome != want.outcome || !credited {
			t.Errorf("turn %d: %s, want %s: %s", turn, v.Outcome, want.outcome, v.Feedback)
		}
		if turn+1 < len(prompts) && !strings.Contains(prompts[turn+1], want.next) {
			t.Errorf("turn %d is answered\n%s\nwant %q in it", turn, prompts[turn+1], want.next)
		}
	}
	if verdicts[0].ExecuteSeconds != 0 || verdicts[3].ExecuteSeconds == 0 {
		t.Error("seconds of programs: a request has some, or a program none")
	}
}

// TestBlind: no prompt of an evaluation depends on the held-out answers, even
// where the recipe would tell the rank.
func TestBlind(t *testing.T) {
	t.Parallel()
	says := func(int) string { return program("4") }
	var seen [2][]string
	for i, answers := range []string{"id,kind\n4,a\n5,b\n6,b\n", "id,kind\n4,b\n5,a\n6,a\n"} {
		e, of := open(t, func(s *Settings) { s.Style, s.MaxTurns, s.Feedback.Score = "AceGRPO", 3, "rank" })
		folder := e.entries[of.ID].folder
		must.Do(t, os.WriteFile(filepath.Join(folder, "private/answers.csv"), []byte(answers), 0o644))
		again := must.Get(build(e.settings, Data{Tasks: []string{folder}}, ""))(t)
		again.runner.interpreter = python3
		told, _, _ := trace(t, again, of, says, false)
		if want := []string{"place on the leaderboard was 2 of 4", "place on the leaderboard was 4 of 4"}[i]; !strings.Contains(told[1], want) {
			t.Errorf("in training the prompt does not say %q:\n%s", want, told[1])
		}
		seen[i], _, _ = trace(t, again, of, says, true)
	}
	if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
		t.Errorf("prompts of an evaluation depend on the answers:\n%s", diff)
	}
}

// build is the environment of data.
func build(settings Settings, data Data, folder string) (*Env, error) {
	tasks, err := load(&data, folder)
	if err != nil {
		return nil, err
	}
	return fromTasks(&settings, tasks)
}

// rebuild is the environment of rows.
func rebuild(settings Settings, rows []shard.TaskRow) (*Env, error) {
	return fromTasks(&settings, env.TasksOf(Name, rows))
}
