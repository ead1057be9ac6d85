package export

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// standIn is a tracker that writes what it is told into calls.txt.
const standIn = `
import json, os

def note(*words):
    with open(os.environ["CALLS"], "a") as file:
        print(*words, file=file)

class Run:
    def define_metric(self, name, step_metric=None):
        pass
    def log(self, numbers, step=None):
        log(numbers, step)
    def finish(self):
        finish()

def init(project, name, resume, **options):
    note("init", project, name, resume, options.get("mode"), options.get("id"))
    return Run()

def log(numbers, step=None):
    note("log", step, json.dumps(numbers, sort_keys=True))

def finish():
    note("finish")
`

// Each number is logged once, though the command is repeated while the run goes on: an
// iteration when it has ended, a version when it is measured.
func TestTrack(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	folder := t.TempDir()
	for _, tracker := range Trackers {
		must.Do(t, os.WriteFile(filepath.Join(folder, tracker+".py"), []byte(standIn), 0o666))
	}
	t.Setenv("PYTHONPATH", folder)
	for tracker, want := range map[string][2]string{
		"wandb":   {"init lathe n allow offline r-1\n", `log None {"iteration": 1, "kinds/improve": 3, "kinds/initial": 5, "reward_mean": 0.25, "wall_seconds": 10}`},
		"trackio": {"init lathe n r-1 allow None None\n", `log 1 {"kinds/improve": 3, "kinds/initial": 5, "reward_mean": 0.25, "wall_seconds": 10}`},
	} {
		calls, into := filepath.Join(folder, tracker+".txt"), filepath.Join(folder, tracker)
		t.Setenv("CALLS", calls)
		s := summary()
		s.Name, s.IterationsDone = "n", 1
		logged := func() string {
			t.Helper()
			os.Remove(calls)
			must.Get(Track(t.Context(), python, tracker, into, s, must.Get(Points(s))(t)))(t)
			content, err := os.ReadFile(calls)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			return string(content)
		}
		if got := logged(); !strings.HasPrefix(got, want[0]) || !strings.Contains(got, want[1]) || strings.Count(got, "log ") != 3 || !strings.HasSuffix(got, "finish\n") {
			t.Errorf("%s:\n%swant %s", tracker, got, want)
		}
		if got := logged(); got != "" {
			t.Errorf("%s, again:\n%s", tracker, got)
		}
		s.IterationsDone = 2
		if got := logged(); strings.Count(got, "log ") != 1 || !strings.Contains(got, `"reference_replaced": 1`) {
			t.Errorf("%s, one iteration later:\n%s", tracker, got)
		}
	}
	t.Setenv("PYTHONPATH", "")
	_, err = Track(t.Context(), filepath.Join(folder, "nowhere"), "wandb", folder, summary(), nil)
	if exitcode.Code(err) != exitcode.Unavailable || !strings.Contains(strings.Join(exitcode.Hints(err), ""), "--python") {
		t.Error(err)
	}
}
