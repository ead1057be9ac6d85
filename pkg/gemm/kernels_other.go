//go:build !amd64 || noasm

package gemm

const badNoAssembly = "gemm: no assembly in this build"

func tileAVX512(*tile) { panic(badNoAssembly) }

func tileAVX2(*tile) { panic(badNoAssembly) }

func tileAVX512BF16(*tile) { panic(badNoAssembly) }

func tileAVX2BF16(*tile) { panic(badNoAssembly) }

func tilePairsAVX512(*tile) { panic(badNoAssembly) }

func tilePairsAVX2(*tile) { panic(badNoAssembly) }

func tileAMX(*tile) { panic(badNoAssembly) }

func roundPairsAVX512(*uint16, *float32, int) { panic(badNoAssembly) }

func roundPairsAVX2(*uint16, *float32, int) { panic(badNoAssembly) }

func widenPairsAVX512(*float32, *uint16, int) { panic(badNoAssembly) }

func widenPairsAVX2(*float32, *uint16, int) { panic(badNoAssembly) }

func roundBlocksAVX512(*uint16, *float32, int, int) { panic(badNoAssembly) }

func transposeAVX512(_, _ *float32, _, _ int) { panic(badNoAssembly) }

func transposeAVX2(_, _ *float32, _, _ int) { panic(badNoAssembly) }

func copyRows16AVX512(_, _ *float32, _, _, _ int) { panic(badNoAssembly) }

func copyRows32AVX512(_, _ *float32, _, _, _ int) { panic(badNoAssembly) }

func copyRows8AVX2(_, _ *float32, _, _, _ int) { panic(badNoAssembly) }

func copyRows32AVX2(_, _ *float32, _, _, _ int) { panic(badNoAssembly) }
