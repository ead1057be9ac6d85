package rollout_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/bfcl"
	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
	"github.com/lathe-rl/lathe/pkg/stage/score"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

// scripted is a server whose policy follows a script: what it says depends on
// the task, known by its prompt, and on how often it has spoken.
type scripted struct {
	folder string // of the policy that it says it serves
	tasks  map[string]env.Task
	say    func(task env.Task, step int) string
}

func promptKey(messages []shard.Message) string {
	return messages[0].Content + "\x00" + messages[1].Content
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer any
	switch r.URL.Path {
	case "/v1/models":
		answer = map[string]any{"object": "list", "data": []any{map[string]any{"id": s.folder}}}
	case "/v1/chat/completions":
		var ask struct{ Messages []shard.Message }
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		task, known := s.tasks[promptKey(ask.Messages)]
		if !known {
			http.Error(w, "an unknown prompt", http.StatusBadRequest)
			return
		}
		step := 0
		for _, m := range ask.Messages {
			if m.Role == "assistant" {
				step++
			}
		}
		answer = map[string]any{"model": s.folder, "choices": []any{map[string]any{
			"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": s.say(task, step)},
		}}}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // a client that has gone is no concern of ours
}

// harmless are calls that change no state, by class.
var harmless = map[string]string{
	"GorillaFileSystem": `{"name": "pwd", "args": {}}`,
	"MathAPI":           `{"name": "add", "args": {"a": 1, "b": 1}}`,
	"MessageAPI":        `{"name": "message_get_login_status", "args": {}}`,
	"TicketAPI":         `{"name": "ticket_get_login_status", "args": {}}`,
	"TradingBot":        `{"name": "trading_get_login_status", "args": {}}`,
	"TravelAPI":         `{"name": "travel_get_login_status", "args": {}}`,
	"TwitterAPI":        `{"name": "posting_get_login_status", "args": {}}`,
	"VehicleControlAPI": `{"name": "displayCarStatus", "args": {"option": "fuel"}}`,
}

// toolTask is a task with what a script needs.
type toolTask struct {
	env.Task
	truth []string // the reference calls of the first turn
	extra string   // a call that changes nothing
	bfcl  bfcl.Task
}

// scriptedPolicy is a policy and what the rules give it.
type scriptedPolicy struct {
	name   string
	say    func(t toolTask, step int) string
	reward func(t toolTask) float64
	turns  func(t toolTask) int // messages of the policy; nil when they do not matter
}

func list(calls ...string) string { return "<tool>[" + strings.Join(calls, ", ") + "]</tool>" }

// scriptOf says one thing after another, and the last for ever.
func scriptOf(said ...string) func(step int) string {
	return func(step int) string { return said[min(step, len(said)-1)] }
}

const finished = "<TASK_FINISHED>"

// always is a reward that no task changes.
func always(reward float64) func(toolTask) float64 {
	return func(toolTask) float64 { return reward }
}

// unlessNothing is the reward of who does not do what is asked: 1 for a task
// that asks for nothing.
func unlessNothing(t toolTask) float64 {
	if len(t.truth) == 0 {
		return 1
	}
	return 0
}

// playedBackwards is what package bfcl gives for the reference calls in the
// opposite order, up to the first that fails.
func playedBackwards(t toolTask) float64 {
	environment, err := t.bfcl.Simulator()
	if err != nil {
		panic(err)
	}
	backwards := slices.Clone(t.bfcl.Truth[0])
	slices.Reverse(backwards)
	var made []bfcl.Call
	for _, call := range backwards {
		made = append(made, call)
		if environment.Execute(call).Failed {
			break
		}
	}
	verdict, err := bfcl.Check(t.bfcl, [][]bfcl.Call{made})
	if err != nil {
		panic(err)
	}
	return verdict.Reward
}

// reference is the list of the reference calls, or what finishes where there
// are none.
func reference(t toolTask, more ...string) string {
	if calls := append(slices.Clone(t.truth), more...); len(calls) > 0 {
		return list(calls...)
	}
	return finished
}

