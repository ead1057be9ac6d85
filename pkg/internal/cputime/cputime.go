// Package cputime measures for tests what a piece of work costs: the seconds that processors
// spend on it, which do not grow while a machine is busy with other work.
package cputime

import (
	"syscall"
	"testing"
	"time"
)

// Spent is the processor time that this process has used so far. With children it has
// that of processes that it started and that have ended.
func Spent(t testing.TB, children bool) time.Duration {
	t.Helper()
	sum := used(t, syscall.RUSAGE_SELF)
	if children {
		sum += used(t, syscall.RUSAGE_CHILDREN)
	}
	return sum
}

func used(t testing.TB, whose int) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(whose, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
