package config_test

import (
	_ "embed"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

//go:embed config_test.go
var source string

var _ = config.Docs[settings](source)

// settings has a field of each kind that a file can hold.
type settings struct {
	Name    string            `yaml:"name"` // of the thing
	Count   int               `yaml:"count"`
	Seed    uint64            `yaml:"seed"`
	Share   float64           `yaml:"share"`
	On      bool              `yaml:"on"`
	Mode    string            `yaml:"mode" choices:"fast,slow"` // how it goes
	Files   []string          `yaml:"files" path:"file"`
	Rules   []rule            `yaml:"rules"`
	Export  map[string]string `yaml:"export"`
	Maybe   *part             `yaml:"maybe"`
	World   world             `yaml:"world"`
	Methods methods           `yaml:"methods"`
}

type rule struct {
	Field string   `yaml:"field"`
	In    []string `yaml:"in"`
}

// part is absent by default.
type part struct {
	Size int `yaml:"size"` // in metres
}

func (p *part) SetDefaults() { p.Size = 7 }

// world has one fixed field, and those of what it names.
type world struct {
	Name     string `yaml:"name"`
	Settings any    `yaml:",inline"`
}

type chess struct {
	Boards `yaml:",inline"`
	Clock  string `yaml:"clock" choices:"none,blitz"` // how long a move may take
}

type Boards struct {
	Board part `yaml:"board"`
}

// methods is open: each registered one has its settings under its name.
type methods struct {
	Kind     string          `yaml:"kind"`
	Variants config.Variants `yaml:",inline"`
}

// greedy is a method of the tests.
type greedy struct {
	Depth int `yaml:"depth"` // in moves
}

func newSettings() *settings {
	clipped := false
	return &settings{
		World:   world{Name: "chess", Settings: &chess{Clock: "none"}},
		Methods: methods{Variants: config.Variants{{Name: "greedy", Settings: &greedy{Depth: 3}}, {Name: "clipped", Settings: &clipped, Doc: "cut what is large"}}},
	}
}

func fill(t *testing.T, text string, options config.Options, changes ...string) (*settings, error) {
	t.Helper()
	doc, err := config.Parse("a.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s := newSettings()
	if err := doc.Fill(s, options); err != nil {
		return s, err
	}
	return s, config.Apply(s, changes, options)
}

// Fields of inline and open parts are read from files and settings, written,
// compared and described as any other.
func TestOpenParts(t *testing.T) {
	t.Parallel()
	s, err := fill(t, "world:\n  board: {size: 8}\nmethods:\n  kind: greedy\n  greedy: {depth: 4}\n  clipped: true\n",
		config.Options{}, "world.clock=blitz", "methods.greedy.depth=5")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&chess{Boards{part{8}}, "blitz"}, s.World.Settings); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&greedy{5}, s.Methods.Variants.Of("greedy")); diff != "" {
		t.Error(diff)
	}
	if on := s.Methods.Variants.Of("clipped").(*bool); !*on {
		t.Error("a variant that is no struct is not read")
	}
	was := config.Write(s)
	want := "world:\n  name: chess\n  board:\n    size: 8\n  clock: blitz\nmethods:\n  kind: greedy\n  greedy:\n    depth: 5\n  clipped: true\n"
	if !strings.HasSuffix(string(was), want) {
		t.Errorf("written:\n%s\nwant at its end\n%s", was, want)
	}
	s.Methods.Variants = s.Methods.Variants.Only("greedy")
	differences, err := config.Differences(was, config.Write(s))
	if diff := cmp.Diff([]string{"methods.clipped: was true"}, differences); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for path, want := range map[string]any{"world.board.size": 8, "methods.greedy.depth": 5, "world.clock": "blitz"} {
		switch want := want.(type) {
		case int:
			if got, ok := config.Find[int](s, path); !ok || got != want {
				t.Errorf("%s is %v, %v", path, got, ok)
			}
		case string:
			if got, ok := config.Find[string](s, path); !ok || got != want {
				t.Errorf("%s is %v, %v", path, got, ok)
			}
		}
	}
	for _, path := range []string{"maybe.size", "world.clock.x", "nothing", "methods.clipped"} {
		if got, ok := config.Find[int](s, path); ok {
			t.Errorf("%s is found: %v", path, got)
		}
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	want := map[string]config.Field{
		"name":                 {Type: "text", Default: `""`, Doc: "of the thing"},
		"mode":                 {Type: "text", Default: `""`, Doc: "how it goes", Choices: []string{"fast", "slow"}},
		"maybe":                {Default: "null", Group: true, Doc: "part is absent by default."},
		"maybe.size":           {Type: "whole number", Default: "7", Doc: "in metres"},
		"rules.N.in":           {Type: "list of text", Default: "[]"},
		"world.clock":          {Type: "text", Default: "none", Doc: "how long a move may take", Choices: []string{"none", "blitz"}},
		"methods.greedy":       {Group: true, Doc: "greedy is a method of the tests."},
		"methods.greedy.depth": {Type: "whole number", Default: "3", Doc: "in moves"},
		"methods.clipped":      {Type: "true or false", Default: "false", Doc: "cut what is large"},
	}
	for _, f := range config.Describe(newSettings(), "") {
		if w, ok := want[f.Path]; ok {
			w.Path = f.Path
			if diff := cmp.Diff(w, f); diff != "" {
				t.Error(diff)
			}
			delete(want, f.Path)
		}
	}
	if len(want) > 0 {
		t.Errorf("not described: %v", want)
	}
	if got := config.Choices(newSettings(), "world.clock"); !cmp.Equal(got, []string{"none", "blitz"}) {
		t.Errorf("choices %q", got)
	}
}

func TestUnknownFields(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"world: {clok: none}":       `a.yaml:1:9: unknown field "clok" in world; did you mean "clock"?`,
		"methods: {greedi: {}}":     `a.yaml:1:11: unknown field "greedi" in methods; did you mean "greedy"?`,
		"depth: 3":                  `a.yaml:1:1: unknown field "depth"; did you mean "methods.greedy.depth"?`,
		"methods: {greedy: {x: 3}}": `a.yaml:1:20: unknown field "x" in methods.greedy; it has depth`,
		"world: {dice: 6}":          `a.yaml:1:9: dice are of another world`,
	} {
		_, err := fill(t, text, config.Options{Unknown: func(path string) (string, bool) {
			if path == "world.dice" {
				return "dice are of another world", false
			}
			return "", false
		}})
		if err == nil || !strings.HasPrefix(err.Error(), want) || exitcode.Code(err) != exitcode.Usage {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	skip := config.Options{Ignore: []string{"base"}, Unknown: func(path string) (string, bool) { return "", path == "world.dice" }}
	if s, err := fill(t, "base: x\nworld: {dice: 6, clock: blitz}", skip); err != nil || s.World.Settings.(*chess).Clock != "blitz" {
		t.Errorf("what is to be skipped: %v", err)
	}
}

// Paths are rewritten in files, never in settings of the command line.
func TestRebase(t *testing.T) {
	t.Parallel()
	options := config.Options{Rebase: func(path string) string { return config.RebasePath(path, "jobs", "jobs/more") }}
	s, err := fill(t, "files: [a, /b, $C/d]\nname: x", options, "files.3=e")
	if diff := cmp.Diff([]string{"../a", "/b", "$C/d", "e"}, s.Files); diff != "" || err != nil || s.Name != "x" {
		t.Error(err, diff)
	}
}

// Problems come in the order of the fields, whatever the order of the checks.
func TestChecker(t *testing.T) {
	t.Parallel()
	s := newSettings()
	c := config.NewChecker(s)
	c.Add("methods.greedy.depth", 3, "is deep")
	c.Choice("world.clock", "slow")
	c.Between("rules.0.field", 5, 1, 2)
	c.Share("share", 1.5)
	want := "a.yaml: 4 values are wrong\n  share: must be from 0 to 1 (1.5)\n  rules.0.field: must be from 1 to 2 (5)\n" +
		"  world.clock: must be one of none, blitz (\"slow\")\n  methods.greedy.depth: is deep (3)"
	if err := c.Err("a.yaml"); err == nil || err.Error() != want || exitcode.Code(err) != exitcode.Usage {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := config.NewChecker(s).Err("a.yaml"); err != nil {
		t.Error(err)
	}
}

// A pipe is refused, and not waited for.
func TestReadRefusesAPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := config.Read(path)
	if exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), "a pipe") {
		t.Errorf("a pipe: %v", err)
	}
}
