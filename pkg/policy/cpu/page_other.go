//go:build !amd64 || noasm

package cpu

// scoreRows reports that there is no kernel.
func scoreRows(_ []float32, _ int, _ []float32, _, _ int, _ []float32, _ int) bool { return false }

// mixRows reports that there is no kernel.
func mixRows(_, _ []float32, _, _, _ int, _ []float32, _ int) bool { return false }
