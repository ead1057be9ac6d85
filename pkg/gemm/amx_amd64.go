//go:build amd64 && !noasm

package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/cpu"

	"github.com/lathe-rl/lathe/pkg/vec"
)

// amxVariable is the environment variable whose value 0 keeps products in bfloat16 from
// using AMX.
const amxVariable = "LATHE_AMX"

// What arch_prctl(2) is asked: to use the data of tile registers, once for a process.
const (
	requestPermission = 0x1023 // ARCH_REQ_XCOMP_PERM
	tileData          = 18     // XFEATURE_XTILEDATA
)

// MatrixUnits says whether products in bfloat16 use the CPU's matrix units, and if not,
// why.
func MatrixUnits() (on bool, why string) {
	if vec.Active() != vec.AVX512 {
		return false, "AVX-512 is not in use"
	}
	why = amxMissing()
	return why == "", why
}

var amxMissing = sync.OnceValue(func() string {
	switch {
	case os.Getenv(amxVariable) == "0":
		return amxVariable + " is 0"
	case !cpu.X86.HasAMXTile || !cpu.X86.HasAMXBF16:
		return "this CPU has no AMX for bfloat16"
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, requestPermission, tileData, 0); errno != 0 {
		return fmt.Sprintf("the kernel does not allow AMX: %v", errno)
	}
	return checkAMX()
})

// checkAMX compares tiles of all kinds with their definition, bit for bit, those that are
// added to subnormal numbers and to -0 among them.
func checkAMX() string {
	r := rand.New(rand.NewPCG(1, 2))
	const blocks, panels = 3, 2
	half, rounded := make([]uint16, panels*blocks*PairBlock*panelWidth), make([]uint16, blocks*PairBlock*amxRows)
	for _, x := range [][]uint16{half, rounded} {
		for i := range x {
			x[i] = uint16(r.Uint32N(1<<16)) &^ 0x4000 // no infinity and no NaN
		}
	}
	for _, rows := range []int{1, 15, 16, 17, 32} {
		for _, columns := range []int{1, 15, 16, 17, 32} {
			for accumulate := range 2 {
				t := tile{
					half: half, rounded: rounded, aDepth: 2 * PairBlock * rows, c: make([]float32, panels*amxRows*panelWidth), cRow: panels * panelWidth,
					panels: 1 + columns/panelWidth, panelStep: blocks * PairBlock * panelWidth, rows: rows, columns: columns, depth: blocks * PairBlock, pairs: true, accumulate: accumulate,
				}
				for i := range t.c {
					t.c[i] = []float32{r.Float32(), -r.Float32(), math.SmallestNonzeroFloat32, float32(math.Copysign(0, -1))}[i%4]
				}
				want := slices.Clone(t.c)
				t.configure()
				tileAMX(&t)
				t.c, want = want, t.c
				modelAMX(&t)
				sameBits := func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) }
				if !slices.EqualFunc(t.c, want, sameBits) {
					return fmt.Sprintf("AMX computes something else than its definition for %d rows and %d columns", rows, columns)
				}
			}
		}
	}
	return ""
}
