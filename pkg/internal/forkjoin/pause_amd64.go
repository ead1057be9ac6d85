//go:build !noasm

package forkjoin

// pause tells the processor that this is a loop that waits.
//
//go:noescape
func pause()
