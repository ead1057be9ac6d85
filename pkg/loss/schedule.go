package loss

import (
	"math"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// LearningRate returns the learning rate of an optimizer step, counted from
// 1, of total. It rises linearly from 0 before the first step to the full
// rate at step WarmupSteps, then decays to MinRatio times the full rate at
// step total:
//
//	linear  1 - (1-MinRatio)·x
//	cosine  MinRatio + (1-MinRatio)·(1+cos(πx))/2
//
// with x the share of the steps after the warmup that are done. constant does
// not decay. Steps after total keep the last rate.
func LearningRate(spec Optimizer, step, total int) (float64, error) {
	if step < 1 {
		return 0, exitcode.Bugf("learning rate: step %d, want 1 or more", step)
	}
	if step <= spec.WarmupSteps {
		return spec.LearningRate * float64(step) / float64(spec.WarmupSteps), nil
	}
	done := min(1, float64(step-spec.WarmupSteps)/float64(max(total-spec.WarmupSteps, 1)))
	switch spec.Decay {
	case "constant":
		return spec.LearningRate, nil
	case "linear":
		return spec.LearningRate * (1 - (1-spec.MinRatio)*done), nil
	case "cosine":
		return spec.LearningRate * (spec.MinRatio + (1-spec.MinRatio)*(1+math.Cos(math.Pi*done))/2), nil
	}
	return 0, exitcode.Usagef("optimizer.decay: unknown value %q", spec.Decay)
}

// ReferenceVersion returns the policy version at which the reference policy of
// an iteration, counted from 1, was last refreshed: the newest multiple of
// every among the versions that exist when the iteration trains, which end at
// iteration-1. Version 0 is the initial policy. An interval of 0 never
// refreshes (ExIt §2.2, M).
func ReferenceVersion(every, iteration int) int {
	if every < 1 {
		return 0
	}
	return max(iteration-1, 0) / every * every
}

// RefreshDue reports whether the reference is refreshed with the policy of
// this version, as soon as it exists.
func RefreshDue(every, version int) bool {
	return every > 0 && version > 0 && version%every == 0
}

// RefreshReference moves the weights of the reference towards those of the
// policy in place: ref ← α·policy + (1-α)·ref (ExIt §2.2). Each
// sum is made in float64 and rounded once; α = 1 copies the policy bit for
// bit and α = 0 changes nothing.
func RefreshReference(ref, policy []float32, alpha float64) error {
	switch {
	case len(ref) != len(policy):
		return exitcode.Bugf("refreshing the reference: %d weights, the policy has %d", len(ref), len(policy))
	case !(alpha >= 0 && alpha <= 1):
		return exitcode.Usagef("loss.kl.ref_alpha: got %v, want 0 to 1", alpha)
	case alpha == 0:
		return nil
	case alpha == 1:
		copy(ref, policy)
		return nil
	}
	for i, w := range policy {
		// The conversions forbid fused multiply-add, so that every machine
		// rounds alike.
		ref[i] = float32(float64(alpha*float64(w)) + float64((1-alpha)*float64(ref[i])))
	}
	return nil
}
