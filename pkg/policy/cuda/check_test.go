package cuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The scripts that run where nobody has tried them are at least well formed,
// and say what they would do.
func TestGPUScripts(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "cuda")
	script := filepath.Join(folder, "gpu-check.sh")
	if _, err := os.Stat(script); err != nil {
		t.Skip("there are no sources of the CUDA engine here")
	}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash")
	}
	for _, path := range []string{script, filepath.Join(folder, "gpu-bundle.sh")} {
		if out, err := exec.Command("bash", "-n", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", path, err, out)
		}
	}
	results := filepath.Join(t.TempDir(), "results")
	for _, test := range []struct {
		args []string
		want []string
		not  []string
	}{
		{[]string{"--dry-run"}, []string{"liblathe_engine.so", "kernels_test", "TestSamplerAndLearnerAgree", "parity.py", "memcheck", "bench", "TestSpeed", "speed.py"}, nil},
		{[]string{"--dry-run", "--quick"}, []string{"invariance --json", "bench --quick", "--small"}, []string{"memcheck"}},
		{[]string{"--dry-run", "--quick", "--stage", "sanitizer,twins"}, []string{"memcheck", "twins "}, []string{"speed", "bench"}},
	} {
		out, err := exec.Command("bash", append([]string{script, "--out", results}, test.args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", test.args, err, out)
		}
		for _, words := range test.want {
			if !strings.Contains(string(out), words) {
				t.Errorf("%v does not say %q:\n%s", test.args, words, out)
			}
		}
		for _, words := range test.not {
			if strings.Contains(string(out), words) {
				t.Errorf("%v says %q:\n%s", test.args, words, out)
			}
		}
	}
	if _, err := os.Stat(results); err == nil {
		t.Error("a dry run has left a folder")
	}
	for _, args := range [][]string{{"--nonsense"}, {"--stage", "nonsense"}, {"--seconds", "few"}} {
		if out, err := exec.Command("bash", append([]string{script, "--dry-run"}, args...)...).CombinedOutput(); err == nil {
			t.Errorf("%v: %s", args, out)
		}
	}
}

// machineStubs stand for the programs of a machine with a GPU. Each call of one is a
// line of calls; a file fail-NAME has it fail. cuda.test adds two cases to its
// results, and ends at the first.
var machineStubs = map[string]string{
	"nvcc":       `echo "Cuda compilation tools, release 13.0"`,
	"nvidia-smi": `echo 9.0`,
	"make": `tried=0
for word; do case $word in -q) tried=1 ;; esac; done
for word; do case $word in build/*)
	[[ $tried == 0 ]] || [[ -e cuda/$word ]] || exit 1
	[[ $tried == 1 ]] || { mkdir -p cuda/build && cp stubs/tool "cuda/$word"; } ;;
esac; done
[[ $tried == 1 ]] || echo make >>calls`,
	"compute-sanitizer": `echo "sanitizer $2" >>calls; [[ ! -e fail-$2 ]]`,
	"tool": `name=$(basename "$0"); echo "$name" >>calls
[[ ! -e slow-$name ]] || sleep 60
[[ ! -e fail-$name ]]`,
	"python": `case $1 in
-c) exit 0 ;;
*table.py) echo "the table" ;;
*speed.py) echo '{"error": "it ended"}' >>"$2"; echo speed.py >>calls; sleep 60 ;;
*) echo "$(basename "$1")" >>calls; mkdir -p "$2" ;;
esac`,
	"cuda.test": `cd ../../..; echo "${@: -1}" >>calls
[[ ${@: -1} == TestSpeed ]] || exit 0
echo '{"error":"it ended the test"}' >>"$LATHE_GPU_SPEED"
(($(wc -l <"$LATHE_GPU_SPEED") > 1)) || exit 2
echo '{}' >>"$LATHE_GPU_SPEED"`,
}

