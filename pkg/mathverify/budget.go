package mathverify

import (
	"errors"
	"math/big"
)

// The bounds on one verification. They count work, never time, so that a
// result is the same on every machine.
const (
	maxResponseBytes = 64 << 10 // of a response; what stands before is not looked at
	maxAnswerBytes   = 4096     // of one candidate answer
	maxCandidates    = 16       // answers that are tried
	maxDepth         = 64       // of nesting
	maxNodes         = 1500     // of one parsed answer
	maxSteps         = 60_000   // node visits of one verification, weighted by their cost
	maxBits          = 8192     // of a numerator or denominator
	maxTerms         = 256      // of a polynomial
	maxFactorial     = 1000
	maxListItems     = 64
	maxSumTerms      = 200 // of Σ and Π with bounds
)

var (
	errBudget = errors.New("the answer needs more work than the budget allows")
	errParse  = errors.New("the answer cannot be read")
)

// budget is what is left of a verification's steps.
type budget struct {
	steps      int
	undecided  bool      // values could not be told apart, nor be shown to be equal
	factorials []residue // 0!, 1!, … as far as they were needed
	anchor     *big.Int  // the first factorial that was too large for them
}

// spend takes steps and reports whether they were there.
func (b *budget) spend(steps int) bool {
	b.steps -= steps
	return b.steps >= 0
}

func (b *budget) exhausted() bool { return b.steps < 0 }
