package mle

import (
	"context"
	"os"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// gpus are the devices of a score task, of which each program that wants any
// has its own.
type gpus struct {
	all  int
	free chan string
	turn chan struct{} // held while devices are taken, so that two programs do not each wait for the other's
}

// newGPUs takes the devices that the scheduler has given to this process.
func newGPUs() *gpus {
	given := strings.FieldsFunc(os.Getenv("CUDA_VISIBLE_DEVICES"), func(r rune) bool { return r == ',' || r == ' ' })
	g := &gpus{all: len(given), free: make(chan string, len(given)), turn: make(chan struct{}, 1)}
	for _, device := range given {
		g.free <- device
	}
	return g
}

// take waits for so many devices.
func (g *gpus) take(ctx context.Context, n int) (devices []string, err error) {
	if n > g.all {
		return nil, exitcode.WithHint(exitcode.Unavailablef("a program is to have %d GPUs, and CUDA_VISIBLE_DEVICES gives %d to this process", n, g.all),
			"give the score tasks GPUs in the site's profile, or set env.limits.gpus or limits.gpus of task.yaml to 0")
	}
	if n == 0 {
		return nil, nil
	}
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for range n {
		select {
		case device := <-g.free:
			devices = append(devices, device)
		case <-ctx.Done():
			g.giveBack(devices)
			return nil, ctx.Err()
		}
	}
	return devices, nil
}

func (g *gpus) giveBack(devices []string) {
	for _, device := range devices {
		g.free <- device
	}
}
