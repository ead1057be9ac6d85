package floors

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/lathe-rl/lathe/"

// floors lists the packages from the ground up. A package imports only from
// floors below its own, and from its own folder. PATH/... means PATH and all
// below it; an exact name counts first.
var floors = [][]string{
	{"pkg/internal/lazyregexp", "pkg/internal/slurmenv"},
	{"pkg/internal/asm", "pkg/internal/await", "pkg/internal/cputime", "pkg/internal/devices", "pkg/internal/forkjoin", "pkg/internal/golden", "pkg/internal/must", "pkg/internal/sourcetree", "pkg/exitcode", "pkg/rng", "pkg/shares", "pkg/plural", "pkg/mathverify", "pkg/jinja", "pkg/figure", "pkg/phase", "pkg/plainjson", "pkg/webpage/...", "pkg/monitor/nvmltest", "pkg/gguf/gguftest"},
	{"pkg/plainfile", "pkg/mlebench/metric", "pkg/mlebench/frame"},
	{"pkg/config", "pkg/stopstring", "pkg/bfcl/...", "data/mle/lists", "pkg/mlebench/grader", "pkg/policy/kvcache"},
	{"pkg/mlebench"},
	{"pkg/registry", "pkg/child", "pkg/config/configtest", "pkg/seal", "pkg/site", "pkg/vec/...", "pkg/mlebench/task"},
	{"pkg/shard", "pkg/shard/internal/...", "pkg/safetensors", "pkg/gguf", "pkg/gemm/...", "pkg/executor", "pkg/sandbox/...", "pkg/delta"},
	{"pkg/shard/arrowfile", "pkg/shard/foreign", "pkg/monitor", "pkg/tokenizer/...", "pkg/policy", "pkg/env", "pkg/env/mle/grammar", "pkg/env/math/generate/deepmind", "pkg/curriculum", "pkg/loss", "pkg/pysource"},
	{"pkg/child/stdio", "pkg/env/math/answer", "pkg/scaffold/memory", "pkg/monitor/nvidia", "pkg/monitor/monitortest"},
	{"pkg/env/math/dataset", "pkg/env/math/generate", "pkg/env/tooluse", "pkg/env/mle", "pkg/env/puzzle", "pkg/env/digits", "pkg/curriculum/uniform"},
	{"pkg/env/math", "pkg/env/program", "pkg/curriculum/...", "pkg/credit", "pkg/scaffold", "pkg/supervised"},
	{"pkg/loss/preset", "pkg/curriculum/beliefs"},
	{"pkg/recipe"},
	{"pkg/builtin", "pkg/checkpoint", "pkg/policy/adamw"},
	{"pkg/gguf/folder", "pkg/policy/cpu", "pkg/policy/cuda", "pkg/policy/remote", "pkg/policy/policytest", "pkg/chat"},
	{"pkg/policy/backend", "pkg/policy/bench"},
	{"pkg/policy/remote/remotetest", "pkg/stage"},
	{"pkg/stage/trainer"},
	{"pkg/stage/rollout", "pkg/stage/score", "pkg/stage/plan", "pkg/stage/learn", "pkg/stage/warm", "pkg/stage/promptroom", "pkg/executor/..."},
	{"pkg/stage/evaluate", "pkg/stage/batch"},
	{"pkg/stage/buffer"},
	{"pkg/stage/internal/stagetest"},
	{"pkg/run/graph"},
	{"pkg/run/rundir"},
	{"pkg/run/closing"},
	{"pkg/run/survey"},
	{"pkg/run/worker", "pkg/run/prune", "pkg/run/verify", "pkg/run/explain", "pkg/run/samples", "pkg/run/pool", "pkg/run/sweep"},
	{"pkg/run/drive"},
	{"pkg/run/advance", "pkg/run/internal/runtest"},
	{"pkg/run/status", "pkg/run/logs", "pkg/run/simulate"},
	{"pkg/run/compact"},
	{"pkg/run"},
	{"pkg/measure"},
	{"pkg/report", "pkg/export", "pkg/efficiency", "pkg/doctor", "pkg/rehearsal", "pkg/command/cmdline", "pkg/command/jsonlines"},
	{"pkg/compare", "pkg/command/monitor", "pkg/command/plain"},
	{"pkg/paper", "pkg/reproduce", "pkg/command/task"},
	{"pkg/command", "pkg/command/internal/commandtest"},
	{"cmd/...", "pkg/floors/...", "pkg/command/tenant"},
}

