package warm_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

// ofRows is a rig that learns from sums in a file.
func ofRows(t *testing.T, settings ...string) (*stagetest.Rig, warm.Settings, []env.Input, string) {
	t.Helper()
	file := t.TempDir() + "/sums.jsonl"
	var rows strings.Builder
	for i := range 40 {
		fmt.Fprintf(&rows, `{"q": "%d+%d=", "solution": "%d"}`+"\n", i%7, i%5, i%7+i%5)
	}
	must.Do(t, os.WriteFile(file, []byte(rows.String()), 0o666))
	r := stagetest.New(t, append([]string{
		"warm_start.improve=0", "warm_start.diverge=0", "warm_start.steps=24", "warm_start.batch=8",
		"warm_start.data={files: [" + file + "], prompt: q, completion: solution, test_share: 0.2}",
	}, settings...)...)
	s := warm.SettingsOf(r.Recipe)
	inputs, err := warm.CheckData(s, r.Env, "", r.Dir)
	must.Do(t, err)
	return r, s, inputs, file
}

// A warm start on rows of a file lowers the loss of those that are held out. Where it is cut
// into checkpoints changes no byte, so a run that was killed resumes to the same policy.
func TestRowsOfFiles(t *testing.T) {
	t.Parallel()
	r, s, inputs, _ := ofRows(t)
	whole := r.Path("whole")
	logged := ""
	r.Job.Log = func(format string, args ...any) { logged += fmt.Sprintf(format, args...) + "\n" }
	m, err := warm.Run(r.Context(), r.Job, s, r.Env, warm.Inputs{Chunk: 1, LastStep: 24, Data: inputs, DataFolder: r.Dir, PolicyOutput: whole})
	must.Do(t, err)
	if !strings.HasPrefix(logged, "warm start: 32 rows to learn from, 8 held out, 0 left out as too long, 0 left out as problems of the evaluation; 24 steps, 6.00 epochs\n") || strings.Count(logged, "warm start step ") != 1 || !strings.Contains(logged, "step 24 of at most 24: ") {
		t.Errorf("logged %q", logged)
	}
	before, after := m.Metrics["held_out_loss_before"], m.Metrics["held_out_loss"]
	if !(after > 0 && after < before) || m.Metrics["optimizer_steps"] != 24 {
		t.Errorf("loss of held-out rows %g before and %g after %g steps", before, after, m.Metrics["optimizer_steps"])
	}
	_, err = warm.Run(r.Context(), r.Job, s, r.Env, warm.Inputs{
		Chunk: 1, LastStep: 10, Data: inputs, DataFolder: r.Dir, PolicyOutput: r.Path("first"), PolicyVersion: -1, OptimizerOutput: r.Path("moments"),
	})
	must.Do(t, err)
	last, err := warm.Run(r.Context(), r.Job, s, r.Env, warm.Inputs{
		Chunk: 2, FirstStep: 10, LastStep: 24, Data: inputs, DataFolder: r.Dir, Policy: r.Path("first"), Optimizer: r.Path("moments"), PolicyOutput: r.Path("second"),
	})
	must.Do(t, err)
	if _, again := last.Metrics["held_out_loss_before"]; again || r.Digest(whole) != r.Digest(r.Path("second")) || last.Metrics["held_out_loss"] != after {
		t.Errorf("in two checkpoints the policy is another, or its loss of held-out rows: %g and %g", last.Metrics["held_out_loss"], after)
	}
}

// Rows that a policy of another run learns from have to fit its context.
func TestRowsOfASource(t *testing.T) {
	t.Parallel()
	r, s, inputs, _ := ofRows(t)
	_, err := warm.Run(r.Context(), r.Job, s, r.Env, warm.Inputs{Chunk: 1, Data: inputs, DataFolder: r.Dir, PolicyOutput: r.Path("source")})
	must.Do(t, err)
	s.Policy.New = nil
	in := warm.Inputs{Chunk: 1, LastStep: 1, Data: inputs, DataFolder: r.Dir, Source: r.Path("source"), PolicyOutput: r.Path("policy")}
	if m, err := warm.Run(r.Context(), r.Job, s, r.Env, in); err != nil || m.Metrics["optimizer_steps"] != 1 {
		t.Errorf("%v, %v", m.Metrics, err)
	}
	config, err := os.ReadFile(r.Path("source/config.json"))
	must.Do(t, err)
	must.Do(t, os.WriteFile(r.Path("source/config.json"), []byte(strings.Replace(string(config), `"max_position_embeddings": 128`, `"max_position_embeddings": 3`, 1)), 0o666))
	in.PolicyOutput = r.Path("short")
	if _, err := warm.Run(r.Context(), r.Job, s, r.Env, in); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "and the policy takes 3") {
		t.Errorf("in a context of 3 tokens: %v", err)
	}
}

