//go:build cgo

package main

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/lathe-rl/lathe/pkg/command"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// readGPUs asks NVML once. A host without a driver, without the library or
// without devices is told apart from one that fails.
func readGPUs() ([]command.GPU, error) {
	if status := nvml.Init(); status != nvml.SUCCESS {
		return nil, exitcode.Unavailablef("no GPU can be read: %s", nvml.ErrorString(status))
	}
	defer nvml.Shutdown()
	count, status := nvml.DeviceGetCount()
	if status != nvml.SUCCESS {
		return nil, fmt.Errorf("counting GPUs: %s", nvml.ErrorString(status))
	}
	if count == 0 {
		return nil, exitcode.Unavailablef("the driver is there and shows no GPU")
	}
	gpus := make([]command.GPU, 0, count)
	for i := range count {
		device, status := nvml.DeviceGetHandleByIndex(i)
		if status == nvml.ERROR_NO_PERMISSION {
			continue // another user's: the count includes it, we may not open it
		}
		if status != nvml.SUCCESS {
			return nil, fmt.Errorf("opening GPU %d: %s", i, nvml.ErrorString(status))
		}
		gpus = append(gpus, read(i, device))
	}
	return gpus, nil
}

// read takes what the device gives: a MIG instance or an old card does not
// know everything, and leaves zeros.
func read(index int, device nvml.Device) command.GPU {
	g := command.GPU{Index: index}
	if uuid, status := device.GetUUID(); status == nvml.SUCCESS {
		g.UUID = uuid
	}
	if name, status := device.GetName(); status == nvml.SUCCESS {
		g.Name = name
	}
	if memory, status := device.GetMemoryInfo(); status == nvml.SUCCESS {
		g.MemoryTotalBytes, g.MemoryUsedBytes = memory.Total, memory.Used
	}
	if busy, status := device.GetUtilizationRates(); status == nvml.SUCCESS {
		g.UtilizationShare = float64(busy.Gpu) / 100
	}
	if milliwatts, status := device.GetPowerUsage(); status == nvml.SUCCESS {
		g.PowerWatts = float64(milliwatts) / 1000
	}
	return g
}
