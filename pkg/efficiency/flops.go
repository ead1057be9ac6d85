package efficiency

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// peaks are the products that a GPU can do in a second, in bfloat16 with float32
// sums and without sparsity (float16 on those that have no bfloat16), as NVIDIA's
// data sheets have them. The first whose words are all in a device's name counts.
var peaks = []struct {
	name  string
	flops float64 // floating-point operations a second
}{
	{"GB200", 2.5e15},
	{"B200", 2.25e15},
	{"B100", 1.75e15},
	{"GH200", 989.4e12},
	{"H200", 989.4e12},
	{"H100 PCIe", 756e12},
	{"H100 NVL", 835e12},
	{"H100", 989.4e12},
	{"H800", 989.4e12},
	{"H20", 148e12},
	{"A100", 312e12},
	{"A800", 312e12},
	{"A30", 165e12},
	{"A40", 149.7e12},
	{"A10", 125e12},
	{"L40S", 362e12},
	{"L40", 181e12},
	{"L4", 121e12},
	{"V100", 125e12},
	{"T4", 65e12},
}

// peakOf is what a device can do; 0 where it is not known, as for an instance
// under MIG, which is a part of one.
func peakOf(g GPU) float64 {
	if g.Index < 0 {
		return 0
	}
	words := strings.FieldsFunc(g.Name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for _, p := range peaks {
		if !slices.ContainsFunc(strings.Fields(p.name), func(word string) bool { return !slices.Contains(words, word) }) {
			return p.flops
		}
	}
	return 0
}

// addFLOPs counts what the policy has computed in the attempts that were kept, and
// what share that is of what the GPUs of all attempts could have done: model FLOPs, so that what
// is computed twice to save memory counts once, and a prompt that a group shares
// counts once.
func addFLOPs(ctx context.Context, r *rundir.Run, attempts []Attempt, stages []StageUse) {
	config, err := checkpoint.LoadConfig(r.Dir.Policy(0))
	if err != nil {
		return // it is not made yet
	}
	done, could := map[string]float64{}, map[string]float64{}
	unknown := map[string]bool{} // stages of which some GPU's peak is not known
	for _, a := range attempts {
		for _, g := range a.GPUs {
			peak := peakOf(g)
			unknown[a.Stage] = unknown[a.Stage] || peak == 0
			could[a.Stage] += peak * g.HeldSeconds
		}
		if task, known := parseTask(a.Task); known && a.Disposition == dispositionKept {
			done[a.Stage] += flopsOf(ctx, r, config, task)
		}
	}
	for i := range stages {
		s := &stages[i]
		if flops := done[s.Stage]; flops > 0 {
			s.FLOPs = &flops
			if could[s.Stage] > 0 && !unknown[s.Stage] {
				s.MFU = share(flops, could[s.Stage])
			}
		}
	}
}

// flopsOf counts one task from what it has sealed; 0 where it computes nothing of
// the policy, or does not say.
func flopsOf(ctx context.Context, r *rundir.Run, config policy.Config, task graph.Task) float64 {
	outputs := r.Graph.Outputs(task)
	if len(outputs) == 0 {
		return 0
	}
	m, err := seal.Record(ctx, outputs[0])
	if err != nil {
		return 0
	}
	number := func(name string) float64 { return m.Metrics[name] }
	switch task.Stage {
	case graph.StageRollout, graph.StageEvalRollout:
		responses := number("responses")
		if responses <= 0 {
			return 0
		}
		shared := 1.0
		if task.Stage == graph.StageRollout {
			shared = float64(max(1, r.Recipe.Rollout.Group))
		}
		prompt, response := number("prompt_tokens"), number("response_tokens")
		forward := policy.FLOPsPerToken(config, int(prompt/responses)) / 3
		context := int((prompt + response/2) / responses)
		return forward*prompt/shared + policy.DecodeFLOPsPerToken(config, context)*response
	case graph.StageLearn, graph.StageGradient, graph.StageWarm:
		tokens, sequences := number("tokens"), number("sequences")
		length := 0
		if sequences > 0 {
			length = int(tokens / sequences)
		}
		return policy.FLOPsPerToken(config, length) * tokens
	}
	return 0
}
