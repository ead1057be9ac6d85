package learn

import (
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// CPUPlan is the memory of a task that trains on the CPU, in bytes.
type CPUPlan struct {
	backend.CPUPlan
	CopyBytes  int64 `json:"copy_bytes"`  // of gradients, weights and optimizer state, on their way from and to files
	TotalBytes int64 `json:"total_bytes"` // when it holds most
}

// PlanCPU plans a task with an engine. What has been copied counts until it is collected,
// so the heap must be bounded by the memory of the task, as it is on Slurm, for the total
// to be the most that is held.
func PlanCPU(s Settings, c policy.Config, k backend.CPUCase) CPUPlan {
	p := CPUPlan{CPUPlan: backend.PlanCPU(c, k)}
	if !k.Train {
		p.TotalBytes = p.EngineBytes()
		return p
	}
	if !k.Gradients && s.GradientShards > 1 { // it adds up what others computed
		p.ActivationBytes, p.HeadBytes, p.OtherBytes, p.PassTokens = 0, 0, 0, 0
	}
	trained := policy.Layout(c)
	if k.LoRA != nil {
		trained = policy.LoRALayout(c, *k.LoRA)
	}
	largest := int64(0)
	for _, t := range trained {
		largest = max(largest, int64(t.Elements()))
	}
	if k.Gradients { // while a tensor is written, the next is read
		p.CopyBytes = 2 * 4 * largest
		p.TotalBytes = p.EngineBytes() + p.CopyBytes
		return p
	}
	// The optimizer's state is read whole, before there are sums and activations. Bfloat16
	// moments are widened when they are written; then the weights are copied, and with them
	// a reference that is refreshed.
	loading, saving := p.StateBytes, p.GradientBytes
	if k.State == safetensors.BF16 {
		loading, saving = 2*p.GradientBytes, 2*p.GradientBytes
	} else if kl := s.Loss.KL; kl.Coef != 0 && kl.RefEvery > 0 && k.LoRA == nil {
		saving *= 2
	}
	p.CopyBytes = saving
	p.TotalBytes = max(p.EngineBytes()+saving, p.WeightBytes+p.GradientBytes+p.StateBytes+loading)
	return p
}
