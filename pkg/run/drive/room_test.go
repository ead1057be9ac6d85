package drive_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// TestCheckRoom: no disk has an exabyte, and each has a byte.
func TestCheckRoom(t *testing.T) {
	t.Parallel()
	d, n := graph.Dir(t.TempDir()), graph.Node{Stage: graph.StageLearn, Iteration: 7}
	for _, bytes := range []int64{0, 1} {
		if err := drive.CheckRoom(d, n, bytes); err != nil {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
	err := drive.CheckRoom(d, n, 1<<60)
	if exitcode.Code(err) != exitcode.IO || !strings.Contains(err.Error(), "learn-000007 writes about 1.15e+12 MB") {
		t.Errorf("an exabyte: %v", err)
	}
	// What is free is as the file system says, but for what others write meanwhile.
	var stat unix.Statfs_t
	if err := unix.Statfs(string(d), &stat); err != nil {
		t.Fatal(err)
	}
	var free float64
	_, after, _ := strings.Cut(err.Error(), " has ")
	if _, err := fmt.Sscanf(after, "%g MB free", &free); err != nil {
		t.Fatal(err)
	}
	if want := float64(stat.Bavail) * float64(stat.Bsize) / 1e6; free < 0.9*want || free > 1.1*want {
		t.Errorf("%g MB are free, want about %g", free, want)
	}
	if said := strings.Join(exitcode.Hints(err), ""); !strings.Contains(said, "lathe prune") || !strings.Contains(said, "schedule.keep_every") {
		t.Errorf("the hint is %q", said)
	}
	for _, silent := range []graph.Dir{graph.Dir(d.Join("nowhere")), "/proc"} { // which has no blocks at all
		if err := drive.CheckRoom(silent, n, 1<<60); err != nil {
			t.Errorf("a file system that does not tell: %v", err)
		}
	}
	if !drive.IsFull("write x: no space left on device") || !drive.IsFull(errors.New("disk quota exceeded").Error()) || drive.IsFull("permission denied") {
		t.Error("a full disk is not told from others")
	}
}
