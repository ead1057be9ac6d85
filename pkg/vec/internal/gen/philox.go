package main

// Offsets in philoxTable.
const (
	philoxMul0      = 80
	philoxMul1      = 84
	philoxSample    = 88
	philoxOne       = 96
	philoxStride    = 104
	philoxPositions = 112
)

// randomHalves computes Philox4x32-10 for a block in each lane: those of even lanes in
// one set of four registers and those of odd lanes in another, each with its words in
// the lower halves of 64-bit lanes, which are what VPMULUDQ multiplies. What stands in
// the upper halves goes nowhere. It takes a multiple of 16 blocks.
func randomHalves(k *kernel) {
	const mul0, mul1, key0, key1, positions = "V11", "V12", "V10", "V14", "V13"
	k.op("VPBROADCASTD %d(%s), %s\nVPBROADCASTD %d(%s), %s", philoxMul0, tableRegister, mul0, philoxMul1, tableRegister, mul1)
	k.op("VMOVUPS %d(%s), %s", philoxPositions, tableRegister, positions)
	k.loopWhole(func() {
		even, odd := [4]string{"V0", "V1", "V2", "V3"}, [4]string{"V4", "V5", "V6", "V7"}
		free := [2]string{"V8", "V9"}
		k.op("VMOVAPS %s, %s\nVPBROADCASTQ %d(%s), %s\nVPADDQ %s, %s, %s", positions, even[0], philoxOne, tableRegister, odd[0], positions, odd[0], odd[0])
		k.op("VPBROADCASTD %d(%s), %s\nVMOVAPS %s, %s", philoxSample, tableRegister, even[2], even[2], odd[2])
		for _, c := range [][4]string{even, odd} {
			k.op("VPSRLQ $32, %s, %s\nVXORPS %[3]s, %[3]s, %[3]s", c[0], c[1], c[3])
		}
		for round := range 10 {
			k.op("VPBROADCASTD %d(%s), %s\nVPBROADCASTD %d(%s), %s", 8*round, tableRegister, key0, 8*round+4, tableRegister, key1)
			for _, c := range []*[4]string{&even, &odd} {
				first, second := free[0], free[1]
				k.op("VPMULUDQ %s, %s, %s\nVPMULUDQ %s, %s, %s", mul0, c[0], first, mul1, c[2], second)
				k.op("VPSRLQ $32, %s, %s\nVXORPS %[3]s, %[2]s, %[2]s\nVXORPS %[4]s, %[2]s, %[2]s", second, c[0], c[1], key0)
				k.op("VPSRLQ $32, %s, %s\nVXORPS %[3]s, %[2]s, %[2]s\nVXORPS %[4]s, %[2]s, %[2]s", first, c[2], c[3], key1)
				free = [2]string{c[1], c[3]}
				c[1], c[3] = second, first
			}
		}
		for i, c := range even { // words of one block in each lane
			k.op("VPSLLQ $32, %[1]s, %[1]s\nVPSRLQ $32, %[1]s, %[1]s\nVPSLLQ $32, %[2]s, %[2]s\nVORPS %[2]s, %[1]s, %[1]s", c, odd[i])
		}
		t, u := free[0], free[1]
		lower := k.constant("lowerHalf")
		k.op("VANDPS %s, %s, %s\nVPSLLD $16, %s, %s\nVORPS %[5]s, %[3]s, %[3]s", lower, even[0], t, even[2], u)
		k.store(t, "low")
		k.op("VPSRLD $16, %[1]s, %[1]s\nVPSRLD $16, %[2]s, %[2]s\nVPSLLD $16, %[2]s, %[2]s\nVORPS %[2]s, %[1]s, %[1]s", even[0], even[2])
		k.store(even[0], "high")
		k.op("VANDPS %s, %[2]s, %[2]s\nVPSLLD $16, %[3]s, %[3]s\nVORPS %[3]s, %[2]s, %[2]s", lower, even[1], even[3])
		k.store(even[1], "next")
		k.op("VPBROADCASTQ %d(%s), %s\nVPADDQ %[3]s, %s, %[4]s", philoxStride, tableRegister, key0, positions)
	})
}
