// Package pysource says what can be said of a Python program without running it:
// whether it parses, how much it resembles another, and, once prints of its
// progress were put into it, whether anything else was.
//
// A Python interpreter parses and compiles the programs, by its own ast module, in
// a sandbox: a script that is embedded here, one process for many programs. None
// of them is ever executed. A program that cannot be read, or at which the
// interpreter crashes or finds no end, does not parse, and the others are
// answered as if it were not there. CPython 3.8 to 3.13.
package pysource

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/sandbox"
)

//go:embed source.py
var script string

// MaxSource bounds a program in bytes; a longer one does not parse.
const MaxSource = 512 << 10

// Interpreter is a Python that answers. It is used from a binary that has called
// [sandbox.Enter].
type Interpreter struct {
	Root    string   // of the image that it is in; empty for this machine's, as in [sandbox.Program]
	Path    string   // absolute, of the program itself
	Read    []string // what it needs to read beside the system's own: the folder of an installation of its own
	Require []string // what the sandbox must have, as in [sandbox.Program]
}

// limits bound the process that answers. Only a program that nothing was
// answered before it within Wall is given up for it, so Wall bounds one program
// and not a batch.
var limits = sandbox.Limits{Wall: 30 * time.Second, Memory: 2 << 30, Processes: 32, FileBytes: 1}

// Problem says why a program does not parse.
type Problem struct {
	Why  string
	Line int // from 1; 0 where no line is at fault
}

// Error is the reason with its line.
func (p *Problem) Error() string {
	if p.Line == 0 {
		return p.Why
	}
	return fmt.Sprintf("line %d: %s", p.Line, p.Why)
}

// Syntax is what comes of parsing a program.
type Syntax struct {
	Problem *Problem // nil for none
	Nodes   int      // of the syntax tree, as this interpreter's version has it
}

// Instrumented is a program with prints of its progress.
type Instrumented struct {
	Problem *Problem // the program itself does not parse: Text is the program
	Text    string
	Prints  []Print // in the order of their lines
	// Withheld says why prints were not looked for in a program that is too large, or
	// were found and not put in, because they would have
	// changed more than the output, as in a program that has a print of its own;
	// Text is the program then. "" for nothing withheld.
	Withheld string
}

// Print is a line that was inserted.
type Print struct {
	Line      int // of the instrumented program, from 1
	Milestone string
}

// Pair is a program and what is said to be the same program with prints.
type Pair struct{ Original, Instrumented string }

// request and answer are the lines of the protocol with the script.
type request struct {
	Op     string `json:"op"`
	Source string `json:"source"`
	Other  string `json:"other"`
}

type answer struct {
	Error  string  `json:"error"` // "" where the program parses
	Line   int     `json:"line"`
	Nodes  int     `json:"nodes"`
	Why    string  `json:"why"`
	Shapes []Shape `json:"shapes"`
	Text   string  `json:"text"`
	Lines  [][]int `json:"lines"` // of inserted lines: its number, the index of the milestone
	Failed string  `json:"failed"`
}

func (a answer) problem() *Problem {
	if a.Error == "" {
		return nil
	}
	return &Problem{Why: a.Error, Line: a.Line}
}

// Parse says of each program whether an interpreter would start to run it: its
// syntax, with the rules that are no grammar, such as that of a return outside of
// a function. An error is ours or the host's, here and in the methods below.
func (i Interpreter) Parse(ctx context.Context, sources []string) ([]Syntax, error) {
	answers, err := i.each(ctx, "parse", sources)
	if err != nil {
		return nil, err
	}
	out := make([]Syntax, len(answers))
	for n, a := range answers {
		out[n] = Syntax{Problem: a.problem(), Nodes: a.Nodes}
	}
	return out, nil
}

// Instrument inserts prints of [Statements] by rules, without a model: behind the
// last import of the top level; behind what reads data, makes a model, trains it,
// measures it, and predicts for the test set; inside functions too. Of statements
// that follow one another and do the same, the last is followed by the print.
// Readings of data inside of loops are followed once, behind the outermost, and
// functions that are called for each item have none.
//
// Whole lines are inserted, and no other byte changes but for an end of the last
// line that lacks one, so a line number of a traceback changes by the prints above
// it alone. No print is put behind a return, a raise, a break or a continue, into a
// line that others stand on, or before a docstring. What the rules do not know they
// leave out: less partial credit, never a wrong one.
func (i Interpreter) Instrument(ctx context.Context, sources []string) ([]Instrumented, error) {
	answers, err := i.each(ctx, "instrument", sources)
	if err != nil {
		return nil, err
	}
	out := make([]Instrumented, len(answers))
	for n, a := range answers {
		if a.Error != "" {
			out[n] = Instrumented{Problem: a.problem(), Text: sources[n]}
			continue
		}
		out[n] = Instrumented{Text: a.Text, Withheld: a.Failed}
		for _, l := range a.Lines {
			if len(l) != 2 || l[1] < 0 || l[1] >= len(Statements) {
				return nil, exitcode.Bugf("the embedded script inserts %v", l)
			}
			out[n].Prints = append(out[n].Prints, Print{Line: l[0], Milestone: Statements[l[1]]})
		}
	}
	return out, nil
}

