package command_test

import (
	"bytes"
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

// program writes a shell script that can be executed.
func program(t *testing.T, path, script string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o777); err != nil {
		t.Fatal(err)
	}
}

// trainClone is a clone that holds slurm/train.sbatch and little else.
func trainClone(t *testing.T) string {
	t.Helper()
	clone := t.TempDir()
	content, err := os.ReadFile(filepath.Join(repository, "slurm/train.sbatch"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"slurm/train.sbatch": string(content), "jobs/quickstart.yaml": "", "go.mod": "", "Makefile": "",
	} {
		path := filepath.Join(clone, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return clone
}

// tools is a folder with the programs that the script needs, and more.
func tools(t *testing.T, more map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"bash", "dirname", "realpath", "mkdir", "flock", "sh", "cat", "chmod"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, script := range more {
		program(t, filepath.Join(folder, name), script)
	}
	return folder
}

// echo prints the arguments, one in brackets after the other.
const echo = `for a; do printf '[%s]' "$a"; done` + "\n"

// makeBinaries is a make that builds binaries that echo.
const makeBinaries = `[ "$*" = "-C $2 build" ] || exit 2
for name in lathe lathe-rollout lathe-score lathe-buffer lathe-learn; do
	cat >"$2/bin/$name" <<'END'
#!/bin/sh
` + echo + `END
	chmod +x "$2/bin/$name"
done
`

// TestTrainScript: what slurm/train.sbatch does with what it is given, without
// a Slurm.
func TestTrainScript(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		args     string
		job      string // empty: outside a job
		binaries bool   // LATHE_BIN is set
		tools    map[string]string
		code     int
		out      string // what lathe is called with, CLONE and HERE standing for the folders
		log      []string
		silent   bool // it says nothing of its own
	}{
		{
			name: "nothing", job: "7", binaries: true, out: "[advance][--recipe][CLONE/jobs/quickstart.yaml][--run][runs/7][--executor][slurm]",
			log: []string{"trains the quickstart's policy", "the run's folder is runs/7, in HERE", "for your own: sbatch slurm/train.sbatch RECIPE RUN"},
		},
		{
			name: "flags", args: "--site mine --set seed=2", job: "7", binaries: true,
			out: "[advance][--recipe][CLONE/jobs/quickstart.yaml][--run][runs/7][--executor][slurm][--site][mine][--set][seed=2]",
			log: []string{"the quickstart's policy", "runs/7"},
		},
		{
			name: "recipe", args: "own.yaml --set seed=2", job: "7", binaries: true,
			out: "[advance][--recipe][own.yaml][--run][runs/7][--executor][slurm][--set][seed=2]", log: []string{"runs/7"},
		},
		{
			name: "recipe and run", args: "own.yaml r --site mine", job: "7", binaries: true, silent: true,
			out: "[advance][--recipe][own.yaml][--run][r][--executor][slurm][--site][mine]",
		},
		{
			name: "outside a job", args: "own.yaml r", binaries: true, silent: true,
			out: "[advance][--recipe][own.yaml][--run][r][--executor][slurm]",
		},
		{name: "outside a job without a run", args: "own.yaml", binaries: true, code: 64, log: []string{"no run folder is named", "hint: sbatch slurm/train.sbatch"}},
		{
			name: "built", job: "7", tools: map[string]string{"go": "", "make": makeBinaries},
			out: "[advance][--recipe][CLONE/jobs/quickstart.yaml][--run][runs/7][--executor][slurm]",
			log: []string{"there are no binaries yet: building them into CLONE/bin"},
		},
		{name: "no go", job: "7", tools: map[string]string{"make": makeBinaries}, code: 69, log: []string{"building it needs go", "hint: run make build where"}},
		{
			name: "build fails", job: "7", tools: map[string]string{"go": "", "make": "echo no network; exit 2"}, code: 69,
			log: []string{"no network", "make build failed", "hint: run it where the modules can be downloaded"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			clone, here, path := trainClone(t), t.TempDir(), tools(t, c.tools)
			env := []string{"PATH=" + path, "SLURM_SUBMIT_DIR=" + here}
			if c.job != "" {
				env = append(env, "SLURM_JOB_ID="+c.job)
			}
			if c.binaries {
				bin := t.TempDir()
				program(t, filepath.Join(bin, "lathe"), echo)
				env = append(env, "LATHE_BIN="+bin)
			}
			bash := exec.Command(filepath.Join(path, "bash"), append([]string{filepath.Join(clone, "slurm/train.sbatch")}, strings.Fields(c.args)...)...)
			bash.Dir, bash.Env = here, env
			var stdout, stderr bytes.Buffer
			bash.Stdout, bash.Stderr = &stdout, &stderr
			if code := exitCode(bash.Run()); code != c.code {
				t.Fatalf("exit code %d, want %d\n%s", code, c.code, stderr.String())
			}
			names := strings.NewReplacer("CLONE", clone, "HERE", here)
			if want := names.Replace(c.out); stdout.String() != want {
				t.Errorf("lathe was called with\n%s, want\n%s", stdout.String(), want)
			}
			rest := stderr.String()
			for _, line := range c.log {
				_, after, found := strings.Cut(rest, names.Replace(line))
				if !found {
					t.Errorf("the log does not say %q in its place:\n%s", line, stderr.String())
				}
				rest = after
			}
			if c.silent && stderr.Len() > 0 {
				t.Errorf("it says\n%s", stderr.String())
			}
		})
	}
}

// TestSlurmTrainAlone submits slurm/train.sbatch with nothing behind it in a
// clone without binaries.
func TestSlurmTrainAlone(t *testing.T) {
	t.Parallel()
	c := commandtest.StartCluster(t, commandtest.Build(t))
	clone := filepath.Join(t.TempDir(), "lathe")
	shell(t, repository, os.Environ(), "mkdir "+clone+" && git ls-files --cached --others --exclude-standard | while read -r f; do [ -e \"$f\" ] && echo \"$f\"; done | tar -c -T - | tar -x -C "+clone)
	// The quickstart takes minutes.
	if err := os.Rename(filepath.Join(clone, "jobs/quickstart.yaml"), filepath.Join(clone, "jobs/whole.yaml")); err != nil {
		t.Fatal(err)
	}
	small := "base: whole.yaml\nwarm_start: {steps: 2}\nschedule: {iterations: 1}\nrollout: {prompts: 8}\nevaluation: {problems: 4, steps: 1}\n"
	if err := os.WriteFile(filepath.Join(clone, "jobs/quickstart.yaml"), []byte(small), 0o666); err != nil {
		t.Fatal(err)
	}
	path := slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(folder string) bool { // the tests have binaries
		_, err := os.Stat(filepath.Join(folder, "lathe"))
		return err == nil
	})
	env := append(c.Env, "LATHE_BIN=", "PATH="+strings.Join(path, string(filepath.ListSeparator)), "LATHE_SITE="+filepath.Join(clone, "jobs/sites/devcluster.yaml"))
	started := time.Now()
	shell(t, clone, env, "sbatch --wait slurm/train.sbatch")
	t.Logf("building and submitting took %v", time.Since(started).Round(time.Second))
	logs, err := filepath.Glob(filepath.Join(clone, "lathe-train-*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs %q: %v", logs, err)
	}
	job := regexp.MustCompile("[0-9]+").FindString(filepath.Base(logs[0]))
	log, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"trains the quickstart's policy", "the run's folder is runs/" + job, "for your own: sbatch slurm/train.sbatch RECIPE RUN", "building them into " + clone + "/bin"} {
		if !strings.Contains(string(log), line) {
			t.Errorf("the log does not say %q:\n%s", line, log)
		}
	}
	c.Await(filepath.Join(clone, "runs", job), nil)
}
