package policy

// Workload says what an engine will be asked for. It decides how memory is
// divided, and changes no result.
type Workload struct {
	// Generate says that Generate will be called. An engine that generates and
	// does not train has room for short passes alone.
	Generate bool
	// Longest is the tokens of the longest sequence; 0 for as many as the policy
	// takes.
	Longest int
	// Shared is the tokens of the largest prefix group of sequences, each counted in
	// RowTokens; 0 where none has a shared prefix.
	Shared int
	// PassTokens bounds what Forward and Backward are given at a time, but for
	// sequences that are longer; 0 for whatever serves best.
	PassTokens int
	// Sums is the number of partial sums of gradients that are held at once.
	Sums int
	// Gradients says that gradients alone are computed: Step is never called, and the
	// engine holds no moments and no masters.
	Gradients bool
	// Twins is the number of engines with the same work as this one that are opened
	// after it; the memory is divided among all.
	Twins int
	// Responses bounds those that are under way at once; 0 for as many as serve.
	Responses int
}

// DeviceMeter asks an engine's device for what it did.
type DeviceMeter interface {
	// DeviceUse is the work since the last call, or since the engine was opened.
	DeviceUse() (DeviceUse, error)
}

// DeviceUse is the work of an engine on its device.
type DeviceUse struct {
	Seconds       float64 // that the device was busy
	ToDeviceBytes int64   // copied from the host's memory to the device's,
	ToHostBytes   int64   // and back
}
