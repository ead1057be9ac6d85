package runtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// OwnReward makes a run of one iteration with a reward in Python.
func OwnReward(t *testing.T, code string, settings ...string) *rundir.Run {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	reward := filepath.Join(t.TempDir(), "reward.py")
	shim, err := filepath.Abs(sourcetree.Path("data/program/lathe_env.py"))
	if err := errors.Join(err, os.WriteFile(reward, []byte(code), 0o666)); err != nil {
		t.Fatal(err)
	}
	return Create(t, sourcetree.Path("jobs", "own-reward.yaml"), append([]string{
		fmt.Sprintf("env.program.command=[python3, %s, %s]", shim, reward), "warm_start.steps=0", "rollout.shards=1", "schedule.iterations=1",
	}, settings...)...)
}

// OnFiles is a run of one iteration on problems from files, and the file to
// train on.
func OnFiles(t *testing.T) (*rundir.Run, string) {
	t.Helper()
	data, other := filepath.Join(t.TempDir(), "train.jsonl"), filepath.Join(t.TempDir(), "test.jsonl")
	for path, question := range map[string]string{data: "1+%d", other: "2+%d"} {
		var text strings.Builder
		for i := range 20 {
			fmt.Fprintf(&text, `{"question": "`+question+`", "answer": "7"}`+"\n", i)
		}
		if err := os.WriteFile(path, []byte(text.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return Create(t, Smoke(), "schedule.iterations=1", "data.train.generate=null", "data.test.generate=null",
		"data.train.files=["+data+"]", "data.test.files=["+other+"]", "select=[]"), data
}

// Iterating are settings with which whole conversations are iterated on over
// several iterations.
var Iterating = []string{
	"schedule.iterations=4", "rollout.shards=3", "curriculum.exit.select_probability=0.8", "curriculum.exit.inverse_temperature=0",
}
