package command_test

import (
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// allDamage makes the damage tests go through every case instead of a sample.
const allDamage = "LATHE_DAMAGE"

// damage is something that befalls a file.
type damage struct {
	name string
	do   func(path string, random *rand.Rand) error
}

var damages = []damage{
	{"truncated", func(path string, _ *rand.Rand) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, info.Size()/2)
	}},
	{"bit-flipped", func(path string, random *rand.Rand) error {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		bit := random.IntN(8 * len(content))
		content[bit/8] ^= 1 << (bit % 8)
		return os.WriteFile(path, content, 0o666)
	}},
	{"emptied", func(path string, _ *rand.Rand) error { return os.Truncate(path, 0) }},
	{"removed", func(path string, _ *rand.Rand) error { return os.Remove(path) }},
}

// sampled says whether damage of a kind befalls the nth file: to one of so many, with
// the kinds in turn, unless the environment asks for every case.
func sampled(nth, kind, every int) bool {
	return os.Getenv(allDamage) != "" || nth%every == 0 && nth/every%len(damages) == kind
}

// random is the same for the same words, so that a failing case fails again.
func random(words ...string) *rand.Rand {
	h := fnv.New64a()
	for _, word := range words {
		h.Write([]byte(word))
	}
	return rand.New(rand.NewPCG(h.Sum64(), 0))
}

