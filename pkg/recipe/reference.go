package recipe

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/preset"
	"github.com/lathe-rl/lathe/pkg/site"
)

//go:embed recipe.go
var source string

var _ = config.Docs[Recipe](source)

// Describe lists every field of a recipe in the order of [Write], with its
// default and its meaning.
func Describe() []config.Field {
	r := Defaults()
	return config.Describe(&r, "")
}

// Reference is the page jobs/REFERENCE.md: every field of recipes and site
// profiles, and every preset.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Recipes and site profiles

Generated from the types of the settings; ` + "`go test ./pkg/recipe -run Reference -update`" + ` writes it anew.

A recipe is one YAML file. Later wins: defaults, preset, the files named by ` + "`base:`" + `, the file, ` + "`--set FIELD=VALUE`" + `.

## Recipe

`)
	config.Table(&b, Describe())
	b.WriteString("\n## Site profile\n\n")
	config.Table(&b, site.Describe())
	b.WriteString("\n## Presets\n\nWhat each preset puts in `advantage`, `filters` and `loss`.\n")
	for _, p := range preset.All() {
		objective, err := p.Make(nil)
		if err != nil {
			panic(err) // a preset is complete
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s.\n\n```yaml\n%s```\n", p.Name, p.Summary, config.Write(&objective))
	}
	return b.String()
}
