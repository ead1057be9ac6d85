package policy

// DeviceError is one of the accelerator: it failed, has too little memory at the moment, or
// could not be had. Another node, or the same one later, may do the same work well.
type DeviceError struct{ Err error }

func (e *DeviceError) Error() string { return e.Err.Error() }
func (e *DeviceError) Unwrap() error { return e.Err }
