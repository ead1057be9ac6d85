package gemm

import "github.com/lathe-rl/lathe/pkg/vec"

// amxRows is the number of rows of the largest tile that AMX computes: two tile
// registers of 16.
const amxRows = 32

// modelled is set by tests, which have modelAMX in the place of the kernel.
var modelled bool

// matrixUnits says whether products in pairs are computed by AMX.
func matrixUnits() bool {
	on, _ := MatrixUnits()
	return on || modelled
}

// Unit is what computes products, with their inputs rounded to pairs of bfloat16 or not:
// amx, or an instruction set as LATHE_ISA names it.
func Unit(pairs bool) string {
	if pairs && matrixUnits() {
		return "amx"
	}
	return vec.Active().String()
}

// matrixTile computes a tile by AMX.
func matrixTile(t *tile) {
	t.configure()
	if modelled {
		modelAMX(t)
	} else {
		tileAMX(t)
	}
}

// configure writes what the tile registers hold: rows and bytes of a row of C in 0 to 3,
// of A in 4 and 5, of B in 6 and 7 (Intel's manual, LDTILECFG, palette 1).
func (t *tile) configure() {
	rows := [2]int{min(t.rows, 16), max(t.rows-16, 0)}
	columns := [2]int{min(t.columns, 16), max(t.columns-16, 0)}
	t.config = [64]byte{0: 1}
	set := func(register, rows, bytes int) {
		if rows > 0 && bytes > 0 {
			t.config[16+2*register], t.config[48+register] = byte(bytes), byte(rows)
		}
	}
	for i := range 2 {
		for j := range 2 {
			set(2*i+j, rows[i], 4*columns[j])
		}
		set(4+i, rows[i], 2*PairBlock)
		set(6+i, PairBlock/2, 4*columns[i])
	}
}

// modelAMX computes a tile as AMX does, with as many rows and columns as its registers
// are told to hold.
func modelAMX(t *tile) {
	for panel := range t.panels {
		at := *t
		at.c, at.half = t.c[panel*panelWidth:], t.half[panel*t.panelStep:]
		at.modelPanel()
	}
}

func (t *tile) modelPanel() {
	held := func(register int) (rows, bytes int) { return int(t.config[48+register]), int(t.config[16+2*register]) }
	upper, left := held(0)
	_, right := held(1)
	lower, _ := held(2)
	for i := range upper + lower {
		for j := range (left + right) / 4 {
			c := &t.c[i*t.cRow+j]
			if t.accumulate == 0 {
				*c = 0
			}
			for block := range t.depth / PairBlock {
				var a [PairBlock]float32
				vec.WidenBF16(a[:], t.rounded[block*t.aDepth/2+i*PairBlock:][:PairBlock])
				*c = addPairs(*c, &a, t.half[block*PairBlock*panelWidth+2*j:])
			}
		}
	}
}
