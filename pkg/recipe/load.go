package recipe

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/loss/preset"
)

// maxBaseFiles bounds a chain of base files.
const maxBaseFiles = 8

// Resolved is a recipe with everything folded in and every default written
// out.
type Resolved struct {
	Recipe Recipe
	Path   string // as it was given
	YAML   []byte // the whole recipe, see [Write]
	SHA256 string // of YAML, in hexadecimal: the recipe's digest
}

// Load reads a recipe and resolves it. Later wins:
//
//  1. [Defaults]
//  2. the preset, whichever the layers below end up naming
//  3. the files named by base:, the farthest first; a base is relative to the
//     file that names it, and its own relative paths are kept true
//  4. the file
//  5. settings such as "rollout.shards=3", in their order
//
// The name of a recipe is never taken from a base; a file without a name is
// called after itself. Everything wrong with the text or the values is a
// usage error that says where.
func Load(path string, settings []string) (*Resolved, error) {
	layers, err := readLayers(path)
	if err != nil {
		return nil, err
	}
	var r Recipe
	if err := r.merge(layers, settings, elsewhere, refuse); err != nil {
		return nil, err
	}
	if r.Name == "" {
		r.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	if err := r.validate(path); err != nil {
		return nil, err
	}
	return resolve(&r, path), nil
}

// Settle writes the resolved recipe with another number of apply tasks, in the place of auto.
func (x *Resolved) Settle(tasks ApplyShards) {
	x.Recipe.Schedule.ApplyShards = tasks
	*x = *resolve(&x.Recipe, x.Path)
}

// Write writes a recipe as YAML with every field in the order of its type,
// defaults included. Equal recipes have equal bytes, and [Parse] gives the
// recipe back.
func Write(r *Recipe) []byte { return config.Write(r) }

// Parse reads the recipe of a run, as [Write] wrote it. It takes no settings
// and follows no base, so the recipe is whole in the text.
func Parse(text []byte) (*Recipe, error) {
	r, err := parseWhole(text)
	if err != nil {
		return nil, err
	}
	if err := r.validate(wholeName); err != nil {
		return nil, err
	}
	r.prune()
	return r, nil
}

// Change resolves the recipe of a run, as [Write] wrote it, with other settings.
func Change(text []byte, settings []string) (*Resolved, error) {
	r, err := parseWhole(text, settings...)
	if err != nil {
		return nil, err
	}
	if err := r.validate(wholeName); err != nil {
		return nil, err
	}
	return resolve(r, wholeName), nil
}

// resolve writes out a recipe that is valid.
func resolve(r *Recipe, path string) *Resolved {
	r.prune()
	text := Write(r)
	sum := sha256.Sum256(text)
	return &Resolved{Recipe: *r, Path: path, YAML: text, SHA256: hex.EncodeToString(sum[:])}
}

// wholeName is what messages call the recipe of a run.
const wholeName = "recipe.yaml"

func parseWhole(text []byte, settings ...string) (*Recipe, error) {
	l, err := newLayer(config.Parse(wholeName, text))
	if err != nil {
		return nil, err
	}
	if l.base != "" {
		l.doc.Add(l.basePlace, "the recipe of a run is whole; it has no base")
		return nil, l.doc.Err()
	}
	var r Recipe
	skip := func(string, string) string { return "" } // older binaries wrote the fields of every environment
	return &r, r.merge([]*layer{l}, settings, skip, ran)
}

// At is a copy of the recipe of a run whose paths are relative to the root and not to
// folder.
func (r *Recipe) At(folder string) (*Recipe, error) {
	own, err := parseWhole(Write(r))
	if err == nil {
		config.Rebase(own, func(path string) string { return config.RebasePath(path, folder, string(filepath.Separator)) })
	}
	return own, err
}

// merge sets r to the defaults, the preset, the layers and the settings. A field
// of an environment that is not chosen gets a message from other, which is told
// its path and its owner; none leaves it out. how says what becomes of fields that have
// moved; a layer that is rewritten has the new document.
func (r *Recipe) merge(layers []*layer, settings []string, other func(path, owner string) string, how reading) error {
	*r = Defaults()
	if chosen := lookup(layers, settings, env.MixName, "env", "name"); chosen.found {
		settings, data, err := env.Defaults(chosen.text)
		if err != nil {
			return chosen.report(err)
		}
		r.Env, r.Data = Env{Name: chosen.text, Settings: settings}, Data{Settings: data}
	}
	chosen := lookup(layers, settings, "", "preset")
	if chosen.found {
		r.Preset = chosen.text
	}
	if err := r.applyPreset(); err != nil {
		return chosen.report(err)
	}
	options := config.Options{Ignore: []string{"base"}, Unknown: func(path string) (message string, skip bool) {
		owner, ok := ownerOf(path)
		if !ok {
			return "", false
		}
		message = other(path, owner)
		if message != "" && r.Env.Mix() != nil {
			message = path + ": with several environments, each entry of env has its own"
		}
		return message, message == ""
	}}
	folder := filepath.Dir(layers[len(layers)-1].doc.Name())
	var m migration
	for _, l := range layers {
		r.Name = ""
		now, found, err := m.present(l.doc, r, how)
		switch {
		case err != nil:
			return err
		case len(found) > 0 && how == refuse:
			return refusal(l.doc, now, found)
		}
		l.doc = now
		from := filepath.Dir(l.doc.Name())
		options.Rebase = func(path string) string { return config.RebasePath(path, from, folder) }
		if err := l.doc.Fill(r, options); err != nil {
			return err
		}
		m.follow(l.doc, r)
	}
	for _, setting := range settings {
		if err := checkSetting(r, setting); err != nil {
			return err
		}
		if err := config.Apply(r, []string{setting}, options); err != nil {
			return err
		}
	}
	r.Preset = preset.Named(r.Preset)
	return nil
}

// elsewhere says that a field is another environment's.
func elsewhere(path, owner string) string {
	return fmt.Sprintf("%s is for env.name %s", path, owner)
}

// ownerOf finds the environment, not the chosen one, that has a field.
func ownerOf(path string) (owner string, found bool) {
	section, field, _ := strings.Cut(path, ".")
	for _, name := range env.Axis.Names() {
		settings, data, err := env.Defaults(name)
		if err != nil {
			return "", false
		}
		if section == "env" && config.Has(settings, field) || section == "data" && config.Has(data, field) {
			return name, true
		}
	}
	return "", false
}

// prune leaves out the settings of choices that are not chosen.
func (r *Recipe) prune() {
	r.Curriculum.Variants = r.Curriculum.Variants.Only(r.Curriculum.Name)
	r.Scaffold.Variants = r.Scaffold.Variants.Only(r.Scaffold.Name, r.Evaluation.Scaffold)
	r.Reward.Variants = r.Reward.Variants.Only(r.Reward.Name)
	r.Advantage.Variants = r.Advantage.Variants.Only(r.Advantage.Name)
}

// applyPreset fills the part of a recipe that presets own, and gives the policy
// the critic that their advantages take.
func (r *Recipe) applyPreset() error {
	filled, err := preset.Lookup(r.Preset)
	if err != nil {
		return err
	}
	r.Select, r.Advantage.AdvantageSettings, r.Factors, r.Weight, r.Loss = filled.Select, filled.Advantage, filled.Factors, filled.Weight, filled.Loss
	r.Schedule.BatchSegments = 0
	if filled.DynamicSampling {
		r.Schedule.BatchSegments = BatchFull
	}
	r.Policy.Critic = CriticNone
	if filled.Advantage.Critic() {
		r.Policy.Critic = CriticHead
	}
	return nil
}

// named is a text that other fields depend on, and where it stands.
type named struct {
	text  string
	found bool

	setting string // of the command line; else
	doc     *config.Document
	place   config.Node
}

// lookup finds the text that the last setting, else the last file, gives a
// field; ofList where there is a list in the place of the field's section. What is no
// text is found when the files are read in full.
func lookup(layers []*layer, settings []string, ofList string, path ...string) named {
	for i := len(settings) - 1; i >= 0; i-- {
		field, value, _ := strings.Cut(settings[i], "=")
		rest, below := strings.CutPrefix(strings.Join(path, ".")+".", field+".")
		if !below {
			continue
		}
		if rest == "" && !strings.HasPrefix(value, `"`) && !strings.HasPrefix(value, `'`) {
			return named{text: value, found: true, setting: settings[i]}
		}
		doc, err := config.Parse(settings[i], []byte(value))
		if err != nil {
			continue
		}
		var keys []string
		if rest != "" {
			keys = strings.Split(strings.TrimSuffix(rest, "."), ".")
		}
		if place, ok := doc.At(keys...); ok {
			if text, ok := place.Text(); ok {
				return named{text: text, found: true, setting: settings[i]}
			}
		}
		if place, ok := doc.At(); ok && place.IsList() && len(keys) == 1 && len(path) > 1 {
			return named{text: ofList, found: true, setting: settings[i]}
		}
	}
	for i := len(layers) - 1; i >= 0; i-- {
		if place, ok := layers[i].doc.At(path...); ok {
			if text, ok := place.Text(); ok {
				return named{text: text, found: true, doc: layers[i].doc, place: place}
			}
		}
		if place, ok := layers[i].doc.At(path[:len(path)-1]...); ok && place.IsList() && len(path) > 1 {
			return named{text: ofList, found: true, doc: layers[i].doc, place: place}
		}
	}
	return named{}
}

// report says what is wrong with the text, where it stands.
func (n named) report(err error) error {
	switch {
	case n.setting != "":
		return exitcode.Usagef("--set %s: %w", config.Shorten(n.setting), err)
	case n.doc != nil:
		n.doc.Add(n.place, "%v", err)
		return n.doc.Err()
	}
	return err
}

// layer is one file of a chain of base files.
type layer struct {
	doc       *config.Document
	base      string // as written
	basePlace config.Node
}

// readLayers reads a file and the files it is based on, the farthest first.
func readLayers(path string) ([]*layer, error) {
	var layers []*layer
	var chain []string
	seen := map[string]bool{}
	next := path
	for {
		l, err := newLayer(config.Read(next))
		if err != nil && len(layers) > 0 && errors.Is(err, fs.ErrNotExist) {
			last := layers[0]
			last.doc.Add(last.basePlace, "base file %q does not exist", last.base)
			return nil, last.doc.Err()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, exitcode.Usagef("recipe %q does not exist", path)
		}
		if err != nil {
			return nil, err
		}
		layers = append([]*layer{l}, layers...)
		chain = append(chain, next)
		absolute, err := filepath.Abs(next)
		if err != nil {
			return nil, err
		}
		seen[absolute] = true
		if l.base == "" {
			return layers, nil
		}
		next = l.base
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(chain[len(chain)-1]), next)
		}
		absolute, err = filepath.Abs(next)
		if err != nil {
			return nil, err
		}
		if seen[absolute] {
			l.doc.Add(l.basePlace, "base files form a circle: %s", strings.Join(append(chain, next), " -> "))
			return nil, l.doc.Err()
		}
		if len(layers) > maxBaseFiles {
			l.doc.Add(l.basePlace, "more than %d base files follow one another", maxBaseFiles)
			return nil, l.doc.Err()
		}
	}
}

func newLayer(doc *config.Document, err error) (*layer, error) {
	if err != nil {
		return nil, err
	}
	l := &layer{doc: doc}
	if place, ok := doc.At("base"); ok {
		text, isText := place.Text()
		if !isText || text == "" {
			doc.Add(place, "want the path of a base file, got %s", place)
			return nil, doc.Err()
		}
		l.base, l.basePlace = text, place
	}
	return l, nil
}
