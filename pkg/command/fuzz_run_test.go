package command_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// The variables that say how many runs TestFuzzRun spoils, and from which case on:
// a case does the same each time.
const (
	fuzzVariable     = "LATHE_FUZZ_RUNS"
	fuzzFromVariable = "LATHE_FUZZ_FROM"
)

// What each command of a spoilt run may take.
const (
	fuzzPatience = 10 * time.Minute // until it is told to stop: no machine is so busy
	fuzzStopping = 20 * time.Second // after that
	fuzzMemory   = 2 << 30
)

// Whatever takes the place of a file of a run, from another run or another kind of
// thing altogether: no command hangs, none takes the memory of the machine, each
// ends with an exit code that it names and with the name of the file, verify is
// never silent, and a run that goes on comes to the bytes that it would have come
// to, or says at what it stops.
func TestFuzzRun(t *testing.T) {
	t.Parallel()
	settings := []string{"schedule.iterations=2", "rollout.shards=2", "schedule.gradient_shards=2", "warm_start.steps=100", "warm_start.chunk=50"}
	own := filepath.Join(t.TempDir(), "own")
	siblings := map[string]string{"seed": filepath.Join(t.TempDir(), "seed"), "recipe": filepath.Join(t.TempDir(), "recipe")}
	lathe(t, exitcode.OK, runArgs(own, smoke, settings...)...)
	lathe(t, exitcode.OK, runArgs(siblings["seed"], smoke, append(settings, "seed=3")...)...)
	lathe(t, exitcode.OK, runArgs(siblings["recipe"], smoke, append(settings, "rollout.max_new_tokens=5")...)...)
	f := &fuzz{own: own, siblings: siblings, want: essence(t, own), sealed: sealedNames(t, own), seen: map[string]*fuzzed{}}
	f.loose = f.looseNames(t)
	began, first, cases := time.Now(), fuzzNumber(t, fuzzFromVariable, 0), fuzzNumber(t, fuzzVariable, 8)
	t.Cleanup(func() { t.Logf("%d runs spoilt in %v\n%s", cases, time.Since(began).Round(time.Second), f.table()) })
	for i := first; i < first+cases; i++ {
		c := f.choose(rand.New(rand.NewPCG(20, uint64(i))))
		t.Run(fmt.Sprintf("%d: %s for %s", i, c.kind, strings.ReplaceAll(c.victim, "/", " ")), func(t *testing.T) {
			t.Parallel()
			f.carryOut(t, c)
		})
	}
}

// fuzz is what all cases share, and what they came to.
type fuzz struct {
	own      string            // the run that is spoilt, in copies
	siblings map[string]string // runs that differ from it, by what they differ in
	want     map[string]string // its essence
	sealed   []string          // names in it, relative
	loose    []string          // files in it that nothing seals

	lock sync.Mutex
	seen map[string]*fuzzed // by kind of spoiling
}

// fuzzed is what the commands of the cases of a kind came to.
type fuzzed struct {
	cases   int
	codes   map[int]int
	memory  int64         // the most of one process, in bytes
	longest time.Duration // of a command
	stop    time.Duration // the longest from SIGTERM to the end
}

// fuzzCase is one spoilt run.
type fuzzCase struct {
	random *rand.Rand
	kind   string
	base   string // sealed name that is spoilt; empty for what nothing seals
	victim string // the file that is replaced: base, its manifest or a file in it
	spoil  func(dir string) error
}

func (f *fuzz) carryOut(t *testing.T, c fuzzCase) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.CopyFS(dir, os.DirFS(f.own)); err != nil {
		t.Fatal(err)
	}
	if c.random.IntN(2) == 0 {
		f.shorten(t, dir)
	}
	if err := c.spoil(dir); err != nil {
		t.Fatal(err)
	}
	spoilt := c.base != "" && !same(filepath.Join(f.own, c.victim), filepath.Join(dir, c.victim))
	stage := []string{
		"warm 1", "rollout 1", "score 2", "buffer 0", "buffer 1", "gradient 1", "learn 1", "evalplan 0", "evalrollout 0", "evalscore 0", "evaluate 0",
	}[c.random.IntN(11)]
	stage, iteration, _ := strings.Cut(stage, " ")
	code, said := f.run(t, c, fuzzPatience, []string{"verify", dir})
	if spoilt && (code == exitcode.OK || !strings.Contains(said, c.base)) {
		t.Errorf("verify ends with exit code %d and does not name what is spoilt:\n%s", code, said)
	}
	looks := [][]string{
		{"status", dir},
		{"report", dir},
		{"explain", dir, "--iter", "1", "--instance", "i000001-000000"},
		{"run", "--run", dir, "--dry-run"},
		{"advance", "--run", dir, "--site", "generic", "--dry-run"},
		{"prune", "--keep-every", "2", "--dry-run", dir},
		{"replay", dir, "--iter", iteration, "--stage", stage},
		{"policy", "inspect", "--model", filepath.Join(dir, "policy", "v000001")},
		{"eval", "--recipe", filepath.Join(dir, "recipe.yaml"), "--policy", filepath.Join(dir, "policy", "v000001"), "--problems", "2", "--samples", "1", "--steps", "0"},
		{"verify", dir},
	}
	stopped := append(looks, []string{"run", "--run", dir})[c.random.IntN(len(looks)+1)]
	f.run(t, c, time.Duration(c.random.Int64N(int64(300*time.Millisecond))), stopped)
	for _, command := range looks {
		f.run(t, c, fuzzPatience, command)
	}
	f.goOn(t, c, dir, false)
	f.run(t, c, fuzzPatience, []string{"verify", "--repair", dir})
	f.goOn(t, c, dir, true)
}

