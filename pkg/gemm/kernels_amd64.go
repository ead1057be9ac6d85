//go:build amd64 && !noasm

package gemm

//go:generate go run ./internal/gen

// The tile kernels compute one tile; see runTile.

//go:noescape
func tileAVX512(t *tile)

//go:noescape
func tileAVX2(t *tile)

//go:noescape
func tileAVX512BF16(t *tile)

//go:noescape
func tileAVX2BF16(t *tile)

//go:noescape
func tilePairsAVX512(t *tile)

//go:noescape
func tilePairsAVX2(t *tile)

//go:noescape
func tileAMX(t *tile)

// The kernels that convert pairs; see roundPairs and widenPairs. pairs must not be
// zero.

//go:noescape
func roundPairsAVX512(dst *uint16, src *float32, pairs int)

//go:noescape
func roundPairsAVX2(dst *uint16, src *float32, pairs int)

//go:noescape
func widenPairsAVX512(dst *float32, src *uint16, pairs int)

//go:noescape
func widenPairsAVX2(dst *float32, src *uint16, pairs int)

// roundBlocksAVX512 rounds blocks of 32 values to bfloat16, and lays them step bytes
// apart. blocks must not be zero.
//
//go:noescape
func roundBlocksAVX512(dst *uint16, src *float32, step, blocks int)

// The transpose kernels set dst[k·32 + j] = src[j·stride + k] for j < 16 and
// k < 4·quads. quads must not be zero.

//go:noescape
func transposeAVX512(dst, src *float32, stride, quads int)

//go:noescape
func transposeAVX2(dst, src *float32, stride, quads int)

// The copy kernels set dst[k·slot + j] = src[k·stride + j] for k < depth and
// j < width, and 0 for width ≤ j < slot, where slot is the number in the name.
// depth must not be zero.

//go:noescape
func copyRows16AVX512(dst, src *float32, stride, depth, width int)

//go:noescape
func copyRows32AVX512(dst, src *float32, stride, depth, width int)

//go:noescape
func copyRows8AVX2(dst, src *float32, stride, depth, width int)

//go:noescape
func copyRows32AVX2(dst, src *float32, stride, depth, width int)
