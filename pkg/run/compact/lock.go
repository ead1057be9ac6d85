package compact

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// askAgain is how often a run that another process compacts is asked for.
const askAgain = 50 * time.Millisecond

// lock waits until no other process of this file system compacts the run, and keeps
// others out until it is released. Where a folder cannot be locked, it keeps nobody.
func lock(ctx context.Context, d graph.Dir) (release func(), err error) {
	folder, err := os.Open(string(d))
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return func() { folder.Close() }, nil
		}
		select {
		case <-ctx.Done():
			folder.Close()
			return nil, ctx.Err()
		case <-time.After(askAgain):
		}
	}
}
