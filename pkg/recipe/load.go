package recipe

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/lathe-rl/lathe/pkg/exitcode"
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
	// The first pass finds problems and the name of the preset, the second
	// puts the preset beneath the layers.
	var r Recipe
	if err := r.fold(layers, settings, DefaultPreset); err != nil {
		return nil, err
	}
	name := r.Preset
	if err := r.fold(layers, settings, name); err != nil {
		return nil, err
	}
	if r.Name == "" {
		r.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	if err := r.validate(path); err != nil {
		return nil, err
	}
	return resolved(r, path), nil
}

// Parse reads the recipe of a run, as [Write] wrote it. It takes no settings
// and follows no base, so the recipe is whole in the text.
func Parse(text []byte) (*Recipe, error) {
	r, err := parseWhole(text)
	if err != nil {
		return nil, err
	}
	return r, r.validate(wholeName)
}

// wholeName is what messages call the recipe of a run.
const wholeName = "recipe.yaml"

func parseWhole(text []byte) (*Recipe, error) {
	l, err := newLayer(wholeName, text)
	if err != nil {
		return nil, err
	}
	if l.base != "" {
		l.doc.add(l.basePlace, "the recipe of a run is whole; it has no base")
		return nil, l.doc.err()
	}
	var r Recipe
	if err := r.fold([]*layer{l}, nil, DefaultPreset); err != nil {
		return nil, err
	}
	preset := r.Preset
	if err := r.fold([]*layer{l}, nil, preset); err != nil {
		return nil, err
	}
	return &r, nil
}

func resolved(r Recipe, path string) *Resolved {
	text := Write(&r)
	sum := sha256.Sum256(text)
	return &Resolved{Recipe: r, Path: path, YAML: text, SHA256: hex.EncodeToString(sum[:])}
}

// fold sets r to the defaults, a preset, the layers and the settings.
func (r *Recipe) fold(layers []*layer, settings []string, preset string) error {
	*r = Defaults()
	r.Preset = preset
	if err := r.applyPreset(); err != nil {
		return presetError(err, layers, settings)
	}
	folder := filepath.Dir(layers[len(layers)-1].doc.name)
	for _, l := range layers {
		r.Name = ""
		if err := l.apply(r, folder); err != nil {
			return err
		}
	}
	return applySettings(r, settings)
}

// presetError says where an unknown preset was named: by the last setting
// that does, else by the last file.
func presetError(err error, layers []*layer, settings []string) error {
	for i := len(settings) - 1; i >= 0; i-- {
		if strings.HasPrefix(settings[i], "preset=") {
			return exitcode.Usagef("--set %s: %w", shorten(settings[i]), errors.Unwrap(err))
		}
	}
	for i := len(layers) - 1; i >= 0; i-- {
		if value, ok := layers[i].lookup("preset"); ok {
			layers[i].doc.add(value.GetToken(), "%v", errors.Unwrap(err))
			return layers[i].doc.err()
		}
	}
	return err
}

// layer is one file of a chain of base files.
type layer struct {
	doc       *document
	root      ast.Node // nil for an empty file
	base      string   // as written
	basePlace *token.Token
}

// readLayers reads a file and the files it is based on, the farthest first.
func readLayers(path string) ([]*layer, error) {
	var layers []*layer
	var chain []string
	seen := map[string]bool{}
	next := path
	for {
		l, err := readLayer(next)
		if err != nil && len(layers) > 0 && errors.Is(err, fs.ErrNotExist) {
			last := layers[0]
			last.doc.add(last.basePlace, "base file %q does not exist", last.base)
			return nil, last.doc.err()
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
			l.doc.add(l.basePlace, "base files form a circle: %s", strings.Join(append(chain, next), " -> "))
			return nil, l.doc.err()
		}
		if len(layers) > maxBaseFiles {
			l.doc.add(l.basePlace, "more than %d base files follow one another", maxBaseFiles)
			return nil, l.doc.err()
		}
	}
}

func readLayer(path string) (*layer, error) {
	text, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	return newLayer(path, text)
}

// readBounded reads a file up to one byte more than the parser takes.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, exitcode.Usagef("%q is a folder, not a YAML file", path)
	}
	return io.ReadAll(io.LimitReader(f, maxFileBytes+1))
}

func newLayer(name string, text []byte) (*layer, error) {
	doc, root, err := parseYAML(name, text)
	if err != nil {
		return nil, err
	}
	doc.root = reflect.TypeFor[Recipe]()
	l := &layer{doc: doc, root: root}
	if value, ok := l.lookup("base"); ok {
		text, _, isScalar := scalarText(value)
		if _, isText := value.(*ast.StringNode); !isText || !isScalar || text == "" {
			doc.add(value.GetToken(), "want the path of a base file, got %s", describeNode(value))
			return nil, doc.err()
		}
		l.base, l.basePlace = text, value.GetToken()
	}
	return l, nil
}

// lookup finds the value of a key at the top of the file.
func (l *layer) lookup(name string) (ast.Node, bool) {
	mapping, ok := l.root.(*ast.MappingNode)
	if !ok {
		return nil, false
	}
	for _, entry := range mapping.Values {
		if entry.Key.GetToken().Value == name {
			return entry.Value, true
		}
	}
	return nil, false
}

// apply folds the file into a recipe that lies in folder, relative to which
// the file's own relative paths are rewritten.
func (l *layer) apply(r *Recipe, folder string) error {
	if l.root == nil {
		return nil
	}
	// What the layer sets is told from what it leaves by marking the paths
	// with a text that no file can hold, escaped or not.
	const unset = "\xff" // not UTF-8
	policy, train, test := r.Policy.Path, r.Data.Train.Files, r.Data.Test.Files
	r.Policy.Path, r.Data.Train.Files, r.Data.Test.Files = unset, []string{unset}, []string{unset}
	bfcl, functions := "", ""
	if tools := r.Env.ToolUse; tools != nil {
		bfcl, functions = tools.BFCL, tools.Functions
		tools.BFCL, tools.Functions = unset, unset
	}
	l.doc.fill(reflect.ValueOf(r).Elem(), l.root, "")
	if err := l.doc.err(); err != nil {
		return err
	}
	rebase := func(path string) string {
		from := filepath.Dir(l.doc.name)
		if from == folder || path == "" || filepath.IsAbs(path) || strings.HasPrefix(path, "$") {
			return path
		}
		if moved, err := filepath.Rel(folder, filepath.Join(from, path)); err == nil {
			return moved
		}
		return path
	}
	settle := func(path *string, before string) {
		if *path == unset {
			*path = before
		} else {
			*path = rebase(*path)
		}
	}
	settle(&r.Policy.Path, policy)
	if tools := r.Env.ToolUse; tools != nil {
		settle(&tools.BFCL, bfcl)
		settle(&tools.Functions, functions)
	}
	for _, list := range []struct{ files, before *[]string }{
		{&r.Data.Train.Files, &train}, {&r.Data.Test.Files, &test},
	} {
		if files := *list.files; len(files) == 1 && files[0] == unset {
			*list.files = *list.before
			continue
		}
		for i, file := range *list.files {
			(*list.files)[i] = rebase(file)
		}
	}
	return nil
}
