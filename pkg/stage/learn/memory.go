package learn

import (
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
)

// CPUPlan is the memory of a task that trains on the CPU, in bytes.
type CPUPlan struct {
	backend.CPUPlan
	CopyBytes  int64 `json:"copy_bytes"`  // of gradients and weights, on their way to files
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
	if k.Gradients { // while a tensor is written, the next is read
		trained := policy.Layout(c)
		if k.LoRA != nil {
			trained = policy.LoRALayout(c, *k.LoRA)
		}
		largest := 0
		for _, t := range trained {
			largest = max(largest, t.Elements())
		}
		p.CopyBytes = 2 * 4 * int64(largest)
		p.TotalBytes = p.EngineBytes() + p.CopyBytes
		return p
	}
	p.CopyBytes = p.GradientBytes // the weights, and with them a reference that is refreshed
	if kl := s.Loss.KL; kl.Coef != 0 && kl.RefEvery > 0 && k.LoRA == nil {
		p.CopyBytes *= 2
	}
	p.TotalBytes = p.EngineBytes() + p.CopyBytes
	return p
}
