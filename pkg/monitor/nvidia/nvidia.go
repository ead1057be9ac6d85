//go:build cgo

// Package nvidia is the sampler of NVIDIA's GPUs, over NVML.
//
// A call that the driver's library does not have would end the process, since
// go-nvml binds each when it is first called: none is called before the library
// was asked for it. A library that is gone, a driver that is reloaded and a device
// that is lost are looked for again from time to time.
package nvidia

import (
	"fmt"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/lathe-rl/lathe/pkg/monitor"
)

// retryEvery is how often what is gone is looked for again.
const retryEvery = 15 * time.Second

// Sampler implements [monitor.Sampler].
type Sampler struct {
	path     string // of the library; empty for the system's
	given    monitor.Devices
	library  nvml.Interface // nil while there is none
	symbols  map[string]bool
	devices  []*device
	events   nvml.EventSet
	standing map[fault]nvml.Return
	retryAt  time.Time
	reads    int
}

// fault is what could not be read, of which device.
type fault struct{ device, what string }

// device is one GPU, or one instance of a GPU under MIG.
type device struct {
	handle   nvml.Device
	parent   nvml.Device // of an instance; nil else
	instance int         // of the GPU under MIG; -1 else
	uuid     string
	without  map[string]bool // what it does not support
	ours     []uint32        // the processes of the task that were last seen on it
	// The moments of the last samples that were taken of the driver's buffers, in
	// microseconds of its clock; 0 before the first.
	lastSample, lastOfProcess uint64
	gpm                       gpm
	lostTill                  time.Time // zero unless it is lost
}

// New samples the devices that a task was given. path is that of the library, or
// empty for the system's.
func New(path string, given monitor.Devices) *Sampler {
	return &Sampler{path: path, given: given, standing: map[fault]nvml.Return{}}
}

// Kind implements [monitor.Sampler].
func (s *Sampler) Kind() string { return "nvml" }

// Read implements [monitor.Sampler].
func (s *Sampler) Read(now time.Time, add func(monitor.Reading)) {
	if s.library == nil {
		if now.Before(s.retryAt) || !s.open(now, add) {
			return
		}
	}
	for _, d := range s.devices {
		s.readDevice(d, now, add)
		if s.library == nil { // it was closed: the driver is gone
			return
		}
	}
	s.readEvents(add)
	s.reads++
}

// Close implements [monitor.Sampler].
func (s *Sampler) Close() {
	if s.library == nil {
		return
	}
	for _, d := range s.devices {
		d.gpm.free()
	}
	if s.events != nil {
		s.events.Free()
	}
	s.library.Shutdown()
	s.library, s.devices, s.events = nil, nil, nil
}

// has reports whether the library has a call.
func (s *Sampler) has(symbol string) bool {
	known, asked := s.symbols[symbol]
	if !asked {
		known = s.library.Extensions().LookupSymbol(symbol) == nil
		s.symbols[symbol] = known
	}
	return known
}

// open loads the library and finds the devices.
func (s *Sampler) open(now time.Time, add func(monitor.Reading)) bool {
	s.retryAt = now.Add(retryEvery)
	var options []nvml.LibraryOption
	if s.path != "" {
		options = append(options, nvml.WithLibraryPath(s.path))
	}
	library := nvml.New(options...)
	if status := library.Init(); status != nvml.SUCCESS {
		s.failed(add, "", "opening NVML", status)
		return false
	}
	s.library, s.symbols = library, map[string]bool{}
	s.worked(add, "", "opening NVML")
	if s.has("nvmlSystemGetDriverVersion") {
		if version, status := library.SystemGetDriverVersion(); status == nvml.SUCCESS {
			add(monitor.Reading{Name: monitor.DriverVersion, Value: 1, Detail: version})
		}
	}
	if !s.find(add) {
		s.Close()
		return false
	}
	s.register(add)
	return true
}

// words are those for the failures that people meet.
var words = map[nvml.Return]string{
	nvml.ERROR_UNINITIALIZED: "NVML is not initialized", nvml.ERROR_NOT_SUPPORTED: "not supported by this device",
	nvml.ERROR_NO_PERMISSION: "no permission", nvml.ERROR_NOT_FOUND: "not found", nvml.ERROR_DRIVER_NOT_LOADED: "the driver is not loaded",
	nvml.ERROR_TIMEOUT: "the driver did not answer in time", nvml.ERROR_LIBRARY_NOT_FOUND: "there is no libnvidia-ml.so.1",
	nvml.ERROR_FUNCTION_NOT_FOUND: "this driver's library is too old for it", nvml.ERROR_GPU_IS_LOST: "the GPU is lost: it has fallen off the bus",
	nvml.ERROR_RESET_REQUIRED: "the GPU has to be reset", nvml.ERROR_OPERATING_SYSTEM: "the operating system does not allow it",
	nvml.ERROR_LIB_RM_VERSION_MISMATCH: "the driver and its library are of different versions", nvml.ERROR_GPU_NOT_FOUND: "there is no GPU",
	nvml.ERROR_UNKNOWN: "an unknown error of the driver",
}

func inWords(status nvml.Return) string {
	if text, known := words[status]; known {
		return text
	}
	return fmt.Sprintf("error %d of NVML", int(status))
}

