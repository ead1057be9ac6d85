package drive

// GPUCounter counts GPUs that tasks share.
type GPUCounter interface {
	// GPUs is how many the tasks may use together.
	GPUs() int
	// CheckGPUs refuses tasks of a stage that ask for more than there are.
	CheckGPUs(stage string, asked int) error
}

// checkGPUs refuses a run, before its first task starts, of which a task that is still to do
// asks for more GPUs than there are.
func (d *Driver) checkGPUs() error {
	if d.checked || d.GPUs == nil {
		return nil
	}
	d.checked = true
	for _, n := range d.Run.Graph.Nodes() {
		if asked := d.Run.Graph.Request(n.Stage).GPUs; asked > 0 && !d.surveyor.Done(n) {
			if err := d.GPUs.CheckGPUs(string(n.Stage.Resources()), asked); err != nil {
				return err
			}
		}
	}
	return nil
}

// lacksGPUs reports whether a task asks for more GPUs than those that run leave.
func (d *Driver) lacksGPUs(asked int) bool {
	return d.GPUs != nil && d.gpus > 0 && d.gpus+asked > d.GPUs.GPUs()
}
