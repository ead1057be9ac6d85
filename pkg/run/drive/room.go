package drive

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// CheckRoom refuses to start a node that will write so many bytes into a run whose file
// system has fewer free. One that does not tell is no obstacle.
func CheckRoom(d graph.Dir, n graph.Node, bytes int64) error {
	var stat unix.Statfs_t
	if bytes == 0 || unix.Statfs(string(d), &stat) != nil || stat.Blocks == 0 { // as FUSE answers for whoever does not know
		return nil
	}
	free := stat.Bavail * uint64(stat.Bsize)
	if free >= uint64(bytes) {
		return nil
	}
	return WithRoomHint(exitcode.IOf("%s writes about %.3g MB, and the file system of %q has %.3g MB free", n, float64(bytes)/1e6, d, float64(free)/1e6), d)
}

// WithRoomHint adds to an error of a full disk how to make room in a run.
func WithRoomHint(err error, d graph.Dir) error {
	return exitcode.WithHint(err, "to make room: lathe prune %s --keep-every 10 deletes policy versions that no remaining task needs (schedule.keep_every does so in each iteration); then the same command resumes the run", d)
}

// IsFull reports whether an error's words are those of a full disk or quota.
func IsFull(message string) bool {
	return strings.Contains(message, unix.ENOSPC.Error()) || strings.Contains(message, unix.EDQUOT.Error())
}

// room says how much may still be written into a run.
func room(d graph.Dir) string {
	var stat unix.Statfs_t
	if err := unix.Statfs(string(d), &stat); err != nil {
		return fmt.Sprintf("%q cannot be looked at: %v", d, err)
	}
	return fmt.Sprintf("the file system of %q has %d bytes and %d names free", d, stat.Bavail*uint64(stat.Bsize), stat.Ffree)
}
