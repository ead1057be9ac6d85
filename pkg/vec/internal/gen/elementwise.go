package main

// The operands of an instruction are in the order of Go's assembler, which
// puts the destination last and otherwise reverses Intel's manual: VSUBPS b, a,
// c is c = a - b; VFMADD213PS c, b, a is a = b·a + c; VFMADD231PS b, c, a is
// a = c·b + a.

func add(k *kernel) {
	k.loop(func() {
		k.load("a", "V0")
		k.load("b", "V1")
		k.op("VADDPS V1, V0, V0")
		k.store("V0", "dst")
	})
}

func mul(k *kernel) {
	k.loop(func() {
		k.load("a", "V0")
		k.load("b", "V1")
		k.op("VMULPS V1, V0, V0")
		k.store("V0", "dst")
	})
}

func axpy(k *kernel) {
	k.loop(func() {
		k.load("y", "V0")
		k.load("x", "V1")
		k.op("VFMADD231PS V1, %s, V0", k.scalar("alpha"))
		k.store("V0", "y")
	})
}

func scale(k *kernel) {
	k.loop(func() {
		k.load("x", "V0")
		k.op("VMULPS %s, V0, V0", k.scalar("alpha"))
		k.store("V0", "dst")
	})
}

// silu leaves gate in V5, silu(gate) in V6 and 1 + exp(-gate) in V4.
func silu(k *kernel) {
	k.load("gate", "V5")
	k.op("VXORPS %s, V5, V0", k.constant("sign"))
	exp(k)
	k.op("VADDPS %s, V4, V4\nVDIVPS V4, V5, V6", k.constant("one"))
}

func swiGLU(k *kernel) {
	k.hoist()
	k.loop(func() {
		silu(k)
		k.load("up", "V0")
		k.op("VMULPS V0, V6, V6")
		k.store("V6", "dst")
	})
}

func swiGLUGrad(k *kernel) {
	k.hoist()
	k.loop(func() {
		silu(k)
		k.op("VMOVUPS %s, V2\nVDIVPS V4, V2, V1", k.constant("one")) // sigmoid
		k.op("VSUBPS V1, V2, V2\nVFMADD213PS %s, V5, V2", k.constant("one"))
		k.op("VMULPS V2, V1, V1") // slope
		k.load("up", "V0")
		k.load("dOut", "V3")
		k.op("VMULPS V0, V3, V0\nVMULPS V1, V0, V0\nVMULPS V6, V3, V3")
		k.store("V0", "dGate")
		k.store("V3", "dUp")
	})
}

func normApply(k *kernel) {
	k.loop(func() {
		k.load("x", "V0")
		k.load("weight", "V1")
		k.op("VMULPS %s, V0, V0\nVMULPS V1, V0, V0", k.scalar("rstd"))
		k.store("V0", "dst")
	})
}

func normWeightGrad(k *kernel) {
	k.loop(func() {
		k.load("x", "V0")
		k.load("dy", "V1")
		k.load("dWeight", "V2")
		k.op("VMULPS %s, V0, V0\nVFMADD231PS V0, V1, V2", k.scalar("rstd"))
		k.store("V2", "dWeight")
	})
}

// inputGrad leaves weight·dy - c·x in V0.
func inputGrad(k *kernel) {
	k.load("dy", "V0")
	k.load("weight", "V1")
	k.load("x", "V2")
	k.op("VMULPS V1, V0, V0\nVFNMADD231PS V2, %s, V0", k.scalar("c"))
}

func normInputGrad(k *kernel) {
	k.loop(func() {
		inputGrad(k)
		k.op("VMULPS %s, V0, V0", k.scalar("rstd"))
		k.store("V0", "dx")
	})
}

func normInputGradAdd(k *kernel) {
	k.loop(func() {
		inputGrad(k)
		k.load("dx", "V1")
		k.op("VFMADD213PS V1, %s, V0", k.scalar("rstd"))
		k.store("V0", "dx")
	})
}

// rotate rotates the pair (x0, x1) with first for x0 and second for x1.
func rotate(k *kernel, first, second string) {
	k.loop(func() {
		k.load("x0", "V0")
		k.load("x1", "V1")
		k.load("cos", "V2")
		k.load("sin", "V3")
		k.op("VMULPS V3, V1, V4\nVMULPS V3, V0, V3")
		k.op("%s V4, V2, V0\n%s V3, V2, V1", first, second)
		k.store("V0", "x0")
		k.store("V1", "x1")
	})
}

func rope(k *kernel) { rotate(k, "VFMSUB213PS", "VFMADD213PS") }

func ropeGrad(k *kernel) { rotate(k, "VFMADD213PS", "VFMSUB213PS") }

func softmaxGrad(k *kernel) {
	k.loop(func() {
		k.load("p", "V0")
		k.load("dp", "V1")
		k.op("VSUBPS %s, V1, V1", k.scalar("sum"))
		k.op("VMULPS V1, V0, V0\nVMULPS %s, V0, V0", k.scalar("scale"))
		k.store("V0", "dst")
	})
}

// adamW reads its scalars from the fields of adamWFactors.
func adamW(k *kernel) {
	k.scalars = []string{
		"gradScale", "beta1", "oneMinus1", "beta2", "oneMinus2", "rootScale", "eps", "decay", "negatedStep",
	}
	for i, name := range k.scalars {
		k.op("VBROADCASTSS %d(%s), %s", 4*i, tableRegister, k.scalar(name))
	}
	k.loop(func() {
		k.load("grad", "V0")
		k.load("m", "V1")
		k.load("v", "V3")
		k.op("VMULPS %s, V0, V0\nVMULPS %s, V0, V2", k.scalar("gradScale"), k.scalar("oneMinus1"))
		k.op("VFMADD213PS V2, %s, V1", k.scalar("beta1"))
		k.store("V1", "m")
		k.op("VMULPS %s, V0, V2\nVMULPS V0, V2, V2", k.scalar("oneMinus2"))
		k.op("VFMADD213PS V2, %s, V3", k.scalar("beta2"))
		k.store("V3", "v")
		k.op("VSQRTPS V3, V3\nVFMADD213PS %s, %s, V3", k.scalar("eps"), k.scalar("rootScale"))
		k.op("VDIVPS V3, V1, V1")
		k.load("w", "V0")
		k.op("VMULPS %s, V0, V0\nVFMADD231PS V1, %s, V0", k.scalar("decay"), k.scalar("negatedStep"))
		k.store("V0", "w")
	})
}
