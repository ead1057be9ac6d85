package promptroom

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
)

// letters is a policy of which each letter of a conversation is a token.
type letters struct{ chat.Chat }

func (letters) Prompt(conversation []shard.Message) ([]int32, error) {
	n := 0
	for _, m := range conversation {
		if m.Content == "unreadable" {
			return nil, errors.New("it cannot be read")
		}
		n += len(m.Content)
	}
	return make([]int32, n), nil
}

func (l letters) Demonstrate(conversation []shard.Message) ([]int32, []bool, error) {
	ids, err := l.Prompt(conversation)
	return ids, nil, err
}

// asking is an environment of questions of so many letters, in which a later attempt shows
// the answer before, after as many letters as revising says.
type asking struct {
	env.Env
	set      *env.TaskSet
	revising int
	needs    bool // a real answer, to revise
	usage    bool
	shows    bool // demonstrations, of a letter
}

func (a asking) Set() *env.TaskSet { return a.set }
func (asking) Traits() env.Traits  { return env.Traits{Turns: 1, Waves: 1} }
func asks(split env.Split, lengths ...int) asking {
	set := env.NewTaskSet("asking")
	for i, n := range lengths {
		set.Add(env.Task{ID: fmt.Sprintf("%s%d", split, i), Kind: "k", Question: strings.Repeat("q", n)}, env.Facts{Split: split})
	}
	return asking{set: set, revising: 10}
}

func (a asking) Prompt(task env.Task, kind shard.Kind, parent env.Parent) ([]shard.Message, error) {
	first := []shard.Message{{Role: "user", Content: task.Question}}
	if kind == shard.KindInitial {
		return first, nil
	}
	answer := parent.Messages[len(parent.Messages)-1].Content
	switch {
	case a.usage:
		return nil, exitcode.Usagef("env.prompts has no template")
	case a.needs && answer == "":
		return nil, errors.New("there is no answer")
	}
	return append(first, shard.Message{Role: "user", Content: answer + strings.Repeat("r", a.revising)}), nil
}

func (a asking) Demonstration(task env.Task, _ shard.Kind, _ rng.Stream) ([]shard.Message, bool, error) {
	return []shard.Message{{Role: "user", Content: task.Question}, {Role: "assistant", Content: "a"}}, a.shows, nil
}

func load(t *testing.T, settings ...string) recipe.Recipe {
	t.Helper()
	resolved, err := recipe.Load(sourcetree.Path("jobs", "smoke.yaml"), settings)
	if err != nil {
		t.Fatal(err)
	}
	return resolved.Recipe
}

// TestTry: of a context of 20 tokens the prompts of 19 leave room for one, and those of 20
// for none; a later attempt adds 10 and shows an answer of 5 at most.
func TestTry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what        string
		environment asking
		kind        shard.Kind
		tried       int
		full, tight []string
	}{
		{"first answers", asks(env.Train, 19, 20, 21), shard.KindInitial, 3, []string{"train1", "train2"}, nil},
		{"later ones", asks(env.Train, 4, 5, 9, 10), shard.KindImprove, 4, []string{"train3"}, []string{"train1", "train2"}},
		{"after a real answer alone, of which there is none", asking{set: asks(env.Train, 4).set, needs: true}, shard.KindImprove, 0, nil, nil},
		{"after a demonstrated answer", asking{set: asks(env.Train, 8, 9).set, needs: true, shows: true, revising: 10}, shard.KindImprove, 2, []string{"train1"}, []string{"train0"}},
	} {
		tokens := 5
		if c.kind == shard.KindInitial {
			tokens = 0
		}
		u := Use{Split: env.Train, Kind: c.kind, NewTokens: tokens, tasks: c.environment.set.Tasks(env.Train)}
		if err := u.try(c.environment, Policy{letters{}, 20}); err != nil {
			t.Fatal(err)
		}
		if u.Tried != c.tried || !slices.Equal(u.Full, c.full) || !slices.Equal(u.Tight, c.tight) {
			t.Errorf("%s: %d tried, full %q, tight %q; want %d, %q, %q", c.what, u.Tried, u.Full, u.Tight, c.tried, c.full, c.tight)
		}
	}
	usage := asking{set: asks(env.Train, 4).set, usage: true}
	u := Use{Kind: shard.KindImprove, tasks: usage.set.Tasks(env.Train)}
	if err := u.try(usage, Policy{letters{}, 20}); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("a template that is missing: %v", err)
	}
	u = Use{Kind: shard.KindCrossover, tasks: asks(env.Train, 4).set.Tasks(env.Train)}
	if err := u.try(asks(env.Train, 4), Policy{letters{}, 20}); exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), `environment of task "train0" has no prompt`) {
		t.Errorf("two responses in an environment that joins none: %v", err)
	}
	unreadable := asks(env.Train)
	unreadable.set.Add(env.Task{ID: "x", Question: "unreadable"}, env.Facts{Split: env.Train})
	u = Use{Kind: shard.KindInitial, tasks: unreadable.set.Tasks(env.Train)}
	if err := u.try(unreadable, Policy{letters{}, 20}); err == nil || !strings.Contains(err.Error(), `initial prompt of task "x"`) {
		t.Errorf("a prompt that cannot be read: %v", err)
	}
}

