package generate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// TestValidate: which field is refused with what is set; none where it stands empty.
func TestValidate(t *testing.T) {
	t.Parallel()
	type recipe struct {
		Generate Settings `yaml:"generate"`
	}
	defaults := func() *recipe {
		var r recipe
		r.Generate.SetDefaults()
		return &r
	}
	for set, want := range map[string]string{
		"generate.count=1000":                   "",
		"generate.kinds=[]":                     "generate.kinds: must name at least one kind",
		"generate.kinds=[add,plus]":             "generate.kinds: must be one of",
		"generate.kinds=[add,sub,add]":          "generate.kinds: is named twice",
		"generate.kinds=[mod,comparison__pair]": "",
		"generate.levels=[]":                    "generate.levels: must name at least one level",
		"generate.levels=[0]":                   "generate.levels: ",
		"generate.levels=[1,9]":                 "",
		"generate.levels=[10]":                  "generate.levels: ",
		"generate.levels=[3,1,3]":               "generate.levels: is named twice",
		"generate.count=1":                      "",
		"generate.count=0":                      "generate.count: ",
		"generate.test_share=0":                 "generate.test_share: ",
		"generate.test_share=0.01":              "",
		"generate.test_share=0.99":              "",
		"generate.test_share=1":                 "generate.test_share: ",
	} {
		r := defaults()
		must.Do(t, config.Apply(r, []string{set}, config.Options{}))
		c := config.NewChecker(r)
		r.Generate.Validate(c, "generate")
		if err := c.Err("recipe"); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("with %s: %v, want %q", set, err, want)
		}
	}
	want := Settings{Kinds: []string{"add", "sub"}, Levels: []int{1, 2}, Count: 1000, TestShare: 0.2}
	if d := cmp.Diff(want, defaults().Generate); d != "" {
		t.Errorf("defaults (-want +got):\n%s", d)
	}
	if got := (Settings{}).Choices("kinds"); !cmp.Equal(got, Kinds()) || (Settings{}).Choices("levels") != nil {
		t.Errorf("the kinds are the choices of kinds and of no other field: %q", got)
	}
}
