//go:build cgo

package main

import (
	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/monitor/nvidia"
)

func open(given monitor.Devices) monitor.Sampler { return nvidia.New("", given) }
