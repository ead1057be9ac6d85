package backend

import (
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/cpu"
	"github.com/lathe-rl/lathe/pkg/policy/cuda"
)

// CPUCase is an engine on the CPU to plan for, and CPUPlan the memory that it takes.
type (
	CPUCase = cpu.Case
	CPUPlan = cpu.Plan
)

// PlanCPU plans an engine on the CPU that is not opened.
func PlanCPU(c policy.Config, k CPUCase) CPUPlan { return cpu.PlanFor(c, k) }

// GPU is a device as the engine for GPUs sees it.
type GPU = cuda.Device

// FindGPU opens the engine's library, as a policy does that is opened, and describes its first
// device; the error says what is missing.
func FindGPU() (GPU, error) { return cuda.Find("", 0) }
