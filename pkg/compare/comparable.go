package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// What of the sections data and env decides on which problems and by which rule policies
// are measured. All else of env is a method's own: what it is rewarded for, how it asks
// its policy and what it shows it. So is what stands there for training alone, and other
// sets than the test split are not compared.
var (
	drawing  = []string{"data", "env.tooluse.bfcl", "env.tooluse.halves", "env.tooluse.functions"}
	training = []string{
		"data.train", "data.offline", "data.demonstrations", "data.validation", "data.held_out", "data.test.response",
		"env.answer.worked", "env.answer.format_reward",
	}
	scoring = []string{
		"env.answer", "env.quality", "env.boards", "env.limits", "env.max_turns", "env.program.max_turns",
		"env.tooluse.test", "env.tooluse.max_calls",
	}
)

// measuredBy are the settings of a recipe's text that draw held-out problems and those
// that score answers, by their path. A file is the same wherever it lies.
func measuredBy(text string) (drawn, scored map[string]string, err error) {
	all, err := config.Changes(nil, []byte(text))
	if err != nil {
		return nil, nil, fmt.Errorf("reading a recipe: %w", err)
	}
	drawn, scored = map[string]string{}, map[string]string{}
	for _, c := range all {
		switch value := inFolders().ReplaceAllString(*c.Now, ""); {
		case below(c.Path, training):
		case below(c.Path, drawing):
			drawn[c.Path] = value
		case below(c.Path, scoring):
			scored[c.Path] = value
		}
	}
	return drawn, scored, nil
}

// inFolders are the folders of paths, in a list too, and the quotes that some need.
var inFolders = lazyregexp.New(`"|[^\[\], "]*/`)

func below(path string, paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return path == p || strings.HasPrefix(path, p+".") })
}

// differing says in which setting that both have two recipes differ; empty for none.
func differing(a, b map[string]string) string {
	for _, path := range slices.Sorted(maps.Keys(a)) {
		if other, both := b[path]; both && other != a[path] {
			return fmt.Sprintf("%s is %s and %s", path, config.Shorten(a[path]), config.Shorten(other))
		}
	}
	return ""
}

// newTokens are the lengths that answers are cut at, turn by turn.
func newTokens(r recipe.Recipe) string {
	return strings.Trim(fmt.Sprint(r.Evaluation.NewTokens(r.Rollout)), "[]")
}

// incomparable says in what two runs cannot be compared; empty if they can.
func incomparable(a, b finished) string {
	for _, c := range []struct {
		what string
		a, b any
	}{
		{"environment", a.Recipe.Env.Name, b.Recipe.Env.Name},
		{"evaluation.role", a.Recipe.Evaluation.Role, b.Recipe.Evaluation.Role},
		{"evaluation.steps (K)", a.steps, b.steps},
		{"evaluation.samples", a.Recipe.Evaluation.Samples, b.Recipe.Evaluation.Samples},
		{"evaluation.temperature", a.Recipe.Evaluation.Temperature, b.Recipe.Evaluation.Temperature},
		{"evaluation.top_k", a.Recipe.Evaluation.TopK, b.Recipe.Evaluation.TopK},
		{"evaluation.top_p", a.Recipe.Evaluation.TopP, b.Recipe.Evaluation.TopP},
		{"evaluation.max_new_tokens", newTokens(a.Recipe), newTokens(b.Recipe)},
		{"evaluation.seconds", a.Recipe.Evaluation.Seconds, b.Recipe.Evaluation.Seconds},
		{"evaluation.scaffold", a.Recipe.Evaluation.Scaffold, b.Recipe.Evaluation.Scaffold},
		{"number of held-out problems", a.Recipe.Evaluation.Problems, b.Recipe.Evaluation.Problems},
	} {
		if c.a != c.b {
			return fmt.Sprintf("%s is %v and %v", c.what, c.a, c.b)
		}
	}
	if why := differing(a.scored, b.scored); why != "" {
		return "answers are scored in another way: " + why
	}
	if a.tasks == b.tasks {
		return ""
	}
	if a.Recipe.Seed == b.Recipe.Seed {
		return fmt.Sprintf("with seed %d both, the held-out problems are others (sha256 %.12s and %.12s)", a.Recipe.Seed, a.tasks, b.tasks)
	}
	// Seeds draw problems of their own, and they must do so from the same.
	if why := differing(a.drawn, b.drawn); why != "" {
		return "the held-out problems are drawn from others: " + why
	}
	return ""
}
