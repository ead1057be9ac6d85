// Package registry holds the choices of an axis by name. Whoever owns a choice
// registers it when the program starts; nobody else names it.
package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Choice is one registered choice, which makes a T.
type Choice[T any] struct {
	Name    string // as recipes write it
	Summary string // one line for people
	Default bool   // of recipes that name none; at most one choice of an axis is
	// Settings makes the choice's settings with their defaults, a pointer to a
	// struct; nil for a choice without any.
	Settings func() any
	// Validate checks the settings; nil for nothing to check. The checker knows
	// the whole recipe ([config.Find]); fields have whole paths.
	Validate func(c *config.Checker, settings any)
	// Make makes the thing from settings that Settings has made and a recipe has
	// filled.
	Make func(settings any) (T, error)
}

// Registry holds the choices of one axis.
type Registry[T any] struct {
	axis     string
	choices  map[string]Choice[T]
	fallback string // the default's name
}

// New returns an empty registry. axis is what messages call a choice of it.
func New[T any](axis string) *Registry[T] {
	return &Registry[T]{axis: axis, choices: map[string]Choice[T]{}}
}

// Register adds a choice. It panics at a name that is taken or empty: the
// program cannot mean that.
func (r *Registry[T]) Register(c Choice[T]) {
	if _, taken := r.choices[c.Name]; taken || c.Name == "" || c.Make == nil {
		panic(fmt.Sprintf("registering %s %q: the name is empty or taken, or nothing makes it", r.axis, c.Name))
	}
	r.choices[c.Name] = c
	if c.Default {
		if r.fallback != "" {
			panic(fmt.Sprintf("registering %s %q: %q is the default already", r.axis, c.Name, r.fallback))
		}
		r.fallback = c.Name
	}
}

// Default is the name of the choice of recipes that name none; empty while
// there is none.
func (r *Registry[T]) Default() string { return r.fallback }

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

// Lookup finds a choice. An unknown name is a usage error that offers the
// nearest one, or lists them all.
func (r *Registry[T]) Lookup(name string) (Choice[T], error) {
	c, ok := r.choices[name]
	if !ok {
		if near, ok := config.Nearest(name, r.Names()); ok {
			return c, exitcode.Usagef("unknown %s %q; did you mean %q?", r.axis, name, near)
		}
		return c, exitcode.Usagef("unknown %s %q; there are %s", r.axis, name, strings.Join(r.Names(), ", "))
	}
	return c, nil
}

// Variants are the settings of all choices that have any, with their defaults:
// the fields of an open section, each under its choice's name.
func (r *Registry[T]) Variants() config.Variants {
	var variants config.Variants
	for _, c := range r.All() {
		if c.Settings != nil {
			variants = append(variants, config.Variant{Name: c.Name, Settings: c.Settings(), Doc: c.Summary})
		}
	}
	return variants
}

// Offers are all choices, each with its settings in own; those without any have an empty
// struct. own may be nil for the settings themselves.
func (r *Registry[T]) Offers(own func(settings any) any) config.Variants {
	var offers config.Variants
	for _, c := range r.All() {
		var settings any = &struct{}{}
		if c.Settings != nil {
			settings = c.Settings()
		}
		if own != nil {
			settings = own(settings)
		}
		offers = append(offers, config.Variant{Name: c.Name, Settings: settings, Doc: c.Summary})
	}
	return offers
}

// Validate checks the name that stands at a field, and its settings among the
// variants of an open section.
func (r *Registry[T]) Validate(c *config.Checker, field, name string, variants config.Variants) {
	if !c.OneOf(field, name, r.Names()) {
		return
	}
	if choice := r.choices[name]; choice.Validate != nil {
		choice.Validate(c, variants.Of(name))
	}
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
