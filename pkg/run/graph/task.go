package graph

import (
	"path/filepath"
	"strconv"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// Check refuses a task that the run does not have. Any version may be
// evaluated, also those that the recipe does not ask for.
func (g Graph) Check(t Task) error {
	first, last := 1, g.Recipe.Schedule.Iterations
	switch t.Stage {
	case StageWarm:
		last = g.WarmChunks()
	case StageBuffer, StageEvalRollout, StageEvalScore, StageEvaluate:
		first = 0
	case StageEvalPlan:
		first, last = 0, 0
	}
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

// Resources is the stage whose resources, in the recipe and in a site profile,
// tasks of a stage take: what they name evaluate is to let a policy speak.
func (s Stage) Resources() Stage {
	switch s {
	case StageEvalRollout:
		return StageEvaluate
	case StageEvalScore, StageEvaluate:
		return StageScore
	case StageEvalPlan:
		return StageBuffer
	case StageReduce:
		return StageGradient
	}
	return s
}

// Request is what a task of a stage asks for.
func (g Graph) Request(s Stage) recipe.Request {
	q := g.Recipe.Resources.Stages
	return map[Stage]recipe.Request{
		StageWarm: q.Warm, StageRollout: q.Rollout, StageScore: q.Score, StageBuffer: q.Buffer,
		StageGradient: q.Gradient, StageLearn: q.Learn, StageEvaluate: q.Evaluate,
	}[s.Resources()]
}

// Command is the command line of the tasks of a node, without the shard.
// binaries is the folder of the binaries; empty finds them on PATH.
func (g Graph) Command(binaries string, n Node) []string {
	binary := map[Stage]string{
		StageWarm: "lathe-learn", StageRollout: "lathe-rollout", StageScore: "lathe-score", StageBuffer: "lathe-buffer",
		StageGradient: "lathe-learn", StageReduce: "lathe-learn", StageLearn: "lathe-learn",
		StageEvalPlan: "lathe-buffer", StageEvalRollout: "lathe-rollout", StageEvalScore: "lathe-score", StageEvaluate: "lathe-score",
	}[n.Stage]
	if binaries != "" {
		binary = filepath.Join(binaries, binary)
	}
	command := []string{binary, "--run", string(g.Dir)}
	number := strconv.Itoa(n.Iteration)
	switch n.Stage {
	case StageWarm:
		return append(command, "--warm", number)
	case StageEvalPlan:
		return append(command, "--evaluate")
	case StageEvaluate:
		return append(command, "--evaluate", number, "--gather")
	case StageEvalRollout, StageEvalScore:
		return n.withWave(append(command, "--evaluate", number))
	case StageRollout, StageScore:
		return n.withWave(append(command, "--iteration", number))
	case StageGradient:
		return append(command, "--iteration", number, "--step", strconv.Itoa(n.Step), "--gradient")
	case StageReduce:
		return append(command, "--iteration", number, "--step", strconv.Itoa(n.Step), "--reduce")
	case StageLearn:
		return append(command, "--iteration", number, "--step", strconv.Itoa(n.Step))
	}
	return append(command, "--iteration", number)
}

// withWave adds the wave to a command line, if it is not the first.
func (n Node) withWave(command []string) []string {
	if n.Wave == 0 {
		return command
	}
	return append(command, "--wave", strconv.Itoa(n.Wave))
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
