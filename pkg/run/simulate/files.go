package simulate

import (
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/survey"
)

// FileSystem is what a run does to the file system that its folder lies on. Files are
// counted by what each task makes: its outputs, a manifest beside each, and a log;
// metadata operations (opens, stats, links, unlinks and listings in the run's folder)
// are those that strace counted of tasks of jobs/smoke.yaml, and of surveys by what
// each looked at. Bytes are those of policies, optimizers' states and gradients, as if
// no node kept in memory what it has read; plans, responses, scores and batches, whose
// size is that of texts, are left out.
type FileSystem struct {
	Files              int     `json:"files"` // made; pruning removes some of them
	InFolder           int     `json:"most_files_in_a_folder"`
	MetadataOperations float64 `json:"metadata_operations"`
	OfTasks            float64 `json:"of_tasks"` // of those
	OfGates            float64 `json:"of_gates"` // or of the driver

	BytesRead                 int64 `json:"bytes_read"`
	BytesWritten              int64 `json:"bytes_written"`
	BytesReadEachIteration    int64 `json:"bytes_read_each_iteration"`
	BytesWrittenEachIteration int64 `json:"bytes_written_each_iteration"`

	inPolicy int // files of a policy's folder
}

// taskOperations are what strace counted in the run's folder for a task of each stage:
// calls that name a file, listings and syncs.
var taskOperations = map[graph.Stage]float64{
	graph.StageWarm: 149, graph.StageBuffer: 85, graph.StageRollout: 61, graph.StageScore: 33, graph.StageGradient: 84, graph.StageReduce: 84, graph.StageSum: 84, graph.StageApply: 84, graph.StageLearn: 184,
	graph.StageEvalPlan: 29, graph.StageEvalRollout: 61, graph.StageEvalScore: 33, graph.StageEvaluate: 35,
}

const (
	foldOperations   = 8  // of a buffer, for each shard that it folds in
	addOperations    = 2  // of what adds up gradients, for each file of them
	surveyOperations = 40 // of a survey by a process of its own, whatever it finds
	sealedOperations = 2  // of a survey, for each sealed shard that it looks at: the manifest and the file opened
	slurmFiles       = 5  // of a run that goes through Slurm: the site profile, the script and the log of its gates, the records of the last ones
	arrayFiles       = 1  // its script
	submissionFiles  = 2  // its claim and its record

	// Files of a policy's folder, but for those that a value head or an adapter adds.
	policyFiles = 7
)

func newFileSystem(g graph.Graph) FileSystem {
	f := FileSystem{inPolicy: policyFiles, Files: 6} // run.json, recipe.yaml, tasks.parquet
	if g.Recipe.Policy.Critic == recipe.CriticHead {
		f.inPolicy++
	}
	for _, s := range graph.Stages() {
		f.InFolder = max(f.InFolder, 2*g.Shards(graph.Node{Stage: s}))
	}
	return f
}

// sealed counts what a task has made.
func (f *FileSystem) sealed(g graph.Graph, t graph.Task) {
	outputs := 1
	if !t.OfTraces() {
		outputs = len(g.Outputs(t))
	}
	f.Files += 2 * outputs
	if t.Stage == graph.StageWarm || t.Stage == graph.StageLearn { // folders, half of them of a policy
		f.Files += (outputs + 1) / 2 * (f.inPolicy - 1)
	}
}

func (f *FileSystem) attempt(run *attempt) {
	f.Files++ // its log
	f.tasks(taskOperations[run.Stage] + addOperations*float64(run.traffic.summed))
}

func (f *FileSystem) closing(c closing.Closing) {
	f.Files += 2
	f.tasks(foldOperations * float64(len(c.Included)+len(c.Carried)))
}

func (f *FileSystem) submission(arrays int) { f.Files += submissionFiles + arrays*arrayFiles }
func (f *FileSystem) tasks(operations float64) {
	f.OfTasks += operations
	f.MetadataOperations += operations
}

// survey counts what a gate does that looks at the run.
func (f *FileSystem) survey(found survey.Result) {
	operations := float64(surveyOperations)
	for _, count := range found.Counts {
		operations += sealedOperations * float64(count.Sealed)
	}
	f.gates(operations)
}

func (f *FileSystem) gates(operations float64) {
	f.OfGates += operations
	f.MetadataOperations += operations
}
