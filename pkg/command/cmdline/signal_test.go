package cmdline

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// A signal cancels the context of a process, which says which one it was; what waits on
// it ends as what is cancelled does, though it tells the cause.
// Alone: the process signals itself.
func TestStopping(t *testing.T) {
	for name, sent := range map[string]syscall.Signal{"SIGUSR2": syscall.SIGUSR2, "SIGHUP": syscall.SIGHUP} {
		if signal.Ignored(sent) { // the tests run under nohup
			continue
		}
		ctx, stop := signalled()
		defer stop()
		if name := Stopping(ctx); name != "" {
			t.Errorf("before any signal it is %q", name)
		}
		if err := syscall.Kill(syscall.Getpid(), sent); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		if got := Stopping(ctx); got != name || !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("it is %q, %v; want %s", got, ctx.Err(), name)
		}
		err := fmt.Errorf("waiting: %w", context.Cause(ctx))
		if !errors.Is(err, context.Canceled) || exitcode.Code(err) != exitcode.Stopped {
			t.Errorf("%v: exit code %d, want %d", err, exitcode.Code(err), exitcode.Stopped)
		}
	}
	signal.Ignore(syscall.SIGHUP) // as nohup does
	defer signal.Reset(syscall.SIGHUP)
	ctx, stop := signalled()
	defer stop()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil || !signal.Ignored(syscall.SIGHUP) || ctx.Err() != nil {
		t.Errorf("under nohup: %v, %v", err, ctx.Err())
	}
}
