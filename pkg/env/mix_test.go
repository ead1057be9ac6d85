package env_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/digits"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// part is the environment digits of a kind, with two problems to train on of one digit and one
// of two, and three that are held out.
func part(t *testing.T, kind string, weight float64) env.Part {
	t.Helper()
	p := env.Part{As: kind, Weight: weight}
	if err := p.Open(digits.Name); err != nil {
		t.Fatal(err)
	}
	p.Data.Settings = &digits.Data{Kind: kind, Longest: 1, Train: 2, Lengths: []int{3}, Test: 3, TestShare: .5}
	return p
}

// Tasks carry the names of their environments, and the held-out problems of all stand in the
// order of the shares 2 to 1, which are copy, copy, add, copy, until copy has no more. What is made from
// the rows of the tasks is the same.
func TestMix(t *testing.T) {
	t.Parallel()
	mix := env.Mix{part(t, "copy", 2), part(t, "add", 1)}
	setup := must.Get(mix.Setup())(t)
	tasks := must.Get(setup.Load(nil, 7, ""))(t)
	ids := func(split env.Split) (all []string) {
		for _, task := range tasks.Tasks(split) {
			all = append(all, task.ID)
			if kind, _, _ := strings.Cut(task.ID, "/"); task.Kind != kind+"/"+kind+"-00"+map[bool]string{true: "1", false: "3"}[split == env.Train] || tasks.Environment(task.ID) != kind {
				t.Errorf("%+v of %q", task, tasks.Environment(task.ID))
			}
		}
		return all
	}
	for split, want := range map[env.Split][]string{
		env.Train: {"copy/copy-001/train/0", "copy/copy-001/train/1", "add/add-001/train/0", "add/add-001/train/1"},
		"copy":    {"copy/copy-003/test/0", "copy/copy-003/test/1", "copy/copy-003/test/2"},
		"add":     {"add/add-003/test/0", "add/add-003/test/1", "add/add-003/test/2"},
		env.Test:  {"copy/copy-003/test/0", "copy/copy-003/test/1", "add/add-003/test/0", "copy/copy-003/test/2"},
	} {
		if diff := cmp.Diff(want, ids(split)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", split, diff)
		}
	}
	var texts []string // of what is trained on, in both environments
	for _, task := range tasks.Tasks(env.Train) {
		texts = append(texts, task.Question, task.Answer)
	}
	if diff := cmp.Diff(texts, tasks.Texts()); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}

	for name, set := range map[string]*env.TaskSet{"from data": tasks, "from rows": env.TasksOf(env.MixName, tasks.Rows())} {
		e := must.Get(setup.New(set, ""))(t)
		for _, task := range tasks.All() {
			conversation, ok, err := e.Demonstration(task, shard.KindInitial, rng.Stream{})
			want := []shard.Message{{Role: "user", Content: task.Question + "="}, {Role: "assistant", Content: task.Answer}}
			if diff := cmp.Diff(want, conversation); diff != "" || !ok || err != nil {
				t.Errorf("%s, %s: %v\n%s", name, task.ID, err, diff)
			}
			if prompt, err := e.Prompt(task, shard.KindInitial, env.Parent{}); err != nil || !cmp.Equal(prompt, want[:1]) {
				t.Errorf("%s, %s: prompt %+v, %v", name, task.ID, prompt, err)
			}
			if _, err := e.Begin(t.Context(), task, want[:1]); err != nil {
				t.Errorf("%s, %s: %v", name, task.ID, err)
			}
			if v, err := e.Score(t.Context(), env.Attempt{Task: task, Messages: want, Own: []int{1}}); err != nil || v.Reward != 1 {
				t.Errorf("%s, %s: %+v, %v", name, task.ID, v, err)
			}
		}
		for _, id := range []string{"sub/sub-001/train/0", "copy/copy-001/train/7", "copy"} {
			_, err := e.Prompt(env.Task{ID: id}, shard.KindInitial, env.Parent{})
			_, beginErr := e.Begin(t.Context(), env.Task{ID: id}, nil)
			_, scoreErr := e.Score(t.Context(), env.Attempt{Task: env.Task{ID: id}})
			_, _, showErr := e.Demonstration(env.Task{ID: id}, shard.KindInitial, rng.Stream{})
			for _, err := range []error{err, beginErr, scoreErr, showErr} {
				if exitcode.Code(err) != exitcode.Bug {
					t.Errorf("%s, %q: %v", name, id, err)
				}
			}
		}
		groups, of := e.Set().Apart(tasks.Tasks(env.Train))
		var rows []int
		for i := range of.Rows() {
			if rows = append(rows, i); len(rows) == 3 {
				break
			}
		}
		if len(groups) != 2 || len(groups[0]) != 2 || !slices.Equal(rows, []int{0, 0, 1}) {
			t.Errorf("%s: groups %v, rows %v", name, groups, rows)
		}
	}
}

