//go:build cgo

package nvidia

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/lathe-rl/lathe/pkg/monitor"
)

// gpm is what GPM keeps of a device: its counters at two moments. What they say is
// between the two.
type gpm struct {
	asked     bool
	supported bool
	before    nvml.GpmSample // nil until there is one
	spare     nvml.GpmSample
}

// shares are the metrics of GPM, in percent or in MiB per second.
var shares = []struct {
	id    nvml.GpmMetricId
	name  string
	scale float64
}{
	{nvml.GPM_METRIC_SM_UTIL, monitor.SMActiveShare, 0.01},
	{nvml.GPM_METRIC_SM_OCCUPANCY, monitor.SMOccupancyShare, 0.01},
	{nvml.GPM_METRIC_ANY_TENSOR_UTIL, monitor.TensorActiveShare, 0.01},
	{nvml.GPM_METRIC_DRAM_BW_UTIL, monitor.DRAMActiveShare, 0.01},
	{nvml.GPM_METRIC_FP64_UTIL, monitor.FP64ActiveShare, 0.01},
	{nvml.GPM_METRIC_FP32_UTIL, monitor.FP32ActiveShare, 0.01},
	{nvml.GPM_METRIC_FP16_UTIL, monitor.FP16ActiveShare, 0.01},
	{nvml.GPM_METRIC_PCIE_TX_PER_SEC, monitor.PCIeTxBytesPerSecond, mebi},
	{nvml.GPM_METRIC_PCIE_RX_PER_SEC, monitor.PCIeRxBytesPerSecond, mebi},
	{nvml.GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, monitor.NVLinkTxBytesPerSecond, mebi},
	{nvml.GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, monitor.NVLinkRxBytesPerSecond, mebi},
}

var gpmSymbols = []string{"nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmSampleGet", "nvmlGpmSampleFree", "nvmlGpmMetricsGet"}

const gpmName = "GPM"

// readGPM reads what GPM knows, and reports whether the device has it.
func (s *Sampler) readGPM(d *device, add func(monitor.Reading)) bool {
	if !d.gpm.asked {
		d.gpm.asked = true
		d.gpm.supported = s.supportsGPM(d, add)
	}
	if !d.gpm.supported {
		return false
	}
	g := &d.gpm
	if g.spare == nil {
		sample, status := s.library.GpmSampleAlloc()
		if status != nvml.SUCCESS {
			s.failed(add, d.uuid, gpmName, status)
			return true
		}
		g.spare = sample
	}
	var status nvml.Return
	if d.parent != nil {
		status = g.spare.MigGet(d.parent, d.instance)
	} else {
		status = g.spare.Get(d.handle)
	}
	if status != nvml.SUCCESS {
		s.failed(add, d.uuid, gpmName, status)
		return true
	}
	now := g.spare
	g.before, g.spare = now, g.before
	if g.spare == nil {
		return true // the first: there is nothing to compare with
	}
	wanted := nvml.GpmMetricsGetType{NumMetrics: uint32(len(shares)), Sample1: g.spare, Sample2: now}
	for i, share := range shares {
		wanted.Metrics[i].MetricId = uint32(share.id)
	}
	if status := s.library.GpmMetricsGet(&wanted); status != nvml.SUCCESS {
		s.failed(add, d.uuid, gpmName, status)
		return true
	}
	s.worked(add, d.uuid, gpmName)
	for i, share := range shares {
		if nvml.Return(wanted.Metrics[i].NvmlReturn) == nvml.SUCCESS {
			add(d.reading(share.name, wanted.Metrics[i].Value*share.scale))
		}
	}
	return true
}

// supportsGPM asks whether a device has GPM: Hopper and later do.
func (s *Sampler) supportsGPM(d *device, add func(monitor.Reading)) bool {
	for _, symbol := range gpmSymbols {
		if !s.has(symbol) {
			s.failed(add, d.uuid, gpmName, nvml.ERROR_FUNCTION_NOT_FOUND)
			return false
		}
	}
	if d.parent != nil && (d.instance < 0 || !s.has("nvmlGpmMigSampleGet")) {
		s.failed(add, d.uuid, gpmName, nvml.ERROR_NOT_SUPPORTED)
		return false
	}
	support, status := d.handle.GpmQueryDeviceSupport()
	if status != nvml.SUCCESS || support.IsSupportedDevice == 0 {
		if status == nvml.SUCCESS {
			status = nvml.ERROR_NOT_SUPPORTED
		}
		s.failed(add, d.uuid, gpmName, status)
		return false
	}
	return true
}

func (g *gpm) free() {
	for _, sample := range []nvml.GpmSample{g.before, g.spare} {
		if sample != nil {
			sample.Free()
		}
	}
	g.before, g.spare = nil, nil
}