// goOn continues a run. When it comes to an end, then to the bytes that it
// would have come to, unless verify says what is wrong: nothing that was still to
// be done needs to have read it.
func (f *fuzz) goOn(t *testing.T, c fuzzCase, dir string, repaired bool) {
	t.Helper()
	if code, _ := f.run(t, c, fuzzPatience, []string{"run", "--run", dir}); code != exitcode.OK {
		return
	}
	code, said := f.run(t, c, fuzzPatience, []string{"verify", dir})
	switch {
	case code == exitcode.OK:
		if diff := cmp.Diff(f.want, essence(t, dir)); diff != "" {
			t.Errorf("repaired %v: digests (-before +after):\n%s", repaired, diff)
		}
	case repaired || !strings.Contains(said, c.base):
		t.Errorf("repaired %v: the run goes on to its end, and verify ends with exit code %d:\n%s", repaired, code, said)
	}
}

// shorten takes what the second iteration learned out of a run, so that something
// is still to be done.
func (f *fuzz) shorten(t *testing.T, dir string) {
	t.Helper()
	for _, name := range f.sealed {
		m, err := seal.Record(t.Context(), filepath.Join(f.own, name))
		if err != nil {
			t.Fatal(err)
		}
		learned := m.Iteration == 2 && slices.Contains([]string{"buffer", "gradient", "learn"}, m.Stage)
		if learned || strings.HasPrefix(name, "eval/v000002/") {
			if err := seal.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// run runs a command, which is told to stop after a while, and checks how it ends.
func (f *fuzz) run(t *testing.T, c fuzzCase, patience time.Duration, args []string) (code int, said string) {
	t.Helper()
	cmd := exec.Command("lathe", args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, time.Second
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(patience, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	kill := time.AfterFunc(patience+fuzzStopping, func() {
		t.Errorf("lathe %s hangs", strings.Join(args, " "))
		_ = cmd.Process.Kill()
	})
	_ = cmd.Wait() // the exit code tells
	took := time.Since(began)
	signalled := !stop.Stop()
	kill.Stop()
	code = cmd.ProcessState.ExitCode()
	var memory int64
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		memory = usage.Maxrss << 10 // of its own children too; it begins with what this process has
	}
	f.note(c.kind, code, memory, took, signalled, took-patience)
	if memory > fuzzMemory {
		t.Errorf("lathe %s takes %d MB", strings.Join(args, " "), memory>>20)
	}
	if patience == fuzzPatience && signalled {
		t.Errorf("lathe %s is not done after %v", strings.Join(args, " "), patience)
	}
	// A signal may come before the program listens to it.
	if signalled && (code == exitcode.Stopped || code == -1) {
		return code, out.String()
	}
	if !slices.Contains([]int{exitcode.OK, exitcode.LeftOut, exitcode.Usage, exitcode.Data, exitcode.Unavailable, exitcode.IO}, code) {
		t.Errorf("lathe %s ends with exit code %d:\n%s", strings.Join(args, " "), code, out.String())
	}
	if code != exitcode.OK && !strings.Contains(out.String(), c.base) {
		t.Errorf("lathe %s ends with exit code %d and does not name %s:\n%s", strings.Join(args, " "), code, c.base, out.String())
	}
	return code, out.String()
}

func (f *fuzz) note(kind string, code int, memory int64, took time.Duration, signalled bool, stop time.Duration) {
	f.lock.Lock()
	defer f.lock.Unlock()
	seen := f.seen[kind]
	seen.codes[code]++
	seen.memory, seen.longest = max(seen.memory, memory), max(seen.longest, took)
	if signalled {
		seen.stop = max(seen.stop, stop)
	}
}

// table has a line for each kind of spoiling.
func (f *fuzz) table() string {
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(f.seen)) {
		seen := f.seen[kind]
		fmt.Fprintf(&b, "%-36s %4d cases, exit codes", kind, seen.cases)
		for _, code := range slices.Sorted(maps.Keys(seen.codes)) {
			fmt.Fprintf(&b, " %d: %d,", code, seen.codes[code])
		}
		fmt.Fprintf(&b, " at most %d MB, %v, %v after SIGTERM\n", seen.memory>>20, seen.longest.Round(10*time.Millisecond), seen.stop.Round(10*time.Millisecond))
	}
	return b.String()
}

// same reports whether two names lead to the same bytes: then nothing is spoilt.
func same(a, b string) bool {
	was, errWas := os.Stat(a)
	is, errIs := os.Stat(b)
	switch {
	case errWas != nil || errIs != nil || was.Mode().Type() != is.Mode().Type():
		return false
	case was.IsDir():
		before, errBefore := os.ReadDir(a)
		after, errAfter := os.ReadDir(b)
		return errBefore == nil && errAfter == nil && slices.EqualFunc(before, after, func(x, y os.DirEntry) bool {
			return x.Name() == y.Name() && same(filepath.Join(a, x.Name()), filepath.Join(b, y.Name()))
		})
	case !is.Mode().IsRegular() || was.Size() != is.Size():
		return false
	}
	before, errBefore := os.ReadFile(a)
	after, errAfter := os.ReadFile(b)
	return errBefore == nil && errAfter == nil && bytes.Equal(before, after)
}

// sealedNames lists what is sealed in a run, by relative names.
func sealedNames(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		if top, _, _ := strings.Cut(rel, "/"); err != nil || top == "logs" || top == "jobs" || top == "report" {
			return err
		}
		if _, err := os.Stat(seal.ManifestPath(path)); err == nil && rel != "." {
			names = append(names, rel)
			if entry.IsDir() {
				return fs.SkipDir
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// looseNames lists the files of a run that nothing seals.
func (f *fuzz) looseNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, top := range []string{"logs", "jobs", "report"} {
		err := fs.WalkDir(os.DirFS(f.own), top, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				names = append(names, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}
