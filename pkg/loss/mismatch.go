package loss

import (
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// sequence is what the losses of all tokens of a sequence depend on.
type sequence struct {
	logRatio        float64 // of gspo and gmpo: the mean over the learned tokens of new - old, which gmpo holds first
	gapSum, gapMean float64 // of old - sampler, over the learned tokens
}

func newSequence(spec Loss, in TokenInputs) sequence {
	var s sequence
	var sum, count float64
	for t, learned := range in.Mask {
		if !learned {
			continue
		}
		x := tokenAt(in, t)
		logRatio := x.new - x.old
		if spec.Kind == "gmpo" {
			logRatio, _ = hold(spec, x)
		}
		sum += logRatio
		s.gapSum += x.old - x.sampler
		count++
	}
	s.logRatio, s.gapMean = sum/max(count, 1), s.gapSum/max(count, 1)
	return s
}

// gap is the logarithm of the ratio of old policy to sampler at a level of
// [Mismatch].
func gap(level string, x token, whole sequence) float64 {
	switch level {
	case "sequence":
		return whole.gapSum
	case "geometric":
		return whole.gapMean
	}
	return x.old - x.sampler
}

// correct is the weight of a token for a sampler that is not the old policy (see
// [Mismatch]), and whether the token is masked.
func correct(spec Loss, x token, whole sequence) (weight float64, masked bool) {
	m := spec.Mismatch
	if m.Mask != "" && m.Mask != "none" {
		d := gap(m.Mask, x, whole)
		if m.Inverse {
			d = -d
		}
		if r := math.Exp(d); r < m.Low || m.High > 0 && r > m.High {
			return 0, true
		}
	}
	if spec.TruncatedIS <= 0 {
		return 1, false
	}
	return min(math.Exp(gap(m.Weight, x, whole)), spec.TruncatedIS), false
}

// checkLevels lets no other level pass. Empty ones are token and none.
func checkLevels(m Mismatch) error {
	levels := []string{"", "token", "sequence", "geometric"}
	if !slices.Contains(levels, m.Weight) {
		return exitcode.Usagef("loss.mismatch.weight: unknown value %q", m.Weight)
	}
	if m.Mask != "none" && !slices.Contains(levels, m.Mask) {
		return exitcode.Usagef("loss.mismatch.mask: unknown value %q", m.Mask)
	}
	return nil
}
