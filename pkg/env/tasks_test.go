package env_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// TestTaskSetRows: rows hold all of a set. They list tasks to train on, then those held
// out, then other sets as they came, each in its order.
func TestTaskSetRows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		set := env.NewTaskSet("math")
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,4}`), 0, 12, rapid.ID).Draw(t, "ids")
		for _, id := range ids {
			set.Add(
				env.Task{ID: id, Kind: rapid.SampledFrom([]string{"add", "sub"}).Draw(t, "kind"), Level: rapid.IntRange(0, 9).Draw(t, "level"), Question: id + "?", Answer: id},
				env.Facts{Split: env.Split(rapid.SampledFrom([]string{"hints", "test", "train"}).Draw(t, "split")), Source: rapid.SampledFrom([]string{"", "{}"}).Draw(t, "source")},
			)
		}
		rows := set.Rows()
		again := env.TasksOf("math", rows)
		if diff := cmp.Diff(rows, again.Rows()); diff != "" || len(rows) != len(ids) {
			t.Fatalf("%d rows of %d tasks; rows of rows: %s", len(rows), len(ids), diff)
		}
		place := map[string]int{"train": 0, "test": 1, "hints": 2}
		for i, row := range rows {
			if i > 0 && place[rows[i-1].Split] > place[row.Split] {
				t.Fatalf("row %d is of %s, after one of %s", i, row.Split, rows[i-1].Split)
			}
			task, ok := again.Task(row.TaskID)
			facts, err := again.Facts(row.TaskID)
			if !ok || err != nil || task.Question != row.Question || string(facts.Split) != row.Split || facts.Source != row.Source {
				t.Fatalf("task %q came back as %+v, %+v: %v", row.TaskID, task, facts, err)
			}
		}
	})
}

// TestTaskSet: what is removed is nowhere, and what training asks is held out by nobody.
func TestTaskSet(t *testing.T) {
	t.Parallel()
	fresh := func() *env.TaskSet {
		set := env.NewTaskSet("math")
		for id, split := range map[string]env.Split{"a": env.Train, "b": env.Test, "c": env.Test} {
			set.Add(env.Task{ID: id, Kind: "add", Question: map[string]string{"a": "1+1", "b": "1+1", "c": "2+2"}[id]}, env.Facts{Split: split})
		}
		return set
	}
	asks := func(task env.Task) string { return task.Question }
	err := fresh().KeepApart(env.Test, "data.test", "question", false, asks)
	if want := `data.test shares 1 question with data.train ("b" is "a")`; exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), want) {
		t.Errorf("a question that is trained on: %v, want %s", err, want)
	}
	set := fresh()
	if err := set.KeepApart(env.Test, "data.test", "question", true, asks); err != nil {
		t.Fatal(err)
	}
	if _, kept := set.Task("c"); !kept {
		t.Error("a question of its own is left out")
	}
	if _, there := set.Task("b"); there || len(set.Tasks(env.Test)) != 1 || len(set.Rows()) != 2 {
		t.Errorf("left out: %v, %+v", there, set.Rows())
	}
	if _, err := set.Facts("b"); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("facts of a task that is not there: %v", err)
	}
	set.AddInputs(env.Input{Path: "f"}, env.Input{Path: "f"})
	if len(set.Inputs) != 1 {
		t.Errorf("inputs %v, want the file once", set.Inputs)
	}
	for _, c := range []struct {
		set   *env.TaskSet
		kinds []string
		code  int
		want  int
	}{{set, nil, 0, 1}, {set, []string{"a*"}, 0, 1}, {set, []string{"sub"}, exitcode.Usage, 0}, {env.NewTaskSet("math"), nil, exitcode.Data, 0}} {
		if tasks, err := c.set.TrainingTasks("curriculum.kinds", c.kinds); len(tasks) != c.want || err == nil != (c.code == 0) || err != nil && exitcode.Code(err) != c.code {
			t.Errorf("tasks of kinds %q: %v, %v", c.kinds, tasks, err)
		}
	}
}
