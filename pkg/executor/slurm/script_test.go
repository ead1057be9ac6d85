package slurm

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/site"
)

// scriptCases cover every line that a script can hold.
func scriptCases() map[string]func() (executor.Array, Chunk, site.Profile) {
	limits := Limits{MaxArraySize: 101, MaxJobCount: 10000}
	chunk := func(a executor.Array, n, throttle int) Chunk {
		chunks, err := Plan(a, limits, throttle)
		if err != nil {
			panic(err)
		}
		return chunks[n]
	}
	return map[string]func() (executor.Array, Chunk, site.Profile){
		"plain": func() (executor.Array, Chunk, site.Profile) {
			a := testArray(someShards(8)...)
			return a, chunk(a, 0, 0), site.Default()
		},
		"second-chunk": func() (executor.Array, Chunk, site.Profile) {
			a := testArray(someShards(150)...)
			return a, chunk(a, 1, 10), site.Default()
		},
		"sparse-retry": func() (executor.Array, Chunk, site.Profile) {
			a := testArray(3, 17, 140)
			a.Attempt = 2
			return a, chunk(a, 0, 0), site.Default()
		},
		"gate": func() (executor.Array, Chunk, site.Profile) {
			a := testArray(0)
			a.Stage, a.NoShard, a.CPUs, a.MemoryGB, a.GPUs, a.Minutes = GateStage, true, 1, 0, 0, 2
			a.Command = []string{"/opt/lathe/bin/lathe", "advance", "--run", "/data/runs/r1", "--executor", "slurm"}
			return a, chunk(a, 0, 0), site.Default()
		},
		"whole-site": func() (executor.Array, Chunk, site.Profile) {
			a := testArray(someShards(2)...)
			a.Exclude = []string{"node3", "node4"}
			a.LogDir = "/data/my runs/50% \"r1\"/logs"
			a.Command = []string{"/opt/lathe/bin/lathe-rollout", "--run", "/data/my runs/it's"}
			return a, chunk(a, 0, 0), site.Profile{
				Name: "whole", Partition: "gpu,gpu-long", Account: "lab", QOS: "normal", Constraint: "h100|a100", Reservation: "week",
				GPUFlag: "gpus-per-node", GPUType: "h100", MemoryFlag: true, Shell: "/usr/bin/bash",
				Setup:  []string{"module purge", "module load cuda/12.4"},
				Export: map[string]string{"HF_HOME": "/scratch/$USER/hf", "B": "it's"}, MaxMinutes: 20, SignalSeconds: 120,
				KillOnInvalidDependency: true, Extra: []string{"--exclude=node7", "--mail-type=NONE"},
			}
		},
		"skipping-site": func() (executor.Array, Chunk, site.Profile) {
			a := testArray(someShards(2)...)
			site := site.Default()
			site.Skip = []string{"--mem", "--gres", "--export", "--signal", "--requeue", "--nodes", "--kill-on-invalid-dep", "--chdir"}
			return a, chunk(a, 0, 0), site
		},
	}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	for name, make := range scriptCases() {
		got, err := Script(make())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		golden.Check(t, filepath.Join("testdata", "script", name+".sh"), got)
	}
}

func TestScriptErrors(t *testing.T) {
	t.Parallel()
	chunk := Chunk{Of: 1, Shards: []int{0}, After: -1}
	array := testArray(0)
	array.LogDir = "/data/two\nlines"
	if _, err := Script(array, chunk, site.Default()); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("a path with a line break: error is %v", err)
	}
	array.LogDir = `/data/back\slash`
	if _, err := Script(array, chunk, site.Default()); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("a path with a backslash: error is %v", err)
	}
	array = testArray(0)
	array.Stage = "unheard-of"
	if _, err := Script(array, chunk, site.Default()); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("an unknown stage: error is %v", err)
	}
}

// runScript runs a job script as Slurm would run task i of it, without Slurm.
func runScript(t *testing.T, script []byte, index string) string {
	t.Helper()
	cmd := exec.Command("/bin/bash", "-s")
	cmd.Stdin = strings.NewReader(string(script))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SLURM_ARRAY_TASK_ID=" + index}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func TestScriptsFindTheirShardAndLog(t *testing.T) {
	t.Parallel()
	logs := filepath.Join(t.TempDir(), "it's a run", "logs")
	if err := os.MkdirAll(logs, 0o777); err != nil {
		t.Fatal(err)
	}
	site := site.Default()
	site.Setup = []string{"test -z \"$UNSET_BY_A_MODULE\"", "FROM_SETUP=set"}
	for _, c := range []struct {
		shards   []int
		index    string
		want     string
		separate bool // the script opens the log itself
	}{
		{[]int{0, 1, 2}, "2", "2", false},
		{[]int{101, 102, 103}, "1", "102", true},
		{[]int{5, 90, 1234567}, "2", "1234567", true},
	} {
		array := testArray(c.shards...)
		array.LogDir = logs
		array.Env = map[string]string{"ODD": "a 'b' $c `d` \\e\nf"}
		array.Command = []string{"/bin/bash", "-c", `printf '%s|' "$ODD" "$FROM_SETUP" "$LATHE_ATTEMPT" "$@"`, "name", "it's", ""}
		site.Setup[1] = "export FROM_SETUP=set"
		script, err := Script(array, Chunk{Of: 1, Shards: c.shards, After: -1}, site)
		if err != nil {
			t.Fatal(err)
		}
		got := runScript(t, script, c.index)
		if c.separate {
			if got != "" {
				t.Errorf("shards %v, task %s: %q beside the log", c.shards, c.index, got)
			}
			shard := map[string]int{"102": 102, "1234567": 1234567}[c.want]
			content, err := os.ReadFile(array.Log(shard))
			if err != nil {
				t.Fatal(err)
			}
			got = string(content)
		}
		if want := array.Env["ODD"] + "|set|0|it's||--shard|" + c.want + "|"; got != want {
			t.Errorf("shards %v, task %s: got %q, want %q", c.shards, c.index, got, want)
		}
	}
}

