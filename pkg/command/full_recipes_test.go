package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/paper"
)

// dryRuns heads the page that TestFullRecipes keeps.
const dryRuns = `# What the full recipes of the five papers ask for

    go test ./pkg/command -run TestFullRecipes -v            # seconds and memory of each dry run
    go test ./pkg/command -run TestFullRecipes -update       # writes this page

By ` + "`lathe run RECIPE --dry-run --site jobs/sites/eight-gpus.yaml`" + `, one node of eight GPUs of 80 GB and 128 without, over stand-ins: small tasks
and problems in the numbers that the recipes ask for, and policies of the published shapes, in as many files, without weights. Tasks are at
most so many: every wave has all its shards. The bound is every task at its time limit, or every trace at its budget, with arrays one after the other; the estimate
assumes 20 GFLOP/s a core and 50 TFLOP/s a GPU, and leaves out the time of programs that score. *GPU*: what a gradient task is given of
the 78 GiB that such a GPU has free, or the GPU that the recipe takes where that is not enough, which its header says too. *Files*: what an
iteration reads and writes at most of policies, sums of gradients and optimizer states, with its seconds at 2, 10 and 50 GB/s. Where traces wait for
the scores of programs (mle), nearly all of it is the policy, which each rollout task opens in each wave: mlerl/mlerl has 16 tasks in 15 waves
for 67.7 GB, which is 16.2 of its 16.8 TB. No task keeps its GPU for the hours that programs take, and a task whose traces have all ended has
no further wave. The test bounds the
processor time and the memory of each dry run, and ` + "`-v`" + ` prints them.

| recipe | tasks | arrays | bound, hours | estimate, core-hours | GPU-hours | hours | GPU, GiB | files, GB | at 2 GB/s, s | 10 | 50 |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
`

// The most that a dry run of a full recipe may say and take.
const (
	mostTasks     = 1_000_000
	mostCPU       = 10 * time.Second
	mostKilobytes = 512 << 10
)

// madeBefore are the inputs that some recipes need of other runs, by what a dry run says
// without them: what their header says of that, and settings that do without them and leave the
// policy's engines as they are.
var madeBefore = map[string]struct {
	header  string
	without []string
}{
	"warm_start.pool": {"lathe pool", []string{"warm_start.pool=", "warm_start.steps=0", "schedule.iterations=1"}},
	"data.offline":    {"offline.yaml", []string{"data.offline="}},
}

var (
	totalTasks  = regexp.MustCompile(` (\d+) tasks in (\d+) arrays`)
	boundHours  = regexp.MustCompile(`(?m)^total .* ([0-9.]+) +[0-9.]+ [A-Za-z]*B$`)
	estimatedAs = regexp.MustCompile(`estimate: (\S+) core-hours, (\S+) GPU-hours, (\S+) hours`)
	moved       = regexp.MustCompile(`(?m)^ +total +\d+ +([0-9.]+) GB +(?:([0-9.]+) GB +)?(\S+) s +(\S+) s +(\S+) s *$`)
	onGPU       = regexp.MustCompile(`(?m)^ +(gradient|critic) .* ([0-9.]+)$`)
	tooSmall    = regexp.MustCompile(`GPUs of (\d+) GiB`)
	takes       = regexp.MustCompile(`takes a GPU\s+of (\d+) GiB`)
	based       = regexp.MustCompile(`(?m)^base: (\S+)`)
)

// header is what a recipe's file says above its settings, and those of its bases after it.
func header(t *testing.T, file string) string {
	t.Helper()
	text := string(must.Get(os.ReadFile(file))(t))
	said := strings.ReplaceAll(text, "\n# ", " ")
	if base := based.FindStringSubmatch(text); base != nil {
		said += header(t, filepath.Join(filepath.Dir(file), base[1]))
	}
	return said
}

