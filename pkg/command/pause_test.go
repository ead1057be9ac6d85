package command_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/await"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// TestPauseForeground holds a run that a driver carries in the foreground: the
// driver leaves by itself, or is killed, and the same command goes on.
func TestPauseForeground(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	run := runArgs(dir, smoke, "warm_start.steps=2100", "warm_start.chunk=700", "schedule.iterations=1")
	// attempts are the warm start's so far. Its tasks take seconds; one that stops
	// for a pause or a kill is attempted again.
	attempts := func() int {
		found, err := filepath.Glob(filepath.Join(dir, "logs", "warm-*.log"))
		must.Do(t, err)
		return len(found)
	}
	// start starts the driver and waits for its first attempt of a warm start: brief
	// tasks go first, and what has not started when a pause comes does not start.
	start := func() (ended chan error, talk *bytes.Buffer) {
		t.Helper()
		before := attempts()
		talk = &bytes.Buffer{}
		driver := exec.Command("lathe", run...)
		driver.Stderr = talk
		if err := driver.Start(); err != nil {
			t.Fatal(err)
		}
		ended = make(chan error, 1)
		go func() { ended <- driver.Wait() }()
		await.Until(t, "the warm start goes on", func() bool { return attempts() > before })
		return ended, talk
	}

	ended, talk := start()
	lathe(t, 0, "pause", dir)
	if code := exitCode(<-ended); code != 75 || !strings.Contains(talk.String(), "was paused by ") {
		t.Errorf("paused, the driver ends with exit code %d:\n%s", code, talk)
	}
	if _, err := os.Stat(filepath.Join(dir, "warm", "000001.json")); err != nil {
		t.Errorf("what ran did not come to its end: %v", err)
	}
	if e := lathe(t, 0, "status", dir); !strings.Contains(e.stdout, "pending") || !strings.Contains(e.stdout, "paused by ") {
		t.Errorf("status says\n%s", e.stdout)
	}

	ended, talk = start()
	if e := lathe(t, 0, "cancel", dir); !strings.Contains(e.stdout, "the driver has exited") {
		t.Errorf("cancel says\n%s", e.stdout)
	}
	if code := exitCode(<-ended); code != 75 || !strings.Contains(talk.String(), "was cancelled by ") || !strings.Contains(talk.String(), "and is now resumed") {
		t.Errorf("cancelled, the driver ends with exit code %d:\n%s", code, talk)
	}

	ended, _ = start()
	if e := lathe(t, 0, "cancel", "--now", dir); !strings.Contains(e.stdout, "killed the driver: process ") {
		t.Errorf("cancel --now says\n%s", e.stdout)
	}
	if err := <-ended; err == nil || err.Error() != "signal: killed" {
		t.Errorf("killed, the driver ends with %v", err)
	}
	if e := lathe(t, 64, "cancel", "--stage", "rolout", dir); !strings.Contains(e.stderr, `stage "rolout" is not one of`) {
		t.Errorf("cancel of no stage says\n%s", e.stderr)
	}
	lathe(t, 0, run...)
	clean(t, dir)
}
