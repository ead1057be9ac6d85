package curriculum

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/lathe-rl/lathe/pkg/rng"
)

// DrawBeta samples Beta(alpha, beta), both 0 or more, by the numbers of a stream. A
// parameter that discounting has brought to 0 is the limit: all mass at one end.
func DrawBeta(alpha, beta float64, stream rng.Stream) float64 {
	switch {
	case alpha <= 0:
		return 0
	case beta <= 0:
		return 1
	}
	s := &bits{stream: stream}
	x := distuv.Beta{Alpha: alpha, Beta: beta, Src: s}.Rand()
	if math.IsNaN(x) { // both gamma variates were too small for a float64
		x = 0
		if s.stream.Bool(s.next(), alpha/(alpha+beta)) {
			x = 1
		}
	}
	return x
}

// bits gives a stream's numbers one after the other.
type bits struct {
	stream   rng.Stream
	position uint64
}

func (b *bits) next() uint64 {
	b.position++
	return b.position - 1
}

// Uint64 implements [math/rand/v2.Source].
func (b *bits) Uint64() uint64 { return b.stream.Uint64(b.next()) }
