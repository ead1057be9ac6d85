package vec

const badNoAsm = "vec: no assembly in this build"

func addAVX512(dst, a, b *float32, n int)                                       { panic(badNoAsm) }
func addAVX2(dst, a, b *float32, n int)                                         { panic(badNoAsm) }
func mulAVX512(dst, a, b *float32, n int)                                       { panic(badNoAsm) }
func mulAVX2(dst, a, b *float32, n int)                                         { panic(badNoAsm) }
func axpyAVX512(y, x *float32, n int, alpha float32)                            { panic(badNoAsm) }
func axpyAVX2(y, x *float32, n int, alpha float32)                              { panic(badNoAsm) }
func scaleAVX512(dst, x *float32, n int, alpha float32)                         { panic(badNoAsm) }
func scaleAVX2(dst, x *float32, n int, alpha float32)                           { panic(badNoAsm) }
func sumAVX512(x *float32, n int) float32                                       { panic(badNoAsm) }
func sumAVX2(x *float32, n int) float32                                         { panic(badNoAsm) }
func dotAVX512(a, b *float32, n int) float32                                    { panic(badNoAsm) }
func dotAVX2(a, b *float32, n int) float32                                      { panic(badNoAsm) }
func dotThreeAVX512(a, b, c *float32, n int) float32                            { panic(badNoAsm) }
func dotThreeAVX2(a, b, c *float32, n int) float32                              { panic(badNoAsm) }
func sumSquaresAVX512(x *float32, n int) float64                                { panic(badNoAsm) }
func sumSquaresAVX2(x *float32, n int) float64                                  { panic(badNoAsm) }
func maxAVX512(x *float32, n int) float32                                       { panic(badNoAsm) }
func maxAVX2(x *float32, n int) float32                                         { panic(badNoAsm) }
func expShiftSumAVX512(dst, x *float32, n int, scale, shift float32) float32    { panic(badNoAsm) }
func expShiftSumAVX2(dst, x *float32, n int, scale, shift float32) float32      { panic(badNoAsm) }
func swiGLUAVX512(dst, gate, up *float32, n int)                                { panic(badNoAsm) }
func swiGLUAVX2(dst, gate, up *float32, n int)                                  { panic(badNoAsm) }
func swiGLUGradAVX512(dGate, dUp, dOut, gate, up *float32, n int)               { panic(badNoAsm) }
func swiGLUGradAVX2(dGate, dUp, dOut, gate, up *float32, n int)                 { panic(badNoAsm) }
func normApplyAVX512(dst, x, weight *float32, n int, rstd float32)              { panic(badNoAsm) }
func normApplyAVX2(dst, x, weight *float32, n int, rstd float32)                { panic(badNoAsm) }
func normWeightGradAVX512(dWeight, dy, x *float32, n int, rstd float32)         { panic(badNoAsm) }
func normWeightGradAVX2(dWeight, dy, x *float32, n int, rstd float32)           { panic(badNoAsm) }
func normInputGradAVX512(dx, dy, x, weight *float32, n int, rstd, c float32)    { panic(badNoAsm) }
func normInputGradAVX2(dx, dy, x, weight *float32, n int, rstd, c float32)      { panic(badNoAsm) }
func normInputGradAddAVX512(dx, dy, x, weight *float32, n int, rstd, c float32) { panic(badNoAsm) }
func normInputGradAddAVX2(dx, dy, x, weight *float32, n int, rstd, c float32)   { panic(badNoAsm) }
func ropeAVX512(x0, x1, cos, sin *float32, n int)                               { panic(badNoAsm) }
func ropeAVX2(x0, x1, cos, sin *float32, n int)                                 { panic(badNoAsm) }
func ropeGradAVX512(x0, x1, cos, sin *float32, n int)                           { panic(badNoAsm) }
func ropeGradAVX2(x0, x1, cos, sin *float32, n int)                             { panic(badNoAsm) }
func softmaxGradAVX512(dst, p, dp *float32, n int, sum, scale float32)          { panic(badNoAsm) }
func softmaxGradAVX2(dst, p, dp *float32, n int, sum, scale float32)            { panic(badNoAsm) }
func adamWAVX512(w, m, v, g *float32, n int, f *adamWFactors)                   { panic(badNoAsm) }
func adamWAVX2(w, m, v, g *float32, n int, f *adamWFactors)                     { panic(badNoAsm) }
