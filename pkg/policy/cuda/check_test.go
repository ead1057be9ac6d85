package cuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
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
	// A pattern that matched no test would succeed.
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(raw)
	}
	recipe, err := os.ReadFile(filepath.Join("..", "..", "run", "gpu_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	tests.Write(recipe)
	named := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(text), -1)
	for _, name := range named {
		if !strings.Contains(tests.String(), "\nfunc "+name+"(") {
			t.Errorf("gpu-check.sh names %s, which there is not", name)
		}
	}
	if len(named) < 10 {
		t.Errorf("gpu-check.sh names no more tests than %v", named)
	}
	results := filepath.Join(t.TempDir(), "results")
	for _, test := range []struct {
		args []string
		want []string
		not  []string
	}{
		{[]string{"--dry-run"}, []string{"liblathe_engine.so", "kernels_test", "TestConformance", "parity.py", "memcheck", "bench", "TestSpeed", "speed.py", "nvidia-smi -L", "TestOpens", "TestWideHeadsAgainstCPU", "step-same", "TestRecipeOnTheEngine"}, nil},
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
// results, and ends at the first; a file ends-kernels_test has kernels_test do so.
var machineStubs = map[string]string{
	"nvcc": `echo "Cuda compilation tools, release 13.0"`,
	"nvidia-smi": `[[ ! -e fail-nvidia-smi ]] || { echo "NVIDIA-SMI has failed"; exit 9; }
case $1 in -L) echo "GPU 0: NVIDIA H100" ;; *) echo 9.0 ;; esac`,
	// The programs that are too slow end as timeout has them end.
	"timeout": `echo "$3" >>limits; shift 3; exec "$@"`,
	"make": `tried=0
for word; do case $word in -q) tried=1 ;; esac; done
for word; do case $word in build/*)
	[[ $tried == 0 ]] || [[ -e cuda/$word ]] || exit 1
	[[ $tried == 1 ]] || { mkdir -p cuda/build && cp stubs/tool "cuda/$word"; } ;;
esac; done
[[ $tried == 1 ]] || echo make >>calls`,
	"compute-sanitizer": `echo "$2 ${@: -1}" >>calls; [[ ! -e fail-$2 ]]`,
	"tool": `name=$(basename "$0")
case "$*" in -l) printf 'test_%s.cu name\n' gemm mma gemm; exit ;; esac
echo "$name" >>calls
if [[ -e ends-$name ]]; then
	rm "ends-$name"
	echo '{"test": "products", "error": "it ended the program, or was ended with it"}' >>"${@: -1}"
	exit 3
fi
[[ ! -e slow-$name ]] || exit 124
[[ ! -e fail-$name ]]`,
	"python": `case $1 in
-c) exit 0 ;;
*table.py) echo "the table" ;;
*speed.py) echo '{"error": "it ended"}' >>"$2"; echo speed.py >>calls; exit 124 ;;
*) echo "$(basename "$1")" >>calls; mkdir -p "$2" ;;
esac`,
	"run.test": `cd ../..; echo "${@: -1}" >>calls`,
	"cuda.test": `cd ../../..; echo "${@: -1}" >>calls
[[ -z $LATHE_GPU_STEP ]] || { [[ -e differ-step ]] && echo "$LATHE_GPU_STEP" || echo same; } >"$LATHE_GPU_STEP"
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
	for _, tool := range []string{"bash", "tar"} {
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
		switch name {
		case "cuda.test":
			at = "pkg/policy/cuda/" + name
		case "run.test":
			at = "pkg/run/" + name
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
	// Each file of tests is a step, and those that succeeded are not done again.
	write("fail-racecheck", "")
	run(1, "sanitize-initcheck-mma ok", "memcheck test_gemm.cu memcheck test_mma.cu racecheck test_gemm.cu racecheck test_mma.cu initcheck test_gemm.cu initcheck test_mma.cu", "--stage", "sanitizer")
	os.Remove(filepath.Join(folder, "fail-racecheck"))
	run(0, "sanitize-memcheck-gemm is done", "racecheck test_gemm.cu racecheck test_mma.cu", "--stage", "sanitizer")
	write("slow-bench", "")
	write("limits", "")
	run(0, "cut off", "bench", "--stage", "kernels", "--seconds", "300")
	// Of what the call has, ten seconds are kept for the table.
	if limit, err := strconv.Atoi(strings.TrimSpace(read("limits"))); err != nil || limit < 5 || limit > 290 {
		t.Errorf("the step may take %d s of a call's 300: %v", limit, err)
	}
	// Each of the two paths of products measures its cases in a file of its own.
	run(1, "cut off", "TestSpeed TestSpeed TestSpeed TestSpeed speed.py", "--stage", "speed", "--seconds", "300")
	if got := strings.Count(read("results/lathe.jsonl"), "\n"); got != 3 {
		t.Errorf("%d lines of two cases, of which the first failed:\n%s", got, read("results/lathe.jsonl"))
	}
	if got := read("results/pytorch.jsonl"); got != "" {
		t.Errorf("a case that time was too short for counts as measured: %s", got)
	}
	// A stage is skipped where one that it needs has failed, in this call or an earlier one, and
	// runs once that one has succeeded. What looks at the machine does so again in each call.
	stages := func(want ...string) {
		t.Helper()
		lines := strings.Split(strings.TrimSpace(read("results/stages.jsonl")), "\n")
		for i, line := range lines[max(0, len(lines)-len(want)):] {
			if line = regexp.MustCompile(`"seconds": \d+`).ReplaceAllString(line, "S"); line != want[i] {
				t.Errorf("a stage ended with %s, want %s", line, want[i])
			}
		}
	}
	write("fail-nvidia-smi", "")
	run(1, "stage driver|FAILED (9)|stage open\nskipped, because stage driver failed|stage recipe\nskipped, because stage driver failed", "", "--only", "driver,open,recipe")
	stages(`{"stage": "driver", "status": 1, S, "because": ""}`, `{"stage": "open", "status": 126, S, "because": "driver"}`, `{"stage": "recipe", "status": 126, S, "because": "driver"}`)
	run(1, "skipped, because stage driver failed; after a repair: gpu-check.sh --only driver,twins", "", "--only", "twins")
	os.Remove(filepath.Join(folder, "fail-nvidia-smi"))
	write("differ-step", "")
	run(1, "driver                 ok|open                   ok|step-same              FAILED (1)|skipped, because stage step failed", "^TestOpens$ ^TestStepTwice$ ^TestStepTwice$", "--only", "driver,open,step,recipe")
	os.Remove(filepath.Join(folder, "differ-step"))
	os.Remove(filepath.Join(folder, "results", "step-two.txt"))
	write("results/step-one.txt", "same\n")
	write("results/step-two.txt", "same\n")
	run(0, "driver                 ok|step-one               is done|step-same              ok|recipe                 ok", "^TestOpens$ ^TestRecipeOnTheEngine$", "--only", "driver,open,step,recipe")
	stages(`{"stage": "step", "status": 0, S, "because": ""}`, `{"stage": "recipe", "status": 0, S, "because": ""}`)
	write("slow-bench", "")
	run(0, "cut off", "bench", "--only", "kernels", "--seconds", "300")
	stages(`{"stage": "kernels", "status": 125, S, "because": ""}`)
	write("COMMIT", "def\n")
	command := exec.Command("bash", "gpu-check.sh", "--stage", "twins")
	command.Dir = folder
	if out, _ := command.CombinedOutput(); command.ProcessState.ExitCode() != 64 || !strings.Contains(string(out), "abc") {
		t.Errorf("results of another commit: %d, %s", command.ProcessState.ExitCode(), out)
	}
	// A test that ends the program costs itself alone; and where it was of wgmma, nothing else is tried on that path.
	write("ends-kernels_test", "")
	run(1, "FAILED (3)|twins                  ok|because a test ended the program: products", "kernels_test kernels_test engine_test invariance "+
		"TestConformance|TestSharedPrefixes|TestSumsInTheEngine "+
		"TestAgainstCPU|TestSamplingsAgainstCPU|TestBFloat16AgainstCPU|TestAdapterAgainstCPU|TestGreedyAgainstCPU|TestAgainstTransformers|TestPlanIsWhatEnginesTake "+
		"TestWideHeadsAgainstCPU|TestLongContexts parity.py TestAgainstPeer", "--stage", "twins,parity,widths", "--again")
}

// The table tells of each step what came of it last and how long all its tries
// took, and which tests failed.
func TestGPUTable(t *testing.T) {
	script := filepath.Join("..", "..", "..", "cuda", "peers", "table.py")
	if _, err := os.Stat(script); err != nil {
		t.Skip("there are no sources of the CUDA engine here")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	folder := t.TempDir()
	for name, text := range map[string]string{
		"steps.jsonl": `{"step": "twins", "status": 3, "seconds": 40}
{"step": "twins", "status": 1, "seconds": 2}
{"step": "kernels", "status": 0, "seconds": 7}
{"step": "cut o`,
		"stages.jsonl": `{"stage": "step", "status": 125, "seconds": 0, "because": ""}
{"stage": "step", "status": 1, "seconds": 9, "because": ""}
{"stage": "recipe", "status": 126, "seconds": 0, "because": "step"}
`,
		"twins.jsonl": `{"test": "one", "seconds": 0.00, "error": "it ended the program"}
{"test": "one", "seconds": 1.50}
{"test": "two", "seconds": 0.00, "error": "it ended the program"}
`,
		"kernels.json": `{"copy_bytes_per_second": 2e12, "product_flops_per_second": 7e14, "lines": [
  {"name": "square mma", "seconds": 2e-6, "fraction": 0.4},
  {"name": "square wgmma", "seconds": 1e-6, "fraction": 0.8}
]}`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(python, script, folder).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	words := strings.Join(strings.Fields(string(out)), " ")
	for _, want := range []string{"twins FAILED 1 42", "kernels ok 7", "step FAILED 1 9", "recipe skipped 0 stage step failed", "two FAILED: it ended the program", "square 2.0 40.0% 1.0 80.0% 2.00", "700 TFLOP/s", "line 4 of steps.jsonl is no JSON"} {
		if !strings.Contains(words, want) {
			t.Errorf("the table does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(words, "one FAILED") {
		t.Errorf("a test that succeeded failed:\n%s", out)
	}
}
