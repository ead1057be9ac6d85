package recipe

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// move is a field of recipes up to version 50bdd7a that stands elsewhere now. The table
// of [moves] is what the refusal of such a field says, what lathe recipe migrate
// rewrites, and what the recipes of older runs are read by.
type move struct {
	from, to string
	how      conversion
}

type conversion int

const (
	renamed    conversion = iota // the last key alone
	toReward                     // the section credit is reward now
	toSegments                   // credit.segments with the settings of its choice
	toWeight                     // loss.aggregation with the settings of its choice
	toFactors                    // the lists of factors, their settings and ExIt's bonus
	toSelect                     // filters, which were on while their settings were not all zero
	toImproved                   // the reward that an environment's setting asked for
)

// moves lists what has moved. The settings of choices moved with their names.
func moves() []move {
	table := []move{
		{"credit.segments", "segments", toSegments},
		{"credit.reward", "reward.name", toReward},
		{"filters", "select", toSelect},
		{"advantage.kind", "advantage.name", renamed},
		{"advantage.factors", "factors", toFactors},
		{"curriculum.exit.diversity_bonus", "factors", toFactors},
		{"loss.weights", "factors", toFactors},
		{"loss.aggregation", "weight", toWeight},
		{"env.answer.step_improvement", "reward.name", toImproved},
		{"env.program.cage", "env.program.sandbox", renamed},
	}
	for _, open := range []struct {
		section, to string
		how         conversion
		choices     config.Variants
	}{
		{"credit", "segments", toSegments, credit.SegmentsAxis.Variants()},
		{"credit", "reward", toReward, credit.RewardAxis.Variants()},
		{"advantage", "factors", toFactors, credit.FactorAxis.Variants()},
		{"loss", "factors", toFactors, credit.FactorAxis.Variants()},
		{"loss", "weight", toWeight, credit.WeightAxis.Variants()},
	} {
		for _, c := range open.choices {
			table = append(table, move{open.section + "." + c.Name, open.to + "." + c.Name, open.how})
		}
	}
	return table
}

// reading is what becomes of fields that have moved.
type reading int

const (
	refuse  reading = iota
	migrate         // as they were meant
	ran             // as they ran, of the recipe of a run
)

// migration rewrites the files of a chain, the farthest first.
type migration struct {
	old  oldForm
	used bool // some file has moved fields
}

// follow takes over what a document says in the present form.
func (m *migration) follow(doc *config.Document, r *Recipe) {
	if !m.used {
		return
	}
	for field, follow := range map[string]func(*Recipe){
		"segments": m.old.followSegments, "weight": m.old.followWeight, "factors": m.old.followFactors,
	} {
		if _, says := doc.At(field); says {
			follow(r)
		}
	}
}

// moved is a field of a document that has moved.
type moved struct {
	move
	place config.Node
}

// present is a document without moved fields, and which it had. r is the recipe so far.
func (m *migration) present(doc *config.Document, r *Recipe, how reading) (*config.Document, []moved, error) {
	var found []moved
	has := map[conversion]bool{}
	for _, row := range moves() {
		if place, ok := doc.At(strings.Split(row.from, ".")...); ok {
			found = append(found, moved{row, place})
			has[row.how] = true
		}
	}
	switch {
	case len(found) == 0 && !m.used:
		return doc, nil, nil
	case !m.used:
		m.used, m.old = true, newOldForm()
		m.old.follow(r)
	}
	m.old.Filters = r.Select.OldForm()
	if err := m.old.fill(doc); err != nil {
		return nil, nil, err
	}
	edits, err := m.edits(doc, r, found, has, how)
	if err != nil {
		return nil, nil, err
	}
	if len(found) == 0 && len(edits.Insert) == 0 {
		return doc, nil, nil
	}
	now, err := config.Parse(doc.Name(), []byte(doc.Rewritten(edits)))
	if err != nil {
		return nil, nil, exitcode.Bugf("rewriting %s: %w", doc.Name(), err)
	}
	if len(found) == 0 { // another curriculum alone takes the bonus away
		found = []moved{{move: move{"curriculum.exit.diversity_bonus", "factors", toFactors}}}
	}
	return now, found, nil
}

