package main

// exp sets V4 = exp(V0) as exp.go of package vec defines it. It uses V1 to V3.
func exp(k *kernel) {
	k.op("VMOVUPS %s, V1\nVFMADD231PS %s, V0, V1", k.constant("magic"), k.constant("log2E"))
	k.op("VSUBPS %s, V1, V2", k.constant("magic"))
	k.op("VMOVAPS V0, V3\nVFNMADD231PS %s, V2, V3", k.constant("ln2Hi"))
	k.op("VFNMADD231PS %s, V2, V3", k.constant("ln2Lo"))
	k.op("VMOVUPS %s, V4", k.constant("q4"))
	for _, coefficient := range []string{"q3", "q2", "q1", "q0", "one", "one"} {
		k.op("VFMADD213PS %s, V3, V4", k.constant(coefficient))
	}
	k.op("VPSLLD $23, V1, V1\nVPADDD V1, V4, V4")
	// Comparison 0x15 is "not less than", 0x16 "not less or equal"; both hold
	// for NaN.
	if k.wide() {
		k.op("VCMPPS $0x15, %s, V0, K2\nVMOVAPS.Z V4, K2, V4", k.constant("expMin"))
		k.op("VCMPPS $0x16, %s, V0, K2\nVADDPS %s, V0, K2, V4", k.constant("expMax"), k.constant("infinity"))
		return
	}
	k.op("VCMPPS $0x15, %s, V0, V1\nVANDPS V1, V4, V4", k.constant("expMin"))
	k.op("VCMPPS $0x16, %s, V0, V1\nVADDPS %s, V0, V2", k.constant("expMax"), k.constant("infinity"))
	k.op("VBLENDVPS V1, V2, V4, V4")
}
