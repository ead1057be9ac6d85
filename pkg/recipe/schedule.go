package recipe

import (
	"math"
	"slices"
)

// KeepEvery is how many policy versions lie between two that are kept; 0 keeps all.
type KeepEvery int

// KeepAuto bounds how many versions are kept, whatever the length of the run.
const KeepAuto KeepEvery = math.MinInt32

// Words are the values that are no number.
func (KeepEvery) Words() map[string]int { return map[string]int{"auto": int(KeepAuto)} }

// mostKept bounds how many times a run under auto keeps a version, version 0 aside.
const mostKept = 20

// KeepsEvery is the distance of kept versions in a run of this schedule; 0 where all
// are kept. Under auto it is the least of 1, 2, 5, 10, 20, 50 … that keeps few.
func (s Schedule) KeepsEvery() int {
	if s.KeepEvery != KeepAuto {
		return int(s.KeepEvery)
	}
	if every := leastRound(s.Iterations, mostKept); every > 1 {
		return every
	}
	return 0
}

// DecayEnd is the iteration at which the decay ends that the learning rate of iteration
// k, from 1, follows.
func (s Schedule) DecayEnd(k int) int {
	if len(s.DecayEnds) == 0 {
		return s.Iterations
	}
	at, _ := slices.BinarySearch(s.DecayEnds, k)
	return s.DecayEnds[min(at, len(s.DecayEnds)-1)]
}

// ApplyShards is how many tasks apply the gradients of an optimizer step.
type ApplyShards int

// ApplyAuto is as many as [Recipe.SettleApplyShards] finds.
const ApplyAuto ApplyShards = math.MinInt32

// Words are the values that are no number.
func (ApplyShards) Words() map[string]int { return map[string]int{"auto": int(ApplyAuto)} }

// Under auto: the tasks at most, and how much of a GPU of 80 GB weights, gradients and
// optimizer state may take, in GiB; activations take the rest.
const (
	mostApplying = 16
	applyGPUGB   = 60
)

// SettleApplyShards gives schedule.apply_shards auto its number, for a policy that takes so
// many bytes with its gradients and optimizer state, and lies in so many files: 1 where
// a learn task has room for that, in its memory or on its GPU, and else a task for each file.
func (r *Recipe) SettleApplyShards(bytes int64, files int) {
	if r.Schedule.ApplyShards != ApplyAuto {
		return
	}
	room := r.Resources.Stages.Learn.MemoryGB
	if r.Policy.Backend != "cpu" && r.Resources.Stages.Learn.GPUs > 0 {
		room = applyGPUGB
	} else if r.Policy.Backend == "cuda" {
		room = 0 // no engine
	}
	r.Schedule.ApplyShards = 1
	if r.mayApplyInParts() && float64(bytes) > room*(1<<30) {
		r.Schedule.ApplyShards = ApplyShards(max(2, min(files, mostApplying)))
	}
}

// mayApplyInParts reports whether auto divides the policy's updates: an adapter and a policy
// that the run makes are one small file.
func (r *Recipe) mayApplyInParts() bool { return r.Policy.LoRA == nil && r.Policy.New == nil }

// BatchSegments is after how many retained segments a batch is closed; 0 for each
// iteration's.
type BatchSegments int

// BatchFull is as many as an iteration samples responses.
const BatchFull BatchSegments = math.MinInt32

// Words are the values that are no number.
func (BatchSegments) Words() map[string]int { return map[string]int{"full": int(BatchFull)} }

// BatchSegments is after how many retained segments a batch is closed; 0 for each
// iteration's.
func (r *Recipe) BatchSegments() int {
	if r.Schedule.BatchSegments == BatchFull {
		return r.Rollout.Prompts * r.Rollout.Group
	}
	return int(r.Schedule.BatchSegments)
}

// EvaluateEvery is how many policy versions lie between two that are measured; 0 measures
// the first and the last alone.
type EvaluateEvery int

// EvaluateAuto measures a few, whatever the length of the run.
const EvaluateAuto EvaluateEvery = math.MinInt32

// Words are the values that are no number.
func (EvaluateEvery) Words() map[string]int { return map[string]int{"auto": int(EvaluateAuto)} }

// Under auto, runs of fewer iterations are measured before and after alone, and longer ones
// at most so many times after version 0.
const leastForCurve, mostMeasured = 10, 5

// EvaluatesEvery is the distance of measured versions; 0 measures the first and the last
// alone.
func (r *Recipe) EvaluatesEvery() int {
	if r.Evaluation.Every != EvaluateAuto {
		return int(r.Evaluation.Every)
	}
	if traits, err := r.Traits(); err != nil || traits.Slow || r.Schedule.Iterations < leastForCurve {
		return 0
	}
	return leastRound(r.Schedule.Iterations, mostMeasured)
}

// leastRound is the least of 1, 2, 5, 10, 20, 50 … of which total has at most so many.
func leastRound(total, most int) int {
	for tens := 1; ; tens *= 10 {
		for _, digit := range []int{1, 2, 5} {
			if every := digit * tens; total <= every*most {
				return every
			}
		}
	}
}