// TestExtremes: the 64 longest questions, longest first, and the shortest.
func TestExtremes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{3: 3, 65: 65, 66: 65, 200: 65} {
		var lengths []int
		for i := range n {
			lengths = append(lengths, 1+(i*7)%n)
		}
		tasks := asks(env.Train, lengths...).set.Tasks(env.Train)
		got := extremes(tasks)
		if len(got) != want || len(got[0].Question) != len(slices.MaxFunc(tasks, func(a, b env.Task) int { return len(a.Question) - len(b.Question) }).Question) || len(got[len(got)-1].Question) != 1 || len(got[1].Question) > len(got[0].Question) {
			t.Errorf("of %d questions %d are tried, from %d to %d letters", n, len(got), len(got[0].Question), len(got[len(got)-1].Question))
		}
	}
}

// TestLook: the kinds that a curriculum, a scaffold and an evaluation ask for, each once,
// by the split that they are asked of.
func TestLook(t *testing.T) {
	t.Parallel()
	environment := asks(env.Train, 4, 5)
	for i := range 3 {
		environment.set.Add(env.Task{ID: fmt.Sprint("test", i), Question: "q"}, env.Facts{Split: env.Test})
	}
	for _, c := range []struct {
		settings []string
		want     []string // split, kind, tried, tokens of the answer before
	}{
		{[]string{"evaluation.problems=2"}, []string{"train initial 2 0", "train improve 2 6", "train diverge 2 6", "test initial 2 0", "test improve 2 6"}},
		{[]string{"curriculum.name=uniform", "evaluation.steps=0"}, []string{"train initial 2 0", "test initial 3 0"}},
		{[]string{"curriculum.exit.diverge_probability=0", "evaluation.steps=0"}, []string{"train initial 2 0", "train improve 2 6", "test initial 3 0"}},
	} {
		uses, err := Look(SettingsOf(load(t, c.settings...)), environment, Policy{letters{}, 100})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, u := range uses {
			got = append(got, fmt.Sprint(u.Split, " ", u.Kind, " ", u.Tried, " ", u.NewTokens))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.settings, diff)
		}
	}
	r := load(t)
	r.Evaluation.Problems = 0
	if uses, err := Look(SettingsOf(r), environment, Policy{letters{}, 100}); err != nil || slices.ContainsFunc(uses, func(u Use) bool { return u.Split == env.Test }) {
		t.Errorf("without an evaluation: %+v, %v", uses, err)
	}
	if _, err := Look(SettingsOf(load(t)), asks(env.Test, 3), Policy{letters{}, 100}); exitcode.Code(err) != exitcode.Data {
		t.Errorf("without training tasks: %v", err)
	}
}

