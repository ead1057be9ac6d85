package compare

import (
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// Without a seed in common recipes say whether runs are measured on the same problems by
// the same rule. What methods differ in by training alone leaves them comparable.
func TestIncomparableSettings(t *testing.T) {
	t.Parallel()
	loaded := func(file, tasks string, settings ...string) finished {
		t.Helper()
		resolved, err := recipe.Load(filepath.Join("../../jobs", file), settings)
		if err != nil {
			t.Fatal(err)
		}
		r := finished{Run: Run{Run: &rundir.Run{Recipe: resolved.Recipe}, method: string(resolved.YAML)}, tasks: tasks}
		if r.drawn, r.scored, err = measuredBy(r.method); err != nil {
			t.Fatal(err)
		}
		return r
	}
	const drawn, scored = "the held-out problems are drawn from others: ", "answers are scored in another way: "
	for _, c := range []struct {
		recipe   string
		settings []string
		want     string
	}{
		{"quickstart.yaml", []string{"data.size=9"}, drawn + "data.size is 10 and 9"},
		{"quickstart.yaml", []string{"data.kinds=[tour]"}, drawn + "data.kinds is [sort] and [tour]"},
		{"quickstart.yaml", []string{"data.train=100", "curriculum.name=uniform"}, ""},
		{"mle-mini.yaml", []string{"env.quality=humanrank"}, scored + "env.quality is range and humanrank"},
		{"mle-mini.yaml", []string{"env.max_turns=3"}, scored + "env.max_turns is 1 and 3"},
		{"mle-mini.yaml", []string{"data.test=[wine-cultivars]"}, drawn + "data.test is [party-identification] and [wine-cultivars]"},
		{"mle-mini.yaml", []string{"data.train=[wine-cultivars]", "data.tasks=[elsewhere/mle]", "env.reward=partial_credit", "env.milestones=terminal", "env.instrument=rules"}, ""},
		{"tooluse-smoke.yaml", []string{"env.tooluse.test.steps=9"}, scored + "env.tooluse.test.steps is 12 and 9"},
		{"tooluse-smoke.yaml", []string{"env.tooluse.train.steps=9"}, ""},
		{"smoke.yaml", []string{"env.answer.extract=last"}, scored + "env.answer.extract is whole and last"},
		{"smoke.yaml", []string{"env.answer.format_reward=0.1", "env.prompts.improve={question} {previous_response}"}, ""},
		{"smoke.yaml", []string{"data.test.generate.kinds=[sub]"}, drawn + "data.test.generate.kinds is [add] and [sub]"},
		{"smoke.yaml", []string{"data.train.generate.kinds=[sub]", "optimizer.learning_rate=1"}, ""},
	} {
		first, second := loaded(c.recipe, "one"), loaded(c.recipe, "another", append(c.settings, "seed=99")...)
		if got := incomparable(first, second); got != c.want {
			t.Errorf("%s, %v: %q, want %q", c.recipe, c.settings, got, c.want)
		}
	}
	// Where the problems are the same, it does not matter how a recipe comes by them.
	if got := incomparable(loaded("quickstart.yaml", "one"), loaded("quickstart.yaml", "one", "seed=99", "data.size=9")); got != "" {
		t.Errorf("of the same problems: %q", got)
	}
}
