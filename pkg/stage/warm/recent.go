package warm

import (
	"context"
	"math"

	"github.com/lathe-rl/lathe/pkg/seal"
)

// The metrics under which a warm-start checkpoint hands its recent losses on.
// A manifest keeps every bit of a number, so the checkpoints of a warm start
// change no result.
const (
	recentSumMetric   = "recent_loss_sum"
	recentStepsMetric = "recent_loss_steps"
)

// recentDecay weighs the losses of recent steps: about the last twenty count.
const recentDecay = 0.95

// recentLoss is the exponentially weighted mean of the losses so far, with
// the correction for its start (Kingma and Ba, Adam, ICLR 2015, section 3).
type recentLoss struct {
	sum   float64 // Σ (1-d)·d^(n-i)·loss_i
	steps int     // n
}

func (r *recentLoss) add(loss float64) {
	r.sum = float64(recentDecay*r.sum) + float64((1-recentDecay)*loss)
	r.steps++
}

// mean is the weighted mean; +Inf before the first step.
func (r recentLoss) mean() float64 {
	if r.steps == 0 {
		return math.Inf(1)
	}
	return r.sum / (1 - math.Pow(recentDecay, float64(r.steps)))
}

// below reports whether the warm start has come far enough to stop.
func (r recentLoss) below(stop float64) bool { return stop > 0 && r.mean() < stop }

// recentBefore returns the recent losses at the checkpoint before this one, if
// there is one.
func recentBefore(ctx context.Context, policy string, reading seal.Options) (recentLoss, error) {
	if policy == "" {
		return recentLoss{}, nil
	}
	m, err := seal.Read(ctx, policy, reading)
	if err != nil {
		return recentLoss{}, err
	}
	return recentLoss{sum: m.Metrics[recentSumMetric], steps: int(m.Metrics[recentStepsMetric])}, nil
}
