// Package registry holds the choices of an axis by name. Whoever owns a choice
// registers it when the program starts; nobody else names it.
package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Choice is one registered choice, which makes a T.
type Choice[T any] struct {
	Name    string // as recipes write it
	Summary string // one line for people
	// Settings makes the choice's settings with their defaults, a pointer to a
	// struct; nil for a choice without any.
	Settings func() any
	// Make makes the thing from settings that Settings has made and a recipe has
	// filled.
	Make func(settings any) (T, error)
}

// Registry holds the choices of one axis.
type Registry[T any] struct {
	axis    string
	choices map[string]Choice[T]
}

// New returns an empty registry. axis is what messages call a choice of it.
func New[T any](axis string) *Registry[T] {
	return &Registry[T]{axis: axis, choices: map[string]Choice[T]{}}
}

// Axis is what messages call a choice.
func (r *Registry[T]) Axis() string { return r.axis }

// Register adds a choice. It panics at a name that is taken or empty: the
// program cannot mean that.
func (r *Registry[T]) Register(c Choice[T]) {
	if _, taken := r.choices[c.Name]; taken || c.Name == "" || c.Make == nil {
		panic(fmt.Sprintf("registering %s %q: the name is empty or taken, or nothing makes it", r.axis, c.Name))
	}
	r.choices[c.Name] = c
}

// Names lists the choices, sorted.
func (r *Registry[T]) Names() []string {
	names := make([]string, 0, len(r.choices))
	for name := range r.choices {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// All lists the choices by name.
func (r *Registry[T]) All() []Choice[T] {
	all := make([]Choice[T], 0, len(r.choices))
	for _, name := range r.Names() {
		all = append(all, r.choices[name])
	}
	return all
}

// Lookup finds a choice. An unknown name is a usage error that lists the names.
func (r *Registry[T]) Lookup(name string) (Choice[T], error) {
	c, ok := r.choices[name]
	if !ok {
		return c, exitcode.Usagef("%s %q is not known; there are %s", r.axis, name, strings.Join(r.Names(), ", "))
	}
	return c, nil
}

// Make makes the choice of a name. settings may be nil for its defaults.
func (r *Registry[T]) Make(name string, settings any) (T, error) {
	c, err := r.Lookup(name)
	if err != nil {
		var none T
		return none, err
	}
	if settings == nil && c.Settings != nil {
		settings = c.Settings()
	}
	return c.Make(settings)
}
