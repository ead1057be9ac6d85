//go:build !amd64 || noasm

package gemm

// MatrixUnits says whether products in bfloat16 use the CPU's matrix units, and if not,
// why.
func MatrixUnits() (on bool, why string) { return false, badNoAssembly }
