package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// notifyTime is how long the program of a site profile may take.
const notifyTime = time.Minute

// notify runs the program of a site profile once for each thing that becomes of a
// run: of controller jobs and drivers that find the same, one does. What goes wrong with it is
// said and is no failure of the run. advancing says that the run goes on by controller jobs,
// of which one may fail although the run has not.
func notify(ctx context.Context, opened *rundir.Run, program []string, ended error, advancing bool) {
	if len(program) == 0 || exitcode.Code(ended) == exitcode.Stopped {
		return
	}
	event, message := "done", ""
	switch {
	case ended == nil || exitcode.Code(ended) == exitcode.LeftOut:
	case advancing && advance.IsStuck(ended):
		event = "stuck"
	default:
		event = "failed"
	}
	if ended != nil {
		message = ended.Error()
	}
	sum := sha256.Sum256([]byte(message))
	mark := filepath.Join(opened.Dir.Jobs(), "notified", event+"-"+hex.EncodeToString(sum[:6]))
	attempt := seal.AttemptFromEnv()
	if won, _, err := seal.Claim(mark, []byte(message+"\n"), attempt); err != nil || !won {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program[0], program[1:]...)
	cmd.WaitDelay = time.Second
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "LATHE_EVENT="+event, "LATHE_EXIT="+strconv.Itoa(exitcode.Code(ended)), "LATHE_RUN="+string(opened.Dir),
		"LATHE_REPORT="+filepath.Join(opened.Dir.Report(), "index.html"), "LATHE_MESSAGE="+message)
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "lathe: notify %q: %v\n", program[0], err)
	}
}
