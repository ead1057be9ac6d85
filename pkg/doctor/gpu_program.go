package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/sandbox"
)

// GPUProgram is what a program in the sandbox found of a GPU that it was granted.
type GPUProgram struct {
	Granted string `json:"granted"`           // the GPU, as CUDA_VISIBLE_DEVICES of this process names it, or the first
	Visible string `json:"visible"`           // CUDA_VISIBLE_DEVICES of the program
	Devices int    `json:"devices"`           // that CUDA shows to it
	Name    string `json:"name"`              // of the first of them
	Failure string `json:"failure,omitempty"` // why it could not use it
}

// gpuScript opens the driver's library, and writes to and reads from a device: what any
// framework does first. It needs none.
const gpuScript = `import ctypes, json, os
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *args):
    error = getattr(cuda, name)(*args)
    if error:
        raise SystemExit("%s fails with CUDA's error %d" % (name, error))
count, device, context, at = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
name, back = ctypes.create_string_buffer(256), (ctypes.c_uint32 * 1024)()
call("cuInit", 0)
call("cuDeviceGetCount", ctypes.byref(count))
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDeviceGetName", name, 256, device)
call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(4096))
call("cuMemsetD32_v2", at, ctypes.c_uint(7), ctypes.c_size_t(1024))
call("cuMemcpyDtoH_v2", back, at, ctypes.c_size_t(4096))
if list(back) != [7] * 1024:
    raise SystemExit("what was written to the device is not what is read from it")
print(json.dumps({"visible": os.environ.get("CUDA_VISIBLE_DEVICES", ""), "devices": count.value, "name": name.value.decode()}))
`

// gpuBounds are those of the program: CUDA reserves much address space, and takes seconds
// and some hundred megabytes to begin.
var gpuBounds = sandbox.Limits{Wall: 2 * time.Minute, Memory: 4 << 30, Processes: 64, Output: 4 << 10}

// lookAtGPUProgram has a program use a GPU of this host in the sandbox, as those of
// env.mle with limits.gpus do; nil where the host has none. run is [sandbox.Run].
func lookAtGPUProgram(ctx context.Context, root string, run func(context.Context, sandbox.Program) (sandbox.Result, error)) *GPUProgram {
	if found, err := filepath.Glob(root + "/proc/driver/nvidia/gpus/*"); err != nil || len(found) == 0 {
		return nil
	}
	g := &GPUProgram{Granted: "0"}
	if given := strings.FieldsFunc(os.Getenv("CUDA_VISIBLE_DEVICES"), func(r rune) bool { return r == ',' || r == ' ' }); len(given) > 0 {
		g.Granted = given[0]
	}
	work, err := sandbox.NewWorkFolder("doctor")
	if err != nil {
		g.Failure = err.Error()
		return g
	}
	defer func() { _ = work.Remove() }() // what is left is swept by the next
	r, err := run(ctx, sandbox.Program{
		Args: []string{"/usr/bin/python3", "-c", gpuScript}, Dir: work.Path, Write: []string{work.Path}, GPUs: []string{g.Granted}, Limits: gpuBounds,
		Env: slices.Concat([]string{"PATH=/usr/bin:/bin", "HOME=" + work.Path, "TMPDIR=" + work.Path}, libraryPath()),
	})
	switch {
	case err != nil:
		g.Failure = err.Error()
	case r.End != sandbox.Exited || r.ExitCode != 0:
		g.Failure = fmt.Sprintf("%s, exit code %d: %s", r.End, r.ExitCode, oneLine(r.Stderr.String()))
	default:
		if err := json.Unmarshal([]byte(r.Stdout.String()), g); err != nil {
			g.Failure = fmt.Sprintf("its output is invalid: %v", err)
		}
	}
	return g
}

// libraryPath is where this process looks for libraries, for a program.
func libraryPath() []string {
	if path := os.Getenv("LD_LIBRARY_PATH"); path != "" {
		return []string{"LD_LIBRARY_PATH=" + path}
	}
	return nil
}

// reportGPUProgram says whether programs of a policy can use GPUs of a host.
func (h Host) reportGPUProgram(r *Report, about string) {
	about += ", GPU programs"
	const from = "a program in the sandbox that writes to a GPU and reads from it, by the driver's library; env.mle grants GPUs by limits.gpus"
	switch g := h.GPUProgram; {
	case g == nil:
		r.add(about, OK, "no GPU on this node: tasks with limits.gpus above 0 are refused here", from)
	case g.Failure != "":
		r.add(about, Note, fmt.Sprintf("GPU %s cannot be used in the sandbox: %s", g.Granted, g.Failure), from)
	case g.Devices != 1 || g.Visible != g.Granted:
		r.add(about, Note, fmt.Sprintf("GPU %s was granted, and the program sees %d, CUDA_VISIBLE_DEVICES %q", g.Granted, g.Devices, g.Visible), from)
	default:
		r.add(about, OK, fmt.Sprintf("GPU %s (%s) works in the sandbox", g.Granted, g.Name), from)
	}
}
