package cmdline

import (
	"sync"
	"time"

	"github.com/lathe-rl/lathe/pkg/env"
)

// Opening prints every [env.SlowAfter] that a recipe's environment is still being opened,
// since its programs start, until stop is called.
func Opening(program, environment string) (stop func()) {
	ticker, ended := time.NewTicker(env.SlowAfter), make(chan struct{})
	go func() {
		defer ticker.Stop()
		patience(ticker.C, ended, time.Now(), func(d time.Duration) {
			Log(program)("opening the recipe's environment %s, including the programs that it starts, took %v", environment, d.Round(time.Second))
		})
	}()
	return sync.OnceFunc(func() { close(ended) })
}

func patience(ticks <-chan time.Time, ended <-chan struct{}, began time.Time, print func(time.Duration)) {
	for {
		select {
		case now := <-ticks:
			print(now.Sub(began))
		case <-ended:
			return
		}
	}
}
