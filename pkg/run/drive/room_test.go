package drive_test

import (
	"errors"
	"strings"
	"testing"

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
	if said := strings.Join(exitcode.Hints(err), ""); !strings.Contains(said, "lathe prune") || !strings.Contains(said, "schedule.keep_every") {
		t.Errorf("the hint is %q", said)
	}
	if !drive.IsFull("write x: no space left on device") || !drive.IsFull(errors.New("disk quota exceeded").Error()) || drive.IsFull("permission denied") {
		t.Error("a full disk is not told from others")
	}
}