func TestSetupThatFailsIsNamed(t *testing.T) {
	t.Parallel()
	site := site.Default()
	site.Setup = []string{"ls /no/such/module"}
	script, err := Script(testArray(0), Chunk{Of: 1, Shards: []int{0}, After: -1}, site)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/bash", "-s")
	cmd.Stdin = strings.NewReader(string(script))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SLURM_ARRAY_TASK_ID=0"}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the setup line failed: ls /no/such/module") {
		t.Errorf("error is %v, output %q", err, out)
	}
}

// The shell reads back what quote wrote, whatever it is.
func TestQuote(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ -~\n\t]{0,30}`).Draw(t, "text")
		out, err := exec.Command("/bin/bash", "-c", "printf %s. "+Word(text)).Output()
		if err != nil || string(out) != text+"." {
			t.Fatalf("%q is quoted as %s, and read as %q (%v)", text, Word(text), out, err)
		}
	})
}

func TestSignalSeconds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ minutes, wanted, want int }{
		{0, 180, 180},  // no limit of ours
		{60, 180, 180}, // plenty of time
		{10, 180, 150}, // a quarter of it
		{3, 180, 45},   // may come at 75 s of 180
		{2, 180, 0},    // could come at 30 s of 120
		{1, 180, 0},    // could come at the very start
		{60, 0, 0},     // not wanted
	} {
		if got := signalSeconds(c.minutes, c.wanted); got != c.want {
			t.Errorf("limit of %d minutes, notice of %d s: %d s, want %d", c.minutes, c.wanted, got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	a := testArray(0)
	if got := JobName(a); got != "lathe-r1-rollout-000001" {
		t.Errorf("job name is %s", got)
	}
	a.Stage = GateStage
	if got := JobName(a); got != "lathe-r1-gate" {
		t.Errorf("gate's job name is %s", got)
	}
	if got := ScriptName(a, Chunk{Of: 1}); got != "gate-000001.0.sh" {
		t.Errorf("script name is %s", got)
	}
	if got := ScriptName(a, Chunk{Number: 2, Of: 3}); got != "gate-000001.0.chunk2.sh" {
		t.Errorf("script name is %s", got)
	}
	want := []string{"--dependency=afterany:1:2", "--begin=now+2"}
	if got := (Dependency{AfterAny: []string{"1", "2;cluster"}, Delay: 1500 * time.Millisecond}).flags(); !slices.Equal(got, want) {
		t.Errorf("a dependency's flags are %q", got)
	}
	want = []string{"--dependency=afterany:1_0?afterany:1_12?afterany:2"}
	if got := (Dependency{AfterFirst: []TaskID{{"1", 0}, {"1", 12}, {"2", NoIndex}}}).flags(); !slices.Equal(got, want) {
		t.Errorf("the flags for the first of several ends are %q", got)
	}
}

// A value that a site profile takes from the environment does not stand in the
// script, and a script without it says so at once.
func TestExportFromTheEnvironment(t *testing.T) {
	t.Parallel()
	profile := site.Default()
	profile.Export = map[string]string{"HF_TOKEN": "$LATHE_TEST_TOKEN"}
	array := testArray(0)
	array.Command, array.LogDir = []string{"/usr/bin/env"}, t.TempDir()
	script, err := Script(array, Chunk{Of: 1, Shards: []int{0}}, profile)
	if err != nil {
		t.Fatal(err)
	}
	// env takes --shard for an option that it does not have.
	script = bytes.ReplaceAll(script, []byte(` --shard "$shard"`), nil)
	for value, want := range map[string]string{"it's \"$(id)\"": "HF_TOKEN=it's \"$(id)\"\n", "": "the site profile sets HF_TOKEN from it, but it was not set at submission"} {
		cmd := exec.Command("/bin/bash")
		cmd.Stdin, cmd.Env = bytes.NewReader(script), []string{"SLURM_ARRAY_TASK_ID=0"}
		if value != "" {
			cmd.Env = append(cmd.Env, "LATHE_TEST_TOKEN="+value)
		}
		if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), want) || (err != nil) != (value == "") {
			t.Errorf("with %q: %v\n%s", value, err, out)
		}
	}
}
