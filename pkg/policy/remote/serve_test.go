package remote_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/remote"
	"github.com/lathe-rl/lathe/pkg/policy/remote/remotetest"
)

// roleVariable makes this test's binary a server.
const roleVariable = "LATHE_TEST_SERVER"

// serveInstead is what the test's binary does as a server: serve FOLDER PORT.
func serveInstead(role string, arguments []string) error {
	fmt.Fprintf(os.Stderr, "server of %s\n", strings.Join(arguments, " "))
	switch role {
	case "refuse":
		return errors.New("CUDA out of memory")
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+arguments[1])
	if err != nil {
		return err
	}
	server := &remotetest.Server{Dialect: remote.VLLM, Folders: func() []string { return []string{arguments[0]} }}
	switch role {
	case "told":
		server.Tamper = func(int, http.ResponseWriter, *http.Request, map[string]any) bool {
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
			select {}
		}
	case "die":
		server.Tamper = func(int, http.ResponseWriter, *http.Request, map[string]any) bool {
			fmt.Fprintln(os.Stderr, "the engine has died")
			os.Exit(3)
			return true
		}
	}
	return http.Serve(listener, server)
}

func (f *fixture) start(role string) (*remote.Started, string, error) {
	f.Helper()
	return f.startWithin(f.Context(), role)
}

func (f *fixture) startWithin(ctx context.Context, role string) (*remote.Started, string, error) {
	f.Helper()
	log := filepath.Join(f.TempDir(), "logs", "server.log")
	client, err := remote.Start(ctx, f.options(), []string{"env", roleVariable + "=" + role, os.Args[0], "{policy}", "{port}", "--name={version}"}, log)
	return client, log, err
}

// TestServe: a task starts its server, samples, and leaves nothing behind.
func TestServe(t *testing.T) {
	t.Parallel()
	f := newFixture(t, remote.VLLM)
	client, log, err := f.start("serve")
	if err != nil {
		t.Fatal(err)
	}
	turns := f.turns(4, policy.Sampling{})
	want := f.local(turns)
	got, err := client.Generate(t.Context(), turns)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if !equal(got[i].Completion, want[i]) {
			t.Errorf("turn %d: %+v, want %+v", i, got[i], want[i])
		}
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	content, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(content), "server of "+f.folder) || !strings.Contains(string(content), "--name=v000003") {
		t.Errorf("the log says %q, %v", content, err)
	}
	if replies, err := client.Generate(t.Context(), turns[:1]); err == nil || !strings.Contains(err.Error(), "ended: signal: terminated") {
		t.Errorf("the server is gone and answers %+v, %v", replies, err)
	}
}

// TestServerThatDoesNotStart: its own last words are in the error.
func TestServerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, remote.VLLM)
	if _, log, err := f.start("refuse"); err == nil || !strings.Contains(err.Error(), "CUDA out of memory") || exitcode.Code(err) != exitcode.Failed {
		t.Errorf("exit code %d: %v", exitcode.Code(err), err)
	} else if !strings.Contains(strings.Join(exitcode.Hints(err), " "), log) {
		t.Errorf("the hints %q do not name the log", exitcode.Hints(err))
	}
	_, err := remote.Start(t.Context(), f.options(), []string{filepath.Join(t.TempDir(), "vllm"), "{port}"}, filepath.Join(t.TempDir(), "log"))
	if exitcode.Code(err) != exitcode.Unavailable {
		t.Errorf("no such command: exit code %d: %v", exitcode.Code(err), err)
	}
}

// TestServerThatDies in the middle of its work fails the task, with its words.
func TestServerThatDies(t *testing.T) {
	t.Parallel()
	f := newFixture(t, remote.VLLM)
	client, _, err := f.start("die")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Generate(t.Context(), f.turns(3, policy.Sampling{}))
	if err == nil || !strings.Contains(err.Error(), "the engine has died") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("%v", err)
	}
}

// TestServerThatIsToldToStop before the task hears of it, as when a batch system
// stops both, has not failed.
func TestServerThatIsToldToStop(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{true, false} {
		f := newFixture(t, remote.VLLM)
		ctx, cancel := context.WithCancel(t.Context())
		client, _, err := f.startWithin(ctx, "told")
		if err != nil {
			t.Fatal(err)
		}
		if stopped {
			time.AfterFunc(500*time.Millisecond, cancel)
		}
		_, err = client.Generate(ctx, f.turns(1, policy.Sampling{}))
		if errors.Is(err, context.Canceled) != stopped || err == nil || (!stopped && !strings.Contains(err.Error(), "signal: terminated")) {
			t.Errorf("the task is stopped too: %v; error %v", stopped, err)
		}
		cancel()
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestStubbornServerIsKilled: one that does not end when it is told to.
func TestStubbornServerIsKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it waits for 8 s")
	}
	f := newFixture(t, remote.VLLM)
	client, _, err := f.start("stubborn")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < 5*time.Second {
		t.Errorf("it was killed after %s", took)
	}
}