// failed records what could not be read, once.
func (s *Sampler) failed(add func(monitor.Reading), device, what string, status nvml.Return) {
	key := fault{device, what}
	if s.standing[key] != status {
		s.standing[key] = status
		add(monitor.Reading{Device: device, Name: monitor.Fault, Value: float64(status), Detail: what + ": " + inWords(status)})
	}
}

// worked records that it can be read again, if it could not.
func (s *Sampler) worked(add func(monitor.Reading), device, what string) {
	key := fault{device, what}
	if _, stood := s.standing[key]; stood {
		delete(s.standing, key)
		add(monitor.Reading{Device: device, Name: monitor.Fault, Detail: what + ": again"})
	}
}

// find opens the devices of the task; false where there is none.
func (s *Sampler) find(add func(monitor.Reading)) bool {
	all, ok := s.accessible(add)
	if !ok {
		return false
	}
	var found []*device
	switch byIndex, indices := 0, 0; {
	case s.given.All:
		found = all
	default:
		for _, token := range s.given.Tokens {
			if token.Index >= 0 {
				indices++
			}
		}
		for _, token := range s.given.Tokens {
			switch {
			// Where a control group hides the other devices, NVML numbers those that
			// are left from 0, and the list may still have the numbers of the host.
			case token.Index >= 0 && indices == len(all):
				found = append(found, all[byIndex])
				byIndex++
			case token.Index >= 0 && token.Index < len(all):
				found = append(found, all[token.Index])
			case token.Index >= 0:
				s.failed(add, "", fmt.Sprintf("GPU %d of %d that may be opened", token.Index, len(all)), nvml.ERROR_NOT_FOUND)
			default:
				if d := s.byUUID(token, all, add); d != nil {
					found = append(found, d)
				}
			}
		}
	}
	s.devices = nil
	for _, d := range found {
		s.devices = append(s.devices, s.instances(d)...)
	}
	add(monitor.Reading{Name: monitor.SelectedBy, Value: float64(len(s.devices)), Detail: s.given.Given})
	if len(s.devices) == 0 {
		s.failed(add, "", "finding GPUs", nvml.ERROR_GPU_NOT_FOUND)
		return false
	}
	s.worked(add, "", "finding GPUs")
	return true
}

// accessible opens every GPU that this process may open.
func (s *Sampler) accessible(add func(monitor.Reading)) ([]*device, bool) {
	count, status := s.library.DeviceGetCount()
	if status != nvml.SUCCESS {
		s.failed(add, "", "counting GPUs", status)
		return nil, false
	}
	s.worked(add, "", "counting GPUs")
	var all []*device
	for i := range count {
		what := fmt.Sprintf("opening GPU %d", i)
		handle, status := s.library.DeviceGetHandleByIndex(i)
		switch {
		case status == nvml.ERROR_NO_PERMISSION: // another's: the count has it, we may not open it
			continue
		case status != nvml.SUCCESS:
			s.failed(add, "", what, status)
			continue
		}
		uuid, status := handle.GetUUID()
		if status != nvml.SUCCESS {
			s.failed(add, "", what, status)
			continue
		}
		s.worked(add, "", what)
		all = append(all, &device{handle: handle, instance: -1, uuid: uuid, without: map[string]bool{}})
	}
	return all, true
}

// byUUID finds the device of a UUID, or of the beginning of one.
func (s *Sampler) byUUID(token monitor.Token, all []*device, add func(monitor.Reading)) *device {
	for _, d := range all {
		if !strings.HasPrefix(d.uuid, token.UUID) {
			continue
		}
		if token.GPUInstance < 0 {
			return d
		}
		for _, instance := range s.instances(d) {
			compute, status := instance.handle.GetComputeInstanceId()
			if instance.instance == token.GPUInstance && (status != nvml.SUCCESS || compute == token.ComputeInstance) {
				return instance
			}
		}
	}
	for _, d := range all {
		for _, instance := range s.instances(d) {
			if instance.parent != nil && strings.HasPrefix(instance.uuid, token.UUID) {
				return instance
			}
		}
	}
	s.failed(add, token.UUID, "finding the device", nvml.ERROR_NOT_FOUND)
	return nil
}

// instances are those of a GPU that is divided under MIG, or the GPU itself.
func (s *Sampler) instances(d *device) []*device {
	if d.parent != nil || !s.has("nvmlDeviceGetMigMode") {
		return []*device{d}
	}
	mode, _, status := d.handle.GetMigMode()
	if status != nvml.SUCCESS || mode != nvml.DEVICE_MIG_ENABLE || !s.has("nvmlDeviceGetMaxMigDeviceCount") || !s.has("nvmlDeviceGetMigDeviceHandleByIndex") {
		return []*device{d}
	}
	most, status := d.handle.GetMaxMigDeviceCount()
	if status != nvml.SUCCESS {
		return []*device{d}
	}
	var instances []*device
	for i := range most {
		handle, status := d.handle.GetMigDeviceHandleByIndex(i)
		if status != nvml.SUCCESS {
			continue // there are fewer
		}
		uuid, status := handle.GetUUID()
		if status != nvml.SUCCESS {
			continue
		}
		instance := -1
		if s.has("nvmlDeviceGetGpuInstanceId") {
			if id, status := handle.GetGpuInstanceId(); status == nvml.SUCCESS {
				instance = id
			}
		}
		instances = append(instances, &device{handle: handle, parent: d.handle, instance: instance, uuid: uuid, without: map[string]bool{}})
	}
	if len(instances) == 0 {
		return []*device{d}
	}
	return instances
}
