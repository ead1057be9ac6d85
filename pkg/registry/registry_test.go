package registry

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

type size struct {
	N int `yaml:"n"`
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	r := New[int]("number")
	r.Register(Choice[int]{Name: "two", Make: func(any) (int, error) { return 2, nil }})
	r.Register(Choice[int]{Name: "n", Settings: func() any { return &size{N: 7} }, Make: func(s any) (int, error) { return s.(*size).N, nil }})
	if names := r.Names(); !slices.Equal(names, []string{"n", "two"}) || len(r.All()) != 2 || r.All()[0].Name != "n" {
		t.Errorf("names %q", names)
	}
	for _, c := range []struct {
		name     string
		settings any
		want     int
	}{{"two", nil, 2}, {"n", nil, 7}, {"n", &size{N: 1}, 1}} {
		if got, err := r.Make(c.name, c.settings); err != nil || got != c.want {
			t.Errorf("%s: %d, %v; want %d", c.name, got, err, c.want)
		}
	}
	for name, want := range map[string]string{
		"tow":     `unknown number "tow"; did you mean "two"?`,
		"hundred": `unknown number "hundred"; there are n, two`,
	} {
		if _, err := r.Make(name, nil); exitcode.Code(err) != exitcode.Usage || err.Error() != want {
			t.Errorf("an unknown name: %v, want %s", err, want)
		}
	}
	for _, bad := range []Choice[int]{{Name: "two", Make: r.choices["two"].Make}, {Make: r.choices["two"].Make}, {Name: "nothing"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q can be registered", bad.Name)
				}
			}()
			r.Register(bad)
		}()
	}
}

// numbers has a choice without settings, which is the default, and one whose setting is
// checked.
func numbers() *Registry[int] {
	r := New[int]("number")
	r.Register(Choice[int]{Name: "two", Summary: "always 2", Default: true, Make: func(any) (int, error) { return 2, nil }})
	r.Register(Choice[int]{
		Name: "n", Summary: "any", Settings: func() any { return &size{N: 7} },
		Validate: func(c *config.Checker, settings any) { c.AtLeast("n.n", settings.(*size).N, 1) },
		Make:     func(s any) (int, error) { return s.(*size).N, nil },
	})
	return r
}

func TestDefault(t *testing.T) {
	t.Parallel()
	r := numbers()
	if got := r.Default(); got != "two" {
		t.Errorf("the default is %q", got)
	}
	if got := New[int]("number").Default(); got != "" {
		t.Errorf("the default of none is %q", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("two choices are the default")
		}
	}()
	r.Register(Choice[int]{Name: "three", Default: true, Make: r.choices["two"].Make})
}

func TestVariants(t *testing.T) {
	t.Parallel()
	r := numbers()
	type own struct{ Of any }
	wrap := func(settings any) any { return own{settings} }
	for _, c := range []struct {
		what      string
		got, want config.Variants
	}{
		{"with settings", r.Variants(), config.Variants{{Name: "n", Settings: &size{7}, Doc: "any"}}},
		{"all", r.Offers(nil), config.Variants{{Name: "n", Settings: &size{7}, Doc: "any"}, {Name: "two", Settings: &struct{}{}, Doc: "always 2"}}},
		{"in their own", r.Offers(wrap), config.Variants{{Name: "n", Settings: own{&size{7}}, Doc: "any"}, {Name: "two", Settings: own{&struct{}{}}, Doc: "always 2"}}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	r := numbers()
	for _, c := range []struct {
		name string
		n    int
		want string // in the error; empty for none
	}{{"two", 0, ""}, {"n", 1, ""}, {"n", 0, "n.n"}, {"three", 1, "which"}} {
		variants := r.Variants()
		variants.Of("n").(*size).N = c.n
		checker := config.NewChecker(&struct{}{})
		r.Validate(checker, "which", c.name, variants)
		if err := checker.Err("recipe"); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with n %d: %v", c.name, c.n, err)
		}
	}
}
