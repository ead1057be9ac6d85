package program

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/lathe-rl/lathe/pkg/child"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/sandbox"
)

// starting is a reward that starts what outlives it: a child, and one that has left
// its parents, its session and its group.
const starting = `
import os, subprocess
def reward(completion):
    print("scoring", completion)
    subprocess.Popen(["sleep", "LONG"])
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "LONG"])
        os._exit(0)
    os.wait()
    return {"reward": 1, "feedback": "well said"}
`

// sleeping counts the processes that sleep so long.
func sleeping(long string) int {
	n := 0
	for _, p := range child.Processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if string(line) == "sleep\x00"+long+"\x00" {
			n++
		}
	}
	return n
}

// TestNothingIsLeft: what a reward starts ends with its environment, and what it
// prints is logged.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	long := fmt.Sprintf("3600.%d", os.Getpid())
	s := *DefaultSettings()
	s.Program.Processes = 2
	e := python(t, s, []string{"reward.py"}, strings.ReplaceAll(starting, "LONG", long), `{"prompt": "q", "answer": "a"}`)
	var mutex sync.Mutex
	logged := map[string]int{}
	e.Start(0, func(format string, args ...any) {
		mutex.Lock()
		defer mutex.Unlock()
		logged[fmt.Sprintf(format, args...)]++
	})
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			if v, err := e.Score(t.Context(), said(e, 0, fmt.Sprint(i))); err != nil || v.Reward != 1 || v.Feedback != "well said" {
				t.Errorf("%v, %v", v.TurnVerdict, err)
			}
		})
	}
	all.Wait()
	for sleeping(long) < 12 { // one that has left its parents may not have begun to sleep
		runtime.Gosched()
	}
	e.Close()
	if n := sleeping(long); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	for i := range 6 {
		if line := fmt.Sprintf("reward.py: scoring %d", i); logged[line] != 1 {
			t.Errorf("%q is logged %d times", line, logged[line])
		}
	}
}

// TestRelativeFolder: a recipe that is named by a relative path may have a sandbox.
func TestRelativeFolder(t *testing.T) {
	if missing := sandbox.Probe().Missing([]string{sandbox.Files, sandbox.Network}); len(missing) > 0 {
		t.Skip("no sandbox here")
	}
	folder := t.TempDir()
	t.Chdir(filepath.Dir(folder))
	s := settings(t, "echo")
	s.Program.Sandbox = &Sandbox{}
	s.Program.Sandbox.SetDefaults()
	var data Data
	data.Train.SetDefaults()
	data.Test.SetDefaults()
	data.Train.Files = []string{"t.jsonl"}
	if err := os.WriteFile(filepath.Join(folder, "t.jsonl"), []byte(`{"prompt": "q", "answer": "a"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e := must.Get(build(s, data, 1, filepath.Base(folder)))(t)
	defer e.Close()
	if v, err := e.Score(t.Context(), said(e, 0, `{"reward": 1}`)); err != nil || v.Reward != 1 {
		t.Errorf("%v, %v", v, err)
	}
}