// TestRefuse: a run in which no prompt of a kind leaves room is refused, with what helps;
// what some prompts leave is noted.
func TestRefuse(t *testing.T) {
	t.Parallel()
	full := func(split env.Split, kind shard.Kind, tried int) Use {
		return Use{Split: split, Kind: kind, Tried: tried, Full: []string{"a", "b"}, Tight: []string{"c"}, NewTokens: 6}
	}
	for _, c := range []struct {
		use        Use
		hint, note string
	}{
		{Use{Tried: 3, Full: []string{"a"}}, "", "of 3  prompts of  that were tried (the longest, and the shortest) 1 leaves no room for a response in the policy's context of 20 tokens (the first: task \"a\")"},
		{full(env.Train, shard.KindImprove, 3), "", "2 leave no room for a response in the policy's context of 20 tokens (the first: task \"a\"), 1 leaves none where the answer before has all of its 6 tokens (the first: task \"c\")"},
		{Use{Tried: 3, Tight: []string{"c"}, NewTokens: 4}, "", "shortest) 1 leaves none where the answer before has all of its 4 tokens (the first: task \"c\")"},
		{Use{Tried: 1, Full: []string{"a"}, Kind: shard.KindImprove}, "no revisions", "of 1 improve prompt of  that was tried (the longest, and the shortest) 1 leaves no room"},
		{Use{}, "", ""},
		{Use{Tried: 3}, "", ""},
		{full(env.Train, shard.KindInitial, 2), "or shorter prompts", "of 2 initial prompts of train"},
		{full(env.Train, shard.KindDiverge, 2), "a curriculum and a scaffold that do not ask for diverge", "of 2 diverge"},
		{full(env.Test, shard.KindImprove, 2), "--set evaluation.steps=0", "of 2 improve prompts of test"},
	} {
		err := Refuse([]Use{{Tried: 1}, c.use}, 20)
		if (err == nil) != (c.hint == "") || err != nil && (exitcode.Code(err) != exitcode.Usage || !strings.Contains(strings.Join(exitcode.Hints(err), ""), c.hint) || !strings.Contains(err.Error(), `context of 20 tokens (the first: task "a")`)) {
			t.Errorf("%+v: %v, want %q", c.use, err, c.hint)
		}
		notes := Notes([]Use{{Tried: 1}, c.use}, 20)
		if (len(notes) == 0) != (c.note == "") || len(notes) > 1 || len(notes) == 1 && !strings.Contains(notes[0], c.note) {
			t.Errorf("%+v: notes %q, want %q", c.use, notes, c.note)
		}
	}
}

// TestDemonstrations: of each kind that a warm start learns from, the longest must fit: a
// question and its answer of a letter in 20.
func TestDemonstrations(t *testing.T) {
	t.Parallel()
	warm := func(steps int, pool string, improve, diverge float64) recipe.WarmStart {
		return recipe.WarmStart{Steps: steps, Pool: pool, Improve: improve, Diverge: diverge}
	}
	fits, long := asks(env.Train, 3, 19), asks(env.Train, 3, 20)
	fits.shows, long.shows = true, true
	silent := long
	silent.shows = false
	for _, c := range []struct {
		what        string
		w           recipe.WarmStart
		environment asking
		want        string
	}{
		{"they fit", warm(1, "", 0.5, 0.5), fits, ""},
		{"one does not", warm(1, "", 0, 0), long, "the demonstration of kind initial of task \"train1\" has 21 tokens, and the policy's context 20"},
		{"one of a kind of which nothing is learned", warm(1, "", 1, 0), long, "of kind improve"},
		{"of another kind", warm(1, "", 0, 1), long, "of kind diverge"},
		{"no steps", warm(0, "", 0, 0), long, ""},
		{"a pool", warm(1, "pool", 0, 0), long, ""},
		{"none are there", warm(1, "", 0, 0), silent, ""},
		{"no task is", warm(1, "", 0, 0), asks(env.Test, 3), "the training split"},
	} {
		err := Demonstrations(c.w, 1, c.environment, Policy{letters{}, 20})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
	unreadable := asks(env.Train)
	unreadable.shows = true
	unreadable.set.Add(env.Task{ID: "x", Question: "unreadable"}, env.Facts{Split: env.Train})
	if err := Demonstrations(warm(1, "", 0, 0), 1, unreadable, Policy{letters{}, 20}); err == nil || !strings.Contains(err.Error(), `demonstrating task "x"`) {
		t.Errorf("one that cannot be read: %v", err)
	}
}
