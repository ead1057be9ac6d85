package mle

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestSecondsLeft: a program that would end after the trace's budget is stopped then and
// does not count, and one for which nothing is left does not run.
func TestSecondsLeft(t *testing.T) {
	t.Parallel()
	e, of := open(t, nil)
	sleeps := "```python\nimport time\nopen('submission.csv','w').write('id,kind\\n4,a\\n5,b\\n6,b\\n')\ntime.sleep(SECONDS)\n```"
	for _, c := range []struct {
		seconds string // that the program sleeps
		left    *float64
		outcome shard.Outcome
		ran     bool
	}{
		{"0", nil, shard.OutcomeOK, true},
		{"0", new(250.), shard.OutcomeOK, true},
		{"600", new(0.5), shard.OutcomeTimeout, true},
		{"0", new(0.), shard.OutcomeTimeout, false},
	} {
		a := attempt(of, strings.ReplaceAll(sleeps, "SECONDS", c.seconds))
		a.SecondsLeft = c.left
		v := must.Get(e.Score(t.Context(), a))(t)
		if v.Outcome != c.outcome || (v.ExecuteSeconds > 0) != c.ran || strings.Contains(v.Feedback, budgetSpent) != (c.outcome == shard.OutcomeTimeout) {
			t.Errorf("%s s of %v: %s after %g s: %s", c.seconds, c.left, v.Outcome, v.ExecuteSeconds, v.Feedback)
		}
	}
}

// TestMaxSubmissions: an attempt is over after its last submission, valid or not, and not
// after other actions.
func TestMaxSubmissions(t *testing.T) {
	t.Parallel()
	execute := `{"action":"execute_code","params":{"code":"1"}}`
	for _, c := range []struct {
		style string
		most  int
		said  []string
		over  bool
	}{
		{"MLE-Dojo", 1, []string{execute}, true},
		{"MLE-Dojo", 2, []string{execute}, false},
		{"MLE-Dojo", 2, []string{execute, "no action", execute}, true},
		{"MLE-Dojo", 1, []string{`{"action":"validate_code","params":{"code":"1"}}`, `{"action":"request_info","params":{"info_type":"all"}}`, "nothing"}, false},
		{"MLE-Dojo", 0, []string{execute, execute}, false},
		{"ExIt", 1, []string{"```\nx\n```"}, true},
		{"ExIt", 1, []string{"no program"}, false},
	} {
		e, of := over(t, func(s *Settings) { s.Style, s.MaxTurns, s.MaxSubmissions = c.style, 9, c.most })
		var conversation []shard.Message
		for _, text := range c.said {
			conversation = append(conversation, shard.Message{Role: "user"}, shard.Message{Role: "assistant", Content: text})
		}
		episode := must.Get(e.Begin(t.Context(), of, conversation))(t)
		if step := must.Get(episode.Next(t.Context(), conversation, &env.TurnVerdict{Outcome: shard.OutcomeWrong}))(t); step.Over() != c.over {
			t.Errorf("%s, at most %d, after %q: %+v", c.style, c.most, c.said, step)
		}
	}
}

// TestRead: programs read the folders of weights and cannot write there, and the libraries
// that look for weights are told which folder has theirs.
func TestRead(t *testing.T) {
	t.Parallel()
	torch, hf := t.TempDir(), t.TempDir()
	must.Do(t, writeAt(torch, "hub/checkpoints/resnet18.pth", "weights"))
	must.Do(t, writeAt(hf, "hub/models--org--name/refs/main", "revision"))
	e, of := open(t, func(s *Settings) { s.Program.Read = []string{torch, hf} })
	said := "```python\nimport os\nassert os.environ['HF_HUB_OFFLINE']=='1'\n" +
		"print(open(os.environ['TORCH_HOME']+'/hub/checkpoints/resnet18.pth').read(), open(os.environ['HF_HOME']+'/hub/models--org--name/refs/main').read())\n" +
		"for k in 'TORCH_HOME','HF_HOME':\n  try: open(os.environ[k]+'/x','w')\n  except OSError: print('read-only')\n```"
	v := must.Get(e.Score(t.Context(), attempt(of, said)))(t)
	if !strings.Contains(v.Feedback, "weights revision\nread-only\nread-only") {
		t.Errorf("what a program reads: %s", v.Feedback)
	}
	if got := weightVariables([]string{"/nothing"}); !slices.Contains(got, "HF_HOME=/nothing") || !slices.Contains(got, "TORCH_HOME=/nothing") {
		t.Errorf("a folder of neither: %q", got)
	}
	if _, err := weightFolders([]string{torch + "/none"}); err == nil || !strings.Contains(err.Error(), "/none") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// TestHardware is what prompts say of what a program has.
func TestHardware(t *testing.T) {
	t.Parallel()
	e, of := over(t, nil)
	folder := must.Get(e.folder(of))(t)
	s := DefaultSettings()
	for _, c := range []struct {
		threads, gpus int
		want          string
	}{{1, 0, "one CPU core"}, {4, 0, "4 CPU cores"}, {1, 1, "one CPU core and one GPU"}, {16, 2, "16 CPU cores and 2 GPUs"}} {
		s.Program.Threads, s.Limits.GPUs = c.threads, &c.gpus
		if got := s.hardware(folder); got != c.want {
			t.Errorf("%d threads and %d GPUs: %q", c.threads, c.gpus, got)
		}
	}
	s.Program.Hardware = "an A10"
	s.Limits = Limits{MemoryMB: 1, Processes: 2, FileMB: 3, DiskMB: 4, WallSeconds: 5, GPUs: new(6)}
	if l := s.limits(folder); s.hardware(folder) != "an A10" || l.MemoryMB != 1 || l.Processes != 2 || l.FileMB != 3 || l.DiskMB != 4 || l.WallSeconds != 5 || l.GPUs != 6 {
		t.Errorf("the recipe's own: %q, %+v", s.hardware(folder), l)
	}
}

func writeAt(folder, name, text string) error {
	path := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