// An environment stands beside others by another name or its own, and several are none.
func TestPart(t *testing.T) {
	t.Parallel()
	var p env.Part
	p.SetDefaults()
	if err := p.Open(digits.Name); err != nil || p.Called() != digits.Name || p.Weight != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if p.As = "other"; p.Called() != "other" {
		t.Errorf("called %q", p.Called())
	}
	if err := p.Open(env.MixName); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("several: %v", err)
	}
	if got := p.Choices("name"); !slices.Contains(got, fakeName) || slices.Contains(got, env.MixName) || p.Choices("as") != nil {
		t.Errorf("choices %q", got)
	}
}

const fakeName = "fake"

// fake is an environment with a program, which has waited since a time, and texts of its own.
type fake struct {
	env.Env
	tasks   *env.TaskSet
	since   time.Time
	started int
	closed  bool
	tail    bool
	asked   bool
}

func (f *fake) Set() *env.TaskSet                         { return f.tasks }
func (f *fake) Traits() env.Traits                        { return env.Traits{Turns: 3} }
func (f *fake) Start(threads int, _ func(string, ...any)) { f.started += threads }
func (f *fake) Waiting() []env.Wait                       { return []env.Wait{{Program: "p", Since: f.since}} }
func (f *fake) Close()                                    { f.closed = true }
func (f *fake) CutBy(env.Tail)                            { f.tail = true }
func (f *fake) Assist(env.Assistant)                      { f.asked = true }

func (f *fake) Demonstration(env.Task, shard.Kind, rng.Stream) ([]shard.Message, bool, error) {
	return nil, false, errors.New("no file")
}

// fakeSettings makes the environment that a test has put there.
type fakeSettings struct {
	made *fake
	host error
}

func init() {
	env.Axis.Register(registry.Choice[env.Setup]{
		Name: fakeName, Settings: func() any { return &fakeSettings{} },
		Make: func(settings any) (env.Setup, error) {
			s := settings.(*fakeSettings)
			return env.Setup{
				Traits: env.Traits{Turns: 3, MaxFailed: .5, MaxFailedSetting: "env.fail", Programs: true}, Data: &struct{}{},
				Validate: func(*config.Checker, any) {},
				Load: func(any, uint64, string) (*env.TaskSet, error) {
					tasks := env.NewTaskSet(fakeName)
					tasks.Add(env.Task{ID: "one", Kind: "k"}, env.Facts{Split: env.Train})
					tasks.Add(env.Task{ID: "two", Kind: "k"}, env.Facts{Split: "hints"})
					tasks.Notes, tasks.LeftOut, tasks.LeftOutNames = []string{"a note"}, 1, []string{"lost"}
					tasks.Texts = func() []string { return []string{"text"} }
					return tasks, nil
				},
				New:  func(tasks *env.TaskSet, _ string) (env.Env, error) { s.made.tasks = tasks; return s.made, nil },
				Host: func() ([]string, error) { return []string{"host"}, s.host },
			}, nil
		},
	})
}

