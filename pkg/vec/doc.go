// Package vec has the element-wise, reduction and row kernels of the CPU
// engine, for float32 slices.
//
// # Same bytes everywhere
//
// Every function returns the same bits whatever the instruction set that runs
// it: AVX-512, AVX2 with FMA, or pure Go. To that end
//
//   - an element-wise kernel applies one fixed sequence of IEEE-754 operations
//     and fused multiply-adds to each element, uses true division and square
//     root, and evaluates exp by one polynomial with a fixed order;
//   - a reduction keeps 16 partial results, element i going to partial i mod 16
//     in ascending order, and adds these in one order (see [Sum]);
//   - the pure Go twins round each fused multiply-add once, like the hardware
//     (see [FMA]).
//
// NaN results appear at the same places on every instruction set; the payload
// of a NaN is not part of the contract.
//
// # Slices
//
// A slice is one vector of n elements: a row of a matrix, or all of its
// elements where rows do not matter. Slices of one call have the same length
// unless the function says otherwise.
//
// Lengths may be anything, zero included, and slices need no alignment. A
// length mismatch is a programming error and panics. An output may be the same
// slice as an input; partial overlap is not allowed.
//
// # Choosing the instruction set
//
// The widest instruction set of the machine is chosen when the program starts.
// The environment variable LATHE_ISA (avx512, avx2 or go) overrides the choice,
// and [EachISA] goes through all of them. Builds with the tag noasm, and builds for other
// architectures than amd64, have pure Go only.
package vec

//go:generate go run ./internal/gen
