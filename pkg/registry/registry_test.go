package registry

import (
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

type size struct{ N int }

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
