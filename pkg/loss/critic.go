package loss

// ValueLoss is the loss of one value against the return that it should have
// predicted, and its slope by the value:
//
//	½·max((v - R)², (clip(v, old - c, old + c) - R)²)
//
// with c of [Value] and old the value before the first optimizer step.
// Where the clipped term is the larger and the value is beyond the bound, the
// slope is 0. Without a clip it is ½·(v - R)².
func ValueLoss(spec Value, value, old, target float64) (loss, slope float64) {
	off := value - target
	if spec.Clip == 0 {
		return off * off / 2, off
	}
	clipped := min(max(value, old-spec.Clip), old+spec.Clip)
	if offClipped := clipped - target; offClipped*offClipped > off*off {
		return offClipped * offClipped / 2, 0
	}
	return off * off / 2, off
}

// ValueStats describes the values of some tokens. Those of several sequences
// add up.
type ValueStats struct {
	Tokens                           int
	Loss                             float64 // sequence weights and coefficient applied
	Held                             int     // tokens whose slope the clip took
	ReturnSum, ReturnSquares         float64
	DifferenceSum, DifferenceSquares float64 // of return and value
}

// Add adds the statistics of other sequences.
func (s *ValueStats) Add(other ValueStats) {
	s.Tokens += other.Tokens
	s.Loss += other.Loss
	s.Held += other.Held
	s.ReturnSum += other.ReturnSum
	s.ReturnSquares += other.ReturnSquares
	s.DifferenceSum += other.DifferenceSum
	s.DifferenceSquares += other.DifferenceSquares
}

// Record adds a token.
func (s *ValueStats) Record(value, target, loss, slope float64) {
	s.Tokens++
	s.Loss += loss
	if slope == 0 && value != target {
		s.Held++
	}
	s.ReturnSum += target
	s.ReturnSquares += target * target
	difference := target - value
	s.DifferenceSum += difference
	s.DifferenceSquares += difference * difference
}

// ExplainedVariance is 1 - Var(R - V)/Var(R), which is 1 for a critic that
// predicts every return and 0 for one that says the same of every state; 0
// where all returns are equal.
func (s ValueStats) ExplainedVariance() float64 {
	n := float64(max(1, s.Tokens))
	variance := s.ReturnSquares/n - s.ReturnSum/n*s.ReturnSum/n
	// Returns are sums of advantages and values: equal ones differ by rounding.
	if variance <= 1e-12*(s.ReturnSquares+s.DifferenceSquares)/n {
		return 0
	}
	return 1 - (s.DifferenceSquares/n-s.DifferenceSum/n*s.DifferenceSum/n)/variance
}
