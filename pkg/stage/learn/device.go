package learn

import (
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/cuda"
)

// deviceMetrics adds what an engine on a GPU says of its work so far: the seconds
// that the device was busy, and the bytes that were copied each way.
func deviceMetrics(engine policy.Engine, metrics map[string]float64) error {
	e, ok := engine.(*cuda.Engine)
	if !ok {
		return nil
	}
	s, err := e.Stats()
	if err != nil {
		return err
	}
	metrics["device_seconds"] = s.DeviceSeconds
	metrics["host_to_device_bytes"] = float64(s.ToDeviceBytes)
	metrics["device_to_host_bytes"] = float64(s.ToHostBytes)
	return nil
}
