package vec

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Level is an instruction set that the kernels of this package and of package
// gemm are written for.
type Level uint32

// The instruction sets, from the one that runs everywhere to the widest.
const (
	Go     Level = iota // portable Go
	AVX2                // 256-bit vectors, AVX2 with FMA
	AVX512              // 512-bit vectors, AVX-512 F, BW, DQ and VL
)

// isaVariable is the environment variable that overrides the choice at start.
const isaVariable = "LATHE_ISA"

var levelNames = [...]string{Go: "go", AVX2: "avx2", AVX512: "avx512"}

var (
	active   atomic.Uint32
	startErr error
	inTurn   sync.Mutex // held by the loop that goes through the instruction sets
)

func init() {
	active.Store(uint32(widest()))
	if name, ok := os.LookupEnv(isaVariable); ok && name != "" {
		if err := selectISA(name); err != nil {
			startErr = fmt.Errorf("reading %s: %w", isaVariable, err)
		}
	}
}

// String returns the name that LATHE_ISA uses.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return "unknown"
}

// Active returns the instruction set in use.
func Active() Level { return Level(active.Load()) }

// StartError is not nil if LATHE_ISA named an unknown instruction set or one that this
// machine or build lacks; the widest one is in use then.
func StartError() error { return startErr }

// AvailableISAs returns the names that LATHE_ISA may have on this machine, the
// widest first.
func AvailableISAs() []string {
	levels := availableLevels()
	names := make([]string, len(levels))
	for i, level := range levels {
		names[i] = level.String()
	}
	return names
}

// EachISA goes through [AvailableISAs], each in use for the whole program while it is
// its turn; then the one before is again. One such loop runs at a time, and none inside
// another. Results do not depend on what is in use, only speed does.
func EachISA(yield func(isa string) bool) {
	inTurn.Lock()
	defer inTurn.Unlock()
	defer active.Store(active.Load())
	for _, level := range availableLevels() {
		active.Store(uint32(level))
		if !yield(level.String()) {
			return
		}
	}
}

func selectISA(name string) error {
	level := slices.Index(levelNames[:], name)
	if level < 0 {
		return fmt.Errorf("unknown instruction set %q, want one of %s", name, strings.Join(levelNames[:], ", "))
	}
	if !slices.Contains(availableLevels(), Level(level)) {
		return fmt.Errorf("instruction set %q is not available, have %s", name, strings.Join(AvailableISAs(), ", "))
	}
	active.Store(uint32(level))
	return nil
}

func widest() Level { return availableLevels()[0] }