// SameButForPrints says of each pair why the second program is more than the first
// with prints inserted, or "" if it is not.
//
// An inserted print is a statement of its own: print, to standard output, of
// expressions that read and do no more. These are constants, names, attributes,
// subscripts; + - / % and signs of them; f-strings, "…".format(…), and len, float,
// int, str, round and .item() of them; and no keyword but flush. Each may call a
// method of an object's own, as printing the object does; none assigns, imports,
// draws a random number, advances an iterator or opens a file, as a walrus, await,
// yield, a comprehension, an unpacking or any other call could. A print that fails
// (a name that has no value yet) ends the program where it would have gone on: no
// text shows that.
//
// All that the original has must be there, its prints too, in its order. In a
// program that gives a name to print (or to one of the functions above) none may be
// inserted.
func (i Interpreter) SameButForPrints(ctx context.Context, pairs []Pair) ([]string, error) {
	requests := make([]request, len(pairs))
	for n, p := range pairs {
		requests[n] = request{Op: "same", Source: p.Original, Other: p.Instrumented}
	}
	answers, err := i.ask(ctx, requests)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(answers))
	for n, a := range answers {
		out[n] = a.Why
		if a.Error != "" {
			out[n] = "does not parse: " + a.Error
		}
	}
	return out, nil
}

// Fingerprints are what [Similarity] compares, empty for a program that does not
// parse.
func (i Interpreter) Fingerprints(ctx context.Context, sources []string) ([]Fingerprint, error) {
	answers, err := i.each(ctx, "fingerprint", sources)
	if err != nil {
		return nil, err
	}
	out := make([]Fingerprint, len(answers))
	for n, a := range answers {
		out[n] = a.Shapes
		if err := out[n].check(); err != nil {
			return nil, exitcode.Bugf("the embedded script answers with %w", err)
		}
	}
	return out, nil
}

func (i Interpreter) each(ctx context.Context, op string, sources []string) ([]answer, error) {
	requests := make([]request, len(sources))
	for n, s := range sources {
		requests[n] = request{Op: op, Source: s}
	}
	return i.ask(ctx, requests)
}

// ask answers requests, in their order.
func (i Interpreter) ask(ctx context.Context, requests []request) ([]answer, error) {
	answers := make([]answer, len(requests))
	var open []int // those that are still to be answered
	for n, r := range requests {
		switch text := r.Source + r.Other; {
		case len(r.Source) > MaxSource || len(r.Other) > 2*MaxSource: // with prints
			answers[n].Error = fmt.Sprintf("it is longer than %d bytes", MaxSource)
		case !utf8.ValidString(text):
			answers[n].Error = "it is not UTF-8"
		default:
			open = append(open, n)
		}
	}
	for len(open) > 0 {
		got, how, err := i.once(ctx, requests, open)
		if err != nil {
			return nil, fmt.Errorf("asking %s about %d programs: %w", i.Path, len(open), err)
		}
		for k, a := range got {
			answers[open[k]] = a
		}
		// A process that ended early ended at the first program without an answer. The
		// program is at fault if the process had nothing else to do before.
		done := len(got)
		if done == 0 {
			answers[open[0]].Error = how
			done = 1
		}
		open = open[done:]
	}
	return answers, nil
}

// once starts a process for the requests that are open and returns the answers
// that came, with how the process ended.
func (i Interpreter) once(ctx context.Context, requests []request, open []int) (answers []answer, how string, err error) {
	var in bytes.Buffer
	encoder := json.NewEncoder(&in)
	for _, n := range open {
		if err := encoder.Encode(requests[n]); err != nil {
			return nil, "", exitcode.Bugf("encoding a request: %w", err)
		}
	}
	result, err := sandbox.Run(ctx, sandbox.Program{
		Args: []string{i.Path, "-X", "utf8", "-I", "-S", "-B", "-c", script}, Root: i.Root, Dir: "/", Read: i.Read,
		Limits: limits, Stdin: &in, Require: i.Require,
	})
	if err != nil {
		return nil, "", err
	}
	lines := strings.SplitAfter(result.Stdout.String(), "\n")
	if !strings.Contains(lines[0], `"python"`) {
		return nil, "", fmt.Errorf("it does not start as Python 3: %s: %s", result.End, strings.TrimSpace(result.Stderr.String()))
	}
	for _, line := range lines[1:min(len(lines), len(open)+1)] {
		var a answer
		if !strings.HasSuffix(line, "\n") {
			break // it ended while it wrote
		}
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			return nil, "", exitcode.Bugf("the embedded script answers with %.200q: %w", line, err)
		}
		answers = append(answers, a)
	}
	how = "Python ended at it: " + string(result.End)
	if result.End == sandbox.Exited {
		how += fmt.Sprintf(" with exit code %d", result.ExitCode)
	}
	return answers, how, nil
}
