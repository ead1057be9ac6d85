package simulate

import (
	"slices"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/survey"
)

// Outcome is what a simulated run took.
type Outcome struct {
	WallSeconds          float64  `json:"wall_seconds"`
	SecondsEachIteration float64  `json:"seconds_each_iteration"`
	CoreHours            float64  `json:"core_hours"` // of tasks that ran, lost ones included
	GPUHours             float64  `json:"gpu_hours"`
	LostCoreHours        float64  `json:"lost_core_hours"` // of attempts that made nothing
	LostGPUHours         float64  `json:"lost_gpu_hours"`
	IdleCores            *float64 `json:"idle_cores"`   // share of the cluster's cores, over the whole run; null where their number is not known
	IdleGPUs             *float64 `json:"idle_gpus"`    // the same of GPUs
	NothingRuns          float64  `json:"nothing_runs"` // share of the wall time
	Stuck                string   `json:"stuck,omitempty"`
	Iterations           int      `json:"iterations"` // that were closed

	Prompts        int `json:"prompts"`         // whose responses came into a batch
	LateShards     int `json:"late_shards"`     // not done when their iteration was closed
	CarriedShards  int `json:"carried_shards"`  // of those, learned from later
	LeftOutShards  int `json:"left_out_shards"` // whose attempts were used up
	MostQueued     int `json:"most_queued"`     // tasks in the queue, running ones included
	MostRunning    int `json:"most_running"`
	JobArrays      int `json:"job_arrays"`
	Gates          int `json:"gates"`
	Surveys        int `json:"surveys"` // how often the run was looked at
	TasksSimulated int `json:"tasks"`   // that were done

	Files  FileSystem `json:"files"`
	Stages []Stage    `json:"stages"`
	Notes  []string   `json:"notes,omitempty"`
}

// Stage is what the tasks of a stage took.
type Stage struct {
	Stage     graph.Stage `json:"stage"`
	Tasks     int         `json:"tasks"` // that were done
	Attempts  int         `json:"attempts"`
	Failed    int         `json:"failed"`    // attempts, for a reason of their own
	TimedOut  int         `json:"timed_out"` // attempts
	Preempted int         `json:"preempted"` // attempts
	Cancelled int         `json:"cancelled"` // attempts, whose iteration was closed without them
	CoreHours float64     `json:"core_hours"`
	GPUHours  float64     `json:"gpu_hours"`
	// Of policies, optimizers' states and gradients: what attempts read, lost ones
	// included, and what tasks that were done wrote.
	BytesRead    int64 `json:"bytes_read"`
	BytesWritten int64 `json:"bytes_written"`
	// SlowestSeconds is how long an array waited for its slowest task: from when half of
	// the tasks that ran at once had no more to do to the last end, of those that ended
	// before their iteration was closed; the mean over arrays of several tasks.
	SlowestSeconds float64 `json:"slowest_seconds"`
	SlowestHours   float64 `json:"slowest_hours"` // the sum over arrays
}

// tally counts while a run is simulated.
type tally struct {
	outcome  Outcome
	stages   map[graph.Stage]*Stage
	arrays   map[graph.Node]*ends
	several  map[graph.Stage]int // arrays of several tasks that have ended
	coreSecs float64
	gpuSecs  float64
	gpuCores float64 // core-seconds of tasks with GPUs, which take none of the nodes without
	lostCore float64
	lostGPU  float64
	idleSecs float64 // in which nothing ran
}

// ends are those of an array's tasks.
type ends struct {
	total int
	at    []float64 // ascending
	began []float64 // of the same tasks
}

func (y *tally) begin(g graph.Graph) {
	y.stages, y.arrays, y.several = map[graph.Stage]*Stage{}, map[graph.Node]*ends{}, map[graph.Stage]int{}
	for _, s := range graph.Stages() {
		y.stages[s] = &Stage{Stage: s}
	}
	y.outcome.Files = newFileSystem(g)
}

// pass lets time pass in which so many tasks run.
func (y *tally) pass(from, to float64, running int) {
	if running == 0 {
		y.idleSecs += to - from
	}
	y.outcome.MostRunning = max(y.outcome.MostRunning, running)
}

// looked counts a survey, by what it looked at: a gate is a process of its own, and a
// driver remembers what it has seen.
func (y *tally) looked(found survey.Result, driver bool) {
	if y.outcome.Surveys++; !driver {
		y.outcome.Files.survey(found)
	}
}

func (y *tally) gate() {
	if y.outcome.Gates++; y.outcome.Gates == 1 {
		y.outcome.Files.Files += slurmFiles
	}
}

func (y *tally) submitted(stage graph.Stage, arrays int) {
	y.outcome.JobArrays += arrays
	y.outcome.Files.submission(arrays)
}

func (y *tally) queue(tasks int) { y.outcome.MostQueued = max(y.outcome.MostQueued, tasks) }