// edits are what the document needs.
func (m *migration) edits(doc *config.Document, r *Recipe, found []moved, has map[conversion]bool, how reading) (config.Edits, error) {
	e := config.Edits{Rename: map[string]string{}}
	insert := func(field, value, at string, before bool) {
		e.Insert = append(e.Insert, config.Insertion{Line: field + ": " + value, At: at, Before: before})
	}
	sections := map[conversion]string{} // in which the first field of a kind stood
	improved := m.old.Env.Answer.StepImprovement && (has[toReward] || has[toImproved]) && m.old.asksForVerdict(doc, r)
	for _, f := range found {
		section, last := f.from, f.to[strings.LastIndexByte(f.to, '.')+1:]
		section, _, _ = strings.Cut(section, ".")
		if _, known := sections[f.how]; !known {
			sections[f.how] = section
		}
		switch {
		case f.how == renamed:
			e.Rename[f.from] = last
		case f.how == toReward && !improved:
			e.Rename["credit"], e.Rename["credit.reward"] = "reward", "name"
		default:
			e.Remove = append(e.Remove, f.from)
		}
	}
	if has[toSegments] {
		insert("segments", m.old.segments(), sections[toSegments], true)
	}
	if improved {
		at := sections[toReward]
		if at == "" {
			at = sections[toImproved]
		}
		insert("reward", "{name: improvement}", at, false)
	}
	if has[toSelect] {
		selection := m.old.Filters.Meant()
		if how == ran {
			selection = m.old.Filters.Done()
		}
		insert("select", selection.String(), sections[toSelect], false)
	}
	factors, err := m.old.factors()
	if err != nil {
		return e, exitcode.Usagef("%s: %w", doc.Name(), err)
	}
	_, listed := doc.At("advantage", "factors")
	if _, weights := doc.At("loss", "weights"); listed || weights || factors.String() != r.Factors.String() {
		at := sections[toFactors]
		if at == "" {
			at = "curriculum"
		}
		insert("factors", factors.String(), at, false)
	}
	if has[toWeight] {
		insert("weight", m.old.weight(), sections[toWeight], false)
	}
	return e, nil
}

// refusal says of each moved field where it stands now, and what to write.
func refusal(doc, now *config.Document, found []moved) error {
	var after string
	for i, f := range found {
		if i == len(found)-1 {
			after = ". Write\n  " + strings.ReplaceAll(strings.Join(written(now, found), "\n"), "\n", "\n  ")
		}
		doc.Add(f.place, "%s is now %s%s", f.from, f.to, after)
	}
	return exitcode.WithHint(doc.Err(), "have the file rewritten: lathe recipe migrate --in-place %s", doc.Name())
}

// written are the sections of a rewritten document in which moved fields stand now.
func written(now *config.Document, found []moved) []string {
	sections := map[string]bool{}
	for _, f := range found {
		section, _, _ := strings.Cut(f.to, ".")
		sections[section] = true
	}
	var texts []string
	for _, section := range slices.Sorted(maps.Keys(sections)) {
		if text, ok := now.Section(section); ok {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return []string{"nothing in its place: it is the default"}
	}
	return texts
}

// checkSetting refuses a setting of the command line that names moved fields.
func checkSetting(r *Recipe, setting string) error {
	path, value, _ := strings.Cut(setting, "=")
	keys := strings.Split(path, ".")
	for i := len(keys) - 1; i > 0; i-- {
		value = "{" + keys[i] + ": " + value + "}"
	}
	doc, err := config.Parse("--set "+config.Shorten(setting), []byte(keys[0]+": "+value))
	if err != nil {
		return nil // for those who apply it to say
	}
	var m migration
	now, found, err := m.present(doc, r, migrate)
	if err != nil || len(found) == 0 {
		return err
	}
	var instead []string
	for _, line := range written(now, found) {
		if field, value, is := strings.Cut(line, ": "); is {
			line = `--set "` + field + "=" + value + `"`
		}
		instead = append(instead, line)
	}
	return exitcode.Usagef("%s: %s is now %s; write %s", doc.Name(), found[0].from, found[0].to, strings.Join(instead, " "))
}

// Migrate is the text of a recipe file in the present form, whatever the form of the
// files that it is based on. changed is false for a file that needs no change.
func Migrate(path string) (text string, changed bool, err error) {
	layers, err := readLayers(path)
	if err != nil {
		return "", false, err
	}
	return migrated(layers)
}

// migrated is the text of the last of the layers in the present form.
func migrated(layers []*layer) (text string, changed bool, err error) {
	last := layers[len(layers)-1]
	before := last.doc
	var r Recipe
	if err := r.merge(layers, nil, elsewhere, migrate); err != nil {
		return "", false, err
	}
	return last.doc.Source(), last.doc != before, nil
}

// ToMigrateBefore lists the recipe files beside path, and up to two folders below, that
// are based on it and that [Migrate] changes. Once path has the present form, what they
// took from its old one would be lost without a word.
func ToMigrateBefore(path string) ([]string, error) {
	base, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, pattern := range []string{"*.yaml", "*/*.yaml", "*/*/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(path), pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			layers, err := readLayers(file)
			if err != nil {
				continue // whatever else lies there is no recipe, or has its own error to give
			}
			basedOn := func(l *layer) bool { // all but the last are bases
				name, err := filepath.Abs(l.doc.Name())
				return err == nil && name == base
			}
			if !slices.ContainsFunc(layers[:len(layers)-1], basedOn) {
				continue
			}
			if _, changed, err := migrated(layers); err == nil && changed {
				found = append(found, file)
			}
		}
	}
	return found, nil
}

// Present is the recipe of a run in the form that [Write] gives it now: the text itself
// unless it has fields that have moved.
func Present(text []byte) ([]byte, error) {
	doc, err := config.Parse(wholeName, text)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(moves(), func(m move) bool { _, ok := doc.At(strings.Split(m.from, ".")...); return ok }) {
		return text, nil
	}
	r, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return Write(r), nil
}