// fullRecipes are those that hold a number of a table or figure with the paper's settings.
func fullRecipes(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, name := range paper.Names() {
		for _, c := range must.Get(paper.Covering(name))(t) {
			all = append(all, must.Get(paper.Recipes(filepath.Join(repository, "jobs"), c.Full))(t)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// dryRun is a dry run of a full recipe.
type dryRun struct {
	header, out, failure string
	failed               bool
	cpu                  time.Duration
	kilobytes            int64
}

// folders are those that the full recipes find their inputs in.
type folders struct{ top, models, data, shared string }

// dry runs a full recipe dry, with settings.
func (f folders) dry(t *testing.T, file string, settings ...string) dryRun {
	t.Helper()
	args := append([]string{"run", file, "--run", filepath.Join(f.top, "run"), "--dry-run", "--site", filepath.Join(repository, "jobs", "sites", "eight-gpus.yaml")}, commandtest.Set(settings...)...)
	command := exec.Command("lathe", args...)
	command.Env = append(os.Environ(), "LATHE_DATA="+f.data, "LATHE_MODELS="+f.models, "LATHE_SHARED="+f.shared, "LATHE_RUNS="+filepath.Join(f.top, "runs"), "LATHE_OFFLINE="+filepath.Join(f.top, "offline"))
	var out, failure strings.Builder
	command.Stdout, command.Stderr = &out, &failure
	err := command.Run()
	if command.ProcessState == nil {
		t.Fatal(err)
	}
	return dryRun{
		header: header(t, file), out: out.String(), failure: failure.String(), failed: err != nil,
		cpu: command.ProcessState.UserTime() + command.ProcessState.SystemTime(), kilobytes: command.ProcessState.SysUsage().(*syscall.Rusage).Maxrss,
	}
}

// TestFullRecipes: a dry run of each full recipe of the papers is quick, plans a number of
// tasks that a cluster takes, and either fits GPUs of 80 GB, or the header of the recipe says
// which GPU it takes. It refuses nothing else but what a header says is to be made before.
func TestFullRecipes(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	f := folders{top, filepath.Join(top, "models"), filepath.Join(top, "data"), filepath.Join(top, "shared")}
	fullModels(t, f.models)
	fullTasks(t, filepath.Join(f.data, "mle-dojo"), "mle-dojo")
	fullTasks(t, filepath.Join(f.data, "mle-bench"), "mle-bench")
	fullProblems(t, f.data)
	fullFunctions(t, filepath.Join(f.shared, "data", "bfcl"))
	page := dryRuns
	for _, file := range fullRecipes(t) {
		name := strings.TrimSuffix(filepath.ToSlash(must.Get(filepath.Rel(filepath.Join(repository, "jobs"), file))(t)), ".yaml")
		run := f.dry(t, file)
		t.Logf("%s: %v of processor time, %d MB", name, run.cpu, run.kilobytes>>10)
		if run.cpu > mostCPU || run.kilobytes > mostKilobytes {
			t.Errorf("%s: the dry run takes %v of processor time and %d KB", name, run.cpu, run.kilobytes)
		}
		before := ""
		for input, made := range madeBefore {
			if run.failed && strings.Contains(run.failure, input) && strings.Contains(run.header, made.header) {
				before, run = input, f.dry(t, file, made.without...)
			}
		}
		gpu, err := run.gpu()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if before != "" {
			page += fmt.Sprintf("| %s | refused before its %s is made | | | | | | %s | | | | |\n", name, before, gpu)
			continue
		}
		row, err := run.row()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		page += fmt.Sprintf("| %s | %s | %s | %s |\n", name, strings.Join(row[:6], " | "), gpu, strings.Join(row[6:], " | "))
	}
	golden.Check(t, filepath.Join(repository, "analysis", "results", "dryrun", "README.md"), page)
}

// gpu is what gradient tasks are given of a GPU's memory, or the GPU that the recipe takes,
// and an error where the header does not say that.
func (r dryRun) gpu() (string, error) {
	said := takes.FindStringSubmatch(r.header)
	if r.failed {
		needs := tooSmall.FindStringSubmatch(r.failure)
		if needs == nil {
			return "", fmt.Errorf("refused: %s", r.failure)
		}
		if said == nil || said[1] != needs[1] {
			return "", fmt.Errorf("it takes a GPU of %s GiB, and its header does not say so: %q", needs[1], said)
		}
		return needs[1], nil
	}
	var work []string
	for _, m := range onGPU.FindAllStringSubmatch(r.out, -1) {
		work = append(work, m[2])
	}
	if said != nil && len(work) > 0 {
		return "", fmt.Errorf("it fits, and its header says that it %s", said[0])
	}
	return strings.Join(work, " + "), nil
}

// row is the rest of the line of a dry run on the page: tasks, arrays and hours, then files
// and seconds.
func (r dryRun) row() ([]string, error) {
	total, bound, estimate := totalTasks.FindStringSubmatch(r.out), boundHours.FindStringSubmatch(r.out), estimatedAs.FindStringSubmatch(r.out)
	if total == nil || bound == nil || estimate == nil {
		return make([]string, 10), fmt.Errorf("the dry run says\n%s", r.out)
	}
	row := append([]string{total[1], total[2], bound[1]}, estimate[1:]...)
	var tasks int
	if _, err := fmt.Sscan(total[1], &tasks); err != nil || tasks > mostTasks {
		return make([]string, 10), fmt.Errorf("%s tasks, want at most %d", total[1], mostTasks)
	}
	m := moved.FindStringSubmatch(r.out)
	if m == nil { // nothing is trained
		return append(row, "", "", "", ""), nil
	}
	var read, written float64
	if _, err := fmt.Sscan(m[1], &read); err != nil {
		return row, err
	}
	if m[2] != "" {
		if _, err := fmt.Sscan(m[2], &written); err != nil {
			return row, err
		}
	}
	return append(row, fmt.Sprintf("%.0f", read+written), m[3], m[4], m[5]), nil
}
