//go:build !amd64 || noasm

package vec

// availableLevels lists the instruction sets of this build.
func availableLevels() []Level { return []Level{Go} }
