package recipe

import (
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/credit"
)

// filtersKey is the section that select had up to version 0590fd3.
const filtersKey = "filters"

const filtersGone = `filters is now select, a list of names with their settings under them, such as --set "select=[invalid, {below_percentile: {percentile: 70}}]"; what is not named is off`

// oldFilters takes the section filters of a document, if it has one: of the recipe of a
// run that an older binary made it becomes the selection that ran; any other is refused
// with the list that it was written for.
func (r *Recipe) oldFilters(doc *config.Document, read bool) error {
	place, ok := doc.At(filtersKey)
	if !ok {
		return nil
	}
	old := struct {
		Filters credit.Filters `yaml:"filters"`
	}{r.Select.OldForm()}
	if err := doc.Fill(&old, config.Options{Unknown: func(path string) (string, bool) { return "", !strings.HasPrefix(path, filtersKey+".") }}); err != nil {
		return err
	}
	if read {
		r.Select = old.Filters.Done()
		return nil
	}
	doc.Add(place, "filters is now select, a list of names; what is not named is off. Write here\n  select: %s", old.Filters.Meant())
	return doc.Err()
}