// sealedFiles lists every file of a run that a manifest seals, and the
// manifests, relative to the run.
func sealedFiles(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if rel == "logs" || rel == "jobs" || rel == "report" {
			return fs.SkipDir
		}
		if !entry.IsDir() {
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// sealedName is the file or folder whose data or manifest a file is, as
// verify reports it.
func sealedName(r *rundir.Run, file string) string {
	if base, ok := strings.CutSuffix(file, ".json"); ok {
		if _, err := os.Stat(r.Dir.Join(filepath.FromSlash(base))); err == nil {
			return base
		}
	}
	if folder := filepath.ToSlash(filepath.Dir(file)); seal.ManifestPath(r.Dir.Join(folder)) != "" {
		if _, err := os.Stat(seal.ManifestPath(r.Dir.Join(folder))); err == nil {
			return folder
		}
	}
	return file
}

// damagedSettings are those of the run of which the tests damage copies.
var damagedSettings = slices.Concat(thorough, small, []string{"schedule.iterations=2", "schedule.gradient_shards=2", "loss.kl.ref_every=1"})

// Every file of a finished run, data and manifests, is damaged in turn.
// lathe verify names it; repair and the same command again bring back the
// same bytes; what cannot be made again says so.
func TestDamage(t *testing.T) {
	settings, reference := damagedSettings, made(t, smoke, damagedSettings...)
	want := essence(t, reference)
	r := open(t, reference)
	files := sealedFiles(t, reference)
	cases := 0
	for i, file := range files {
		for j, d := range damages {
			if !sampled(i, j, 8) {
				continue
			}
			cases++
			t.Run(d.name+"/"+file, func(t *testing.T) {
				t.Parallel()
				dir := copyRun(t, reference)
				if err := d.do(filepath.Join(dir, file), random(d.name, file)); err != nil {
					t.Fatal(err)
				}
				name := sealedName(r, file)
				e := lathe(t, exitcode.Data, "verify", dir)
				if !strings.Contains(e.stderr, name) || !strings.Contains(e.stderr, "hint: ") {
					t.Fatalf("verify does not name %s with a mend:\n%s", name, e.stderr)
				}
				switch name {
				case "run.json", "recipe.yaml":
					lathe(t, exitcode.Data, "verify", "--repair", dir)
					lathe(t, exitcode.Data, "run", "--run", dir)
					follow(t, dir, name)
					lathe(t, exitcode.OK, runArgs(dir, smoke, settings...)...)
				default:
					lathe(t, exitcode.OK, "verify", "--repair", dir)
					lathe(t, exitcode.OK, "run", "--run", dir)
				}
				clean(t, dir)
				if diff := cmp.Diff(want, essence(t, dir)); diff != "" {
					t.Errorf("digests (-reference +after a repair):\n%s", diff)
				}
			})
		}
	}
	t.Logf("%d cases over %d files", cases, len(files))
}

// follow does what the hint of a damaged file says: it removes the file and
// its manifest.
func follow(t *testing.T, dir, name string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	for _, p := range []string{path, seal.ManifestPath(path)} {
		if err := os.RemoveAll(p); err != nil {
			t.Fatal(err)
		}
	}
}

// before copies a run and takes away a node and everything that was made
// after it, so that the node is what comes next.
func before(t *testing.T, reference string, n graph.Node) *rundir.Run {
	t.Helper()
	r := open(t, copyRun(t, reference))
	nodes := r.Graph.Nodes()
	for k := 1; k <= r.Recipe.Schedule.Iterations; k++ {
		nodes = append(nodes, graph.Node{Stage: graph.StageClose, Iteration: k})
	}
	gone := map[graph.Node]bool{n: true}
	for changed := true; changed; {
		changed = false
		for _, node := range nodes {
			for _, need := range r.Graph.Needs(node) {
				if gone[need] && !gone[node] {
					gone[node], changed = true, true
				}
			}
		}
	}
	for node := range gone {
		for shard := range r.Graph.Shards(node) {
			for _, path := range r.Graph.Outputs(graph.Task{Node: node, Shard: shard}) {
				if err := seal.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for k := range r.Recipe.Schedule.Iterations + 1 {
		if err := seal.Remove(r.Dir.Metrics(k)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(r.Dir.Report()); err != nil {
		t.Fatal(err)
	}
	return r
}

// inputs lists what shard 0 of a node reads, relative to the run.
func inputs(t *testing.T, reference string, n graph.Node) []string {
	t.Helper()
	r := open(t, reference)
	m, err := seal.Read(t.Context(), r.Graph.Outputs(graph.Task{Node: n})[0], seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, input := range m.Inputs {
		paths = append(paths, input.Path)
	}
	if n.Stage == graph.StageBuffer {
		paths = append(paths, r.Dir.Rel(r.Dir.Close(n.Iteration)))
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// The inputs of each stage are damaged before it runs. A flipped bit ends the
// stage with exit code 65 and the name of the file; doing what the hint says
// mends the run. What can be seen from outside is made again unasked. Neither
// ever changes what comes out.
func TestDamagedInput(t *testing.T) {
	reference := made(t, smoke, damagedSettings...)
	want := essence(t, reference)
	cases, read := 0, 0
	for _, n := range []graph.Node{
		{Stage: graph.StageWarm, Iteration: 2},
		{Stage: graph.StageRollout, Iteration: 2},
		{Stage: graph.StageScore, Iteration: 1},
		{Stage: graph.StageBuffer, Iteration: 1},
		{Stage: graph.StageGradient, Iteration: 2},
		{Stage: graph.StageLearn, Iteration: 2, Step: 1},
		{Stage: graph.StageLearn, Iteration: 2, Step: 3},
		{Stage: graph.StageEvaluate, Iteration: 1},
	} {
		paths := inputs(t, reference, n)
		if len(paths) == 0 {
			t.Errorf("%s cites no inputs", n)
		}
		for i, path := range paths {
			for j, d := range damages {
				first := i == 0 && d.name == "bit-flipped" // each stage has one that it finds itself
				if !first && !sampled(read+i, j, 4) {
					continue
				}
				cases++
				t.Run(fmt.Sprintf("%s/%s/%s", n, d.name, path), func(t *testing.T) {
					t.Parallel()
					r := before(t, reference, n)
					dir := string(r.Dir)
					file := r.Dir.Join(filepath.FromSlash(path))
					if info, err := os.Stat(file); err != nil {
						t.Fatal(err)
					} else if info.IsDir() {
						file = biggest(t, file)
					}
					if err := d.do(file, random(d.name, path)); err != nil {
						t.Fatal(err)
					}
					if d.name == "bit-flipped" {
						words := append(r.Graph.Command("", n), "--shard", strconv.Itoa(0))
						e := execute(t, nil, words[0], words[1:]...)
						if e.code != exitcode.Data || !strings.Contains(e.stderr, path) || !strings.Contains(e.stderr, "hint: remove") {
							t.Errorf("%v: exit code %d, want 65 naming %s and a mend\n%s", words, e.code, path, e.stderr)
						}
						e = execute(t, nil, "lathe", "run", "--run", dir)
						if e.code != exitcode.Data || !strings.Contains(e.stderr, path) || !strings.Contains(e.stderr, "hint: remove") {
							t.Errorf("lathe run: exit code %d, want 65 naming %s and a mend\n%s", e.code, path, e.stderr)
						}
						follow(t, dir, path)
					}
					lathe(t, exitcode.OK, "run", "--run", dir)
					clean(t, dir)
					if diff := cmp.Diff(want, essence(t, dir)); diff != "" {
						t.Errorf("digests (-reference +after a repair):\n%s", diff)
					}
				})
			}
		}
		read += len(paths)
	}
	t.Logf("%d cases over %d files read", cases, read)
}

// biggest is the biggest file of a folder.
func biggest(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var name string
	var most int64
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Size() > most {
			name, most = entry.Name(), info.Size()
		}
	}
	return filepath.Join(dir, name)
}