var scriptedPolicies = []scriptedPolicy{
	{"the reference calls", func(t toolTask, step int) string { return scriptOf(reference(t), finished)(step) }, always(1), nil},
	{"one by one, with reasons", func(t toolTask, step int) string {
		if step < len(t.truth) {
			return "<reasoning>The next is <tool>, I think.</reasoning>\n" + list(t.truth[step])
		}
		return finished
	}, always(1), func(t toolTask) int { return len(t.truth) + 1 }},
	{"extra calls", func(t toolTask, step int) string {
		return scriptOf(list(t.extra), reference(t, t.extra), finished)(step)
	}, always(1), nil},
	{"the wrong order", func(t toolTask, step int) string {
		backwards := toolTask{truth: slices.Clone(t.truth)}
		slices.Reverse(backwards.truth)
		return scriptOf(reference(backwards), finished)(step)
	}, playedBackwards, nil},
	{"all but the last call", func(t toolTask, step int) string {
		return scriptOf(reference(toolTask{truth: t.truth[:max(0, len(t.truth)-1)]}), finished)(step)
	}, unlessNothing, nil},
	{"finishing at once", func(toolTask, int) string { return finished }, unlessNothing, func(toolTask) int { return 1 }},
	{"giving up at once", func(toolTask, int) string { return "<TASK_ERROR>" }, unlessNothing, func(toolTask) int { return 1 }},
	{"never finishing", func(t toolTask, step int) string {
		return scriptOf(list(append(t.truth, t.extra)...), list(t.extra))(step)
	}, always(1), func(toolTask) int { return 10 }},
	{"malformed", func(_ toolTask, step int) string {
		return scriptOf("<tool>{", "</tool>", "<tool>[{]</tool>")(2 - step%2)
	}, unlessNothing, func(toolTask) int { return 10 }},
	{"malformed at first", func(t toolTask, step int) string {
		return scriptOf("<tool>[oops]</tool>", list(`{"name": "no such function", "args": {}}`), reference(t), finished)(step)
	}, always(1), nil},
	{"a flood after the calls", func(t toolTask, step int) string {
		return scriptOf(list(append(slices.Clone(t.truth), slices.Repeat([]string{t.extra}, 200)...)...), finished)(step)
	}, always(1), func(toolTask) int { return 2 }},
	{"a flood before the calls", func(t toolTask, step int) string {
		return scriptOf(list(append(slices.Repeat([]string{t.extra}, 20), t.truth...)...), finished)(step)
	}, unlessNothing, func(toolTask) int { return 2 }},
	{"no ending", func(t toolTask, step int) string { return scriptOf(reference(t, t.extra), "It is done.")(step) }, always(0), func(toolTask) int { return 2 }},
}

