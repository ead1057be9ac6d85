package doctor

import (
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
	"github.com/lathe-rl/lathe/pkg/monitor/nvmltest"
)

// Lines as lathe-monitor watch prints them: the last look counts.
func TestParseWatch(t *testing.T) {
	t.Parallel()
	got, err := parseWatch(`{"time":"2025-01-01T00:00:00Z","host":{"cores":4},"gpus":[{"index":0,"uuid":"GPU-a","name":"NVIDIA H100"}]}
{"time":"2025-01-01T00:00:01Z","host":{"cores":4},"gpus":[{"index":0,"uuid":"GPU-a","name":"","sm_active_share":0},{"index":-1,"uuid":"MIG-b","name":""}],"faults":["x"]}
`)
	if want := (Monitor{Devices: []string{"NVIDIA H100", "MIG-b"}, GPM: 1, Faults: []string{"x"}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "no", `{"gpus":3}`} {
		if _, err := parseWatch(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

func TestReportGPUs(t *testing.T) {
	t.Parallel()
	const columns = "GPM's columns"
	for _, c := range []struct {
		host Host
		want string
	}{
		{Host{Monitor: Monitor{Failure: "gone"}}, "unknown gone"},
		{Host{}, "ok no device: no GPU is visible"},
		{Host{Driver: "535.261.03", Monitor: Monitor{Faults: []string{"opening NVML: no permission"}}}, "note no device: opening NVML: no permission"},
		{Host{Monitor: Monitor{Devices: []string{"B", "A", "B"}, GPM: 3}}, "ok 3 of A, B; " + columns + " (SM activity and occupancy, tensor, DRAM, NVLink) on all GPUs"},
		{Host{Monitor: Monitor{Devices: []string{"A", "A"}, GPM: 1}}, "ok 2 of A; " + columns + " on 1"},
		{Host{Monitor: Monitor{Devices: []string{"A"}}}, "note 1 of A; no column of GPM, which needs Hopper or later"},
	} {
		var r Report
		c.host.reportGPUs(&r, "node x")
		if got := string(r.Findings[0].Level) + " " + r.Findings[0].Found; got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestLibraryVersion(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"/usr/lib64/libnvidia-ml.so.535.261.03": "535.261.03", "/a.so.b/libnvidia-ml.so.1": "", "": ""} {
		if got := libraryVersion(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

// TestLookAtMonitor runs the real lathe-monitor on a driver's library of tests, in an
// environment in which it does not start by itself and that gives a job no GPU; then
// on the library of a driver before Hopper's. Alone: it sets the environment.
func TestLookAtMonitor(t *testing.T) {
	libraries := map[bool]string{false: nvmltest.Build(t, false), true: nvmltest.Build(t, true)}
	binaries := t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-tags", "netgo,osusergo,urfave_cli_no_docs", "-ldflags", "-extldflags=-Wl,-z,lazy", "-o", binaries+"/", "./cmd/lathe-monitor")
	build.Dir = sourcetree.Path()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building lathe-monitor: %v\n%s", err, out)
	}
	t.Setenv(bindNow, "1")
	t.Setenv("SLURM_JOB_ID", "7")
	t.Setenv(nvmltest.Script, nvmltest.WriteScript(t, "0 uuid GPU-aaaa\n0 name NVIDIA H100\n0 sm_active 50\n0 tensor 5\n"))
	for old, want := range map[bool]Monitor{false: {Devices: []string{"NVIDIA H100"}, GPM: 1}, true: {
		Devices: []string{"NVIDIA H100"}, Faults: []string{"XID events: this driver's library is too old for it"},
	}} {
		t.Setenv("LD_LIBRARY_PATH", filepath.Dir(libraries[old]))
		if got := lookAtMonitor(t.Context(), binaries); !reflect.DeepEqual(got, want) {
			t.Errorf("before Hopper %v: %+v, want %+v", old, got, want)
		}
	}
	if got := lookAtMonitor(t.Context(), t.TempDir()); got.Failure == "" {
		t.Errorf("a lathe-monitor that is not there: %+v", got)
	}
	var r Report
	if LookAtEnvironment(&r); len(r.Findings) != 1 || r.Findings[0].Level != Note {
		t.Errorf("the environment: %+v", r)
	}
}
