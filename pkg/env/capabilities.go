package env

import "io"

// LineChecker scores lines of JSON, for anybody who wants to test a reward
// (lathe-score check).
type LineChecker struct {
	Doc      string     // what a line holds and what its row does, one sentence
	Settings func() any // a pointer to the flags: the field only_best is --only-best
	Line     func() any // a pointer to what a line is decoded into; a field that it lacks is an error
	// Verifier makes the function that gives the score of a line. Its error is
	// the line's own fault.
	Verifier func(settings any) (func(line any) (row any, err error), error)
}

// Generator makes problems from a seed (lathe data generate).
type Generator struct {
	Summary  string
	Settings func() any // a pointer to the flags
	Tasks    func(settings any, split Split, seed uint64) ([]Task, error)
	Write    func(out io.Writer, tasks []Task) error // as data files have them
}
