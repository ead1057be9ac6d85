//go:build cgo

package nvidia

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/lathe-rl/lathe/pkg/monitor"
)

// The driver's words for what it does not know.
const (
	unknownBytes   = math.MaxUint64
	unknownPercent = math.MaxUint32
)

// readSamples reads the mean of the utilizations that the driver has sampled since
// the last call, several a second: what a look between two of them would miss.
func (s *Sampler) readSamples(d *device, add func(monitor.Reading)) nvml.Return {
	kind, samples, status := d.handle.GetSamples(nvml.GPU_UTILIZATION_SAMPLES, d.lastSample)
	if status != nvml.SUCCESS {
		return orNone(status)
	}
	if kind != nvml.VALUE_TYPE_UNSIGNED_INT {
		return nvml.ERROR_NOT_SUPPORTED
	}
	var share mean
	newest := d.lastSample
	for _, sample := range samples {
		// A buffer that was not filled ends in zeros.
		if sample.TimeStamp > d.lastSample {
			share.add(binary.NativeEndian.Uint32(sample.SampleValue[:]))
			newest = max(newest, sample.TimeStamp)
		}
	}
	if d.lastSample = newest; share.count > 0 {
		add(d.reading(monitor.UtilizationSamplesShare, share.share()))
	}
	return status
}

// readProcesses reads how many processes compute on a device, and the memory that
// those of the task have on it. The driver numbers them as the host does: in a
// container with numbers of its own none is known as the task's.
func (s *Sampler) readProcesses(d *device, add func(monitor.Reading)) nvml.Return {
	processes, status := d.handle.GetComputeRunningProcesses()
	if status != nvml.SUCCESS {
		return status
	}
	add(d.reading(monitor.GPUProcesses, float64(len(processes))))
	d.ours = d.ours[:0]
	for _, p := range processes {
		if !monitor.Descends(int(p.Pid), s.given.Task) {
			continue
		}
		d.ours = append(d.ours, p.Pid)
		if p.UsedGpuMemory != unknownBytes {
			add(d.ofProcess(p.Pid, monitor.GPUProcessMemoryBytes, float64(p.UsedGpuMemory)))
		}
	}
	return status
}

// readProcessUtilization reads what the task's processes have used of a device
// since the last call.
func (s *Sampler) readProcessUtilization(d *device, add func(monitor.Reading)) nvml.Return {
	samples, status := d.handle.GetProcessUtilization(d.lastOfProcess)
	if status != nvml.SUCCESS {
		return orNone(status)
	}
	newest := d.lastOfProcess
	for _, pid := range d.ours {
		var sm, memory mean
		for _, sample := range samples {
			if sample.Pid == pid && sample.TimeStamp > d.lastOfProcess {
				sm.add(sample.SmUtil)
				memory.add(sample.MemUtil)
				newest = max(newest, sample.TimeStamp)
			}
		}
		if sm.count > 0 {
			add(d.ofProcess(pid, monitor.GPUProcessSMShare, sm.share()))
		}
		if memory.count > 0 {
			add(d.ofProcess(pid, monitor.GPUProcessMemoryShare, memory.share()))
		}
	}
	d.lastOfProcess = newest
	return status
}

// readAccounting reads what the driver has counted over the lives of the task's
// processes. Where accounting is off it is not supported; an administrator can
// switch it on.
func (s *Sampler) readAccounting(d *device, add func(monitor.Reading)) nvml.Return {
	for _, pid := range d.ours {
		life, status := d.handle.GetAccountingStats(pid)
		if status == nvml.ERROR_NOT_FOUND {
			continue
		}
		if status != nvml.SUCCESS {
			return status
		}
		if life.GpuUtilization != unknownPercent {
			add(d.ofProcess(pid, monitor.GPUProcessLifeShare, float64(life.GpuUtilization)/100))
		}
		if life.MaxMemoryUsage != unknownBytes {
			add(d.ofProcess(pid, monitor.GPUProcessPeakBytes, float64(life.MaxMemoryUsage)))
		}
	}
	return nvml.SUCCESS
}

// ofProcess is a number of one process on the device.
func (d *device) ofProcess(pid uint32, name string, value float64) monitor.Reading {
	return monitor.Reading{Device: d.uuid, Name: name, Value: value, Detail: strconv.Itoa(int(pid))}
}

// orNone is a status of a call that has nothing new to say, which is no failure.
func orNone(status nvml.Return) nvml.Return {
	if status == nvml.ERROR_NOT_FOUND {
		return nvml.SUCCESS
	}
	return status
}

// mean is that of percentages. Drivers give larger numbers where they have no
// sample, and those do not count.
type mean struct{ sum, count float64 }

func (m *mean) add(percent uint32) {
	if percent <= 100 {
		m.sum += float64(percent)
		m.count++
	}
}

func (m *mean) share() float64 { return m.sum / m.count / 100 }
