package graph

import (
	"cmp"
	"path/filepath"
	"strconv"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// Check refuses a task that the run does not have. Any version may be
// evaluated, also those that the recipe does not ask for.
func (g Graph) Check(t Task) error {
	first, last := g.iterations(t.Stage)
	if t.Iteration < first || t.Iteration > last {
		return exitcode.Usagef("%s %d: the run has %d to %d", t.Stage, t.Iteration, first, last)
	}
	steps := 1
	if g.Sharded() && t.OfUpdate() {
		steps = g.OptimizerSteps()
	}
	if t.Step < 0 || t.Step >= steps {
		return exitcode.Usagef("step %d of %s %d: it has steps 0 to %d", t.Step, t.Stage, t.Iteration, steps-1)
	}
	if waves := g.Waves(t.Stage); t.Wave < 0 || t.Wave >= waves {
		return exitcode.Usagef("wave %d of %s %d: it has waves 0 to %d", t.Wave, t.Stage, t.Iteration, waves-1)
	}
	if shards := g.Shards(t.Node); t.Shard < 0 || t.Shard >= shards {
		return exitcode.Usagef("shard %d of %s: it has shards 0 to %d", t.Shard, t.Node, shards-1)
	}
	return nil
}

// iterations is the range of iterations in which a stage has nodes.
func (g Graph) iterations(s Stage) (first, last int) {
	if of := specs[s].iterations; of != nil {
		return of(g)
	}
	return 1, g.Recipe.Schedule.Iterations
}

// Resources is the stage whose resources, in the recipe and in a site profile,
// tasks of a stage take: under the name evaluate stands what sampling for an
// evaluation takes.
func (s Stage) Resources() Stage { return cmp.Or(specs[s].resources, s) }

// Request is what a task of a stage asks for.
func (g Graph) Request(s Stage) recipe.Request {
	if request := specs[s.Resources()].request; request != nil {
		return request(g.Recipe.Resources.Stages)
	}
	return recipe.Request{}
}

// RunsEngine reports whether tasks of a stage spend their time in the engine, whose
// results no number of threads changes.
func (s Stage) RunsEngine() bool {
	return specs[s].binary == "lathe-learn" || specs[s].binary == "lathe-rollout"
}

// Brief reports whether tasks of a stage take moments, on one core and whatever the
// policy: they plan, or gather rows.
func (s Stage) Brief() bool {
	return s == StageBuffer || s == StageEvalPlan || s == StageEvaluate
}

// Urgency orders ready tasks, the most urgent first.
func (t Task) Urgency() int { return t.Iteration*nextIteration + specs[t.Stage].urgency }

// Command is the command line of the tasks of a node, without the shard.
// binaries is the folder of the binaries; empty finds them on PATH.
func (g Graph) Command(binaries string, n Node) []string {
	s := specs[n.Stage]
	command := []string{filepath.Join(binaries, s.binary), "--run", string(g.Dir)}
	if s.arguments != nil {
		command = append(command, s.arguments(n)...)
	} else {
		command = append(command, "--iteration", strconv.Itoa(n.Iteration))
	}
	return append(command, g.ExtendedFlag()...)
}

// ExtendedFlag tells a process that is started on another node how often the run was
// extended: that node may not see it yet.
func (g Graph) ExtendedFlag() []string {
	if len(g.Extended) == 0 {
		return nil
	}
	return []string{"--extended", strconv.Itoa(len(g.Extended))}
}

// ParseStage finds a stage that runs as tasks by its name.
func ParseStage(name string) (Stage, error) {
	for _, s := range Stages() {
		if string(s) == name {
			return s, nil
		}
	}
	return "", exitcode.Usagef("stage %q is not one of %v", name, Stages())
}
