package cmdline

import (
	"sync"
	"time"

	"github.com/lathe-rl/lathe/pkg/env"
)

// Patience prints every [env.SlowAfter] what is taking so long, until stop is called.
func Patience(program, what string) (stop func()) {
	ticker, ended := time.NewTicker(env.SlowAfter), make(chan struct{})
	go func() {
		defer ticker.Stop()
		patience(ticker.C, ended, time.Now(), func(d time.Duration) { Log(program)("%s has taken %v", what, d.Round(time.Second)) })
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

// Opening is [Patience] while a recipe's environment is opened: its programs start.
func Opening(program, environment string) (stop func()) {
	return Patience(program, "opening the environment "+environment+" of the recipe, with the programs that it starts,")
}
