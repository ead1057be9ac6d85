package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// run runs go test and returns its exit code; an error says which rule was
// broken, or what kept go test from running.
func run(listPath string, arguments []string, out io.Writer) (code int, err error) {
	text, err := os.ReadFile(listPath)
	if err != nil {
		return 0, fmt.Errorf("reading the list of tests that may skip: %w", err)
	}
	listed, err := parseList(listPath, string(text))
	if err != nil {
		return 0, err
	}
	temporary, release, err := temporaryFolder(arguments)
	if err != nil {
		return 0, err
	}
	defer release()
	command := exec.Command("go", append([]string{"test", "-json"}, arguments...)...)
	command.Env, command.Stderr = append(os.Environ(), "TMPDIR="+temporary), os.Stderr
	events, err := command.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := command.Start(); err != nil {
		return 0, fmt.Errorf("starting go test: %w", err)
	}
	said, readErr := show(events, out)
	var failed *exec.ExitError
	if err := command.Wait(); errors.As(err, &failed) {
		code = max(failed.ExitCode(), 1)
	} else if err != nil {
		return 0, fmt.Errorf("running go test: %w", err)
	}
	said.printSlowest(out)
	return code, errors.Join(readErr, report(said.skipped, listed, listPath, out), leftIn(temporary))
}

// temporaryFolder makes the folder in which the tests make theirs. It has the
// same name for every run of these arguments in one tree, because go test caches a
// result by the variables that the test has read. Nobody else can list it, but a test that
// runs programs as another user has them reach their own folder in it.
func temporaryFolder(arguments []string) (path string, release func(), err error) {
	here, err := os.Getwd()
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(os.TempDir(), fmt.Sprintf("gotest-%d-%08x", os.Getuid(), crc32.ChecksumIEEE([]byte(here+"\x00"+strings.Join(arguments, "\x00")))))
	if err := os.MkdirAll(path, 0o711); err != nil {
		return "", nil, err
	}
	folder, err := os.Open(path)
	if err != nil {
		return "", nil, err
	}
	release = func() { _ = errors.Join(os.RemoveAll(path), folder.Close()) } // the next run removes what stays
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = folder.Close()
		return "", nil, fmt.Errorf("the same gotest runs in this tree: %w", err)
	}
	entries, err := folder.ReadDir(-1) // of a run that was killed
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(path, entry.Name())))
	}
	if err != nil {
		release()
		return "", nil, err
	}
	return path, release, nil
}

// leftIn is the error of tests that left something in the folder.
func leftIn(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) == 0 {
		return err
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return fmt.Errorf("tests left %q in the temporary folder: t.TempDir removes what it made", names)
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // s, at the end of a test: without what a parallel one waited for others
}

// skip is a test that was skipped.
type skip struct{ pkg, test, reason string }

// tests is what is known of tests that have ended.
type tests struct {
	skipped []skip
	slow    []event // that took slowSeconds or more, without subtests
}

// slowSeconds is how long a test takes that is worth a line.
const slowSeconds = 20

// printSlowest prints the tests that took longest, so that whoever wants less time finds
// where it goes.
func (t tests) printSlowest(out io.Writer) {
	slices.SortFunc(t.slow, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for _, e := range t.slow {
		fmt.Fprintf(out, "slow: %4.0f s %s %s\n", e.Elapsed, e.Package, e.Test)
	}
}

// show prints what go test without -v prints, and gathers what is to be said at the end.
func show(events io.Reader, out io.Writer) (said tests, err error) {
	packages := map[string]*results{}
	for decoder := json.NewDecoder(events); ; {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return said, nil
		} else if err != nil {
			return said, fmt.Errorf("reading what go test says: %w", err)
		}
		if e.Package == "" { // of a build
			fmt.Fprint(out, e.Output)
			continue
		}
		p := packages[e.Package]
		if p == nil {
			p = &results{output: map[string][]string{}, ended: map[string]bool{}}
			packages[e.Package] = p
		}
		if ended := e.Action == "pass" || e.Action == "fail"; ended && e.Test != "" && !strings.Contains(e.Test, "/") && e.Elapsed >= slowSeconds {
			said.slow = append(said.slow, e)
		}
		switch {
		case e.Action == "output":
			p.add(e.Test, e.Output)
		case e.Action == "skip" && e.Test != "":
			said.skipped = append(said.skipped, skip{e.Package, e.Test, reason(p.output[e.Test])})
			p.ended[e.Test] = true
		case e.Action == "pass" && e.Test != "":
			p.ended[e.Test] = true
		case e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
			p.print(out, e.Action == "fail")
			delete(packages, e.Package)
		}
	}
}

// results is what the tests of a package have said so far.
type results struct {
	order  []string            // the tests, "" for the package itself
	output map[string][]string // by test
	ended  map[string]bool     // without a failure
}

func (p *results) add(test, line string) {
	if _, known := p.output[test]; !known {
		p.order = append(p.order, test)
	}
	p.output[test] = append(p.output[test], line)
}

// print shows the tests that failed or never ended, each with its verdict
// first, and then what the package says itself.
func (p *results) print(out io.Writer, failed bool) {
	for _, test := range p.order {
		if test == "" || !failed || p.ended[test] {
			continue
		}
		verdict, said := "", ""
		for _, line := range p.output[test] {
			switch {
			case strings.HasPrefix(line, "=== "):
			case strings.HasPrefix(line, "--- "):
				verdict += line
			default:
				said += line
			}
		}
		fmt.Fprint(out, verdict, said)
	}
	for _, line := range p.output[""] {
		if line != "PASS\n" {
			fmt.Fprint(out, line)
		}
	}
}

// reason is what a skipped test says, without the place in its source.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		if place, rest, ok := strings.Cut(line, ": "); ok && strings.Contains(place, ".go:") {
			line = rest
		}
		said = append(said, line)
	}
	return strings.Join(said, " ")
}

// parseList reads the tests that may skip: package, test, part of the reason.
// Lines that are empty or begin with # say nothing.
func parseList(path, text string) (listed []skip, err error) {
	for number, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return nil, fmt.Errorf("%s:%d: a package, a test and a part of its reason are wanted", path, number+1)
		}
		listed = append(listed, skip{fields[0], fields[1], strings.Join(fields[2:], " ")})
	}
	return listed, nil
}

// allows tells whether an entry of the list is about a skipped test: a test
// stands for its subtests, a * at its end for any rest, and the package's path may
// leave out the module's.
func (entry skip) allows(s skip) bool {
	inPackage := s.pkg == entry.pkg || strings.HasSuffix(s.pkg, "/"+entry.pkg)
	begins, open := strings.CutSuffix(entry.test, "*")
	ofTest := open && strings.HasPrefix(s.test, begins) || s.test == entry.test || strings.HasPrefix(s.test, entry.test+"/")
	return inPackage && ofTest && strings.Contains(s.reason, entry.reason)
}

// report prints the skipped tests; those that no entry allows are an error.
func report(skipped, listed []skip, listPath string, out io.Writer) error {
	unlisted := 0
	for _, s := range skipped {
		mark := "skipped"
		if !slices.ContainsFunc(listed, func(entry skip) bool { return entry.allows(s) }) {
			mark = "SKIPPED, NOT LISTED"
			unlisted++
		}
		fmt.Fprintf(out, "%s: %s %s: %s\n", mark, s.pkg, s.test, s.reason)
	}
	if unlisted > 0 {
		return fmt.Errorf("%d tests skipped that are not in %s", unlisted, listPath)
	}
	return nil
}
