//go:build cgo

package nvidia

import (
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/lathe-rl/lathe/pkg/monitor"
)

// metric is one call of the library: what it is called, and how its numbers are
// given.
type metric struct {
	symbol   string
	what     string // for people
	every    int    // reads from one to the next
	unlessGP bool   // not where GPM gives the same
	onGPU    bool   // of the whole GPU alone, never of an instance under MIG
	finer    bool   // than another metric that says the same: no fault where there is none
	read     func(s *Sampler, d *device, add func(monitor.Reading)) nvml.Return
}

const (
	kibi, mebi = 1 << 10, 1 << 20
	mega, nano = 1e6, 1e-9
	// slowEvery is for what changes slowly, or is dear: a PCIe counter blocks for 20 ms.
	slowEvery = 10
)

// one makes a metric of a call that gives one number.
func one[N uint32 | uint64 | int](name string, scale float64, call func(d nvml.Device) (N, nvml.Return)) func(*Sampler, *device, func(monitor.Reading)) nvml.Return {
	return func(_ *Sampler, d *device, add func(monitor.Reading)) nvml.Return {
		value, status := call(d.handle)
		if status == nvml.SUCCESS {
			add(d.reading(name, float64(value)*scale))
		}
		return status
	}
}

// reading is a number of the device.
func (d *device) reading(name string, value float64) monitor.Reading {
	return monitor.Reading{Device: d.uuid, Name: name, Value: value}
}

// metrics is what is read of a device.
var metrics = []metric{
	{symbol: "nvmlDeviceGetUtilizationRates", what: "utilization", read: func(_ *Sampler, d *device, add func(monitor.Reading)) nvml.Return {
		rates, status := d.handle.GetUtilizationRates()
		if status == nvml.SUCCESS {
			add(d.reading(monitor.UtilizationShare, float64(rates.Gpu)/100))
			add(d.reading(monitor.MemoryBusyShare, float64(rates.Memory)/100))
		}
		return status
	}},
	{symbol: "nvmlDeviceGetPowerUsage", what: "power", onGPU: true, read: one(monitor.PowerWatts, 1e-3, nvml.Device.GetPowerUsage)},
	{symbol: "nvmlDeviceGetTotalEnergyConsumption", what: "energy", onGPU: true, read: one(monitor.EnergyJoules, 1e-3, nvml.Device.GetTotalEnergyConsumption)},
	{symbol: "nvmlDeviceGetEnforcedPowerLimit", what: "power limit", onGPU: true, every: slowEvery, read: one(monitor.PowerLimitWatts, 1e-3, nvml.Device.GetEnforcedPowerLimit)},
	{symbol: "nvmlDeviceGetTemperature", what: "temperature", onGPU: true, read: one(monitor.TemperatureCelsius, 1, func(d nvml.Device) (uint32, nvml.Return) {
		return d.GetTemperature(nvml.TEMPERATURE_GPU)
	})},
	{symbol: "nvmlDeviceGetClockInfo", what: "clock", onGPU: true, read: one(monitor.SMClockHertz, mega, func(d nvml.Device) (uint32, nvml.Return) { return d.GetClockInfo(nvml.CLOCK_SM) })},
	{symbol: "nvmlDeviceGetClockInfo", what: "memory clock", onGPU: true, every: slowEvery, read: one(monitor.MemoryClockHertz, mega, func(d nvml.Device) (uint32, nvml.Return) { return d.GetClockInfo(nvml.CLOCK_MEM) })},
	{symbol: "nvmlDeviceGetMaxClockInfo", what: "highest clock", onGPU: true, every: slowEvery, read: one(monitor.SMClockMaxHertz, mega, func(d nvml.Device) (uint32, nvml.Return) { return d.GetMaxClockInfo(nvml.CLOCK_SM) })},
	{symbol: "nvmlDeviceGetCurrentClocksThrottleReasons", what: "throttle reasons", onGPU: true, read: one(monitor.ThrottleReasons, 1, nvml.Device.GetCurrentClocksThrottleReasons)},
	{symbol: "nvmlDeviceGetViolationStatus", what: "time throttled by power", onGPU: true, finer: true, every: slowEvery, read: throttled(monitor.ThrottledPowerSeconds, nvml.PERF_POLICY_POWER)},
	{symbol: "nvmlDeviceGetViolationStatus", what: "time throttled by heat", onGPU: true, finer: true, every: slowEvery, read: throttled(monitor.ThrottledThermalSeconds, nvml.PERF_POLICY_THERMAL)},
	{symbol: "nvmlDeviceGetPcieThroughput", what: "PCIe", onGPU: true, every: slowEvery, unlessGP: true, read: one(monitor.PCIeTxBytesPerSecond, kibi, func(d nvml.Device) (uint32, nvml.Return) {
		return d.GetPcieThroughput(nvml.PCIE_UTIL_TX_BYTES)
	})},
	{symbol: "nvmlDeviceGetPcieThroughput", what: "PCIe", onGPU: true, every: slowEvery, unlessGP: true, read: one(monitor.PCIeRxBytesPerSecond, kibi, func(d nvml.Device) (uint32, nvml.Return) {
		return d.GetPcieThroughput(nvml.PCIE_UTIL_RX_BYTES)
	})},
	{symbol: "nvmlDeviceGetPcieReplayCounter", what: "PCIe replays", onGPU: true, every: slowEvery, read: one(monitor.PCIeReplays, 1, nvml.Device.GetPcieReplayCounter)},
	{symbol: "nvmlDeviceGetTotalEccErrors", what: "ECC", onGPU: true, every: slowEvery, read: one(monitor.ECCCorrected, 1, func(d nvml.Device) (uint64, nvml.Return) {
		return d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC)
	})},
	{symbol: "nvmlDeviceGetTotalEccErrors", what: "ECC", onGPU: true, every: slowEvery, read: one(monitor.ECCUncorrected, 1, func(d nvml.Device) (uint64, nvml.Return) {
		return d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	})},
	{symbol: "nvmlDeviceGetRemappedRows", what: "remapped rows", onGPU: true, every: slowEvery, read: func(_ *Sampler, d *device, add func(monitor.Reading)) nvml.Return {
		_, uncorrected, _, _, status := d.handle.GetRemappedRows()
		if status == nvml.SUCCESS {
			add(d.reading(monitor.RemappedRows, float64(uncorrected)))
		}
		return status
	}},
	{symbol: "nvmlDeviceGetSamples", what: "samples of utilization", onGPU: true, finer: true, every: slowEvery, read: (*Sampler).readSamples},
	{symbol: "nvmlDeviceGetComputeRunningProcesses", what: "processes", every: slowEvery, read: (*Sampler).readProcesses},
	{symbol: "nvmlDeviceGetProcessUtilization", what: "utilization by process", onGPU: true, finer: true, every: slowEvery, read: (*Sampler).readProcessUtilization},
	{symbol: "nvmlDeviceGetAccountingStats", what: "accounting of processes", onGPU: true, finer: true, every: slowEvery, read: (*Sampler).readAccounting},
}

