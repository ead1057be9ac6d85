package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// devices are the device files of the GPUs that a program is granted, and the
// variable that names them to it. Those that all of NVIDIA's GPUs share are among
// them.
func (p *Program) gpus() (devices, environ []string, err error) {
	if len(p.GPUs) == 0 {
		return nil, nil, nil
	}
	root := p.devices
	infos, err := filepath.Glob(root + "/proc/driver/nvidia/gpus/*/information") // by bus, as CUDA_DEVICE_ORDER=PCI_BUS_ID has them
	if err != nil {
		return nil, nil, exitcode.Bugf("listing GPUs: %w", err)
	}
	slices.Sort(infos)
	byName := map[string]string{} // minor number
	for i, path := range infos {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, fmt.Errorf("listing GPUs: %w", err)
		}
		var uuid, minor string
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			switch name {
			case "GPU UUID":
				uuid = strings.TrimSpace(value)
			case "Device Minor":
				minor = strings.TrimSpace(value)
			}
		}
		byName[uuid], byName[strconv.Itoa(i)] = minor, minor
	}
	for _, name := range p.GPUs {
		minor, ok := byName[name]
		if !ok || minor == "" {
			return nil, nil, exitcode.Unavailablef("grant a GPU: none of the %d GPUs of this host is %q", len(infos), name)
		}
		devices = append(devices, root+"/dev/nvidia"+minor)
	}
	for _, name := range []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"} {
		if _, err := os.Stat(root + "/dev/" + name); err == nil {
			devices = append(devices, root+"/dev/"+name)
		}
	}
	return devices, []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=" + strings.Join(p.GPUs, ",")}, nil
}