// strangers lists pairs that must not know each other, whatever their
// floors.
var strangers = []struct{ from, to, why string }{
	{"pkg/curriculum/...", "pkg/env/...", "a curriculum never knows the environment"},
	{"pkg/env/...", "pkg/curriculum/...", "an environment never knows the curriculum"},
	{"pkg/curriculum/...", "pkg/executor/...", "a curriculum never knows Slurm"},
	{"pkg/env/...", "pkg/executor/...", "an environment never knows Slurm"},
	{"pkg/loss", "pkg/executor/...", "a loss never knows Slurm"},
	{"pkg/stage/...", "pkg/executor/...", "a stage is a function over files, whoever runs it"},
	{"pkg/policy/...", "pkg/loss/...", "the engine knows no reinforcement learning"},
	{"pkg/policy/...", "pkg/recipe", "the engine is told what to do by its caller"},
}

// guarded lists imports that only some packages may have.
var guarded = []struct {
	imports string
	by      []string
	why     string
}{
	{"github.com/parquet-go/parquet-go", []string{"pkg/seal", "pkg/shard", "pkg/shard/foreign", "pkg/shard/internal/pages"}, "files are written and read in one place, with their schema checks"},
	{"github.com/apache/arrow", []string{"pkg/shard/arrowfile", "pkg/shard/foreign", "pkg/shard/internal/arrowmemory", "pkg/shard/internal/arrowmessage"}, "files are written and read in one place, with their schema checks"},
	{"github.com/NVIDIA/go-nvml", []string{"pkg/monitor/nvidia"}, "it needs cgo, and every other binary builds without"},
	{module + "pkg/policy/cpu", []string{"pkg/policy/backend"}, "a backend is opened by its name, and asked through package policy's interfaces"},
	{module + "pkg/policy/cuda", []string{"pkg/policy/backend", "pkg/command"}, "a backend is opened by its name, and asked through package policy's interfaces"},
	{module + "pkg/monitor/nvidia", []string{"cmd/lathe-monitor"}, "it needs cgo, and every other binary builds without"},
	{"github.com/urfave/cli", []string{"pkg/command", "pkg/command/cmdline", "pkg/command/monitor", "pkg/command/task"}, "what a command does is a function that needs no command line"},
}

// unlinked lists what a program must not be linked with, however far down its
// imports.
var unlinked = []struct{ program, imports, why string }{
	{"cmd/lathe-monitor", "github.com/apache/arrow", "it runs beside every task, and needs tables alone"},
	{"cmd/lathe-monitor", "github.com/google/flatbuffers", "it runs beside every task, and needs tables alone"},
	{"cmd/lathe-monitor", "github.com/goccy/go-json", "it runs beside every task, and needs tables alone"},
	{"cmd/lathe-rollout", "gonum.org/v1/plot", "every task of an array starts one, and none draws"},
	{"cmd/lathe-score", "gonum.org/v1/plot", "every task of an array starts one, and none draws"},
}

// listed is what go list says about one package.
type listed struct {
	ImportPath, Dir                                              string
	Imports, TestImports, XTestImports                           []string
	GoFiles, CgoFiles, TestGoFiles, XTestGoFiles, IgnoredGoFiles []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json", module+"...").Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			t.Fatalf("go list: %v\n%s", err, failed.Stderr)
		}
		t.Fatal(err)
	}
	var all []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestFloors(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		for _, problem := range importProblems(path, p.Imports) {
			t.Error(problem)
		}
	}
}