// Passes over the rows end the warm start before its last step: one epoch of 32 rows in
// batches of 8 is 4 steps.
func TestRowsByEpochs(t *testing.T) {
	t.Parallel()
	r, s, inputs, _ := ofRows(t, "warm_start.data.epochs=1")
	m, err := warm.Run(r.Context(), r.Job, s, r.Env, warm.Inputs{Chunk: 1, LastStep: 24, Data: inputs, DataFolder: r.Dir, PolicyOutput: r.Path("policy")})
	must.Do(t, err)
	if m.Metrics["optimizer_steps"] != 4 {
		t.Errorf("%g steps", m.Metrics["optimizer_steps"])
	}
}

// Rows that changed after the run was made, or that do not fit, are refused by their file.
func TestRowsRefused(t *testing.T) {
	t.Parallel()
	r, s, inputs, file := ofRows(t)
	more := append(slices.Clone(inputs), env.Input{Path: "more.jsonl"})
	_, err := warm.Run(r.Context(), r.Job, s, r.Env, warm.Inputs{Chunk: 1, LastStep: 1, Data: more, DataFolder: r.Dir, PolicyOutput: r.Path("policy")})
	if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), `"more.jsonl" is not there any more`) {
		t.Errorf("a file that matches no pattern any more: %v", err)
	}
	long := fmt.Sprintf(`{"q": "1", "solution": "%s"}`+"\n", strings.Repeat("9", 200))
	must.Do(t, os.WriteFile(file, []byte(`{"q": "1", "solution": "2"}`+"\n"+long+`{"q": "1", "solution": "2"}`+"\n"), 0o666))
	_, err = warm.Run(r.Context(), r.Job, s, r.Env, warm.Inputs{Chunk: 1, LastStep: 1, Data: inputs, DataFolder: r.Dir, PolicyOutput: r.Path("policy")})
	if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "has changed since the run was made") {
		t.Errorf("a file that changed: %v", err)
	}
	_, err = warm.CheckData(s, r.Env, "", r.Dir)
	if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "sums.jsonl:2: the row has ") {
		t.Errorf("a row that does not fit: %v", err)
	}
	s.WarmStart.Data.Overlong, s.WarmStart.Data.TestShare = "skip", 0
	inputs, err = warm.CheckData(s, r.Env, "", r.Dir)
	must.Do(t, err)
	logged := ""
	r.Job.Log = func(format string, args ...any) { logged += fmt.Sprintf(format, args...) + "\n" }
	_, err = warm.Run(r.Context(), r.Job, s, r.Env, warm.Inputs{Chunk: 1, LastStep: 1, Data: inputs, DataFolder: r.Dir, PolicyOutput: r.Path("policy")})
	if want := "warm start: 2 rows to learn from, 0 held out, 1 left out as too long, "; err != nil || !strings.HasPrefix(logged, want) {
		t.Errorf("with such rows left out: %v, logged %q", err, logged)
	}
	must.Do(t, os.WriteFile(file, []byte(strings.Repeat(long, 3)), 0o666))
	if _, err := warm.CheckData(s, r.Env, "", r.Dir); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "every row has more than the 128 tokens") {
		t.Errorf("rows that are all too long: %v", err)
	}
	held := fmt.Sprintf(`{"q": %q, "solution": "2"}`+"\n", r.Env.Set().Tasks(env.Test)[0].Question)
	must.Do(t, os.WriteFile(file, []byte(strings.Repeat(held, 3)), 0o666))
	if _, err := warm.CheckData(s, r.Env, "", r.Dir); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "every row asks a problem that is held out") {
		t.Errorf("rows of the evaluation's problems: %v", err)
	}
}
