package cmdline

import (
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// What the umask leaves is kept, the world has nothing, and the group writes only
// when a mask that is given says so.
func TestRestrictModes(t *testing.T) {
	before := syscall.Umask(0)
	defer syscall.Umask(before)
	for _, c := range []struct {
		given     string
		was, want int // -1: refused
	}{
		{"", 0o000, 0o027},
		{"", 0o002, 0o027},
		{"", 0o022, 0o027},
		{"", 0o077, 0o077},
		{"007", 0o022, 0o007},
		{"0077", 0o022, 0o077},
		{"022", 0o077, 0o022},
		{"000", 0o022, -1},
		{"005", 0o022, -1},
		{"8", 0o022, -1},
		{"group", 0o022, -1},
	} {
		syscall.Umask(c.was)
		err := restrictModes(c.given)
		switch is := syscall.Umask(0); {
		case c.want < 0 && (exitcode.Code(err) != exitcode.Usage || is != c.was):
			t.Errorf("%q: umask %03o, %v", c.given, is, err)
		case c.want >= 0 && (err != nil || is != c.want):
			t.Errorf("%q with umask %03o: %03o, want %03o (%v)", c.given, c.was, is, c.want, err)
		}
	}
}
