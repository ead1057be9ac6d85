package main

// clearAccumulators zeroes count accumulators of every part.
func clearAccumulators(k *kernel, count int) {
	for k.part = range k.parts {
		for i := range count {
			a := k.accumulator(i)
			if k.wide() {
				k.op("VPXORD %s, %s, %s", a, a, a)
			} else {
				k.op("VXORPS %s, %s, %s", a, a, a)
			}
		}
	}
	k.part = 0
}

// reduceLanes reduces the 16 partial results into the first lane of X0. instruction is
// VADDPS or VMAXPS; the maximum needs the lower half as the first operand.
func reduceLanes(k *kernel, instruction string) {
	if k.wide() {
		k.op("VEXTRACTF64X4 $1, %s, Y1", k.accumulator(0))
		k.op("VMOVAPS %s, V0", k.accumulator(0))
	} else {
		k.op("VMOVAPS %s, V0", k.accumulator(0))
		k.part = 1
		k.op("VMOVAPS %s, Y1", k.accumulator(0))
		k.part = 0
	}
	k.op("%s Y0, Y1, Y0", instruction)
	k.op("VEXTRACTF128 $1, Y0, X1\n%s X0, X1, X0", instruction)
	k.op("VPERMILPS $0x0e, X0, X1\n%s X0, X1, X0", instruction)
	k.op("VPERMILPS $0x01, X0, X1\n%s X0, X1, X0", instruction)
}

func sum(k *kernel) {
	clearAccumulators(k, 1)
	k.loop(func() {
		k.load("x", "V0")
		k.op("VADDPS V0, %s, %s", k.accumulator(0), k.accumulator(0))
	})
	reduceLanes(k, "VADDPS")
}

func dot(k *kernel) {
	clearAccumulators(k, 1)
	k.loop(func() {
		k.load("a", "V0")
		k.load("b", "V1")
		k.op("VFMADD231PS V0, V1, %s", k.accumulator(0))
	})
	reduceLanes(k, "VADDPS")
}

func dotThree(k *kernel) {
	clearAccumulators(k, 1)
	k.loop(func() {
		k.load("a", "V0")
		k.load("b", "V1")
		k.load("c", "V2")
		k.op("VMULPS V1, V0, V0\nVFMADD231PS V0, V2, %s", k.accumulator(0))
	})
	reduceLanes(k, "VADDPS")
}

// sumSquares has two accumulators of float64 for each register of float32.
func sumSquares(k *kernel) {
	clearAccumulators(k, 2)
	low, high := "Y0", "VEXTRACTF64X4 $1, V0, Y2"
	if !k.wide() {
		low, high = "X0", "VEXTRACTF128 $1, V0, X2"
	}
	k.loop(func() {
		k.load("x", "V0")
		k.op("VCVTPS2PD %s, V1\n%s", low, high)
		k.op("VCVTPS2PD %s2, V2", low[:1])
		k.op("VFMADD231PD V1, V1, %s\nVFMADD231PD V2, V2, %s", k.accumulator(0), k.accumulator(1))
	})
	if k.wide() {
		k.op("VADDPD %s, %s, V0\nVEXTRACTF64X4 $1, V0, Y1", k.accumulator(1), k.accumulator(0))
		k.op("VADDPD Y1, Y0, Y0")
	} else {
		first, second := k.accumulator(0), k.accumulator(1)
		k.part = 1
		k.op("VADDPD %s, %s, V0\nVADDPD %s, %s, V1", k.accumulator(0), first, k.accumulator(1), second)
		k.part = 0
		k.op("VADDPD V1, V0, V0")
	}
	k.op("VEXTRACTF128 $1, Y0, X1\nVADDPD X1, X0, X0\nVPERMILPD $1, X0, X1\nVADDSD X1, X0, X0")
}

// maximum keeps the accumulator unless the element is greater: the maximum
// instruction returns its second operand, which Go writes first, if the two are
// equal or one is NaN.
func maximum(k *kernel) {
	for k.part = range k.parts {
		k.op("VMOVUPS %s, V0\nVXORPS %s, V0, %s", k.constant("infinity"), k.constant("sign"), k.accumulator(0))
	}
	k.part = 0
	k.loop(func() {
		k.load("x", "V0")
		a := k.accumulator(0)
		switch {
		case k.masked && k.wide():
			k.op("VMAXPS %s, V0, K1, %s", a, a)
		case k.masked:
			k.op("VBLENDVPS V15, V0, %s, V0\nVMAXPS %s, V0, %s", a, a, a)
		default:
			k.op("VMAXPS %s, V0, %s", a, a)
		}
	})
	reduceLanes(k, "VMAXPS")
}

func expShiftSum(k *kernel) {
	k.hoist()
	clearAccumulators(k, 1)
	k.loop(func() {
		k.load("x", "V0")
		k.op("VFMSUB213PS %s, %s, V0", k.scalar("shift"), k.scalar("scale"))
		exp(k)
		k.store("V4", "dst")
		a := k.accumulator(0)
		switch {
		case k.masked && k.wide():
			k.op("VADDPS V4, %s, K1, %s", a, a)
		case k.masked:
			k.op("VANDPS V15, V4, V4\nVADDPS V4, %s, %s", a, a)
		default:
			k.op("VADDPS V4, %s, %s", a, a)
		}
	})
	reduceLanes(k, "VADDPS")
}