// throttled makes a metric of how long a policy has kept the clocks low, in
// nanoseconds. NVML means to drop the call for field values, which older drivers
// do not have.
func throttled(name string, policy nvml.PerfPolicyType) func(*Sampler, *device, func(monitor.Reading)) nvml.Return {
	return one(name, nano, func(d nvml.Device) (uint64, nvml.Return) {
		violation, status := d.GetViolationStatus(policy)
		return violation.ViolationTime, status
	})
}

// readMemory reads the memory, with what the driver keeps for itself where the
// library tells that apart.
func (s *Sampler) readMemory(d *device, add func(monitor.Reading)) nvml.Return {
	if s.has("nvmlDeviceGetMemoryInfo_v2") {
		memory, status := d.handle.GetMemoryInfo_v2()
		switch status {
		case nvml.SUCCESS:
			add(d.reading(monitor.MemoryUsedBytes, float64(memory.Used)))
			add(d.reading(monitor.MemoryReservedBytes, float64(memory.Reserved)))
			add(d.reading(monitor.MemoryTotalBytes, float64(memory.Total)))
			return status
		case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_INVALID_ARGUMENT, nvml.ERROR_ARGUMENT_VERSION_MISMATCH:
		default:
			return status
		}
	}
	memory, status := d.handle.GetMemoryInfo()
	if status == nvml.SUCCESS {
		add(d.reading(monitor.MemoryUsedBytes, float64(memory.Used)))
		add(d.reading(monitor.MemoryTotalBytes, float64(memory.Total)))
	}
	return status
}

// readDevice reads everything of one device.
func (s *Sampler) readDevice(d *device, now time.Time, add func(monitor.Reading)) {
	if !d.lostTill.IsZero() {
		if now.Before(d.lostTill) || !s.regain(d, now, add) {
			return
		}
	}
	if s.reads%slowEvery == 0 {
		s.describe(d, add)
	}
	if s.gone(s.record(d, "memory", s.readMemory(d, add), add), d, now, add) {
		return
	}
	shares := s.readGPM(d, add)
	for i := range metrics {
		m := &metrics[i]
		switch {
		case m.onGPU && d.parent != nil, m.unlessGP && shares, d.without[m.what], m.every > 1 && s.reads%m.every != 0:
			continue
		case !s.has(m.symbol) && !s.has(m.symbol+"_v2") && !s.has(m.symbol+"_v3"):
			d.without[m.what] = true
			if !m.finer {
				s.failed(add, d.uuid, m.what, nvml.ERROR_FUNCTION_NOT_FOUND)
			}
			continue
		}
		status := m.read(s, d, add)
		if m.finer && status == nvml.ERROR_NOT_SUPPORTED {
			d.without[m.what] = true
			continue
		}
		if s.gone(s.record(d, m.what, status, add), d, now, add) {
			return
		}
	}
}

