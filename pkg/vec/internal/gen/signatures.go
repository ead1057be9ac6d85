package main

// A signature is the Go side of one kernel. The kernel is emitted once per
// instruction set, its name followed by AVX512 or AVX2.
type signature struct {
	name   string
	params string // as in the Go declaration
	result string // result type, "" for none
	body   func(*kernel)
}

// signatures lists the kernels in the order of the generated files.
var signatures = []signature{
	{"add", "dst, a, b *float32, n int", "", add},
	{"mul", "dst, a, b *float32, n int", "", mul},
	{"axpy", "y, x *float32, n int, alpha float32", "", axpy},
	{"scale", "dst, x *float32, n int, alpha float32", "", scale},
	{"sum", "x *float32, n int", "float32", sum},
	{"dot", "a, b *float32, n int", "float32", dot},
	{"dotThree", "a, b, c *float32, n int", "float32", dotThree},
	{"sumSquares", "x *float32, n int", "float64", sumSquares},
	{"max", "x *float32, n int", "float32", maximum},
	{"expShiftSum", "dst, x *float32, n int, scale, shift float32", "float32", expShiftSum},
	{"swiGLU", "dst, gate, up *float32, n int", "", swiGLU},
	{"swiGLUGrad", "dGate, dUp, dOut, gate, up *float32, n int", "", swiGLUGrad},
	{"normApply", "dst, x, weight *float32, n int, rstd float32", "", normApply},
	{"normWeightGrad", "dWeight, dy, x *float32, n int, rstd float32", "", normWeightGrad},
	{"normInputGrad", "dx, dy, x, weight *float32, n int, rstd, c float32", "", normInputGrad},
	{"normInputGradAdd", "dx, dy, x, weight *float32, n int, rstd, c float32", "", normInputGradAdd},
	{"rope", "x0, x1, cos, sin *float32, n int", "", rope},
	{"ropeGrad", "x0, x1, cos, sin *float32, n int", "", ropeGrad},
	{"softmaxGrad", "dst, p, dp *float32, n int, sum, scale float32", "", softmaxGrad},
	{"widen", "dst *float32, src *uint16, n int", "", widen},
	{"round", "dst *uint16, src *float32, n int", "", round},
	{"roundRandomly", "dst *uint16, src *float32, random *uint16, n int", "", roundRandomly},
	{"randomHalves", "low, high, next *uint32, n int, f *philoxTable", "", randomHalves},
	{"adamW", "w, m, v, grad *float32, n int, f *adamWFactors", "", adamW},
}
