package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// gpus is a folder with plain files in the place of two GPUs.
func gpus(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for i, bus := range []string{"0000:17:00.0", "0000:65:00.0"} {
		dir := filepath.Join(root, "proc/driver/nvidia/gpus", bus)
		fatal(t, os.MkdirAll(dir, 0o700))
		// The second of the bus has the first minor number.
		fatal(t, os.WriteFile(filepath.Join(dir, "information"), fmt.Appendf(nil, "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-%d\nDevice Minor: \t %d\n", i, 1-i), 0o600))
	}
	fatal(t, os.MkdirAll(filepath.Join(root, "dev"), 0o700))
	for _, name := range []string{"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"} {
		fatal(t, os.WriteFile(filepath.Join(root, "dev", name), nil, 0o600))
	}
	return root
}

// TestDevices: only the device files of the GPUs that are granted are, by plain
// files in the place of devices. That CUDA works with them takes a GPU.
func TestDevices(t *testing.T) {
	t.Parallel()
	root := gpus(t)
	for _, c := range []struct {
		gpus    []string
		devices string
	}{
		{nil, ""},
		{[]string{"0"}, "nvidia1 nvidiactl nvidia-uvm"},
		{[]string{"GPU-1"}, "nvidia0 nvidiactl nvidia-uvm"},
		{[]string{"GPU-1", "0"}, "nvidia0 nvidia1 nvidiactl nvidia-uvm"},
	} {
		devices, environ, err := (&Program{GPUs: c.gpus, devices: root}).gpus()
		var names []string
		for _, path := range devices {
			names = append(names, strings.TrimPrefix(path, root+"/dev/"))
		}
		if strings.Join(names, " ") != c.devices || err != nil {
			t.Errorf("%v: %v, %v, want %s", c.gpus, names, err, c.devices)
		}
		var want []string
		if c.gpus != nil {
			want = []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=" + strings.Join(c.gpus, ",")}
		}
		if !reflect.DeepEqual(environ, want) {
			t.Errorf("%v: %v, want %v", c.gpus, environ, want)
		}
	}
	for _, name := range []string{"2", "GPU-7", "../../etc/shadow", ""} {
		if _, _, err := (&Program{GPUs: []string{name}, devices: root}).gpus(); exitcode.Code(err) != exitcode.Unavailable {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestGrantedDevices: of device files in the place of GPUs a program opens those
// that are granted, in each way.
func TestGrantedDevices(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w way) {
		root := gpus(t)
		granted, other := filepath.Join(root, "dev/nvidia1"), filepath.Join(root, "dev/nvidia0")
		p := w.program(t, "import os; open('"+granted+"','r+').write(os.environ['CUDA_VISIBLE_DEVICES']); open('"+other+"')")
		p.GPUs, p.devices = []string{"0"}, root
		r := w.do(t, p)
		if text, err := os.ReadFile(granted); err != nil || string(text) != "0" || r.ExitCode != 1 || !strings.Contains(r.Stderr.String(), other) {
			t.Errorf("exit code %d, %q was written: %s%s", r.ExitCode, text, r.Stdout, r.Stderr)
		}
	})
}
