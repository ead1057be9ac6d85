package main

// The kernels on bfloat16 take a multiple of 16 elements.

func widen(k *kernel) {
	k.loopWhole(func() {
		k.loadHalf("src", "V0")
		k.op("VPSLLD $16, V0, V0")
		k.store("V0", "dst")
	})
}

// storeUpper stores the upper halves of V1, or for lanes that are NaN in V0
// that of V0 made quiet.
func storeUpper(k *kernel) {
	k.op("VORPS %s, V0, V2", k.constant("quiet"))
	if k.wide() {
		k.op("VCMPPS $3, V0, V0, K1\nVMOVDQA32 V2, K1, V1")
	} else {
		k.op("VCMPPS $3, V0, V0, V0\nVBLENDVPS V0, V2, V1, V1")
	}
	k.op("VPSRLD $16, V1, V1")
	k.storeHalf("V1", "dst")
}

// round adds just below half of the last place that is kept, or half if that
// place is odd.
func round(k *kernel) {
	k.loopWhole(func() {
		k.load("src", "V0")
		k.op("VPSRLD $16, V0, V1\nVANDPS %s, V1, V1", k.constant("lowest"))
		k.op("VPADDD %s, V1, V1\nVPADDD V1, V0, V1", k.constant("belowHalf"))
		storeUpper(k)
	})
}

func roundRandomly(k *kernel) {
	k.loopWhole(func() {
		k.load("src", "V0")
		k.loadHalf("random", "V1")
		k.op("VPADDD V1, V0, V1")
		storeUpper(k)
	})
}
