package mle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/sandbox"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestUnrun: messages for which no program runs. Only the last one can be cut off, and one
// that has a score keeps it.
func TestUnrun(t *testing.T) {
	t.Parallel()
	e, of := over(t, nil)
	messages := []shard.Message{{Role: "assistant", Content: "no"}, {Role: "assistant", Content: "none"}}
	for _, c := range []struct {
		finish  string
		earlier []env.TurnVerdict
		want    [2]string // of the feedback of each message
		reason  string
	}{
		{"stop", nil, [2]string{"has no program", "has no program"}, "no program"},
		{"length", nil, [2]string{"has no program", "was cut off"}, "cut off"},
		{"length", []env.TurnVerdict{{Feedback: "kept"}}, [2]string{"kept", "was cut off"}, "cut off"},
	} {
		v := must.Get(e.Score(t.Context(), env.Attempt{Task: of, Messages: messages, Own: []int{0, 1}, Finish: c.finish, Earlier: c.earlier}))(t)
		if len(v.Turns) != 2 || !strings.Contains(v.Turns[0].Feedback, c.want[0]) || !strings.Contains(v.Turns[1].Feedback, c.want[1]) || v.Feedback != v.Turns[1].Feedback || v.Reason != c.reason || v.Outcome != shard.OutcomeInvalid || v.Parts[0] != (shard.RewardPart{Name: partPartialCredit, Value: -10}) {
			t.Errorf("%s, %d before: %+v", c.finish, len(c.earlier), v)
		}
	}
	if _, err := e.Score(t.Context(), env.Attempt{Task: env.Task{ID: "none"}}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("a task that there is not: %v", err)
	}
	folder := must.Get(e.folder(of))(t)
	const run = `{"action": "ACTION", "params": {"code": "1", "info_type": "name"}}`
	for _, c := range []struct {
		action  string
		cut     bool
		reason  string
		outcome shard.Outcome
	}{
		{executeCode, false, "budget spent", shard.OutcomeTimeout},
		{validateCode, false, "budget spent", shard.OutcomeTimeout},
		{validateCode, true, "cut off", shard.OutcomeInvalid},
		{requestInfo, false, requestInfo, shard.OutcomeWrong},
		{"dance", false, "bad action", shard.OutcomeInvalid},
	} {
		got, err := e.scoreAction(t.Context(), folder, strings.Replace(run, "ACTION", c.action, 1), c.cut, 0)
		if err != nil || got.reason != c.reason || got.Outcome != c.outcome {
			t.Errorf("%s with no time left: %+v, %v", c.action, got, err)
		}
	}
}

// TestForeignMetric: the grammar has no programs for a metric that it does not know.
func TestForeignMetric(t *testing.T) {
	t.Parallel()
	e, of := over(t, func(s *Settings) { s.Grammar = &Grammar{} })
	must.Get(e.folder(of))(t).Metric = "none"
	if shown, ok, err := e.Demonstration(of, shard.KindInitial, rng.New(1, rng.PurposeTest, 0, "", 0)); ok || err != nil || len(e.texts()) != 0 {
		t.Errorf("%v, %v, and %d texts", shown, err, len(e.texts()))
	}
}

// TestNotes: a quality that a task cannot have is noted when the tasks are loaded.
func TestNotes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		board, scores   bool
		quality, reward string
		want            string // empty for no note
	}{
		{true, true, "range", "quality", ""},
		{false, true, "range", "quality", ""},
		{false, true, "humanrank", "quality", "humanrank is the place in score_range for 1 task without a leaderboard: seeds"},
		{true, true, "humanrank", "quality", ""},
		{true, false, "range", "quality", "range takes the ends of the leaderboard for 1 task without a score range"},
		{true, false, "range", "valid", ""},
		{true, false, "humanrank_mledojo", "quality", ""},
	} {
		folder := seeds(t, filepath.Join(t.TempDir(), "seeds"))
		path := filepath.Join(folder, "task.yaml")
		text := string(must.Get(os.ReadFile(path))(t))
		if !c.board {
			text = "title: Kinds of seeds\ngrader: {file: grade.py}\ndirection: maximize\nscore_range: {worst: 0.5, best: 1}\nlimits: {wall_seconds: 60, memory_mb: 256}\n"
			must.Do(t, os.Remove(filepath.Join(folder, "leaderboard.csv")))
			must.Do(t, os.WriteFile(filepath.Join(folder, "grade.py"), nil, 0o600))
		}
		if !c.scores {
			text = strings.Replace(text, "score_range: {worst: 0.5, best: 1}\n", "", 1)
		}
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		s := *DefaultSettings()
		s.Quality, s.Reward = c.quality, c.reward
		e := must.Get(build(s, Data{Tasks: []string{folder}}, ""))(t)
		var notes []string
		for _, note := range e.Notes {
			if strings.HasPrefix(note, "env.quality: ") {
				notes = append(notes, note)
			}
		}
		if got := strings.Join(notes, "\n"); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: noted %q", c, got)
		}
	}
}

// TestShortened: a message of a grader is one line of at most 500 characters.
func TestShortened(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		" a\n  b.": "a b", "a..": "a.", strings.Repeat("é", 500): strings.Repeat("é", 500), strings.Repeat("é", 501): strings.Repeat("é", 500) + "…",
	} {
		if got := shortened(said); got != want {
			t.Errorf("%.20q becomes %q", said, got)
		}
	}
	for said, want := range map[string]string{"1\n2\n3\n4\n\n": "2\n3\n4", "1\n2": "1\n2", "": ""} {
		if got := lastLines(said); got != want {
			t.Errorf("the end of %q is %q", said, got)
		}
	}
	raised := "x\ny"
	for came, want := range map[cameOf]string{{Raised: &raised, ended: "ended"}: "raised x y", {ended: "ended"}: "ended", {Score: &raised}: ""} {
		if got := came.failed(); got != want {
			t.Errorf("%+v failed: %q, want %q", came, got, want)
		}
	}
}

// TestHost: a host without what the recipe requires is refused, an image requires file paths of its own.
func TestHost(t *testing.T) {
	t.Parallel()
	var none sandbox.Protection
	s := DefaultSettings()
	if _, err := s.host(none); err == nil || len(exitcode.Hints(err)) == 0 {
		t.Errorf("a host without protection: %v", err)
	}
	s.Sandbox.Require = nil
	if notes, err := s.host(none); err != nil || len(notes) != 1 || !strings.Contains(notes[0], "files") {
		t.Errorf("nothing is required: %q, %v", notes, err)
	}
	all := sandbox.Protection{Landlock: 7, Seccomp: true, Namespaces: []string{"user", "mount", "pid", "ipc", "net", "uts"}} // all but memory
	if notes, err := DefaultSettings().host(all); err != nil || len(notes) != 1 || len(all.Missing(sandbox.Names())) != 1 {
		t.Errorf("without %q: %q, %v", all.Missing(sandbox.Names()), notes, err)
	}
	s.Program.Image = "/image"
	if _, err := s.host(none); err == nil {
		t.Error("an image on a host without mount namespaces")
	}
}
