package gemm

import (
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/vec"
)

// checkDefinition compares a product on every instruction set with its
// definition, guards included.
func checkDefinition(t rapid.TB, p *problem, definition []float32, threads int) {
	want := p.want(definition)
	for isa := range vec.EachISA {
		got := p.run(threads)
		if i := firstDifference(got, want); i >= 0 {
			i0 := i - 64
			t.Fatalf("%s m=%d n=%d k=%d, accumulate %v, threads %d, %s: row %d column %d of %d is %v, want %v",
				p.op, p.m, p.n, p.k, p.accumulate, threads, isa, i0/p.ldc, i0%p.ldc, p.ldc, got[i], want[i])
		}
		if modelled { // which is the same in all of them
			break
		}
	}
}

// TestDefinition is the contract of the package: the bits of the definition, on
// every instruction set, and nothing written beside C. The shapes cross every
// edge of the blocking.
func TestDefinition(t *testing.T) {
	t.Parallel()
	checkShapes(t, 0, func(*problem) bool { return true })
}

// checkShapes compares products of all shapes with their definition. Those of few
// depths have special values: of many, nearly every sum would be no number.
func checkShapes(t *testing.T, specials float64, wanted func(p *problem) bool) {
	t.Helper()
	for i, s := range shapes {
		share := specials
		if s[2] > 65 {
			share = 0
		}
		for _, op := range ops {
			p := newProblem(op, s[0], s[1], s[2], i%4, i%2 == 0, share, uint64(i))
			if !wanted(p) {
				continue
			}
			key := shaped{i, share, p.pairs, strings.HasSuffix(op, "16")}
			if definitions[key] == nil {
				definitions[key] = p.definition()
			}
			checkDefinition(t, p, definitions[key], 1+i%3)
		}
	}
}

// definitions are those of all shapes: they take most of the time, and are the same for
// all ops that round alike. Tests that use them take turns.
var definitions = map[shaped][]float32{}

type shaped struct {
	shape       int
	specials    float64
	pairs, half bool // how the operands are rounded
}

// shapes cross every edge of the blocking: m, n, k.
var shapes = [][3]int{
	{0, 3, 3},
	{3, 0, 3},
	{3, 3, 0},
	{1, 1, 1},
	{2, 3, 4},
	{5, 31, 7},
	{6, 32, 8},
	{7, 33, 9},
	{1, 256, 20},
	{1, 200, 33},
	{2, 130, 17},
	{3, 130, 18},
	{4, 160, 19},
	{14, 64, 64},
	{15, 64, 65},
	{28, 100, 40},
	{29, 129, 40}, // two and three tiles, with and without a copy of A
	{113, 40, 30},
	{113, 140, 30},
	{230, 128, 12}, // several blocks of rows
	{9, 520, 21},
	{9, 1100, 21}, // several blocks of columns
	{16, 36, 255},
	{16, 36, 257},
	{16, 140, 513},
	{100, 150, 600}, // several depths of tiles
	{120, 130, 1100},
	{3, 33, 8200},
	{15, 33, 8200},  // several blocks of depths
	{260, 128, 616}, // as many depths as fit, but for what fills up the last block of pairs
}

// TestPlanFits: whatever the shape, what is copied and packed at a time has room.
func TestPlanFits(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 200_000 {
		p := &product{m: 1 + random.IntN(700), n: 1 + random.IntN(700), k: 1 + random.IntN(3000)}
		p.pairs, p.aTransposed, p.bTransposed = random.IntN(2) == 0, random.IntN(2) == 0, random.IntN(2) == 0
		p.rows = []int{6, 14}[random.IntN(2)]
		b := &block{product: p, i1: p.m, j1: p.n}
		b.plan()
		rows := (p.m + b.rowParts - 1) / b.rowParts
		if b.depth < 1 || b.columns < 1 {
			t.Fatalf("%d × %d × %d, pairs %v, transposed %v: blocks of %d depths and %d columns", p.m, p.n, p.k, p.pairs, p.aTransposed, b.depth, b.columns)
		}
		if b.copyA && b.copied(rows, b.depth) > rowsCapacity {
			t.Fatalf("%d × %d × %d, pairs %v, transposed %v: %d values of A are copied, there is room for %d", p.m, p.n, p.k, p.pairs, p.aTransposed, b.copied(rows, b.depth), rowsCapacity)
		}
		packed := (b.columns + panelWidth - 1) / panelWidth * panelWidth * b.stored(b.depth)
		if !b.directB && packed > panelsCapacity {
			t.Fatalf("%d × %d × %d, pairs %v, transposed %v: %d values of B are packed, there is room for %d", p.m, p.n, p.k, p.pairs, p.aTransposed, packed, panelsCapacity)
		}
	}
}

