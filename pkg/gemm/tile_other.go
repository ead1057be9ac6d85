package gemm

const badNoAsm = "gemm: no assembly in this build"

func tileAVX512(*tile) { panic(badNoAsm) }

func tileAVX2(*tile) { panic(badNoAsm) }
