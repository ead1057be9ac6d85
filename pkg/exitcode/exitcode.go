// Package exitcode gives every Lathe binary the same exit codes and the same
// three kinds of error message: usage, data and bug.
//
// A function that knows what went wrong returns an error of the right kind;
// main maps it to a process exit code with [Code] and prints it with
// [Message]. Nothing else in Lathe calls os.Exit.
package exitcode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// The exit codes of every Lathe binary. 2 is left to the Go runtime, which
// uses it for a panic outside the main goroutine.
const (
	OK          = 0  // done, or already done
	Failed      = 1  // failed for a reason that none of the codes below names
	LeftOut     = 3  // finished, with shards left out
	Usage       = 64 // wrong usage or recipe
	Data        = 65 // bad or corrupt input
	Unavailable = 69 // something needed is missing: no GPU, no sbatch, no python3
	Bug         = 70 // our bug
	IO          = 74 // disk full, permission denied, read-only file system
	Stopped     = 75 // stopped by a signal after sealing what was finished: run again
)

// Error is an error that carries the exit code of the process it ends and,
// where there is one, a way out for the person who reads it.
type Error struct {
	Code int
	Err  error
	Hint string // what to do next; empty when the message says it all
	only bool   // the hints of Err do not help here
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

func newError(code int, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// Usagef reports an invalid command line or recipe.
func Usagef(format string, args ...any) error { return newError(Usage, format, args...) }

// Dataf reports an input file that is damaged, foreign or out of range. The
// message names the file and, where they are known, row and column.
func Dataf(format string, args ...any) error { return newError(Data, format, args...) }

// Unavailablef reports something needed that this machine does not have.
func Unavailablef(format string, args ...any) error { return newError(Unavailable, format, args...) }

// Bugf reports a state that only a mistake in Lathe can produce.
func Bugf(format string, args ...any) error { return newError(Bug, format, args...) }

// IOf reports an I/O error.
func IOf(format string, args ...any) error { return newError(IO, format, args...) }

// Stoppedf reports work cut short by a signal with everything finished sealed.
func Stoppedf(format string, args ...any) error { return newError(Stopped, format, args...) }

// LeftOutf reports work that finished without some of its shards.
func LeftOutf(format string, args ...any) error { return newError(LeftOut, format, args...) }

// WithHint adds a way out to err. The exit code of err is kept.
func WithHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Error{Code: Code(err), Err: err, Hint: fmt.Sprintf(format, args...)}
}

// OnlyHint gives err one way out in the place of those that it has: what made
// the error did not know what the file is to the caller.
func OnlyHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Error{Code: Code(err), Err: err, Hint: fmt.Sprintf(format, args...), only: true}
}

// Code maps an error to the exit code of the process. An error of no known
// kind is [Failed]; a full disk or a refused write anywhere in the chain is
// [IO]; a cancelled context is [Stopped].
func Code(err error) int {
	if err == nil {
		return OK
	}
	var coded *Error
	if errors.As(err, &coded) {
		return coded.Code
	}
	switch {
	case errors.Is(err, context.Canceled):
		return Stopped
	case isIO(err):
		return IO
	}
	return Failed
}

func isIO(err error) bool {
	if errors.Is(err, fs.ErrPermission) {
		return true
	}
	for _, errno := range []syscall.Errno{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EFBIG, syscall.EMFILE, syscall.ENFILE,
		// What a file server that went away, or that replaced a file, answers; and a damaged file system.
		syscall.ESTALE, syscall.EREMOTEIO, syscall.EUCLEAN,
	} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// Hints returns every hint on the chain of err, outermost first, those of
// joined errors in their order.
func Hints(err error) []string {
	var hints []string
	for err != nil {
		if coded, ok := err.(*Error); ok && coded.Hint != "" {
			hints = append(hints, coded.Hint)
			if coded.only {
				return hints
			}
		}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, one := range joined.Unwrap() {
				hints = append(hints, Hints(one)...)
			}
			return hints
		}
		err = errors.Unwrap(err)
	}
	return hints
}

// Message is what a person reads on standard error: the error, then one
// indented line for each hint.
func Message(program string, err error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v\n", program, err)
	for _, hint := range Hints(err) {
		fmt.Fprintf(&b, "  hint: %s\n", hint)
	}
	return b.String()
}
