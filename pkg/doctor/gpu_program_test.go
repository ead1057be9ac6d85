package doctor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/sandbox"
)

// TestGPUProgram: a host without a GPU says so, and on one with GPUs the first that this
// process was given is granted to a program, whose answer is told. The program runs here
// outside of a sandbox, on a library that stands for the driver's.
func TestGPUProgram(t *testing.T) {
	if got := lookAtGPUProgram(t.Context(), t.TempDir(), nil); got != nil {
		t.Errorf("without a GPU: %+v", got)
	}
	root := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(root, "proc/driver/nvidia/gpus/0000:17:00.0"), 0o700))
	t.Setenv("CUDA_VISIBLE_DEVICES", "GPU-7,GPU-8")
	as := func(stdout, stderr string, code int) (sandbox.Result, error) {
		r := sandbox.Result{Report: sandbox.Report{End: sandbox.Exited, ExitCode: code}}
		r.Stdout.Head, r.Stderr.Head = []byte(stdout), []byte(stderr)
		return r, nil
	}
	for _, c := range []struct {
		what string
		run  func() (sandbox.Result, error)
		want string
	}{
		{"works", func() (sandbox.Result, error) {
			return as(`{"visible":"GPU-7","devices":1,"name":"NVIDIA H100"}`, "", 0)
		}, "ok GPU GPU-7 (NVIDIA H100) works in the sandbox"},
		{"sees more", func() (sandbox.Result, error) {
			return as(`{"visible":"GPU-7","devices":8,"name":"NVIDIA H100"}`, "", 0)
		}, `note GPU GPU-7 was granted, and the program sees 8, CUDA_VISIBLE_DEVICES "GPU-7"`},
		{"fails", func() (sandbox.Result, error) { return as("", "cuInit fails with CUDA's error 999\n", 1) }, "note GPU GPU-7 cannot be used in the sandbox: exited, exit code 1: cuInit fails with CUDA's error 999"},
		{"is refused", func() (sandbox.Result, error) { return sandbox.Result{}, errors.New("no such GPU") }, "note GPU GPU-7 cannot be used in the sandbox: no such GPU"},
		{"says nothing", func() (sandbox.Result, error) { return as("", "", 0) }, "note GPU GPU-7 cannot be used in the sandbox: its output is invalid: unexpected end of JSON input"},
	} {
		got := lookAtGPUProgram(t.Context(), root, func(_ context.Context, p sandbox.Program) (sandbox.Result, error) {
			if strings.Join(p.GPUs, " ") != "GPU-7" {
				t.Errorf("%s: granted %q", c.what, p.GPUs)
			}
			return c.run()
		})
		var r Report
		Host{GPUProgram: got}.reportGPUProgram(&r, "node x")
		if said := string(r.Findings[0].Level) + " " + r.Findings[0].Found; said != c.want {
			t.Errorf("%s: %q, want %q", c.what, said, c.want)
		}
	}
	var r Report
	if (Host{}).reportGPUProgram(&r, "node x"); !strings.HasPrefix(r.Findings[0].Found, "no GPU on this node") {
		t.Errorf("without a GPU: %+v", r.Findings)
	}
}

// cudaSource is a library of the calls that the program makes, of one device whose memory
// is the host's.
const cudaSource = `#include <stdlib.h>
#include <string.h>
int cuInit(unsigned f) { return getenv("CUDA_BROKEN") ? 999 : 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *s, int n, int d) { strncpy(s, "a device", n); return 0; }
int cuCtxCreate_v2(void **c, unsigned f, int d) { return 0; }
int cuMemAlloc_v2(unsigned long long *p, size_t n) { *p = (unsigned long long)malloc(n); return 0; }
int cuMemsetD32_v2(unsigned long long p, unsigned v, size_t n) { for (size_t i = 0; i < n; i++) ((unsigned *)p)[i] = v; return 0; }
int cuMemcpyDtoH_v2(void *to, unsigned long long p, size_t n) { memcpy(to, (void *)p, n); return 0; }
`

// TestGPUScript: the program makes the calls of the driver's library as they are declared,
// and names the one that fails.
func TestGPUScript(t *testing.T) {
	t.Parallel()
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("there is no C compiler")
	}
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("there is no /usr/bin/python3")
	}
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "cuda.c"), []byte(cudaSource), 0o600))
	if out, err := exec.CommandContext(t.Context(), compiler, "-shared", "-fPIC", "-o", filepath.Join(dir, "libcuda.so.1"), filepath.Join(dir, "cuda.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for broken, want := range map[string]string{"": `{"visible": "3", "devices": 1, "name": "a device"}`, "CUDA_BROKEN=1": "cuInit fails with CUDA's error 999"} {
		cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", gpuScript)
		cmd.Env = []string{"LD_LIBRARY_PATH=" + dir, "CUDA_VISIBLE_DEVICES=3", broken}
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); got != want || (err == nil) != (broken == "") {
			t.Errorf("%q: %q, %v, want %q", broken, got, err, want)
		}
	}
}
