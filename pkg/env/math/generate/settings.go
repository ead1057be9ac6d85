package generate

import (
	_ "embed"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
)

//go:embed settings.go
var source string

var _ = config.Docs[Settings](source)

// Settings are those of our own seeded generator of problems: arithmetic in few
// characters, and the modules of DeepMind's Mathematics Dataset in its words.
// What a file of either split asks is left out.
type Settings struct {
	Kinds  []string `yaml:"kinds"`  // families of problems (data/README.md)
	Levels []int    `yaml:"levels"` // difficulty; for add and sub the number of digits, for DeepMind's modules the entropy, 3 to 9 in its training set and 8 in its test "interpolate"
	Count  int      `yaml:"count"`  // problems, spread evenly over kinds and levels
	// TestShare is the share of the problem space that is held out: a problem
	// is in the test split when a hash of its question falls below it, so the
	// two splits are disjoint whatever their counts.
	TestShare float64 `yaml:"test_share"`
}

// Choices lists the kinds.
func (Settings) Choices(field string) []string {
	if field == "kinds" {
		return Kinds()
	}
	return nil
}

// SetDefaults asks for sums and differences of one and two digits.
func (g *Settings) SetDefaults() {
	*g = Settings{Kinds: []string{"add", "sub"}, Levels: []int{1, 2}, Count: 1000, TestShare: 0.2}
}

// Validate checks the settings that stand at a field.
func (g *Settings) Validate(c *config.Checker, field string) {
	if len(g.Kinds) == 0 {
		c.Add(field+".kinds", nil, "must name at least one kind")
	}
	for i, kind := range g.Kinds {
		if c.Choice(field+".kinds", kind) && slices.Contains(g.Kinds[:i], kind) {
			c.Add(field+".kinds", kind, "is named twice")
		}
	}
	if len(g.Levels) == 0 {
		c.Add(field+".levels", nil, "must name at least one level")
	}
	for i, level := range g.Levels {
		if c.Between(field+".levels", level, 1, 9) && slices.Contains(g.Levels[:i], level) {
			c.Add(field+".levels", level, "is named twice")
		}
	}
	c.AtLeast(field+".count", g.Count, 1)
	if !(g.TestShare > 0 && g.TestShare < 1) {
		c.Add(field+".test_share", g.TestShare, "must be above 0 and below 1")
	}
}
