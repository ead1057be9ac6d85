package recipe

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/loss/preset"
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

// Reference is the page jobs/REFERENCE.md: every field of recipes, environments
// and site profiles, what can be chosen, and every preset.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Recipes and site profiles

Generated from the types of the settings and from what is registered; ` + "`go test ./pkg/recipe -run Reference -update`" + ` writes it anew.

A recipe is one YAML file. Later wins: defaults, preset, the files named by ` + "`base:`" + `, the file, ` + "`--set FIELD=VALUE`" + `.

## Recipe

The other fields of ` + "`env` and `data`" + ` are the environment's, see below.

`)
	r := Defaults()
	r.Env.Settings, r.Data.Settings = nil, nil
	config.Table(&b, config.Describe(&r, ""))
	for _, c := range env.Axis.All() {
		settings, data, err := env.Defaults(c.Name)
		if err != nil {
			panic(err) // defaults are complete
		}
		fmt.Fprintf(&b, "\n## Environment %s\n\n%s.\n\n", c.Name, upperFirst(c.Summary))
		config.Table(&b, append(config.Describe(settings, "env"), config.Describe(data, "data")...))
	}
	b.WriteString("\n## Choices\n\nWhat a recipe composes (`lathe recipe compose`).\n\n| axis | field | choice | what it is |\n| --- | --- | --- | --- |\n")
	for _, axis := range Axes() {
		for _, c := range axis.Choices {
			fmt.Fprintf(&b, "| %s | `%s` | `%s` | %s |\n", axis.Name, strings.Join(axis.Fields, "`, `"), c.Name, strings.ReplaceAll(c.Summary, "|", `\|`))
		}
	}
	b.WriteString("\n## Site profile\n\n")
	config.Table(&b, site.Describe())
	b.WriteString("\n## Presets\n\nWhat each preset puts in `select`, `advantage`, `factors`, `weight` and `loss`.\n")
	for _, p := range preset.Axis.All() {
		objective, err := p.Make(nil)
		if err != nil {
			panic(err) // a preset is complete
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s.\n\n```yaml\n%s```\n", p.Name, upperFirst(p.Summary), config.Write(&objective))
	}
	return b.String()
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