// describe gives what a device is called.
func (s *Sampler) describe(d *device, add func(monitor.Reading)) {
	index := -1
	if s.has("nvmlDeviceGetIndex") && d.parent == nil {
		if i, status := d.handle.GetIndex(); status == nvml.SUCCESS {
			index = i
		}
	}
	name, status := d.handle.GetName()
	if status != nvml.SUCCESS {
		return
	}
	add(monitor.Reading{Device: d.uuid, Name: monitor.DeviceName, Value: float64(index), Detail: name})
	if d.parent != nil {
		if parent, status := d.parent.GetUUID(); status == nvml.SUCCESS {
			add(monitor.Reading{Device: d.uuid, Name: monitor.InstanceOf, Value: float64(d.instance), Detail: parent})
		}
	}
}

// record notes how a call went. What a device does not support is not asked again.
func (s *Sampler) record(d *device, what string, status nvml.Return, add func(monitor.Reading)) nvml.Return {
	switch status {
	case nvml.SUCCESS:
		s.worked(add, d.uuid, what)
	case nvml.ERROR_NOT_SUPPORTED:
		d.without[what] = true
		s.failed(add, d.uuid, what, status)
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED, nvml.ERROR_UNINITIALIZED, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		// of the device or the driver, and not of this call
	default:
		s.failed(add, d.uuid, what, status)
	}
	return status
}

// gone reports that a status means that the device, or the driver, is no longer
// there, and notes it.
func (s *Sampler) gone(status nvml.Return, d *device, now time.Time, add func(monitor.Reading)) bool {
	switch status {
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED:
		s.failed(add, d.uuid, "the device", status)
		d.lostTill = now.Add(retryEvery)
		d.gpm.free()
		return true
	case nvml.ERROR_UNINITIALIZED, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		s.failed(add, "", "opening NVML", status)
		s.Close()
		s.retryAt = now.Add(retryEvery)
		return true
	}
	return false
}

// regain looks for a device that was lost.
func (s *Sampler) regain(d *device, now time.Time, add func(monitor.Reading)) bool {
	d.lostTill = now.Add(retryEvery)
	if !s.has("nvmlDeviceGetHandleByUUID") {
		return false
	}
	handle, status := s.library.DeviceGetHandleByUUID(d.uuid)
	if status != nvml.SUCCESS {
		return false
	}
	if _, status = handle.GetMemoryInfo(); status != nvml.SUCCESS {
		return false
	}
	d.handle, d.lostTill = handle, time.Time{}
	s.worked(add, d.uuid, "the device")
	return true
}

// register asks to be told of critical errors.
func (s *Sampler) register(add func(monitor.Reading)) {
	if !s.has("nvmlEventSetCreate") || !s.has("nvmlDeviceRegisterEvents") || !(s.has("nvmlEventSetWait") || s.has("nvmlEventSetWait_v2")) || !s.has("nvmlEventSetFree") {
		s.failed(add, "", "XID events", nvml.ERROR_FUNCTION_NOT_FOUND)
		return
	}
	set, status := s.library.EventSetCreate()
	if status != nvml.SUCCESS {
		s.failed(add, "", "XID events", status)
		return
	}
	s.events = set
	for _, d := range s.devices {
		handle := d.handle
		if d.parent != nil {
			handle = d.parent
		}
		if status := handle.RegisterEvents(nvml.EventTypeXidCriticalError, set); status != nvml.SUCCESS {
			s.failed(add, d.uuid, "XID events", status)
		}
	}
}

// mostEvents bounds what one read takes: a broken device may have no end of them.
const mostEvents = 16

// readEvents takes the critical errors that have come.
func (s *Sampler) readEvents(add func(monitor.Reading)) {
	if s.events == nil {
		return
	}
	for range mostEvents {
		event, status := s.events.Wait(0)
		if status != nvml.SUCCESS {
			return
		}
		if event.EventType&nvml.EventTypeXidCriticalError == 0 {
			continue
		}
		uuid, status := event.Device.GetUUID()
		if status != nvml.SUCCESS {
			uuid = ""
		}
		add(monitor.Reading{Device: uuid, Name: monitor.XID, Value: float64(event.EventData)})
	}
}