// What environments with programs, notes and needs of their own say and do, they say and do
// beside others, by their names.
func TestMixOfPrograms(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	first, second := &fake{since: at.Add(time.Second)}, &fake{since: at}
	failing := errors.New("no sandbox")
	of := func(as string, made *fake, host error) env.Part {
		return env.Part{Name: fakeName, As: as, Weight: 1, Settings: &fakeSettings{made, host}, Data: env.PartData{Settings: &struct{}{}}}
	}
	mix := env.Mix{of("a", first, nil), of("b", second, nil), part(t, "copy", 1)}
	setup := must.Get(mix.Setup())(t)
	if want := (env.Traits{Turns: 3, Waves: 1, MaxFailed: .5, MaxFailedSetting: "env.fail", Programs: true}); setup.Traits != want {
		t.Errorf("traits %+v, want %+v", setup.Traits, want)
	}
	if notes, err := setup.Host(); !slices.Equal(notes, []string{"host", "host"}) || err != nil {
		t.Errorf("%q, %v", notes, err)
	}
	for _, bad := range []env.Mix{{of("a", first, failing), of("b", second, nil)}, {of("a", first, nil), of("b", second, failing)}} {
		if _, err := must.Get(bad.Setup())(t).Host(); !errors.Is(err, failing) {
			t.Errorf("a host that lacks what one needs: %v", err)
		}
	}
	tasks := must.Get(setup.Load(nil, 7, ""))(t)
	if !slices.Equal(tasks.Notes, []string{"a: a note", "b: a note"}) || tasks.LeftOut != 2 || !slices.Equal(tasks.LeftOutNames, []string{"a/lost", "b/lost"}) {
		t.Errorf("notes %q, left out %d %q", tasks.Notes, tasks.LeftOut, tasks.LeftOutNames)
	}
	if got := tasks.Texts(); len(got) != 2+2*2 || got[0] != "text" || got[1] != "text" {
		t.Errorf("texts %q", got)
	}
	if held := tasks.Tasks(env.Test); len(held) != 3 { // of copy, the only one that has any
		t.Errorf("held out are %v", held)
	}
	if hints := tasks.Tasks("b/hints"); len(hints) != 1 || hints[0].ID != "b/two" {
		t.Errorf("another set: %v", hints)
	}
	if again := must.Get(setup.New(env.TasksOf(env.MixName, tasks.Rows()), ""))(t); len(again.Set().All()) != len(tasks.All()) || len(first.tasks.Tasks("hints")) != 1 || len(first.tasks.Tasks(env.Train)) != 1 {
		t.Errorf("from rows: %v", first.tasks.All())
	}
	e := must.Get(setup.New(tasks, ""))(t)
	if got := env.TraitsOf(e, "a/one").Turns; got != 3 {
		t.Errorf("%d turns of a's", got)
	}
	if got := env.TraitsOf(e, "copy/copy-001/train/0").Turns; got != 1 {
		t.Errorf("%d turns of copy's", got)
	}
	if got := env.TraitsOf(e, "unknown"); got != setup.Traits {
		t.Errorf("traits %+v of no task", got)
	}
	if _, _, err := e.Demonstration(env.Task{ID: "a/one"}, shard.KindInitial, rng.Stream{}); err == nil || err.Error() != `environment of task "a/one": no file` {
		t.Errorf("a demonstration that fails: %v", err)
	}
	programs := e.(env.Programs)
	programs.Start(2, nil)
	if waits := programs.Waiting(); len(waits) != 2 || !waits[0].Since.Equal(at) {
		t.Errorf("waiting %+v, want the oldest first", waits)
	}
	assisted := e.(env.Assisted)
	assisted.CutBy(func(text string, _ int) string { return text })
	assisted.Assist(func(context.Context, []shard.Message) (string, bool, error) { return "", false, nil })
	programs.Close()
	for _, f := range []*fake{first, second} {
		if f.started != 2 || !f.closed || !f.tail || !f.asked {
			t.Errorf("%+v", f)
		}
	}
}
