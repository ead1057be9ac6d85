//go:build !cgo

package main

import (
	"time"

	"github.com/lathe-rl/lathe/pkg/monitor"
)

func open(monitor.Devices) monitor.Sampler { return &unavailable{} }

// unavailable says once what this build cannot do.
type unavailable struct{ said bool }

func (*unavailable) Kind() string { return "nvml" }
func (*unavailable) Close()       {}

func (u *unavailable) Read(_ time.Time, add func(monitor.Reading)) {
	if !u.said {
		u.said = true
		add(monitor.Reading{Name: monitor.Fault, Value: 1, Detail: "this lathe-monitor was built without cgo and cannot read GPUs: install a C compiler and build it with CGO_ENABLED=1"})
	}
}
