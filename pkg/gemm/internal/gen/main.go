// Command gen writes the assembly of package gemm.
//
// Usage: gen [directory], the directory of package gemm by default.
package main

import "github.com/lathe-rl/lathe/pkg/internal/asm"

func main() { asm.Main(generate) }

// generate makes the files by name.
func generate() (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, emit := range map[string]func(*asm.File){
		"tile_avx512_amd64.s":      func(w *asm.File) { tileAVX512(w, float32s) },
		"tile_avx2_amd64.s":        func(w *asm.File) { tileAVX2(w, float32s) },
		"tile_bf16_avx512_amd64.s": func(w *asm.File) { tileAVX512(w, bfloat16s) },
		"tile_bf16_avx2_amd64.s":   func(w *asm.File) { tileAVX2(w, bfloat16s) },
		"pairs_avx512_amd64.s":     pairs512,
		"pairs_avx2_amd64.s":       pairs256,
		"amx_amd64.s":              amx,
		"pack_amd64.s":             packing,
	} {
		w := asm.NewFile("go_asm.h", "textflag.h")
		emit(w)
		files[name] = w.Bytes()
	}
	return files, nil
}