// attempted counts an attempt that has ended.
func (y *tally) attempted(run *attempt, cause executor.Cause, seconds float64) {
	s := y.stages[run.Stage]
	s.Attempts++
	s.BytesRead += run.traffic.read
	core, gpu := seconds*float64(run.cpus), seconds*float64(run.gpus)
	s.CoreHours += core / 3600
	s.GPUHours += gpu / 3600
	y.coreSecs += core
	y.gpuSecs += gpu
	if run.gpus > 0 {
		y.gpuCores += core
	}
	switch cause {
	case executor.CauseFailed:
		s.Failed++
	case executor.CauseTimeout:
		s.TimedOut++
	case executor.CausePreempted:
		s.Preempted++
	case executor.CauseCancelled:
		s.Cancelled++
	}
	if cause != executor.CauseOK {
		y.lostCore += core
		y.lostGPU += gpu
	}
	y.outcome.Files.attempt(run)
}

// sealed counts a task that is done.
func (y *tally) sealed(began, now float64, g graph.Graph, t graph.Task, moved traffic) {
	y.stages[t.Stage].Tasks++
	y.stages[t.Stage].BytesWritten += moved.written
	y.outcome.TasksSimulated++
	y.outcome.Files.sealed(g, t)
	a := y.arrays[t.Node]
	if a == nil {
		a = &ends{total: g.Shards(t.Node)}
		y.arrays[t.Node] = a
	}
	a.at, a.began = append(a.at, now), append(a.began, began)
	if len(a.at) == a.total {
		y.complete(t.Node)
	}
}

// complete counts an array that nobody waits for any more.
func (y *tally) complete(n graph.Node) {
	a := y.arrays[n]
	if a == nil {
		return
	}
	delete(y.arrays, n)
	if last := len(a.at) - 1; last > 0 {
		y.several[n.Stage]++
		y.stages[n.Stage].SlowestHours += (a.at[last] - a.at[last-a.atOnce()/2]) / 3600
	}
}

// atOnce is how many of the tasks ran at once, at most. More shards than there are cores
// for come one after the other, and are no reason to wait for the slowest.
func (a *ends) atOnce() int {
	began := slices.Sorted(slices.Values(a.began))
	most, ended := 0, 0
	for i, at := range began {
		for a.at[ended] <= at {
			ended++
		}
		most = max(most, i+1-ended)
	}
	return most
}

// closed counts the closing of an iteration.
func (y *tally) closed(g graph.Graph, c closing.Closing) {
	o := &y.outcome
	o.Iterations++
	o.LateShards += len(c.Late)
	o.LeftOutShards += len(c.LeftOut)
	o.CarriedShards += len(c.Carried)
	for _, ref := range c.Reads() {
		first, last := g.Rows(graph.Task{Node: graph.Node{Stage: graph.StageRollout, Iteration: ref.Iteration}, Shard: ref.Shard})
		o.Prompts += last - first
	}
	for _, n := range g.Waved(graph.Node{Stage: graph.StageRollout, Iteration: c.Iteration}) {
		y.complete(n)
	}
	o.Files.closing(c)
}

// outcome is what was counted.
func (s *simulation) outcome() Outcome {
	o, y := s.tally.outcome, &s.tally
	o.WallSeconds, o.Stuck = s.now, s.stuck
	if o.Iterations > 0 {
		o.SecondsEachIteration = s.now / float64(o.Iterations)
	}
	o.CoreHours, o.GPUHours = y.coreSecs/3600, y.gpuSecs/3600
	o.LostCoreHours, o.LostGPUHours = y.lostCore/3600, y.lostGPU/3600
	if s.now > 0 {
		o.NothingRuns = y.idleSecs / s.now
		cores := s.Cores
		if cores == 0 {
			cores = s.Cluster.Nodes * s.Cluster.NodeCPUs
		}
		if cores > 0 {
			o.IdleCores = share(1 - (y.coreSecs-y.gpuCores)/(float64(cores)*s.now))
		}
		if s.Cluster.GPUs > 0 && s.Cores == 0 {
			o.IdleGPUs = share(1 - y.gpuSecs/(float64(s.Cluster.GPUs)*s.now))
		}
	}
	for _, stage := range graph.Stages() {
		c := *y.stages[stage]
		if c.Attempts == 0 {
			continue
		}
		if n := y.several[stage]; n > 0 {
			c.SlowestSeconds = c.SlowestHours * 3600 / float64(n)
		}
		o.Stages = append(o.Stages, c)
		o.Files.BytesRead += c.BytesRead
		o.Files.BytesWritten += c.BytesWritten
	}
	if n := int64(o.Iterations); n > 0 {
		o.Files.BytesReadEachIteration, o.Files.BytesWrittenEachIteration = o.Files.BytesRead/n, o.Files.BytesWritten/n
	}
	o.Notes = s.Durations.notes(s.Graph, s.Sizes)
	return o
}

func share(x float64) *float64 { return &x }
