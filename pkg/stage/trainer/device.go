package trainer

import "github.com/lathe-rl/lathe/pkg/policy"

// DeviceMetrics adds what an engine on a device of its own did so far: the
// seconds that the device was busy, and the bytes that were copied each way.
func DeviceMetrics(engine policy.Engine, metrics map[string]float64) error {
	meter, ok := engine.(policy.DeviceMeter)
	if !ok {
		return nil
	}
	use, err := meter.DeviceUse()
	if err != nil {
		return err
	}
	metrics["device_seconds"] = use.Seconds
	metrics["host_to_device_bytes"] = float64(use.ToDeviceBytes)
	metrics["device_to_host_bytes"] = float64(use.ToHostBytes)
	return nil
}