// TestFloorsCanFail shows each rule a package that breaks it.
func TestFloorsCanFail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, imports, want string
	}{
		{"pkg/shard", module + "pkg/seal", ""},
		{"pkg/gemm", module + "pkg/gemm/internal/gen", ""},
		{"pkg/run", "fmt", ""},
		{"pkg/seal", module + "pkg/shard", "above"},
		{"pkg/env", module + "pkg/env/math", "above"},
		{"pkg/stage/score", module + "pkg/stage/rollout", "above"}, // the same floor is not below
		{"pkg/curriculum/exit", module + "pkg/env", "a curriculum never knows the environment"},
		{"pkg/env/math", module + "pkg/curriculum", "an environment never knows the curriculum"},
		{"pkg/stage/learn", module + "pkg/executor", "a stage is a function over files"},
		{"pkg/report", "github.com/parquet-go/parquet-go/format", "in one place"},
		{"pkg/shard", "github.com/apache/arrow/go/v17/arrow", "in one place"},
		{"pkg/shard", module + "pkg/shard/arrowfile", "above"},
		{"pkg/run", "github.com/NVIDIA/go-nvml/pkg/nvml", "needs cgo"},
		{"pkg/command/monitor", module + "pkg/monitor/nvidia", "needs cgo"},
		{"pkg/stage/learn", module + "pkg/policy/cuda", "opened by its name"},
		{"pkg/nowhere", "fmt", "stands on no floor"},
	} {
		problems := strings.Join(importProblems(c.path, []string{c.imports}), "\n")
		if (c.want == "") != (problems == "") || !strings.Contains(problems, c.want) {
			t.Errorf("%s importing %s: got %q, want %q", c.path, c.imports, problems, c.want)
		}
	}
}

// importProblems lists the rules that the imports of a package break.
func importProblems(path string, imports []string) []string {
	var problems []string
	own, known := floorOf(path)
	if !known {
		problems = append(problems, fmt.Sprintf(
			"%s stands on no floor: add it to the table in pkg/floors, above all that it imports", path))
	}
	for _, imported := range imports {
		for _, g := range guarded {
			if strings.HasPrefix(imported, g.imports) && !matchesAny(g.by, path) {
				problems = append(problems, fmt.Sprintf("%s imports %s, which only %v may: %s", path, imported, g.by, g.why))
			}
		}
		ours, isOurs := strings.CutPrefix(imported, module)
		if !isOurs {
			continue
		}
		for _, s := range strangers {
			if matches(s.from, path) && matches(s.to, ours) {
				problems = append(problems, fmt.Sprintf("%s imports %s: %s", path, ours, s.why))
			}
		}
		below, _ := floorOf(ours)
		if known && below >= own && !strings.HasPrefix(ours, path+"/internal/") {
			problems = append(problems, fmt.Sprintf(
				"%s (floor %d) imports %s (floor %d), which stands beside or above it: a package imports only from floors below its own",
				path, own, ours, below))
		}
	}
	return problems
}

func TestUnlinked(t *testing.T) {
	t.Parallel()
	programs := map[string]bool{}
	for _, u := range unlinked {
		programs[u.program] = true
	}
	for program := range programs {
		out, err := exec.Command("go", "list", "-deps", module+program).Output()
		if err != nil {
			t.Fatalf("go list -deps: %v", err)
		}
		for _, problem := range linkProblems(program, lines(out)) {
			t.Error(problem)
		}
	}
	for _, c := range []struct{ program, imports, want string }{
		{"cmd/lathe-monitor", module + "pkg/shard", ""},
		{"cmd/lathe-monitor", "github.com/apache/arrow/go/v17/arrow", "needs tables alone"},
		{"cmd/lathe", "github.com/apache/arrow/go/v17/arrow", ""},
	} {
		problems := strings.Join(linkProblems(c.program, []string{c.imports}), "\n")
		if (c.want == "") != (problems == "") || !strings.Contains(problems, c.want) {
			t.Errorf("%s linked with %s: got %q, want %q", c.program, c.imports, problems, c.want)
		}
	}
}

