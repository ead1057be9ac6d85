package command_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// guides are the pages with commands, in the order in which a reader comes to them: the
// later ones use the runs of the earlier ones.
var guides = []string{"README.md", "jobs/README.md", "data/README.md", "slurm/README.md", "analysis/README.md"}

var (
	// block is one ```console block of a guide with its mark: <!-- test: MARK -->.
	block = regexp.MustCompile("(?s)<!-- test: ([a-z]+) -->\n```console\n(.*?)```")
	// file is a block that a guide has its reader write to a file: <!-- file: NAME -->.
	file = regexp.MustCompile("(?s)<!-- file: ([a-z.]+) -->\n```[a-z]+\n(.*?)```")
)

// smallRun lets the quickstart, which takes minutes, do next to no work.
const smallRun = " --set warm_start.steps=2 --set schedule.iterations=1 --set rollout.prompts=8 --set evaluation.problems=4 --set evaluation.steps=1"

// freshClone is a folder that looks like a fresh clone after make build.
func freshClone(t *testing.T, binaries string) string {
	t.Helper()
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	clone := t.TempDir()
	for name, target := range map[string]string{
		"jobs": filepath.Join(root, "jobs"), "slurm": filepath.Join(root, "slurm"), "data": filepath.Join(root, "data"), "bin": binaries,
		"analysis": filepath.Join(root, "analysis"),
	} {
		if err := os.Symlink(target, filepath.Join(clone, name)); err != nil {
			t.Fatal(err)
		}
	}
	return clone
}

