package exitcode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCode(t *testing.T) {
	t.Parallel()
	plain := errors.New("plain")
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nil", nil, 0},
		{"an error of no kind", plain, 1},
		{"left out", LeftOutf("x"), 3},
		{"usage", Usagef("x"), 64},
		{"data", Dataf("x"), 65},
		{"unavailable", Unavailablef("x"), 69},
		{"bug", Bugf("x"), 70},
		{"io", IOf("x"), 74},
		{"stopped", Stoppedf("x"), 75},
		{"wrapped", fmt.Errorf("reading: %w", Dataf("x")), 65},
		{"wrapped twice: the outer kind counts", Usagef("recipe: %w", Dataf("x")), 64},
		{"joined", errors.Join(plain, Dataf("x")), 65},
		{"cancelled", fmt.Errorf("waiting: %w", context.Canceled), 75},
		{"a deadline is no signal", context.DeadlineExceeded, 1},
		{"disk full", &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, 74},
		{"a stale handle of NFS", &fs.PathError{Op: "read", Path: "x", Err: syscall.ESTALE}, 74},
		{"quota", fmt.Errorf("x: %w", syscall.EDQUOT), 74},
		{"read-only", &os.LinkError{Op: "link", Err: syscall.EROFS}, 74},
		{"broken disk", syscall.EIO, 74},
		{"file too large", syscall.EFBIG, 74},
		{"too many open files", syscall.EMFILE, 74},
		{"permission by errno", syscall.EACCES, 74},
		{"permission by kind", fs.ErrPermission, 74},
		{"no such file", fs.ErrNotExist, 1},
		{"a kind outweighs its cause", Dataf("x: %w", syscall.EACCES), 65},
		{"end of file", io.EOF, 1},
	} {
		if got := Code(c.err); got != c.want {
			t.Errorf("%s: Code(%v) = %d, want %d", c.name, c.err, got, c.want)
		}
	}
}

func TestErrorKeepsItsCause(t *testing.T) {
	t.Parallel()
	err := Dataf("reading %q: %w", "x.parquet", io.ErrUnexpectedEOF)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("the cause is lost")
	}
	if got, want := err.Error(), `reading "x.parquet": unexpected EOF`; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	if WithHint(nil, "x") != nil {
		t.Error("a hint makes an error of none")
	}
	err := WithHint(Dataf("bad row %d", 3), "look at column %s", "reward")
	err = WithHint(fmt.Errorf("scoring: %w", err), "run it again")
	if got := Code(err); got != Data {
		t.Errorf("a hint changes the code to %d", got)
	}
	if got, want := err.Error(), "scoring: bad row 3"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if got, want := Hints(err), []string{"run it again", "look at column reward"}; !cmp.Equal(got, want) {
		t.Errorf("Hints = %q, want %q", got, want)
	}
	if got, want := Message("lathe-score", err), "lathe-score: scoring: bad row 3\n  hint: run it again\n  hint: look at column reward\n"; got != want {
		t.Errorf("Message = %q, want %q", got, want)
	}
	if got := Hints(errors.New("plain")); got != nil {
		t.Errorf("hints of an error without: %q", got)
	}
	if got := Code(WithHint(syscall.ENOSPC, "make room")); got != IO {
		t.Errorf("a hint on a full disk gives code %d", got)
	}
}

// A hint below errors.Join is a hint like any other.
func TestHintsBelowJoin(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("two shards: %w", errors.Join(WithHint(Dataf("a"), "mend a"), WithHint(Dataf("b"), "mend b")))
	if got, want := Hints(err), []string{"mend a", "mend b"}; !cmp.Equal(got, want) {
		t.Errorf("Hints = %q, want %q", got, want)
	}
}

// An only hint stands in the place of those below it, and not of those above.
func TestOnlyHint(t *testing.T) {
	t.Parallel()
	if OnlyHint(nil, "x") != nil {
		t.Error("a hint makes an error of none")
	}
	cause := errors.New("cause")
	err := OnlyHint(fmt.Errorf("reading: %w", WithHint(Dataf("x: %w", cause), "remove it")), "make %s again", "it")
	if got, want := Hints(WithHint(err, "or ask")), []string{"or ask", "make it again"}; !cmp.Equal(got, want) {
		t.Errorf("Hints = %q, want %q", got, want)
	}
	if Code(err) != Data || !errors.Is(err, cause) || err.Error() != "reading: x: cause" {
		t.Errorf("the error is now of code %d: %v", Code(err), err)
	}
}
