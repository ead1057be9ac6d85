package status_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/status"
	"github.com/lathe-rl/lathe/pkg/run/worker"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// hanging is a reward that waits while there is a pipe: until somebody opens it.
const hanging = `
import os
def reward(completion):
    if os.path.exists(%[1]q):
        open(%[1]q).close()
    return 0.5
`

// TestHangingReward: a reward that does not return is named in the run's status and in
// its task's log while it hangs, and no more once it has returned.
func TestHangingReward(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	opened := runtest.OwnReward(t, fmt.Sprintf(hanging, pipe), "env.program.processes=1", "env.program.seconds=600", "rollout.prompts=1", "rollout.group=2")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	slow := make(chan struct{})
	once := sync.OnceFunc(func() { close(slow) })
	w := worker.New(opened, seal.AttemptFromEnv(), "test", func(format string, args ...any) {
		if strings.Contains(fmt.Sprintf(format, args...), "reward.py has not answered a request to score") {
			once()
		}
	})
	w.Threads, w.SlowAfter = 1, time.Nanosecond
	do := func(n graph.Node) error { return w.Do(t.Context(), graph.Task{Node: n}) }
	for _, n := range []graph.Node{opened.Graph.LastLearn(0), {Stage: graph.StageBuffer}, runtest.Node(graph.StageRollout, 1)} {
		if err := do(n); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- do(runtest.Node(graph.StageScore, 1)) }()
	select {
	case <-slow:
	case err := <-ended:
		t.Fatalf("the task ended before its reward: %v", err)
	}
	shown := func() string {
		s, err := status.Read(t.Context(), opened, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := s.Print(&text); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	if text := shown(); !strings.Contains(text, "score-000001-00000 waits on ") || !strings.Contains(text, "reward.py has not answered a request to score") || !strings.Contains(text, "(env.program.seconds, for each item)") {
		t.Errorf("while the reward hangs:\n%s", text)
	}
	f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if text := shown(); strings.Contains(text, "waits on") {
		t.Errorf("after the reward has returned:\n%s", text)
	}
}
