package math

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// sampled seals an iteration of a run that answered the first two problems: one
// with two samples, one by a server that failed and then gave an answer.
func sampled(t *testing.T, tasks []env.Task) string {
	t.Helper()
	folder := t.TempDir()
	write := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var plan []shard.Instance
	for _, task := range tasks {
		plan = append(plan, shard.Instance{InstanceID: "i " + task.ID, GroupID: "i " + task.ID, TaskID: task.ID, Env: Name, Kind: "initial", Messages: []shard.Message{user(task.Question)}})
	}
	_, err := shard.Write(filepath.Join(folder, "plan.parquet"), plan, nil, seal.AttemptFromEnv(), seal.Manifest{})
	write(err)
	row := func(at int, sample int32, outcome shard.Outcome, said string) shard.Rollout {
		return shard.Rollout{
			InstanceID: plan[at].InstanceID, GroupID: plan[at].GroupID, Sample: sample, Outcome: string(outcome), PromptMessages: 1, Turns: 1,
			Messages: []shard.Message{plan[at].Messages[0], assistant(said)}, TokenIDs: []int32{1}, LossMask: []bool{true}, LogProbs: []float32{-1},
		}
	}
	for name, rows := range map[string][]shard.Rollout{
		"00000": {row(0, 0, shard.OutcomeOK, "first"), row(0, 1, shard.OutcomeOK, "second")},
		"00001": {row(1, 0, shard.OutcomeInfra, "nothing")},
		"00002": {row(2, 0, shard.OutcomeOK, "third")},
	} {
		_, err := shard.Write(filepath.Join(folder, "rollout", name+".parquet"), rows, nil, seal.AttemptFromEnv(), seal.Manifest{})
		write(err)
	}
	return folder
}

// TestOffline: problems with a response of another run are asked twice, and no
// others; the rows of the tasks hold the responses.
func TestOffline(t *testing.T) {
	t.Parallel()
	whole := newEnv(t, short())
	tasks := whole.Tasks(env.Train)
	folder := sampled(t, tasks[:3])
	data := Data{Train: sums(20), Test: sums(5), Offline: folder}
	e := must.Get(build(short(), data, 1, ""))(t)
	rows := e.Rows()
	again := must.Get(rebuild(short(), rows))(t)
	first, third := "Q: "+tasks[0].Question, "Q: "+tasks[2].Question
	want := map[string]string{
		tasks[0].ID: first, tasks[0].ID + "/refine": "improve [" + first + "] from [first]",
		tasks[2].ID: third, tasks[2].ID + "/refine": "improve [" + third + "] from [third]",
	}
	for _, e := range []*Env{e, again} {
		got := map[string]string{}
		for _, task := range e.Tasks(env.Train) {
			messages, err := e.Prompt(task, shard.KindInitial, env.Parent{})
			if err != nil || len(messages) != 1 {
				t.Fatalf("%v, %v", messages, err)
			}
			got[task.ID] = messages[0].Content
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("prompts (-want +got):\n%s", diff)
		}
		if _, known := e.Task(tasks[1].ID); known || len(e.Tasks(env.Test)) != 5 {
			t.Error("a problem without a response is trained on, or one is held out no more")
		}
	}
	if len(e.Inputs) != 4 {
		t.Errorf("inputs %v, want the plan and three shards", e.Inputs)
	}

	// Of other problems it has no responses, and a folder that is none says so.
	other := sampled(t, []env.Task{{ID: "x", Question: "x"}, {ID: "y", Question: "y"}, {ID: "z", Question: "z"}})
	for folder, want := range map[string]string{other: "has no response to a problem of data.train", t.TempDir(): "plan.parquet"} {
		data.Offline = folder
		if _, err := build(short(), data, 1, ""); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// build is the environment of data.
func build(settings Settings, data Data, seed uint64, folder string) (*Env, error) {
	tasks, err := load(&data, seed, folder)
	if err != nil {
		return nil, err
	}
	return fromTasks(&settings, tasks)
}

// rebuild is the environment of rows.
func rebuild(settings Settings, rows []shard.TaskRow) (*Env, error) {
	return fromTasks(&settings, env.TasksOf(Name, rows))
}
