package command_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
)

// block is one ```console block of the README with its mark: <!-- test: MARK -->.
var block = regexp.MustCompile("(?s)<!-- test: ([a-z]+) -->\n```console\n(.*?)```")

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

// readmeCommands lists the commands of the README's blocks with one of the
// marks, in their order. Every block must have a mark that some test knows.
func readmeCommands(t *testing.T, marks ...string) (commands []string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := block.FindAllStringSubmatch(string(content), -1)
	if all := strings.Count(string(content), "```console"); len(blocks) != all || all == 0 {
		t.Fatalf("%d of %d console blocks say how they are tested", len(blocks), all)
	}
	for _, b := range blocks {
		if !slices.Contains([]string{"quickstart", "run", "slurm", "devcluster"}, b[1]) {
			t.Fatalf("no test knows the mark %q", b[1])
		}
		for line := range strings.Lines(b[2]) {
			if command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok && slices.Contains(marks, b[1]) {
				commands = append(commands, command)
			}
		}
	}
	if len(commands) == 0 {
		t.Fatalf("the README has no commands marked %v", marks)
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

// TestReadme runs the commands that need nothing but Lathe.
func TestReadme(t *testing.T) {
	t.Parallel()
	lathe, err := exec.LookPath("lathe")
	if err != nil {
		t.Fatal(err)
	}
	clone := freshClone(t, filepath.Dir(lathe))
	for _, command := range readmeCommands(t, "quickstart", "run") {
		switch {
		case strings.HasPrefix(command, "git clone "):
			continue
		case command == "make quickstart":
			command = "bin/lathe run jobs/quickstart.yaml --run runs/quickstart" + smallRun
		case strings.HasPrefix(command, "bin/lathe sweep "):
			command += smallRun
		case strings.HasPrefix(command, "bin/lathe run jobs/own-"):
			command += " --set schedule.iterations=1 --set warm_start.steps=5 --set warm_start.chunk=5 --set evaluation.problems=8"
		case strings.HasPrefix(command, "bin/lathe run jobs/tooluse-"), strings.HasPrefix(command, "bin/lathe run jobs/mle-"):
			command += " --set schedule.iterations=1 --set warm_start.steps=50 --set evaluation.steps=0"
		}
		shell(t, clone, nil, command)
	}
}

// TestSlurmReadme runs those for a cluster on a real one.
func TestSlurmReadme(t *testing.T) {
	t.Parallel()
	c := commandtest.StartCluster(t, commandtest.Build(t))
	clone := freshClone(t, c.Bin)
	env := append(c.Env, "LATHE_SITE="+filepath.Join(clone, "jobs/sites/devcluster.yaml"))
	for _, command := range readmeCommands(t, "slurm") {
		if strings.HasPrefix(command, "git clone ") {
			continue
		}
		if rest, isBatch := strings.CutPrefix(command, "sbatch "); isBatch {
			command = "sbatch --wait " + rest + smallRun
		}
		shell(t, clone, env, command)
	}
	runs, err := filepath.Glob(filepath.Join(clone, "runs/*"))
	if err != nil || len(runs) != 2 {
		t.Fatalf("runs %q, want one of its own name and runs/first: %v", runs, err)
	}
	for _, run := range runs {
		c.Await(run, "done", 5*time.Minute, nil)
	}
	own := append(os.Environ(), "LATHE_DEVCLUSTER_DIR="+t.TempDir())
	for _, command := range readmeCommands(t, "devcluster") {
		shell(t, clone, own, command)
	}
}

// TestReadmeLinks: the files that the README points to are there.
func TestReadmeLinks(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`[^!]\[[^]]*\]\(([^)#:]+)\)`).FindAllStringSubmatch(string(content), -1)
	if len(links) < 3 {
		t.Fatalf("%d links found", len(links))
	}
	for _, link := range links {
		if _, err := os.Stat(filepath.Join(repository, filepath.FromSlash(link[1]))); err != nil {
			t.Errorf("the README points to %s: %v", link[1], err)
		}
	}
}
