package monitor

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/phase"
)

// The variables by which whoever starts a task asks it to have a monitor beside it.
const (
	Variable      = "LATHE_MONITOR"       // the program; empty for none
	CoresVariable = "LATHE_MONITOR_CORES" // that the task was given
)

// PhaseDescriptor is the file descriptor by which a monitor reads the phases of the
// task that has started it.
const PhaseDescriptor = 3

// leaveTime is how long a task waits at its end for its monitor to seal what it
// has. A batch system may kill it as soon as the task has left.
const leaveTime = 3 * time.Second

// Beside starts a monitor beside this process, if its environment asks for one,
// and returns what ends it. A monitor that does not start is said and no failure:
// the task goes on without.
//
// The monitor has its standard input from this process: whichever way this one
// ends, the monitor sees that it has.
func Beside(run, task string, log func(format string, args ...any)) (leave func()) {
	program := os.Getenv(Variable)
	if program == "" {
		return func() {}
	}
	arguments := []string{"--attached", "--run", run, "--task", task, "--pid", strconv.Itoa(os.Getpid())}
	if cores := os.Getenv(CoresVariable); cores != "" {
		arguments = append(arguments, "--cores", cores)
	}
	cmd := exec.Command(program, arguments...)
	// The library of the driver is looked for when it is wanted, which an order to
	// bind everything at the start forbids.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "LD_BIND_NOW=") })
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	failed := func(err error) func() {
		log("lathe-monitor did not start: %v", err)
		return func() {}
	}
	file, err := phase.Share()
	if err != nil {
		return failed(err)
	}
	defer file.Close() // the monitor has it too
	cmd.ExtraFiles = []*os.File{file}
	input, err := cmd.StdinPipe()
	if err != nil {
		return failed(err)
	}
	if err := cmd.Start(); err != nil {
		return failed(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return func() {
		_ = input.Close()
		select {
		case err := <-ended:
			if err != nil {
				log("lathe-monitor: %v", err)
			}
		case <-time.After(leaveTime):
			log("lathe-monitor has not sealed its samples within %v; not waiting any longer", leaveTime)
		}
	}
}
