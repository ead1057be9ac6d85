package command

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// What a controller job cannot continue is no failure of the run, since another controller job may: the
// site is told that it is stuck, once for each reason. A controller job that was stopped tells
// nothing.
func TestNotifyStuck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := []string{"sh", "-c", `echo "$LATHE_EVENT $LATHE_EXIT $LATHE_MESSAGE" >>"$LATHE_RUN/said"`}
	for _, ended := range []error{
		errors.New("the queue cannot be read"), errors.New("the queue cannot be read"), errors.New("the disk is full"),
		exitcode.Stoppedf("a signal"),
	} {
		notify(t.Context(), &rundir.Run{Dir: graph.Dir(dir)}, program, ended, true)
	}
	notify(t.Context(), &rundir.Run{Dir: graph.Dir(dir)}, program, errors.New("an invalid recipe"), false)
	said, err := os.ReadFile(filepath.Join(dir, "said"))
	if want := "stuck 1 the queue cannot be read\nstuck 1 the disk is full\nfailed 1 an invalid recipe\n"; err != nil || string(said) != want {
		t.Errorf("the site was told %q, %v; want %q", said, err, want)
	}
}
