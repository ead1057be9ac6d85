package tooluse

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// small is our own set of tasks in BFCL's form.
const small = "../../../data/tooluse/small"

// shared is the folder of BFCL's own tasks, or the test is left out.
func shared(t testing.TB) string {
	t.Helper()
	folder := os.Getenv("LATHE_SHARED")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "..", "shared")
	}
	folder = must.Get(filepath.Abs(filepath.Join(folder, "data", "bfcl")))(t)
	if _, err := os.Stat(folder); err != nil {
		t.Skip("set LATHE_SHARED to the folder that holds data/bfcl")
	}
	return folder
}

// settings are those of a recipe with the functions of BFCL in a folder.
func settings(folder, halves string) Settings {
	s := *DefaultSettings()
	s.Prompts.Improve = "{instruction} Not {previous_response}!"
	s.Prompts.Diverge = "Other than {previous_response}: {question}"
	s.ToolUse = ToolUse{
		BFCL: folder, Halves: halves, System: "Use {tools}", Docs: "signature", ResultRole: "system",
		Train: EpisodeRules{UserTurns: 1, Steps: 10}, Test: EpisodeRules{Steps: 60},
		MaxCalls: 20, MaxResultBytes: 16 << 10,
	}
	return s
}

func newEnv(t testing.TB, s Settings) *Env {
	t.Helper()
	e := must.Get(build(s, Data{}, 1, ""))(t)
	return e
}

// TestValidation: some of the training tasks, and no others, are held out as a set
// of their own, in the episodes of the test split; rows keep them apart.
func TestValidation(t *testing.T) {
	t.Parallel()
	s := settings(small, "")
	whole := newEnv(t, s)
	e := must.Get(build(s, Data{Validation: 3}, 1, ""))(t)
	rows := e.Rows()
	again := must.Get(rebuild(s, "", rows))(t)
	ids := func(tasks []env.Task) []string {
		var ids []string
		for _, task := range tasks {
			ids = append(ids, task.ID)
		}
		slices.Sort(ids)
		return ids
	}
	for _, e := range []*Env{e, again} {
		held := e.Tasks(Validation)
		if len(held) != 3 || !slices.Equal(ids(e.Tasks(env.Test)), ids(whole.Tasks(env.Test))) {
			t.Errorf("%d tasks are held out, want 3, and test as it was", len(held))
		}
		if got, want := ids(append(slices.Clone(held), e.Tasks(env.Train)...)), ids(whole.Tasks(env.Train)); !slices.Equal(got, want) {
			t.Errorf("training and validation are %v, want %v", got, want)
		}
		for _, task := range held {
			if got, test := e.tasks[task.ID], e.tasks[e.Tasks(env.Test)[0].ID]; got.rules != test.rules {
				t.Errorf("%s plays %+v, want %+v", task.ID, got.rules, test.rules)
			}
		}
	}
	if _, err := build(s, Data{Validation: len(whole.Tasks(env.Train))}, 1, ""); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("all of training held out: %v", err)
	}
}

// assistant is a message of the policy.
func assistant(said string) shard.Message { return shard.Message{Role: roleAssistant, Content: said} }

// played is an episode of a scripted policy.
type played struct {
	conversation []shard.Message
	verdict      env.Verdict
}

// play lets a script speak until the episode is over: it is given the number
// of its message, from 0.
func play(t testing.TB, e *Env, id string, prompt []shard.Message, script func(step int) string) played {
	t.Helper()
	task, known := e.Task(id)
	if !known {
		t.Fatalf("there is no task %q", id)
	}
	begun, err := e.Begin(t.Context(), task, prompt)
	if err != nil {
		t.Fatal(err)
	}
	p := played{conversation: append([]shard.Message(nil), prompt...)}
	for step := 0; ; step++ {
		p.conversation = append(p.conversation, assistant(script(step)))
		answer, err := begun.Next(t.Context(), p.conversation, nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Over() {
			break
		}
		p.conversation = append(p.conversation, answer.Messages...)
	}
	if err := begun.Close(); err != nil {
		t.Error(err)
	}
	if p.verdict, err = e.Score(t.Context(), env.Attempt{Task: task, Messages: p.conversation, Own: env.Said(p.conversation, 0), Finish: "stop"}); err != nil {
		t.Fatal(err)
	}
	return p
}

// opening is the prompt of a base task.
func opening(t testing.TB, e *Env, id string) []shard.Message {
	t.Helper()
	task, _ := e.Task(id)
	prompt := must.Get(e.Prompt(task, shard.KindInitial, env.Parent{}))(t)
	return prompt
}

// lines is a script that says one thing after another.
func lines(said ...string) func(int) string {
	return func(step int) string { return said[step] }
}

// TestReferencePolicy: the reference calls are right in every task of both
// halves, whether each has a message of its own or not.
func TestReferencePolicy(t *testing.T) {
	t.Parallel()
	for _, set := range []struct {
		name, folder, halves string
		each                 int
	}{{"small", small, "", 12}, {"bfcl", "", "split_100_100.json", 100}} {
		t.Run(set.name, func(t *testing.T) {
			if set.folder == "" {
				set.folder = shared(t)
			}
			e := newEnv(t, settings(set.folder, set.halves))
			for _, split := range []env.Split{env.Train, env.Test} {
				if n := len(e.Tasks(split)); n != set.each {
					t.Errorf("%d tasks in %s, want %d", n, split, set.each)
				}
				for _, task := range e.Tasks(split) {
					for _, oneByOne := range []bool{false, true} {
						said := must.Get(e.tasks[task.ID].perfect(oneByOne))(t)
						p := play(t, e, task.ID, opening(t, e, task.ID), lines(said...))
						if v := p.verdict; v.Outcome != shard.OutcomeOK || v.Reward != 1 || v.NormalizedScore != 1 {
							t.Errorf("%s, %s: %+v", split, task.ID, v)
						}
					}
				}
			}
		})
	}
}

// build is the environment of data.
func build(settings Settings, data Data, seed uint64, folder string) (*Env, error) {
	tasks, err := load(&settings.ToolUse, &data, seed, folder)
	if err != nil {
		return nil, err
	}
	return fromTasks(&settings, tasks, folder)
}

// rebuild is the environment of rows.
func rebuild(settings Settings, folder string, rows []shard.TaskRow) (*Env, error) {
	return fromTasks(&settings, env.TasksOf(Name, rows), folder)
}