// TestScriptedPolicies: policies that follow a script get, by way of sampling
// from a server and scoring what is sealed, exactly the rewards that the rules
// give, on all training tasks.
func TestScriptedPolicies(t *testing.T) {
	t.Parallel()
	small, err := filepath.Abs("../../../data/tooluse/small")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("small", func(t *testing.T) { playScripts(t, small, "", 12) })
	t.Run("bfcl", func(t *testing.T) {
		shared := os.Getenv("LATHE_SHARED")
		if shared == "" {
			shared = "../../../../shared"
		}
		folder, err := filepath.Abs(filepath.Join(shared, "data", "bfcl"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(folder); err != nil {
			t.Skip("set LATHE_SHARED to the folder that holds data/bfcl")
		}
		playScripts(t, folder, "split_100_100.json", 100)
	})
}

func playScripts(t *testing.T, folder, halves string, tasks int) {
	server := &scripted{tasks: map[string]env.Task{}}
	web := httptest.NewServer(server)
	defer web.Close()
	r := stagetest.NewOf(t, "tooluse-smoke",
		"env.tooluse.bfcl="+folder, "env.tooluse.halves="+halves, "policy.new.tokenizer=bytes",
		"policy.new.max_position_embeddings=1000000", "rollout.max_new_tokens=100000", "rollout.group=1", "preset=reinforce", "curriculum.name=uniform", "rollout.remote.url="+web.URL,
		"rollout.remote.server=openai", "rollout.remote.api=chat", "rollout.remote.retries=0", "rollout.remote.ready_seconds=5",
	)
	r.Job.Plain = true // the policy has no seal
	server.folder = r.Path("policy")
	r.Check(os.Mkdir(server.folder, 0o755))
	r.Check(warm.InitPolicy(warm.SettingsOf(r.Recipe), r.Env, server.folder))
	format, err := chat.Load(server.folder, time.Time{})
	r.Check(err)
	plan, instances := r.Plan(tasks)
	all, err := bfcl.ReadTasks(folder)
	r.Check(err)
	byID := map[string]toolTask{}
	for _, task := range all {
		known, ok := r.Env.Set().Task(task.ID)
		if !ok {
			continue
		}
		of := toolTask{Task: known, bfcl: task.FirstTurns(1), extra: harmless[task.Classes[0]]}
		var truth [][]json.RawMessage
		r.Check(json.Unmarshal([]byte(known.Answer), &truth))
		for _, call := range truth[0] {
			of.truth = append(of.truth, string(call))
		}
		byID[task.ID] = of
	}
	for _, instance := range instances {
		key := promptKey(instance.Messages)
		if other, twice := server.tasks[key]; twice {
			t.Fatalf("%s and %s have one prompt", other.ID, instance.TaskID)
		}
		server.tasks[key] = byID[instance.TaskID].Task
	}
	for number, policy := range scriptedPolicies {
		server.say = func(task env.Task, step int) string { return policy.say(byID[task.ID], step) }
		rollouts := r.Path(fmt.Sprintf("rollout-%d.parquet", number))
		_, err := rollout.Run(r.Context(), r.Job, rollout.SettingsOf(r.Recipe), r.Env, rollout.Inputs{
			Plan: plan, LastRow: len(instances), PolicyFolder: server.folder, Iteration: 1, Of: 1, Output: rollouts,
		})
		r.Check(err)
		scores := r.Path(fmt.Sprintf("score-%d.parquet", number))
		_, err = score.Run(r.Context(), r.Job, r.Recipe.Score, r.Env, score.Inputs{Plan: plan, Rollout: rollouts, Iteration: 1, Of: 1, Output: scores})
		r.Check(err)
		rows, verdicts := stagetest.Read[shard.Rollout](r, rollouts), stagetest.Read[shard.Score](r, scores)
		if len(verdicts) != tasks {
			t.Fatalf("%d verdicts, want %d", len(verdicts), tasks)
		}
		for i, verdict := range verdicts {
			task := byID[instances[i].TaskID]
			if want := policy.reward(task); verdict.Reward != want || verdict.NormalizedScore != want {
				t.Errorf("%s, %s: reward %g, want %g: %s", policy.name, task.ID, verdict.Reward, want, verdict.Feedback)
			}
			if policy.turns != nil && int(rows[i].Turns) != policy.turns(task) {
				t.Errorf("%s, %s: %d turns, want %d", policy.name, task.ID, rows[i].Turns, policy.turns(task))
			}
			if want := policy.name == "no ending"; (verdict.Outcome == string(shard.OutcomeInvalid)) != want {
				t.Errorf("%s, %s: outcome %s", policy.name, task.ID, verdict.Outcome)
			}
			checkMask(t, format, rows[i])
		}
	}
}

// checkMask: what is marked as the policy's own is what the assistant says, and
// its stop tokens.
func checkMask(t *testing.T, format chat.Chat, row shard.Rollout) {
	t.Helper()
	var own []int32
	for i, id := range row.TokenIDs {
		if row.LossMask[i] && !slices.Contains(format.StopTokens(), id) {
			own = append(own, id)
		}
	}
	said := ""
	for _, m := range row.Messages {
		if m.Role == "assistant" {
			said += m.Content
		}
	}
	if got := format.Tokenizer().Decode(own); got != said {
		t.Errorf("the policy's own tokens say %q, the assistant %q", got, said)
	}
}
