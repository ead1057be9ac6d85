// Package monitor samples what a task does to the machine that it runs on, and
// seals the samples in segments, so that what was used can be asked afterwards.
//
// A monitor is a process beside a task. It needs no root, no daemon and no port,
// and what it cannot read it says: a number that is not known is not written, and
// why it is not is a row of its own, named [Fault].
package monitor

import "time"

// Reading is one number, read now.
type Reading struct {
	Device string // UUID of a GPU or MIG instance; empty for the host and the task
	Name   string
	Value  float64
	Detail string // words, where a number does not do; see the names
}

// Sampler reads one kind of thing. It is used by one goroutine at a time.
type Sampler interface {
	// Kind is what it reads, in one word.
	Kind() string
	// Read reads everything once. What cannot be read is a [Fault], once when it
	// begins and once, with value 0, when it is over.
	Read(now time.Time, add func(Reading))
	Close()
}

// The names of what is read. Those marked as counters only grow, and what was
// used is the difference of two of them.
const (
	// Fault is what could not be read, in words (Detail), with the number that the
	// driver has for it; 0 says that it is over.
	Fault = "fault"
	// PhaseSeconds is how long the task was in a phase (Detail) since the sample
	// before.
	PhaseSeconds = "phase_seconds"

	// Of the task, with all that it has started:
	Cores            = "cores"              // that it was given
	CPUSeconds       = "cpu_seconds"        // counter
	MemoryBytes      = "memory_bytes"       // resident, shared pages counted for each process
	ReadBytes        = "read_bytes"         // counter: from storage
	WriteBytes       = "write_bytes"        // counter: to storage
	Processes        = "processes"          //
	MemoryLimitBytes = "memory_limit_bytes" // that it was given

	// Of its control group, where it has one of its own:
	CgroupCPUSeconds   = "cgroup_cpu_seconds" // counter
	CgroupMemoryBytes  = "cgroup_memory_bytes"
	CgroupOOMKills     = "cgroup_oom_kills"     // counter
	CPUStallSeconds    = "cpu_stall_seconds"    // counter: some of it waited for a core,
	MemoryStallSeconds = "memory_stall_seconds" // for memory,
	IOStallSeconds     = "io_stall_seconds"     // for input or output

	// Of the whole host:
	HostCores              = "host_cores"
	HostCPUSeconds         = "host_cpu_seconds" // counter: of all cores, not idle
	HostMemoryBytes        = "host_memory_bytes"
	HostMemoryTotalBytes   = "host_memory_total_bytes"
	HostCPUStallSeconds    = "host_cpu_stall_seconds" // counters, as above
	HostMemoryStallSeconds = "host_memory_stall_seconds"
	HostIOStallSeconds     = "host_io_stall_seconds"
	MonitorCPUSeconds      = "monitor_cpu_seconds"     // counter: what this costs
	MonitorMemoryBytes     = "monitor_memory_bytes"    // and its memory, without its program's shared pages
	MonitorDroppedSamples  = "monitor_dropped_samples" // that could not be sealed

	// Of a GPU, or of an instance of one under MIG. Shares are in [0, 1].
	DeviceName              = "device" // Detail: its name; the value is the driver's index
	UtilizationShare        = "utilization_share"
	UtilizationSamplesShare = "utilization_samples_share" // mean of all that the driver sampled since the last
	MemoryBusyShare         = "memory_busy_share"
	MemoryUsedBytes         = "memory_used_bytes" // with what the driver keeps for itself
	MemoryReservedBytes     = "memory_reserved_bytes"
	MemoryTotalBytes        = "memory_total_bytes"
	PowerWatts              = "power_watts"
	PowerLimitWatts         = "power_limit_watts"
	EnergyJoules            = "energy_joules" // counter
	TemperatureCelsius      = "temperature_celsius"
	SMClockHertz            = "sm_clock_hertz"
	SMClockMaxHertz         = "sm_clock_max_hertz"
	MemoryClockHertz        = "memory_clock_hertz"
	ThrottleReasons         = "throttle_reasons"          // NVML's bits
	ThrottledPowerSeconds   = "throttled_power_seconds"   // counters: how long the power limit or
	ThrottledThermalSeconds = "throttled_thermal_seconds" // heat has kept the clocks low
	PCIeTxBytesPerSecond    = "pcie_tx_bytes_per_second"
	PCIeRxBytesPerSecond    = "pcie_rx_bytes_per_second"
	PCIeReplays             = "pcie_replays"             // counter
	ECCCorrected            = "ecc_corrected"            // counter, since the driver was loaded
	ECCUncorrected          = "ecc_uncorrected"          // counter
	RemappedRows            = "remapped_rows"            // counter, of errors that could not be corrected
	XID                     = "xid"                      // a critical error of the driver, when it comes
	GPUProcesses            = "gpu_processes"            // that compute on it
	GPUProcessMemoryBytes   = "gpu_process_memory_bytes" // of one of the task's; Detail, here and below: its id
	GPUProcessSMShare       = "gpu_process_sm_share"     // means since the last; not under MIG
	GPUProcessMemoryShare   = "gpu_process_memory_busy_share"
	// Of all of a process's life, where an administrator has switched accounting on:
	GPUProcessLifeShare    = "gpu_process_life_utilization_share"
	GPUProcessPeakBytes    = "gpu_process_life_memory_peak_bytes"
	SMActiveShare          = "sm_active_share" // GPM, on Hopper and later, from here on
	SMOccupancyShare       = "sm_occupancy_share"
	TensorActiveShare      = "tensor_active_share"
	DRAMActiveShare        = "dram_active_share"
	FP64ActiveShare        = "fp64_active_share" // these three outside of the tensor units
	FP32ActiveShare        = "fp32_active_share"
	FP16ActiveShare        = "fp16_active_share"
	NVLinkTxBytesPerSecond = "nvlink_tx_bytes_per_second"
	NVLinkRxBytesPerSecond = "nvlink_rx_bytes_per_second"
	InstanceOf             = "instance_of" // Detail: the UUID of the GPU that an instance is of
	DriverVersion          = "driver"      // Detail: the version
	SelectedBy             = "selected"    // Detail: how the devices were found to be the task's
)

// Folder is the folder of the segments below that of a run.
const Folder = "gpu"
