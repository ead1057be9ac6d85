package learn

import (
	"context"
	"errors"
	"math"

	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// The metrics by which a policy version hands on, with loss.entropy_target, the coefficient
// of entropy and the entropy that the next iteration's depends on. A manifest keeps every bit
// of a number.
const (
	entropyCoefMetric = "entropy_coef"
	lastEntropyMetric = "entropy_last_step"
)

// adaptEntropy sets the coefficient of entropy of this iteration. That of the first is the
// recipe's.
func (l *learner) adaptEntropy(ctx context.Context) error {
	if l.Loss.EntropyTarget == 0 {
		return nil
	}
	l.entropyCoef = l.Loss.EntropyCoef
	m, err := seal.Read(ctx, l.in.Start, l.files.Reading)
	if l.in.Start == "" || l.files.Plain && errors.Is(err, seal.ErrNotSealed) {
		return nil
	}
	if err != nil {
		return err
	}
	before, adapted := m.Metrics[entropyCoefMetric]
	if !adapted {
		return nil
	}
	entropy, known := m.Metrics[lastEntropyMetric]
	if !known {
		entropy = math.NaN()
	}
	l.entropyCoef, l.Loss.EntropyCoef = loss.AdaptEntropy(l.Loss, before, entropy)
	return nil
}