// readPage reads a page of the repository.
func readPage(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// guideCommands lists the commands of a guide's blocks with one of the marks, in their
// order. Every block must have a mark that some test knows.
func guideCommands(t *testing.T, guide string, marks ...string) (commands []string) {
	t.Helper()
	page := readPage(t, guide)
	blocks := block.FindAllStringSubmatch(page, -1)
	if all := strings.Count(page, "```console"); len(blocks) != all {
		t.Fatalf("%s: %d of %d console blocks say how they are tested", guide, len(blocks), all)
	}
	for _, b := range blocks {
		if !slices.Contains([]string{"quickstart", "run", "slurm", "devcluster", "wheels"}, b[1]) {
			t.Fatalf("%s: no test knows the mark %q", guide, b[1])
		}
		for line := range strings.Lines(b[2]) {
			if command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok && slices.Contains(marks, b[1]) {
				commands = append(commands, command)
			}
		}
	}
	return commands
}

func shell(t *testing.T, folder string, env []string, command string) {
	t.Helper()
	bash := exec.Command("bash", "-c", command)
	bash.Dir, bash.Env = folder, env
	if out, err := bash.CombinedOutput(); err != nil {
		t.Errorf("$ %s\n%s%v", command, out, err)
	}
}

// TestReadme runs the commands of all guides that need nothing but Lathe, in one clone. A
// command that an earlier guide has too is not run again.
func TestReadme(t *testing.T) {
	t.Parallel()
	lathe, err := exec.LookPath("lathe")
	if err != nil {
		t.Fatal(err)
	}
	clone := freshClone(t, filepath.Dir(lathe))
	env := append(os.Environ(), "LATHE_POLICY="+filepath.Join(clone, "runs/quickstart/policy/v000000"))
	done := map[string]string{} // the guide by the command
	for _, guide := range guides {
		for _, f := range file.FindAllStringSubmatch(readPage(t, guide), -1) {
			if err := os.WriteFile(filepath.Join(clone, f[1]), []byte(f[2]), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		for _, command := range guideCommands(t, guide, "quickstart", "run") {
			if other := done[command]; other != "" && other != guide {
				continue
			}
			done[command] = guide
			dry := strings.HasSuffix(command, " --dry-run")
			switch {
			case strings.HasPrefix(command, "git clone "), strings.HasPrefix(command, "export "):
				continue
			case command == "make quickstart":
				command = "bin/lathe run jobs/quickstart.yaml --run runs/quickstart" + smallRun
			case strings.HasPrefix(command, "bin/lathe sweep "):
				command = strings.Replace(command, "--seeds 1-3", "--seeds 1-2", 1) + smallRun
			case !dry && (strings.HasPrefix(command, "bin/lathe run jobs/own-") || strings.HasPrefix(command, "bin/lathe run mine.yaml ")):
				command += " --set schedule.iterations=1 --set warm_start.steps=5 --set warm_start.chunk=5 --set evaluation.problems=8"
			case strings.HasPrefix(command, "bin/lathe run jobs/smoke.yaml ") && !strings.Contains(command, " --from "),
				strings.HasPrefix(command, "bin/lathe run jobs/distill/"), strings.HasPrefix(command, "bin/lathe run jobs/mixed/"):
				command += " --set warm_start.steps=60 --set warm_start.chunk=30"
			case strings.HasPrefix(command, "bin/lathe run jobs/tooluse-"), strings.HasPrefix(command, "bin/lathe run jobs/mle-"):
				command += " --set schedule.iterations=1 --set warm_start.steps=10 --set evaluation.steps=0"
			}
			shell(t, clone, env, command)
		}
	}
	if len(done) < 30 {
		t.Errorf("the guides have %d commands", len(done))
	}
}

// TestReadmeWheels runs those with environments of other projects, each with a Python of
// LATHE_TEST_ENVIRONMENTS, a list as that of PATH, that has the package.
func TestReadmeWheels(t *testing.T) {
	t.Parallel()
	lathe := must.Get(exec.LookPath("lathe"))(t)
	clone := freshClone(t, filepath.Dir(lathe))
	must.Do(t, os.Symlink(must.Get(filepath.Abs(filepath.Join(repository, "pkg")))(t), filepath.Join(clone, "pkg")))
	modules := map[string]string{"reasoning_gym:": "reasoning_gym", "tasksets.py": "verifiers.v1", "counting.py": "openenv.core", "--wandb": "wandb, trackio"} // by a part of the command
	for _, command := range append(guideCommands(t, "data/README.md", "wheels"), guideCommands(t, "analysis/README.md", "wheels")...) {
		for part, module := range modules {
			if !strings.Contains(command, part) {
				continue
			}
			delete(modules, part)
			t.Run(module, func(t *testing.T) {
				for _, python := range filepath.SplitList(os.Getenv("LATHE_TEST_ENVIRONMENTS")) {
					if exec.Command(python, "-c", "import "+module).Run() == nil {
						if strings.Contains(command, "runs/quickstart") {
							shell(t, clone, os.Environ(), "bin/lathe run jobs/smoke.yaml --run runs/quickstart --set warm_start.steps=60 --set warm_start.chunk=30")
						}
						shell(t, clone, append(os.Environ(), "PYTHON="+python), command)
						return
					}
				}
				t.Skip("LATHE_TEST_ENVIRONMENTS names no Python with " + module)
			})
		}
	}
	if len(modules) > 0 {
		t.Errorf("no command is of %v", modules)
	}
}

// TestGuides: pages that no test runs have no ```console blocks.
func TestGuides(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != repository {
			return fs.SkipDir
		}
		name, err := filepath.Rel(repository, path)
		if err != nil || filepath.Ext(name) != ".md" || slices.Contains(guides, filepath.ToSlash(name)) {
			return err
		}
		if strings.Contains(readPage(t, filepath.ToSlash(name)), "```console") {
			t.Errorf("%s has commands that no test runs: add it to guides", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSlurmReadme runs those for a cluster on a real one.
func TestSlurmReadme(t *testing.T) {
	t.Parallel()
	c := commandtest.StartCluster(t, commandtest.Build(t))
	clone := freshClone(t, c.Bin)
	env := append(c.Env, "LATHE_SITE="+filepath.Join(clone, "jobs/sites/devcluster.yaml"))
	for _, guide := range guides {
		for _, command := range guideCommands(t, guide, "slurm") {
			if rest, isBatch := strings.CutPrefix(command, "sbatch "); isBatch {
				command = "sbatch --wait " + rest + smallRun
			}
			shell(t, clone, env, command)
		}
	}
	runs, err := filepath.Glob(filepath.Join(clone, "runs/*"))
	if err != nil || len(runs) != 2 {
		t.Fatalf("runs %q, want one of its own name and runs/first: %v", runs, err)
	}
	for _, run := range runs {
		c.Await(run, nil)
	}
	own := append(os.Environ(), "LATHE_DEVCLUSTER_DIR="+t.TempDir())
	for _, command := range guideCommands(t, "slurm/README.md", "devcluster") {
		shell(t, clone, own, command)
	}
}

// experiments are the titles in outcomes.txt of the experiments that README's table of
// papers counts, by the recipe of a row.
var experiments = map[string][]string{
	"jobs/exit-math.yaml":       {"ExIt against GRPO", "ExIt's ablations on puzzles", "ExIt's ablations on tool use"},
	"jobs/flipts/qwen3-4b.yaml": {"FlipTS against"},
	"jobs/rlmle/rlmle.yaml":     {"RL for MLE agents"},
	"jobs/ace/ace.yaml":         {"AceGRPO"},
	"jobs/mlerl/mlerl.yaml":     {"MLE-RL's choices", "MLE-RL's self-distillation"},
}

// TestReadmePapers: README counts the claims of the papers as outcomes.txt has them.
func TestReadmePapers(t *testing.T) {
	t.Parallel()
	type count struct{ came, all int }
	counts, title := map[string]count{}, ""
	readme, outcomes := readPage(t, "README.md"), readPage(t, "analysis/results/reproduce-mini/outcomes.txt")
	sums, _, _ := strings.Cut(outcomes, "\n")
	if !strings.Contains(strings.Join(strings.Fields(readme), " "), sums) {
		t.Errorf("README.md does not have %q, which outcomes.txt begins with", sums)
	}
	for line := range strings.Lines(outcomes) {
		outcome, claim := strings.CutPrefix(line, "  ")
		switch {
		case !claim:
			title = line
		case !strings.HasPrefix(outcome, "outcome ") && !strings.HasPrefix(outcome, "arm "):
			c := counts[title]
			c.all++
			if strings.HasPrefix(outcome, "came out ") {
				c.came++
			}
			counts[title] = c
		}
	}
	_, table, _ := strings.Cut(readme, "<!-- table: analysis/results/reproduce-mini/outcomes.txt -->\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := regexp.MustCompile(`(?m)^\| \[[^]]*\]\(([^)]*)\) \|.*\| ([^|]*) \|$`).FindAllStringSubmatch(table, -1)
	if len(rows) != len(experiments) {
		t.Errorf("%d rows, want %d", len(rows), len(experiments))
	}
	for _, row := range rows {
		var sum count
		for _, start := range experiments[row[1]] {
			for title, c := range counts {
				if strings.HasPrefix(title, start) {
					sum.came, sum.all = sum.came+c.came, sum.all+c.all
				}
			}
		}
		if want := fmt.Sprintf("%d of %d", sum.came, sum.all); row[2] != want || sum.all == 0 {
			t.Errorf("%s: README has %q, and outcomes.txt %q", row[1], row[2], want)
		}
	}
}
