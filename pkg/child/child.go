// Package child runs programs as children of this process. A child has a process
// group of its own, and ends with all that it has started: when it is killed,
// when it ends, and when this process does.
package child

import (
	"crypto/rand"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// markPrefix begins the name of the variable that marks the environment of a
// child and of all that it starts, so that what has left its process group is
// found too. Each child has a name of its own: children start children.
const markPrefix = "LATHE_CHILD_"

// Child is a program that was started.
type Child struct {
	cmd    *exec.Cmd
	mark   string        // NAME=VALUE
	exited chan struct{} // closed when it has ended
	gone   chan struct{} // closed when what it had started is gone too
	err    error         // of its Wait; read after exited
}

// Start starts a command. Its environment is the command's own, or this
// process's if it has none. The death signal is what it gets when this process
// dies.
func Start(cmd *exec.Cmd, death syscall.Signal) (*Child, error) {
	adoptOrphans()
	c := &Child{cmd: cmd, mark: markPrefix + rand.Text() + "=", exited: make(chan struct{}), gone: make(chan struct{})}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, c.mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: death}
	started := make(chan error, 1)
	go func() {
		// The death signal is sent when the thread that started the command
		// ends (golang.org/issue/27505): it is kept until the command ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		children.Lock()
		err := cmd.Start()
		if err == nil {
			children.running[cmd.Process.Pid] = true
		}
		children.Unlock()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.exited)
			children.Lock()
			delete(children.running, cmd.Process.Pid)
			children.Unlock()
			// What it left running would write where nobody expects it any more.
			killLeft(cmd.Process.Pid, c.mark)
			collectOrphans()
			close(c.gone)
		}
	}()
	return c, <-started
}

// Exited is closed when the child has ended, and Gone when all that it had
// started is gone too.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Gone is described at Exited.
func (c *Child) Gone() <-chan struct{} { return c.gone }

// Err is how the child ended, as [exec.Cmd.Wait] has it, once Exited is closed.
func (c *Child) Err() error { return c.err }

// How says the same in words.
func (c *Child) How() string {
	if c.err == nil {
		return "exit code 0"
	}
	return c.err.Error()
}

// Signal sends a signal to the child alone, and SignalGroup to all of its
// process group. One that has ended cannot be signalled, which is as well.
func (c *Child) Signal(signal syscall.Signal) { c.send(c.cmd.Process.Pid, signal) }

// SignalGroup is described at Signal.
func (c *Child) SignalGroup(signal syscall.Signal) { c.send(-c.cmd.Process.Pid, signal) }

func (c *Child) send(to int, signal syscall.Signal) {
	select {
	case <-c.exited: // the process id may be somebody else's by now
	default:
		_ = syscall.Kill(to, signal)
	}
}

// Kill kills the child and all that it has started, and waits until they are gone.
func (c *Child) Kill() {
	c.SignalGroup(syscall.SIGKILL)
	<-c.gone
}

// children are those that were started and whose ends Wait has not collected.
var children = struct {
	sync.Mutex
	running map[int]bool
}{running: map[int]bool{}}

// adoptOrphans makes this process the parent of what its children leave behind,
// so that none of it escapes to the first process of the machine, and its ends
// can be collected.
var adoptOrphans = sync.OnceFunc(func() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // an old kernel lets orphans go; they are found by their mark
})
