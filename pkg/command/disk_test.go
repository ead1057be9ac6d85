package command_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/await"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// small are settings that make the smoke recipe shorter, and still learn.
var small = []string{"evaluation.problems=4", "evaluation.samples=1", "evaluation.shards=1", "rollout.max_new_tokens=4"}

// volume mounts a file system of limited size that ends with the test.
func volume(t *testing.T, size int64) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount the small file system that this test fills")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("mounting the small file system that this test fills: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func remount(t *testing.T, dir string, flags uintptr, size int64) {
	t.Helper()
	await.Until(t, "no file of "+dir+" is being written, and it is mounted again", func() bool {
		return syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, fmt.Sprintf("size=%d", size)) == nil
	})
}

// used is the room that the files below a folder take, in whole pages.
func used(t *testing.T, dir string) int64 {
	t.Helper()
	const page = 4096
	var sum int64
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && !entry.IsDir() {
			sum += (info.Size() + page - 1) / page * page
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// A disk that fills up ends a run with exit code 74 and the name of the run's
// folder, at whatever stage. Nothing is half sealed, and with more room the
// run goes on to the same bytes.
func TestDiskFull(t *testing.T) {
	settings := slices.Concat(thorough, small, []string{"schedule.iterations=2", "loss.epochs=1"})
	reference := filepath.Join(t.TempDir(), "reference")
	lathe(t, exitcode.OK, runArgs(reference, smoke, settings...)...)
	want, need := essence(t, reference), used(t, reference)
	t.Logf("the run takes %d bytes", need)
	for _, percent := range []int64{0, 2, 10, 40, 70, 95} {
		t.Run(fmt.Sprintf("%d percent", percent), func(t *testing.T) {
			t.Parallel()
			room := max(4096, need*percent/100)
			mount := volume(t, room)
			dir := filepath.Join(mount, "run")
			args := runArgs(dir, smoke, settings...)
			e := lathe(t, exitcode.IO, args...)
			// A task may fail so that only its exit code gets out.
			cause := strings.Contains(e.stderr, "no space left") || strings.Contains(e.stderr, " bytes and ") ||
				strings.Contains(e.stderr, " MB free") // what a task writes has no room: it is not started
			if !strings.Contains(e.stderr, dir) || !cause {
				t.Errorf("the message does not name folder and cause:\n%s", e.stderr)
			}
			if lines := strings.Count(e.stderr, "\n"); lines > 30 {
				t.Errorf("%d lines of message:\n%s", lines, e.stderr)
			}
			halfSealed(t, dir)
			remount(t, mount, 0, 4*need)
			lathe(t, exitcode.OK, args...)
			clean(t, dir)
			if diff := cmp.Diff(want, essence(t, dir)); diff != "" {
				t.Errorf("digests (-reference +after a full disk):\n%s", diff)
			}
		})
	}
}

// halfSealed checks that lathe verify finds no damage in a run that was cut
// short, at most files without a manifest.
func halfSealed(t *testing.T, dir string) {
	t.Helper()
	e := execute(t, nil, "lathe", "verify", "--json", dir)
	if e.code == exitcode.Data && strings.Contains(e.stderr, "is not a run") {
		return // it ended before there was one
	}
	var v verify.Verification
	if err := json.Unmarshal([]byte(e.stdout), &v); err != nil {
		t.Fatalf("lathe verify: %v\n%s%s", err, e.stdout, e.stderr)
	}
	for _, fault := range v.Faults {
		if !strings.Contains(fault.Problem, "not sealed") {
			t.Errorf("%s: %s", fault.Path, fault.Problem)
		}
	}
}

// A folder that turns read-only ends a run with exit code 74, at the start
// and in the middle.
func TestReadOnly(t *testing.T) {
	settings := slices.Concat(thorough, small)
	const room = 64 << 20
	mount := volume(t, room)
	dir := filepath.Join(mount, "run")
	args := runArgs(dir, smoke, settings...)

	remount(t, mount, syscall.MS_RDONLY, room)
	e := lathe(t, exitcode.IO, args...)
	if !strings.Contains(e.stderr, dir) || !strings.Contains(e.stderr, "read-only") {
		t.Errorf("the message does not name folder and cause:\n%s", e.stderr)
	}

	remount(t, mount, 0, room)
	code, stderr := stopAfter(t, 300*time.Millisecond, args...)
	if code != exitcode.Stopped {
		t.Fatalf("exit code %d of a run that was stopped\n%s", code, stderr)
	}
	remount(t, mount, syscall.MS_RDONLY, room)
	e = lathe(t, exitcode.IO, args...)
	if !strings.Contains(e.stderr, dir) || !strings.Contains(e.stderr, "read-only") {
		t.Errorf("the message does not name folder and cause:\n%s", e.stderr)
	}
	// Reading is still possible.
	lathe(t, exitcode.OK, "status", dir)
	lathe(t, exitcode.OK, "verify", dir)

	remount(t, mount, 0, room)
	turn := time.AfterFunc(200*time.Millisecond, func() {
		for syscall.Mount("tmpfs", mount, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, fmt.Sprintf("size=%d", room)) != nil {
			time.Sleep(time.Millisecond) // a file is being written
		}
	})
	defer turn.Stop()
	e = lathe(t, exitcode.IO, args...)
	if !strings.Contains(e.stderr, dir) {
		t.Errorf("the message does not name the folder:\n%s", e.stderr)
	}
	t.Logf("read-only under way:\n%s", e.stderr)

	remount(t, mount, 0, room)
	lathe(t, exitcode.OK, args...)
	clean(t, dir)

	// A finished run that cannot be written to, such as another user's, is still done. Its
	// report can be made elsewhere, whether its metrics are sealed or not.
	metrics := commandtest.Open(t, dir).Dir.Metrics(1)
	must.Do(t, os.Remove(seal.ManifestPath(metrics)))
	remount(t, mount, syscall.MS_RDONLY, room)
	for _, command := range []string{"report", "gpu-report"} {
		if e := lathe(t, exitcode.IO, command, dir); !strings.Contains(e.stderr, "hint: --out FOLDER writes the report elsewhere") {
			t.Errorf("%s does not say how:\n%s", command, e.stderr)
		}
		lathe(t, exitcode.OK, command, dir, "--out", t.TempDir())
	}
	lathe(t, exitcode.OK, "compare", dir, "--measure", "buffer/groups", "--resamples", "10")
	lathe(t, exitcode.OK, "export", dir, "--csv", "-")
	remount(t, mount, 0, room)
}
