package command

import (
	"fmt"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/site"
)

// checkNodes refuses a run of which some task asks for more than the largest node of a site
// has, as far as the profile says what that has. Stages with a partition of their own may
// find other nodes there.
func checkNodes(g graph.Graph, p site.Profile) error {
	var problems []string
	check := func(stage string, cpus int, memoryGB float64) error {
		own, err := p.Stage(stage)
		if err != nil || own.Partition != p.Partition {
			return err
		}
		if p.NodeCPUs > 0 && cpus > p.NodeCPUs {
			problems = append(problems, fmt.Sprintf("resources.stages.%s.cpus: got %d, the largest node has %d (node_cpus)", stage, cpus, p.NodeCPUs))
		}
		if p.NodeMemoryGB > 0 && p.MemoryFlag && memoryGB > p.NodeMemoryGB {
			problems = append(problems, fmt.Sprintf("resources.stages.%s.memory_gb: got %g, the largest node has %g (node_memory_gb)", stage, memoryGB, p.NodeMemoryGB))
		}
		return nil
	}
	gate := g.Recipe.Resources.Stages.Gate
	if err := check("gate", gate.CPUs, gate.MemoryGB); err != nil {
		return err
	}
	checked := map[graph.Stage]bool{}
	for _, n := range g.Nodes() {
		stage := n.Stage.Resources()
		if checked[stage] {
			continue
		}
		checked[stage] = true
		q := g.Request(n.Stage)
		if err := check(string(stage), q.CPUs, q.MemoryGB); err != nil {
			return err
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return exitcode.WithHint(exitcode.Usagef("no node of site %q is large enough for these tasks:\n  %s", p.Name, strings.Join(problems, "\n  ")),
		"lower these settings with --set, or name a partition with larger nodes in the site profile")
}
