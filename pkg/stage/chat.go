package stage

import (
	"maps"
	"slices"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/jinja"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// LoadChat reads the chat format of a folder of the policy that a recipe names,
// with the variables and the date that it gives its template.
func LoadChat(p recipe.Policy, folder string) (chat.Chat, error) {
	date, err := p.Date()
	if err != nil {
		return nil, exitcode.Usagef("policy.template_date is %q: %w", p.TemplateDate, err)
	}
	if len(p.Template) == 0 {
		return chat.Load(folder, date)
	}
	given := jinja.NewDict()
	for _, name := range slices.Sorted(maps.Keys(p.Template)) {
		value, err := jinja.ParseJSON([]byte(p.Template[name]))
		if err != nil {
			return nil, exitcode.Usagef("policy.template.%s: %w", name, err)
		}
		given.Set(name, value)
	}
	return chat.LoadGiven(folder, date, given)
}
