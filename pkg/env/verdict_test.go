package env_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestVerdictRows: a score that is written and read is the same; what an evaluation may
// choose by is what a program says of itself, and nothing else of it.
func TestVerdictRows(t *testing.T) {
	t.Parallel()
	v := env.TurnVerdict{
		Outcome: shard.OutcomeWrong, RawScore: 1, NormalizedScore: 0.5, Reward: -2, Parts: []shard.RewardPart{{Name: "format", Value: 3}, {Name: env.PartValidation, Value: 4}},
		Milestones: []string{"m"}, Feedback: "f", Extracted: "x", ExecuteSeconds: 5, CPUSeconds: 6, Fingerprint: "p", ValidationScore: 7,
	}
	if diff := cmp.Diff(v, env.TurnVerdictOf(v.Row())); diff != "" {
		t.Errorf("written and read (-want +got):\n%s", diff)
	}
	if score, ok := v.Validation(); score != 4 || !ok {
		t.Errorf("validation is %g, %v", score, ok)
	}
	if score, ok := v.Part("other"); score != 0 || ok {
		t.Errorf("a part that is not there is %g, %v", score, ok)
	}
	blind := v
	blind.RawScore, blind.NormalizedScore, blind.Reward, blind.Parts = 0, 0, 0, v.Parts[1:]
	if diff := cmp.Diff(blind, v.Blind()); diff != "" || len(v.Parts) != 2 {
		t.Errorf("blind (-want +got):\n%s", diff)
	}
	if none := env.NoRoom(); none.Outcome != shard.OutcomeInvalid || none.Reason != "no room" || !strings.Contains(none.Feedback, "no room for a response") {
		t.Errorf("without room: %+v", none)
	}
}

