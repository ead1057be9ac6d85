//go:build amd64 && !noasm

package vec

import "golang.org/x/sys/cpu"

// availableLevels lists the instruction sets of this machine, widest first.
func availableLevels() []Level {
	levels := make([]Level, 0, len(levelNames))
	avx2 := cpu.X86.HasAVX2 && cpu.X86.HasFMA
	if avx2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL {
		levels = append(levels, AVX512)
	}
	if avx2 {
		levels = append(levels, AVX2)
	}
	return append(levels, Go)
}