// linkProblems lists the packages that a program is linked with and must not be.
func linkProblems(program string, linked []string) []string {
	var problems []string
	for _, u := range unlinked {
		for _, imported := range linked {
			if program == u.program && strings.HasPrefix(imported, u.imports) {
				problems = append(problems, fmt.Sprintf("%s is linked with %s: %s", program, imported, u.why))
			}
		}
	}
	return problems
}

func floorOf(path string) (floor int, known bool) {
	for pass := range 2 { // exact names first
		for i, names := range floors {
			for _, name := range names {
				if path == name || pass == 1 && matches(name, path) {
					return i, true
				}
			}
		}
	}
	return 0, false
}

func matches(pattern, path string) bool {
	folder, all := strings.CutSuffix(pattern, "/...")
	return path == folder || all && strings.HasPrefix(path, folder+"/")
}

func matchesAny(patterns []string, path string) bool {
	for _, p := range patterns {
		if matches(p, path) {
			return true
		}
	}
	return false
}

// renames are the calls that only pkg/seal may make outside tests.
var renames = []string{"os.Rename(", "os.Link(", "unix.Rename", "syscall.Rename", "unix.Link(", ".Sync()"}

// TestOnlySealRenames reads every source file: a file that appears under its
// name by any other way than a seal may be half written. What the sandbox's Clean
// renames it removes next.
func TestOnlySealRenames(t *testing.T) {
	t.Parallel()
	for path, content := range sources(t) {
		if strings.HasPrefix(path, "pkg/seal/") || strings.HasPrefix(path, "pkg/floors/") || strings.HasSuffix(path, "_test.go") || path == "pkg/sandbox/clean.go" {
			continue
		}
		for number, line := range lines(content) {
			for _, call := range renames {
				if strings.Contains(line, call) {
					t.Errorf("%s:%d calls %s: only pkg/seal gives files their names", path, number+1, call)
				}
			}
		}
	}
}

const (
	maxFileLines = 500
	maxMainLines = 60
)

// TestFileSizes keeps files short enough to be read at a sitting.
func TestFileSizes(t *testing.T) {
	t.Parallel()
	for path, content := range sources(t) {
		if bytes.Contains(content[:min(len(content), 200)], []byte("DO NOT EDIT")) {
			continue // generated
		}
		n, limit := len(lines(content)), maxFileLines
		if filepath.Base(path) == "main.go" && strings.HasPrefix(path, "cmd/") {
			limit = maxMainLines
		}
		if n > limit {
			t.Errorf("%s has %d lines, the bound is %d: a file is one thought; cut it where two thoughts meet", path, n, limit)
		}
	}
}

// TestMainsAreThin: a binary is flags, one call and an exit code, so that all
// of it can be tested in a process.
func TestMainsAreThin(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		if path == "cmd/lathe-monitor" {
			continue // chooses by its build tags what reads GPUs
		}
		if strings.HasPrefix(path, "cmd/") && (len(p.GoFiles)+len(p.CgoFiles) != 1 || len(p.TestGoFiles) > 0) {
			t.Errorf("%s holds %v: a command is one thin main.go, what it does lives in pkg", path, append(p.GoFiles, p.TestGoFiles...))
		}
	}
}

// sources returns the Go files by their path from the root of the module,
// those that git was told to ignore left out.
func sources(t *testing.T) map[string][]byte {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") || path == filepath.Join(root, "runs") || path == filepath.Join(root, "bin")) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(rel)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// Without git, in an archive of the sources, nothing is ignored.
	list := exec.Command("git", "ls-files", "--others", "--ignored", "--exclude-standard", "*.go")
	list.Dir = root
	if ignored, err := list.Output(); err == nil {
		for _, path := range lines(ignored) {
			delete(files, path)
		}
	}
	if len(files) == 0 {
		t.Fatal("no Go file was found: the test looks in the wrong place")
	}
	return files
}

func lines(content []byte) []string {
	var out []string
	for scanner := bufio.NewScanner(bytes.NewReader(content)); scanner.Scan(); {
		out = append(out, scanner.Text())
	}
	return out
}
