package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lathe-rl/lathe/pkg/child"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

const (
	// stopGrace is how long a server may take to end before it is killed; a
	// task that is told to stop has 20 s for everything.
	stopGrace = 8 * time.Second
	// logTail is how much of a server's log an error repeats.
	logTail = 2 << 10
)

// Server is a server that this process started for itself.
type Server struct {
	URL     string
	command string
	log     string
	child   *child.Child
}

// Serve starts a server of a policy folder on a free port of this machine.
// {policy} in a word of the command stands for the folder, {version} for the
// folder's name, {port} for the port. What it prints is appended to the log. Of
// the environment it gets little, and the variables that passEnvironment names.
//
// The server has a process group of its own, which ends with this process,
// however this process ends.
func Serve(command, passEnvironment []string, folder, log string) (*Server, error) {
	if len(command) == 0 {
		return nil, exitcode.Usagef("the command that starts the server is empty")
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	replacer := strings.NewReplacer("{policy}", folder, "{version}", filepath.Base(folder), "{port}", strconv.Itoa(port))
	words := make([]string, len(command))
	for i, word := range command {
		words[i] = replacer.Replace(word)
	}
	output, err := plainfile.Create(log, os.O_APPEND)
	if err != nil {
		return nil, fmt.Errorf("opening the server's log: %w", err)
	}
	defer output.Close() // the child has its own
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Env = child.Environment(append(serverEnvironment, passEnvironment...)...)
	started, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		err = exitcode.Unavailablef("starting the server %q: %w", words[0], err)
		return nil, exitcode.WithHint(err, "rollout.remote.serve is the command, one word to an entry")
	}
	return &Server{URL: fmt.Sprintf("http://127.0.0.1:%d", port), command: words[0], log: log, child: started}, nil
}

// serverEnvironment are the variables that a server gets beside the basic ones:
// those that say where GPUs and libraries are.
var serverEnvironment = []string{
	"CUDA_*", "NVIDIA_*", "ROCR_*", "HIP_*", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_*", "PYTHON*", "HF_HOME", "HF_HUB_*", "XDG_CACHE_HOME",
	"VLLM_*", "SGLANG_*", "NCCL_*", "OMP_*", "SLURM_*",
}

// freePort finds a port that nobody listens on now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return port, listener.Close()
}

// signalGrace is how long a task waits for the signal that has ended its server:
// a batch system sends it to all processes of a task, in any order.
const signalGrace = time.Second

// Alive is nil while the server runs, and then says how it ended. A server that
// was told to stop with the task has not failed: that is the context's error.
func (s *Server) Alive(ctx context.Context) error {
	select {
	case <-s.child.Exited():
	default:
		return nil
	}
	if s.signalled() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(signalGrace):
		}
	}
	return exitcode.WithHint(fmt.Errorf("the server %q ended: %s; its last output:\n%s", s.command, s.child.How(), tail(s.log)), "its full log is %s", s.log)
}

// signalled reports whether a signal that stops a task ended the server.
func (s *Server) signalled() bool {
	var ended *exec.ExitError
	if !errors.As(s.child.Err(), &ended) {
		return false
	}
	status, ok := ended.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && (status.Signal() == syscall.SIGTERM || status.Signal() == syscall.SIGINT)
}

// Close ends the server: it is asked to, and killed if it takes too long.
func (s *Server) Close() error {
	s.child.SignalGroup(syscall.SIGTERM)
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-s.child.Gone():
	case <-timer.C:
		s.child.Kill()
	}
	return nil
}

// tail is the end of a log, in whole lines.
func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > logTail {
		if _, err := f.Seek(-logTail, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, logTail))
	if err != nil && !errors.Is(err, io.EOF) {
		return err.Error()
	}
	return strings.ToValidUTF8(strings.TrimRight(string(text), "\n"), "\uFFFD")
}

// Started is a client with the server that was started for it.
type Started struct {
	*Client
	server *Server
}

// Start serves o.Folder by a command and opens a client for it. Each task
// that samples has a server of its own.
func Start(ctx context.Context, o Options, command []string, log string) (*Started, error) {
	server, err := Serve(command, o.PassEnvironment, o.Folder, log)
	if err != nil {
		return nil, err
	}
	o.URL = server.URL
	client, err := Open(ctx, o, func() error { return server.Alive(ctx) })
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return &Started{Client: client, server: server}, nil
}

// Generate asks the server, and says how it ended if it did.
func (s *Started) Generate(ctx context.Context, turns []Turn) ([]Reply, error) {
	replies, err := s.Client.Generate(ctx, turns)
	if err == nil {
		for _, r := range replies {
			if r.Failed != nil {
				err = s.server.Alive(ctx) // a server that has died is the task's failure, not that of a few responses
				break
			}
		}
	}
	return replies, err
}

// Close ends the server.
func (s *Started) Close() error { return errors.Join(s.Client.Close(), s.server.Close()) }