// gpu-check.sh keeps what is done, goes on after what fails, and ends in time.
func TestGPUCheckGoesOn(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("..", "..", "..", "cuda", "gpu-check.sh"))
	if err != nil {
		t.Skip("there are no sources of the CUDA engine here")
	}
	for _, tool := range []string{"bash", "timeout", "tar"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("there is no " + tool)
		}
	}
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		raw, _ := os.ReadFile(filepath.Join(folder, name))
		return string(raw)
	}
	write("gpu-check.sh", string(script))
	write("COMMIT", "abc\n")
	write("cuda/peers/cases.json", "{}")
	for name, text := range machineStubs {
		at := "stubs/" + name
		if name == "cuda.test" {
			at = "pkg/policy/cuda/" + name
		}
		write(at, "#!/usr/bin/env bash\n"+text+"\n")
	}
	// run runs the script, and wants a status and of its calls, what it says and what it does not.
	run := func(status int, says, calls string, args ...string) {
		t.Helper()
		write("calls", "")
		command := exec.Command("bash", append([]string{"gpu-check.sh"}, args...)...)
		command.Dir = folder
		command.Env = append(os.Environ(), "PATH="+filepath.Join(folder, "stubs")+":"+os.Getenv("PATH"), "PYTHON="+filepath.Join(folder, "stubs", "python"), "CUDA_HOME=/nonexistent", "LATHE_CUDA_LIB=")
		out, _ := command.CombinedOutput()
		if got := command.ProcessState.ExitCode(); got != status {
			t.Errorf("%v: status %d, want %d:\n%s", args, got, status, out)
		}
		for _, words := range strings.Split(says, "|") {
			if !strings.Contains(string(out), words) {
				t.Errorf("%v does not say %q:\n%s", args, words, out)
			}
		}
		if !strings.HasSuffix(string(out), "the table\n") {
			t.Errorf("%v does not end with the table:\n%s", args, out)
		}
		if got := strings.ReplaceAll(strings.TrimSpace(read("calls")), "\n", " "); got != calls {
			t.Errorf("%v called %q, want %q", args, got, calls)
		}
	}
	write("fail-kernels_test", "")
	run(1, "FAILED (1)|engine                 ok", "make kernels_test engine_test", "--stage", "build,twins", "--archive", "results.tar.gz")
	if read("results.tar.gz") == "" {
		t.Error("there is no archive")
	}
	os.Remove(filepath.Join(folder, "fail-kernels_test"))
	run(0, "engine                 is done", "kernels_test", "--stage", "twins")
	write("fail-racecheck", "")
	run(1, "sanitize-initcheck     ok", "sanitizer memcheck sanitizer racecheck sanitizer initcheck", "--stage", "sanitizer")
	write("slow-bench", "")
	run(0, "cut off", "bench", "--stage", "kernels", "--seconds", "16")
	// Each of the two paths of products measures its cases in a file of its own.
	run(1, "cut off", "TestSpeed TestSpeed TestSpeed TestSpeed speed.py", "--stage", "speed", "--seconds", "25")
	if got := strings.Count(read("results/lathe.jsonl"), "\n"); got != 3 {
		t.Errorf("%d lines of two cases, of which the first failed:\n%s", got, read("results/lathe.jsonl"))
	}
	if got := read("results/pytorch.jsonl"); got != "" {
		t.Errorf("a case that time was too short for counts as measured: %s", got)
	}
	write("COMMIT", "def\n")
	command := exec.Command("bash", "gpu-check.sh", "--stage", "twins")
	command.Dir = folder
	if out, _ := command.CombinedOutput(); command.ProcessState.ExitCode() != 64 || !strings.Contains(string(out), "abc") {
		t.Errorf("results of another commit: %d, %s", command.ProcessState.ExitCode(), out)
	}
	os.Remove(filepath.Join(folder, "fail-racecheck"))
	run(0, "", "kernels_test engine_test sanitizer memcheck sanitizer racecheck sanitizer initcheck", "--stage", "twins,sanitizer", "--again")
}