// TestMatrixUnits has a model in the place of AMX's kernel: what surrounds the kernel
// hands it the right operands, and its registers hold what the manual wants. A CPU that
// has these units checks the kernel itself against the model, before it is used.
// Alone: every product of the process would use the model.
func TestMatrixUnits(t *testing.T) {
	modelled = true
	defer func() { modelled = false }()
	checkShapes(t, 0.01, func(p *problem) bool { return p.pairs })
	t.Log(MatrixUnits())
}

// TestMatrixParts: products that are too large for one part have the bits that vector
// units compute. Alone: every product of the process would use the model.
func TestMatrixParts(t *testing.T) {
	defer func() { modelled = false }()
	for i, op := range ops {
		for _, s := range [][2]int{{amxRows + 1, 1}, {1, panelWidth + 1}} {
			p := newProblem(op, s[0], s[1], matrixDepth+PairBlock+2, i, i%2 == 0, 0, uint64(i))
			if !p.pairs {
				continue
			}
			var want []float32
			for isa := range vec.EachISA {
				if isa != vec.AVX512.String() { // with which AMX would compute it
					modelled, want = false, p.run(1)
				}
			}
			modelled = true
			if d := firstDifference(p.run(2), want); d >= 0 {
				t.Errorf("%s, %d × %d: element %d differs", op, s[0], s[1], d)
			}
		}
	}
}

// By hand, for 17 rows by 20 columns: registers 0 to 7, their rows and bytes.
func TestConfigure(t *testing.T) {
	t.Parallel()
	x := tile{rows: 17, columns: 20}
	x.configure()
	want := [8][2]byte{{16, 64}, {16, 16}, {1, 64}, {1, 16}, {16, 64}, {1, 64}, {16, 64}, {16, 16}}
	for i, w := range want {
		if got := [2]byte{x.config[48+i], x.config[16+2*i]}; got != w {
			t.Errorf("register %d: rows and bytes %v, want %v", i, got, w)
		}
	}
}

func TestDefinitionRandomly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newProblem(
			rapid.SampledFrom(ops).Draw(t, "op"),
			rapid.IntRange(0, 70).Draw(t, "m"),
			rapid.IntRange(0, 200).Draw(t, "n"),
			rapid.IntRange(0, 90).Draw(t, "k"),
			rapid.IntRange(0, 20).Draw(t, "padding"),
			rapid.Bool().Draw(t, "accumulate"),
			rapid.SampledFrom([]float64{0, 0, 0.001, 0.05}).Draw(t, "specials"),
			rapid.Uint64().Draw(t, "seed"),
		)
		checkDefinition(t, p, p.definition(), rapid.IntRange(0, 4).Draw(t, "threads"))
	})
}

