package simulate

import (
	"errors"
	"io/fs"
	"math"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/site"
)

// Cluster is what a run is run on, and what its tasks take there.
type Cluster struct {
	Nodes    int `yaml:"nodes"`     // without GPUs that the run may use at once; 0: as the site profile says, and any number where it does not
	NodeCPUs int `yaml:"node_cpus"` // cores of each; 0: as the site profile says, and one task on a node where it does not
	GPUs     int `yaml:"gpus"`      // that the run may use at once; 0: as for nodes

	Queue    Times `yaml:"queue"`    // that a job array waits before its first task may start, beside the wait for its turn
	Turnover Times `yaml:"turnover"` // from the end of an array's task until another may begin in its place
	Gate     Times `yaml:"gate"`     // from the end that a gate follows until it has submitted what is ready
	Start    Times `yaml:"start"`    // of an attempt at a task before and after its work: the start of its programs, its end noticed

	FileSystem FileSystemSpeed `yaml:"file_system"`

	FailureShare       float64 `yaml:"failure_share"`        // of attempts that fail for a reason of their own, at any moment of their work
	PreemptionsPerHour float64 `yaml:"preemptions_per_hour"` // of a task that runs

	Stages Stages `yaml:"stages"`
}

// Times are those of something that takes sometimes more and sometimes less: a
// lognormal distribution.
type Times struct {
	Seconds float64 `yaml:"seconds"` // the median
	Spread  float64 `yaml:"spread"`  // standard deviation of the natural logarithm
}

// FileSystemSpeed is what the file system that the run's folder lies on gives.
type FileSystemSpeed struct {
	// BytesPerSecond is what one task reads or writes, however many do so at once; 0: as
	// measured runs tell it, or without a time of its own. It is that of policies,
	// optimizers' states and gradients, beside the times of stages.
	BytesPerSecond float64 `yaml:"bytes_per_second"`
}

// Stages are the times of tasks, by stage. What evaluations do not say is taken from
// the stages that they are like, and what tasks that add up gradients, or
// apply them in parts, do not say from the task that learns.
type Stages struct {
	Warm        TaskTimes `yaml:"warm"`
	Buffer      TaskTimes `yaml:"buffer"`
	Rollout     TaskTimes `yaml:"rollout"`
	Score       TaskTimes `yaml:"score"`
	Gradient    TaskTimes `yaml:"gradient"`
	Reduce      TaskTimes `yaml:"reduce"`
	Sum         TaskTimes `yaml:"sum"`
	Apply       TaskTimes `yaml:"apply"`
	Learn       TaskTimes `yaml:"learn"`
	EvalPlan    TaskTimes `yaml:"evalplan"`
	EvalRollout TaskTimes `yaml:"evalrollout"`
	EvalScore   TaskTimes `yaml:"evalscore"`
	Evaluate    TaskTimes `yaml:"evaluate"`
}

// TaskTimes are those of a stage's tasks: the median is seconds and, for each unit of
// work in the task, unit_seconds. Units are prompts, each with its group of responses:
// those of a shard's plan; of the batch that a gradient task or, without gradient
// shards, the learner has its part of. What only adds up or applies gradients has none,
// and a task of any other stage one.
type TaskTimes struct {
	Seconds     float64 `yaml:"seconds"`      // of a task, however much is in it
	UnitSeconds float64 `yaml:"unit_seconds"` // of each unit in it
	Spread      float64 `yaml:"spread"`       // standard deviation of the natural logarithm
	GoesOn      float64 `yaml:"goes_on"`      // score, evalscore: share of shards in which a trace goes on in the next wave, where there may be one
}

// Load fills a cluster from a YAML file, or leaves it empty where none is named, and
// then from settings FIELD=VALUE.
func Load(path string, settings []string) (Cluster, error) {
	var c Cluster
	what := "the cluster"
	if path != "" {
		what = path
		doc, err := config.Read(path)
		if errors.Is(err, fs.ErrNotExist) {
			return c, exitcode.Usagef("--durations %q does not exist", path)
		}
		if err != nil {
			return c, err
		}
		if err := doc.Fill(&c, config.Options{}); err != nil {
			return c, err
		}
	}
	if err := config.Apply(&c, settings, config.Options{}); err != nil {
		return c, err
	}
	return c, c.validate(what)
}

func (c *Cluster) validate(what string) error {
	check := config.NewChecker(c)
	if check.Finite() {
		check.AtLeast("nodes", c.Nodes, 0)
		check.AtLeast("node_cpus", c.NodeCPUs, 0)
		check.AtLeast("gpus", c.GPUs, 0)
		check.NotNegative("preemptions_per_hour", c.PreemptionsPerHour)
		check.NotNegative("file_system.bytes_per_second", c.FileSystem.BytesPerSecond)
		check.Share("failure_share", c.FailureShare)
		for _, name := range []string{"queue", "turnover", "gate", "start"} {
			t, _ := config.Find[Times](c, name)
			check.NotNegative(name+".seconds", t.Seconds)
			check.NotNegative(name+".spread", t.Spread)
		}
		for _, name := range config.Names(&c.Stages) {
			t, _ := config.Find[TaskTimes](&c.Stages, name)
			check.NotNegative("stages."+name+".seconds", t.Seconds)
			check.NotNegative("stages."+name+".unit_seconds", t.UnitSeconds)
			check.NotNegative("stages."+name+".spread", t.Spread)
			check.Share("stages."+name+".goes_on", t.GoesOn)
		}
	}
	return check.Err(what)
}

// on is the cluster with what a site profile says where it says nothing itself.
func (c Cluster) on(p site.Profile) Cluster {
	for _, f := range []struct {
		to   *int
		from int
	}{{&c.Nodes, p.Nodes}, {&c.NodeCPUs, p.NodeCPUs}, {&c.GPUs, p.GPUs}} {
		if *f.to == 0 {
			*f.to = f.from
		}
	}
	return c
}

// like is the stage whose times a stage takes that has none of its own.
var like = map[graph.Stage]graph.Stage{
	graph.StageEvalRollout: graph.StageRollout, graph.StageEvalScore: graph.StageScore, graph.StageEvaluate: graph.StageScore, graph.StageEvalPlan: graph.StageBuffer,
	graph.StageReduce: graph.StageLearn, graph.StageSum: graph.StageLearn, graph.StageApply: graph.StageLearn,
}

// spread is what a random number's distribution makes of a median: lognormal, or one
// of those that were seen.
type spread struct {
	Sigma float64   // of the logarithm
	Seen  []float64 // relative to their middle; none for lognormal
}

// at is a factor, drawn at a position of a stream.
func (d spread) at(s rng.Stream, position uint64) float64 {
	switch {
	case len(d.Seen) > 0:
		return d.Seen[s.IntN(position, len(d.Seen))]
	case d.Sigma > 0:
		return math.Exp(d.Sigma * s.Normal(position))
	}
	return 1
}

// wait is a time that is drawn.
type wait struct {
	Seconds float64
	spread
}

func (w wait) at(s rng.Stream, position uint64) float64 {
	return w.Seconds * w.spread.at(s, position)
}

func (t Times) wait() wait { return wait{t.Seconds, spread{Sigma: t.Spread}} }
