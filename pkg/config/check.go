package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Checker collects what is wrong with the values of a struct of settings, one
// line for each field. Fields are named by their dotted paths.
type Checker struct {
	root     reflect.Value
	problems []wrong
}

type wrong struct{ field, line string }

// NewChecker makes a checker for the struct that settings points to.
func NewChecker(settings any) *Checker { return &Checker{root: reflect.ValueOf(settings).Elem()} }

// Settings is what the checker was made for, so that the owner of one section
// can read another with [Find].
func (c *Checker) Settings() any { return c.root.Addr().Interface() }

// Add reports a field's problem and, unless it is nil, the value at fault.
func (c *Checker) Add(field string, value any, format string, args ...any) {
	line := field + ": " + fmt.Sprintf(format, args...)
	switch v := value.(type) {
	case nil:
	case string:
		line += " (" + strconv.Quote(Shorten(v)) + ")"
	default:
		line += fmt.Sprintf(" (%v)", v)
	}
	c.problems = append(c.problems, wrong{field, line})
}

// Take takes over what another checker has found, under other paths.
func (c *Checker) Take(other *Checker, renamed func(path string) string) {
	for _, p := range other.problems {
		field := renamed(p.field)
		p = wrong{field, field + strings.TrimPrefix(p.line, p.field)}
		if !slices.Contains(c.problems, p) {
			c.problems = append(c.problems, p)
		}
	}
}

// Err is a usage error with every problem on its own line, in the order of the
// fields, or nil.
func (c *Checker) Err(what string) error {
	if len(c.problems) == 0 {
		return nil
	}
	rank := map[string]int{}
	for i, path := range fieldPaths(c.root, "") {
		rank[path] = i + 1
	}
	rankOf := func(field string) int {
		for { // what is no field, such as an entry of a list, stands with its parent
			if r, ok := rank[field]; ok {
				return r
			}
			parent := strings.LastIndexAny(field, ".[")
			if parent < 0 {
				return 0
			}
			field = field[:parent]
		}
	}
	sort.SliceStable(c.problems, func(i, j int) bool { return rankOf(c.problems[i].field) < rankOf(c.problems[j].field) })
	if len(c.problems) == 1 {
		return exitcode.Usagef("%s: %s", what, c.problems[0].line)
	}
	lines := make([]string, len(c.problems))
	for i, p := range c.problems {
		lines[i] = p.line
	}
	return exitcode.Usagef("%s: %d values are wrong\n  %s", what, len(lines), strings.Join(lines, "\n  "))
}

// Choice checks that a text is one of the field's choices.
func (c *Checker) Choice(field, value string) bool {
	f, ok := at(c.root, field)
	if !ok || f.choices() == nil {
		panic(fmt.Sprintf("config: the field %s of %s has no choices", field, c.root.Type()))
	}
	return c.OneOf(field, value, f.choices())
}

// OneOf checks that a text is one of the allowed ones.
func (c *Checker) OneOf(field, value string, allowed []string) bool {
	if !slices.Contains(allowed, value) {
		c.Add(field, value, "must be one of %s", strings.Join(allowed, ", "))
		return false
	}
	return true
}

// MaxWhole bounds whole numbers that nothing else does: two of them can be multiplied.
const MaxWhole = 1_000_000_000

// AtLeast checks a lower bound, and that a number is at most [MaxWhole].
func (c *Checker) AtLeast(field string, value, low int) bool {
	switch {
	case value < low:
		c.Add(field, value, "must be %d or more", low)
		return false
	case value > MaxWhole:
		c.Add(field, value, "must be at most %d", MaxWhole)
		return false
	}
	return true
}

// Product checks that the product of whole numbers, each of which is checked by
// itself, is at most some number. It is of what a field counts.
func (c *Checker) Product(field, of string, most int, factors ...int) {
	product := 1
	for _, factor := range factors {
		if factor > 0 && product > most/factor {
			c.Add(field, nil, "makes more than %d %s", most, of)
			return
		}
		product *= max(1, factor)
	}
}

// Between checks bounds, themselves included.
func (c *Checker) Between(field string, value, low, high int) bool {
	if value < low || value > high {
		c.Add(field, value, "must be from %d to %d", low, high)
		return false
	}
	return true
}

// Share checks that a value is in [0, 1].
func (c *Checker) Share(field string, value float64) bool {
	if !(value >= 0 && value <= 1) {
		c.Add(field, value, "must be from 0 to 1")
		return false
	}
	return true
}

// Positive checks that a value is above 0.
func (c *Checker) Positive(field string, value float64) {
	if !(value > 0) {
		c.Add(field, value, "must be above 0")
	}
}

// NotNegative checks that a value is 0 or more.
func (c *Checker) NotNegative(field string, value float64) {
	if !(value >= 0) {
		c.Add(field, value, "must be 0 or more")
	}
}

// Finite reports the numbers that no file can hold but a program can, and
// whether there are none.
func (c *Checker) Finite() bool {
	before := len(c.problems)
	c.finite(c.root, "")
	return len(c.problems) == before
}

func (c *Checker) finite(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.finite(v.Elem(), path)
		}
	case reflect.Struct:
		for _, f := range fieldsOf(v) {
			c.finite(f.value, joinPath(path, f.name))
		}
	case reflect.Float64:
		if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
			c.Add(path, x, "must be finite")
		}
	}
}
