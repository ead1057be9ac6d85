//go:build !amd64 || noasm

package forkjoin

import "runtime"

// pause lets another goroutine run.
func pause() { runtime.Gosched() }