// TestConversations: where the policy speaks, and how its answer continues a prompt that
// ends with its own beginning.
func TestConversations(t *testing.T) {
	t.Parallel()
	say := func(texts ...string) (messages []shard.Message) {
		for i := 0; i < len(texts); i += 2 {
			messages = append(messages, shard.Message{Role: texts[i], Content: texts[i+1]})
		}
		return messages
	}
	asked, begun := say("user", "q"), say("user", "q", "assistant", "The answer")
	for _, c := range []struct {
		messages []shard.Message
		prompt   int
		want     []shard.Message
		end      int
	}{
		{asked, 1, say("user", "q", "assistant", " is 2"), 1},
		{begun, 2, say("user", "q", "assistant", "The answer is 2"), 1},
		{begun, 1, say("user", "q", "assistant", "The answer", "assistant", " is 2"), 1}, // it has spoken
		{nil, 0, say("assistant", " is 2"), 0},
	} {
		got, end := env.Answer(c.messages, c.prompt, " is 2")
		if diff := cmp.Diff(c.want, got); diff != "" || end != c.end {
			t.Errorf("the prompt ends at %d, want %d; messages (-want +got):\n%s", end, c.end, diff)
		}
	}
	if begun[1].Content != "The answer" || env.Begins(asked) || env.Begins(nil) || !env.Begins(begun) || !env.Begins(begun[1:]) {
		t.Errorf("begun is %+v", begun)
	}
	long := append(begun, say("assistant", "a", "user", "b", "assistant", "c")...)
	if diff := cmp.Diff([]int{2, 4}, env.Said(long, 2)); diff != "" {
		t.Errorf("said from 2 on (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		step env.Step
		over bool
	}{{env.Step{}, true}, {env.Step{Wait: true}, false}, {env.Step{Messages: asked}, false}} {
		if c.step.Over() != c.over {
			t.Errorf("%+v is over: %v", c.step, !c.over)
		}
	}
	step, err := env.Reply(func([]shard.Message) ([]shard.Message, error) { return asked, errors.New("e") }).Next(t.Context(), begun, nil)
	if len(step.Messages) != 1 || err == nil {
		t.Errorf("a reply: %+v, %v", step, err)
	}
}

// TestTemplates: what templates must hold, and slips in their names.
func TestTemplates(t *testing.T) {
	t.Parallel()
	const question, task, previous = "{question}", "must contain {instruction} or {question}", "must contain {previous_response}"
	var settings struct {
		Evaluation struct {
			Problems int `yaml:"problems"`
		} `yaml:"evaluation"`
	}
	settings.Evaluation.Problems = 5
	for _, c := range []struct {
		initial, improve, diverge string
		want                      []string
	}{
		{question, "{instruction} {previous_response}", "{question} {previous_response}", nil},
		{question + ` \boxed{answer}`, "{instruction} {previous_response}", "{question} {previous_response}", nil},
		{"solve", "{previous_response}", "{question}", []string{"p.initial", "must contain {question}", "p.improve", task, "p.diverge", previous}},
		{question + "{qestion}", "{instruction} {previous_response}", "{question} {previous_response}", []string{"has {qestion}; did you mean {question}?"}},
	} {
		checker := config.NewChecker(&settings)
		env.CheckTemplates(checker, "p", c.initial, c.improve, c.diverge)
		err := checker.Err("x")
		if (err == nil) != (c.want == nil) {
			t.Errorf("%+v: %v", c, err)
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %q", c, err, want)
			}
		}
	}
	if got, want := env.Fill("{question}|{instruction}|{previous_response}|{other}", "{instruction}", "i", "{question}"), "{instruction}|i|{question}|{other}"; got != want {
		t.Errorf("filled to %q, want %q", got, want)
	}
	for kept, refused := range map[int]bool{0: false, 1: true, 4: true, 5: false} {
		checker := config.NewChecker(&settings)
		env.CheckProblems(checker, "data.test.limit", kept)
		if err := checker.Err("x"); (err != nil) != refused {
			t.Errorf("5 problems of %d: %v", kept, err)
		}
	}
	for _, c := range []struct{ name, want string }{
		{"aime-24", ""}, {"a", ""}, {"24", "begin with a letter"}, {"A", "small letters"}, {"", "small letters"}, {"train", "always there"}, {"test", "always there"}, {"seen", "named twice"},
	} {
		checker, seen := config.NewChecker(&settings), map[string]bool{"seen": true}
		env.CheckSetName(checker, "data.sets", c.name, seen)
		if err := checker.Err("x"); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || !seen[c.name] {
			t.Errorf("a set %q: %v, want %q", c.name, err, c.want)
		}
	}
}

// other is an environment with programs that its test starts and ends.
type other struct {
	*env.TaskSet
	env.Env
	settings *otherSettings
	folder   string
	started  chan string
	waits    *env.Waits
}

type otherSettings struct {
	Broken bool `yaml:"broken"`
}

func (o other) Set() *env.TaskSet { return o.TaskSet }

func (o other) Start(threads int, log func(string, ...any)) {
	log("started with %d", threads)
	o.started <- "start"
}

func (o other) Waiting() []env.Wait { return o.waits.Open() }

func (o other) Close() { o.started <- "close" }

func init() {
	env.Axis.Register(registry.Choice[env.Setup]{
		Name: "other", Summary: "for tests",
		Settings: func() any { return &otherSettings{} },
		Make: func(settings any) (env.Setup, error) {
			return env.Setup{
				Data: &struct{ Files int }{7},
				Load: func(data any, seed uint64, folder string) (*env.TaskSet, error) {
					if settings.(*otherSettings).Broken {
						return nil, exitcode.Dataf("no tasks")
					}
					set := env.NewTaskSet("other")
					set.Add(env.Task{ID: folder, Level: int(seed)}, env.Facts{Split: env.Train})
					return set, nil
				},
				New: func(tasks *env.TaskSet, folder string) (env.Env, error) {
					return other{TaskSet: tasks, settings: settings.(*otherSettings), folder: folder}, nil
				},
				Generator: &env.Generator{Summary: "makes others"},
			}, nil
		},
	})
}

