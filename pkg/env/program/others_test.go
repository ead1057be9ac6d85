package program

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// pythonWith is a Python of LATHE_TEST_ENVIRONMENTS, a list as that of PATH, that has a package.
func pythonWith(t *testing.T, module string) string {
	t.Helper()
	for _, python := range filepath.SplitList(os.Getenv("LATHE_TEST_ENVIRONMENTS")) {
		if exec.Command(python, "-c", "import "+module).Run() == nil {
			return python
		}
	}
	t.Skip("LATHE_TEST_ENVIRONMENTS names no Python with " + module)
	return ""
}

// others is an environment of another project, by lathe_env.py.
func others(t *testing.T, python string, turns int, words ...string) *Env {
	t.Helper()
	s := *DefaultSettings()
	shim := must.Get(filepath.Abs("../../../data/program/lathe_env.py"))(t)
	s.Program.Command, s.Program.MaxTurns, s.Program.Processes = append([]string{python, shim, "--tasks", "16"}, words...), turns, 1
	var data Data
	data.Train.SetDefaults()
	data.Test.SetDefaults()
	e := must.Get(build(s, data, 1, t.TempDir()))(t)
	t.Cleanup(e.Close)
	return e
}

// standInGym is as much of reasoning-gym as lathe_env.py calls: sums of two numbers.
const standInGym = `
import random, re, types

class Sums:
    def __init__(self, size, seed):
        numbers = [random.Random(seed + i) for i in range(size)]
        self.entries = [dict(question=f"{a}+{b}?", answer=str(a + b), metadata=dict(source_dataset="sums", pair=(a, b))) for a, b in ((n.randrange(10**6), n.randrange(10**6)) for n in numbers)]
    def __len__(self):
        return len(self.entries)
    def __getitem__(self, i):
        return self.entries[i]
    def score_answer(self, answer, entry):
        return 1.0 if answer == str(sum(entry["metadata"]["pair"])) else 0.01
def create_dataset(name, size, seed):
    return Sums(size, seed)
`

// checkGym holds tasks of a data set of reasoning-gym to what they are: as many as asked for,
// other ones held out, and a right answer, in tags or alone, is worth 1.
func checkGym(t *testing.T, e *Env) {
	t.Helper()
	train, test := e.Tasks(env.Train), e.Tasks(env.Test)
	if len(train) != 16 || len(test) != 4 || train[0].Question == test[0].Question {
		t.Fatalf("%d and %d tasks; %q and %q", len(train), len(test), train[0].Question, test[0].Question)
	}
	if shown, ok, err := e.Demonstration(train[3], shard.KindInitial, rng.Stream{}); err != nil || !ok || shown[len(shown)-1].Content != train[3].Answer {
		t.Errorf("a warm start learns %v, %v, %v, and not the answer %q", shown, ok, err, train[3].Answer)
	}
	for text, want := range map[string]bool{train[3].Answer: true, "so <answer>" + train[3].Answer + "</answer>": true, "what?": false} {
		v, err := e.Score(t.Context(), said(e, 3, text))
		if err != nil || (v.Reward == 1) != want {
			t.Errorf("%q: %v, %v", text, v.Reward, err)
		}
	}
}

func TestGymStandIn(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	folder := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(folder, "reasoning_gym"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(folder, "reasoning_gym", "__init__.py"), []byte(standInGym), 0o600))
	const utils = "import re\ndef extract_answer(text):\n    found = re.findall('<answer>(.*?)</answer>', text)\n    return found[-1] if found else None\n"
	must.Do(t, os.WriteFile(filepath.Join(folder, "reasoning_gym", "utils.py"), []byte(utils), 0o600))
	run := filepath.Join(folder, "run.py")
	shim := must.Get(filepath.Abs("../../../data/program/lathe_env.py"))(t)
	must.Do(t, os.WriteFile(run, []byte("import runpy, sys\nsys.path.insert(0, "+`"`+folder+`"`+")\nsys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"), 0o600))
	s := *DefaultSettings()
	s.Program.Command, s.Program.Processes = []string{python, run, shim, "--tasks", "16", "reasoning_gym:sums"}, 1
	var data Data
	data.Train.SetDefaults()
	data.Test.SetDefaults()
	e := must.Get(build(s, data, 1, folder))(t)
	t.Cleanup(e.Close)
	checkGym(t, e)
}

func TestReasoningGym(t *testing.T) {
	t.Parallel()
	checkGym(t, others(t, pythonWith(t, "reasoning_gym"), 1, "reasoning_gym:leg_counting"))
}

// TestTaskset: tasks of verifiers.v1, every fifth held out, and their weighted rewards and
// metrics by hand: 2 for a right word, and its letters.
func TestTaskset(t *testing.T) {
	t.Parallel()
	file := must.Get(filepath.Abs("testdata/others/tasksets.py"))(t)
	e := others(t, pythonWith(t, "verifiers.v1"), 1, file)
	train, test := e.Tasks(env.Train), e.Tasks(env.Test)
	if len(train) != 16 || len(test) != 4 {
		t.Fatalf("%d and %d tasks", len(train), len(test))
	}
	prompt := must.Get(e.Prompt(train[1], shard.KindInitial, env.Parent{}))(t)
	if len(prompt) != 2 || prompt[0].Content != "Be brief." || prompt[1].Content != "Say house backwards." {
		t.Errorf("prompt %+v", prompt)
	}
	for text, want := range map[string]float64{"esuoh": 2, "house": 0} {
		v, err := e.Score(t.Context(), said(e, 1, text))
		if err != nil || v.Reward != want || len(v.Parts) != 2 {
			t.Errorf("%q: %v, %+v, %v", text, v.Reward, v.Parts, err)
		}
	}
}

// TestOpenEnv: an episode of an environment of openenv; two wrong guesses and the right one
// are worth −0.25 − 0.25 + 1.
func TestOpenEnv(t *testing.T) {
	t.Parallel()
	file := must.Get(filepath.Abs("testdata/others/counting.py"))(t)
	e := others(t, pythonWith(t, "openenv.core"), 3, file)
	task := e.Tasks(env.Train)[2]
	secret := task.Answer[len(task.Answer)-1:] // the last digit of its seed
	a := env.Attempt{Task: task, Kind: shard.KindInitial, Finish: "stop"}
	a.Messages = must.Get(e.Prompt(task, shard.KindInitial, env.Parent{}))(t)
	if text := a.Messages[len(a.Messages)-1].Content; text != "Which digit?" {
		t.Errorf("the prompt is %q", text)
	}
	for _, message := range []string{"x", `{"digit": "y"}`, secret} {
		a.Own = append(a.Own, len(a.Messages))
		a.Messages = append(a.Messages, shard.Message{Role: "assistant", Content: message}, shard.Message{Role: "user", Content: "no"})
	}
	a.Messages = a.Messages[:len(a.Messages)-1]
	v, err := e.Score(t.Context(), a)
	if err != nil || math.Abs(v.Reward-.5) > 1e-12 {
		t.Errorf("%v, %v", v.Reward, err)
	}
	if strings.Contains(v.Feedback, "no action") {
		t.Error(v.Feedback)
	}
}
