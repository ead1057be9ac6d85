package cmdline

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// A signal cancels the context of a process, which says which one it was; what waits on
// it ends as what is cancelled does, though it tells the cause.
// Alone: the process signals itself.
func TestStopping(t *testing.T) {
	ctx, stop := signalled()
	defer stop()
	if name := Stopping(ctx); name != "" {
		t.Errorf("before any signal it is %q", name)
	}
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if name := Stopping(ctx); name != "SIGUSR2" || !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("it is %q, %v", name, ctx.Err())
	}
	err := fmt.Errorf("waiting: %w", context.Cause(ctx))
	if !errors.Is(err, context.Canceled) || exitcode.Code(err) != exitcode.Stopped {
		t.Errorf("%v: exit code %d, want %d", err, exitcode.Code(err), exitcode.Stopped)
	}
}
