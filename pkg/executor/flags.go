package executor

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/site"
)

// GPUFlag is the flag by which a site's Slurm is asked for that many GPUs for
// one task on one node; empty when none is to be given.
func GPUFlag(site site.Profile, gpus int) string {
	if gpus == 0 || site.GPUFlag == "none" || site.Skips("--"+site.GPUFlag) {
		return ""
	}
	kind := ""
	if site.GPUType != "" {
		kind = site.GPUType + ":"
	}
	if site.GPUFlag == "gres" {
		return fmt.Sprintf("--gres=gpu:%s%d", kind, gpus)
	}
	return fmt.Sprintf("--%s=%s%d", site.GPUFlag, kind, gpus)
}

// MemoryFlag is the flag by which a site's Slurm is asked for the memory of
// one task, in GiB; empty when none is to be given.
func MemoryFlag(site site.Profile, memoryGB float64) string {
	if memoryGB == 0 || !site.MemoryFlag || site.Skips("--mem") {
		return ""
	}
	return fmt.Sprintf("--mem=%dM", max(1, int(memoryGB*1024+0.5)))
}
