package seal

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// TestStaleHandle: a file whose server has replaced it is opened again a few times, and
// one that stays stale is an I/O error, not damage and not missing.
func TestStaleHandle(t *testing.T) {
	t.Parallel()
	for fails, want := range map[int]int{0: exitcode.OK, staleTries: exitcode.OK, staleTries + 1: exitcode.IO} {
		tries := 0
		err := patiently(t.Context(), "x", Options{}, func() error {
			if tries++; tries <= fails {
				return &fs.PathError{Op: "read", Path: "x", Err: syscall.ESTALE}
			}
			return nil
		})
		if exitcode.Code(err) != want || tries != min(fails, staleTries)+1 {
			t.Errorf("stale %d times: tried %d times, exit code %d, want %d: %v", fails, tries, exitcode.Code(err), want, err)
		}
	}
}