// TestInstructionSetsAgree compares every instruction set with the first on products
// larger than their definition could be asked for, of all exponents, until so many elements
// have been compared: as many as LATHE_TEST_OUTPUTS says, for a machine that is new.
func TestInstructionSetsAgree(t *testing.T) {
	t.Parallel()
	outputs := 200_000.0
	if said := os.Getenv("LATHE_TEST_OUTPUTS"); said != "" {
		var err error
		if outputs, err = strconv.ParseFloat(said, 64); err != nil {
			t.Fatal(err)
		}
	}
	on, why := MatrixUnits()
	r := rand.New(rand.NewPCG(4, 2))
	compared := 0
	for seed := uint64(0); float64(compared) < outputs; seed++ {
		p := newProblem(ops[seed%uint64(len(ops))], 1+r.IntN(600), 1+r.IntN(600), 1+r.IntN(200), r.IntN(5), r.IntN(2) == 0, []float64{0, 0, 0.001}[r.IntN(3)], seed)
		scale := float32(math.Ldexp(1, r.IntN(270)-145))
		for i := range p.a {
			p.a[i] *= scale
		}
		var want []float32
		for isa := range vec.EachISA {
			got := p.run(2)
			if want == nil {
				want = got
			} else if i := firstDifference(got, want); i >= 0 {
				t.Fatalf("problem %d, %s m=%d n=%d k=%d: element %d is %v with %s, %v with %s", seed, p.op, p.m, p.n, p.k, i, got[i], isa, want[i], vec.AvailableISAs()[0])
			}
		}
		compared += p.m * p.n
	}
	t.Logf("%d elements alike on %v; matrix units %v (%s)", compared, vec.AvailableISAs(), on, why)
}

// TestOracle checks the definition itself against float64.
func TestOracle(t *testing.T) {
	t.Parallel()
	for _, op := range ops {
		p := newProblem(op, 17, 45, 300, 3, true, 0, 11)
		got := p.run(2)
		for i := range p.m {
			for j := range p.n {
				index := 64 + i*p.ldc + j
				want := float64(p.start[index])
				for k := range p.k {
					want += float64(p.elementA(i, k)) * float64(p.elementB(k, j))
				}
				// 300 roundings of partial sums below 40; in pairs there are fewer.
				if math.Abs(float64(got[index])-want) > 300*40*0x1p-24 {
					t.Fatalf("%s: row %d column %d is %v, want %v", op, i, j, got[index], want)
				}
			}
		}
	}
}

// TestRowsDoNotDependOnBatch takes rows out of a large product and compares
// them with products of fewer rows.
func TestRowsDoNotDependOnBatch(t *testing.T) {
	t.Parallel()
	const n, k, most = 1000, 700, 300
	r := rand.New(rand.NewPCG(5, 6))
	a, w := make([]float32, most*k), make([]float32, n*k)
	fill(r, a)
	fill(r, w)
	var packed Packed
	PackNT(w, n, k, &packed, 2)
	want := make([]float32, most*n)
	MulPacked(want, n, a, k, most, &packed, false, 2)
	for isa := range vec.EachISA {
		if isa == "go" && testing.Short() {
			continue
		}
		for _, m := range []int{1, 2, 3, 4, 8, 13, 14, 15, 17, 32, 64} {
			first := (most - m) / 2
			got, unpacked := make([]float32, m*n), make([]float32, m*n)
			for threads := 1; threads <= 4; threads++ {
				MulPacked(got, n, a[first*k:], k, m, &packed, false, threads)
				NT(unpacked, n, a[first*k:], k, w, k, m, n, k, false, threads)
				if i := firstDifference(got, want[first*n:][:m*n]); i >= 0 {
					t.Fatalf("%s, m = %d, %d threads: row %d column %d differs", isa, m, threads, i/n, i%n)
				}
				if i := firstDifference(unpacked, got); i >= 0 {
					t.Fatalf("%s, m = %d, %d threads: NT differs at row %d column %d", isa, m, threads, i/n, i%n)
				}
				if isa == "go" {
					break
				}
			}
			if isa == "go" && m >= 4 {
				break
			}
		}
	}
}

// Unit names AMX for products in pairs alone, and else the instruction set in use.
// Alone: every product of the process would use the model.
func TestUnit(t *testing.T) {
	defer func() { modelled = false }()
	on, _ := MatrixUnits()
	for isa := range vec.EachISA {
		for _, c := range []struct {
			pairs, modelled bool
			want            string
		}{
			{false, true, isa},
			{true, true, "amx"},
		} {
			modelled = c.modelled
			if got := Unit(c.pairs); got != c.want {
				t.Errorf("in use %s, in pairs %v: got %q, want %q", isa, c.pairs, got, c.want)
			}
		}
		modelled = false
		if got := Unit(true); !on && got != isa {
			t.Errorf("without matrix units: got %q, want %q", got, isa)
		}
	}
}
