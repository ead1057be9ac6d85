package trainer

import (
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// NoteDevice notes what an engine on a device of its own did so far: the seconds
// that the device was busy, and the bytes that were copied each way. A nil meter notes
// nothing.
func NoteDevice(m *seal.Manifest, meter policy.DeviceMeter) error {
	if meter == nil {
		return nil
	}
	use, err := meter.DeviceUse()
	if err != nil {
		return err
	}
	m.Usage = map[string]float64{
		"device_seconds": use.Seconds, "host_to_device_bytes": float64(use.ToDeviceBytes), "device_to_host_bytes": float64(use.ToHostBytes),
	}
	return nil
}