// TestRegistered: environments by name, from data or from the rows of their tasks.
func TestRegistered(t *testing.T) {
	t.Parallel()
	settings, data, err := env.Defaults("other")
	if _, is := settings.(*otherSettings); err != nil || !is || data.(*struct{ Files int }).Files != 7 {
		t.Errorf("defaults %v, %v: %v", settings, data, err)
	}
	made, err := env.New("other", settings, data, 3, "here")
	if err != nil {
		t.Fatal(err)
	}
	if task, there := made.Set().Task("here"); !there || task.Level != 3 || made.(other).folder != "here" {
		t.Errorf("made %+v", made)
	}
	again, err := env.FromRows("other", settings, "there", made.Set().Rows())
	if err != nil {
		t.Fatal(err)
	}
	if task, there := again.Set().Task("here"); !there || task.Level != 3 || again.(other).folder != "there" {
		t.Errorf("made again %+v", again)
	}
	if _, err := env.New("other", &otherSettings{Broken: true}, data, 3, "here"); exitcode.Code(err) != exitcode.Data {
		t.Errorf("data that cannot be read: %v", err)
	}
	for what, err := range map[string]error{
		"defaults": func() error { _, _, err := env.Defaults("none"); return err }(),
		"new":      func() error { _, err := env.New("none", nil, nil, 0, ""); return err }(),
		"rows":     func() error { _, err := env.FromRows("none", nil, "", nil); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), "none") {
			t.Errorf("%s of an environment that is not there: %v", what, err)
		}
	}
	names, byName := env.Having(func(s env.Setup) *env.Generator { return s.Generator })
	if len(names) != 1 || byName["other"].Summary != "makes others" {
		t.Errorf("with generators: %q", names)
	}
	if names, _ := env.Having(func(s env.Setup) *env.LineChecker { return s.Checker }); len(names) != 0 {
		t.Errorf("with checkers: %q", names)
	}
}

// TestOpen: programs are started, their oldest slow request is reported, and the end ends
// them after a last word.
func TestOpen(t *testing.T) {
	t.Parallel()
	env.Open(struct{ env.Env }{}, 1, nil, time.Second, nil)() // without programs
	o := other{started: make(chan string, 2), waits: &env.Waits{}}
	reports := make(chan *env.Wait, 100)
	var said []string
	end := env.Open(o, 3, func(format string, args ...any) { said = append(said, format) }, time.Nanosecond, func(w *env.Wait, waited time.Duration) { reports <- w })
	if got := <-o.started; got != "start" || len(said) != 1 {
		t.Errorf("%s, said %q", got, said)
	}
	answered := o.waits.Begin(env.Wait{Program: "p", Request: "score", Limit: time.Minute, Setting: "env.seconds"})
	w := <-reports
	if got, want := w.After(61500*time.Millisecond), "the program p has not answered a request to score for 1m2s; it is ended after 1m0s (env.seconds)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	answered()
	for w != nil {
		w = <-reports
	}
	end()
	end()
	if got := <-o.started; got != "close" || len(o.started) > 0 {
		t.Errorf("%s, and %d more", got, len(o.started))
	}
}

// TestSpreadByCost: rows stay as they are where nothing tells what they cost.
func TestSpreadByCost(t *testing.T) {
	t.Parallel()
	set := env.NewTaskSet("other")
	id := func(s string) string { return s }
	rows := []string{"a", "bb", "ccc"}
	if diff := cmp.Diff(rows, env.SpreadByCost(set, rows, id)); diff != "" {
		t.Errorf("without costs: %s", diff)
	}
	set.Cost = func(id string) float64 { return float64(len(id)) }
	if diff := cmp.Diff([]string{"ccc", "a", "bb"}, env.SpreadByCost(set, rows, id)); diff != "" {
		t.Errorf("with costs: %s", diff)
	}
	for n, want := range map[int]int{-1: 3, 0: 3, 1: 1, 2: 2, 9: 3} {
		if got := env.Limit(rows, n, 1, env.Test); len(got) != want {
			t.Errorf("limited to %d: %q", n, got)
		}
	}
}
