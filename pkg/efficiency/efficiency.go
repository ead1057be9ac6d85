// Package efficiency says what a run made of the GPUs, cores and memory that its
// tasks were given, from the samples of the monitors beside them: the head of
// seff, the bars and the notes of jobstats, shares of a GPU's parts, use by stage
// and by phase, and what a policy update cost.
//
// What was not sampled is absent: nothing here is zero because nobody looked.
package efficiency

import "time"

// Report is what is known of a run.
type Report struct {
	RunID   string `json:"run_id"`
	Name    string `json:"name"`
	Folder  string `json:"folder"`
	User    string `json:"user,omitempty"`  // whose jobs they were, where Slurm keeps accounts
	State   string `json:"state,omitempty"` // as lathe status has it
	Exit    *int   `json:"exit_code,omitempty"`
	Unasked string `json:"slurm_unasked,omitempty"` // why Slurm was not asked how attempts ended
	Sampled bool   `json:"sampled"`                 // whether there are samples at all
	Reason  string `json:"reason,omitempty"`        // why there is none, and what would give some

	Start            *time.Time `json:"start,omitempty"` // of the first task that was sampled
	End              *time.Time `json:"end,omitempty"`
	WallClockSeconds float64    `json:"wall_clock_seconds"`
	Tasks            int        `json:"tasks"`    // that were sampled
	Attempts         int        `json:"attempts"` // at them, that were sampled, on however many nodes each
	Nodes            []string   `json:"nodes"`

	Total  Use         `json:"total"`
	Shared bool        `json:"gpus_shared"` // some GPU was seen by several tasks at once, and counts for each
	Stages []StageUse  `json:"stages"`
	Phases []PhaseUse  `json:"phases"`
	GPUs   []GPU       `json:"gpus"`
	Made   Made        `json:"made"`
	Cost   Cost        `json:"cost"`
	Lost   []Loss      `json:"lost"`
	LostTo LostTo      `json:"lost_to"`
	Tails  []Tail      `json:"tails"`
	Tail   *float64    `json:"straggler_share_of_wall_clock,omitempty"` // that arrays waited for their slowest tasks
	Notes  []Note      `json:"notes"`
	Faults []Fault     `json:"faults"`
	Own    MonitorCost `json:"monitor"`

	Each []Attempt `json:"attempts_each"`
}

// Use is what some tasks were given and what they used. Shares are in [0, 1], and
// means over time; a pointer is nil where nothing says.
type Use struct {
	Seconds          float64  `json:"seconds"`      // of the tasks, added up
	CoreSeconds      float64  `json:"core_seconds"` // that they held
	CPUSeconds       float64  `json:"cpu_seconds"`  // that they used
	CPUShare         *float64 `json:"cpu_share,omitempty"`
	MemoryMaxBytes   float64  `json:"memory_max_bytes"`       // of the task that used most
	MemoryShare      *float64 `json:"memory_share,omitempty"` // of what the tasks were given, each at its highest, by their time
	GPUSeconds       float64  `json:"gpu_seconds"`            // that they held
	GPUShare         *float64 `json:"gpu_share,omitempty"`    // of the time in which a kernel ran
	GPUMemoryShare   *float64 `json:"gpu_memory_share,omitempty"`
	SMActiveShare    *float64 `json:"sm_active_share,omitempty"`
	SMOccupancyShare *float64 `json:"sm_occupancy_share,omitempty"`
	TensorShare      *float64 `json:"tensor_active_share,omitempty"`
	DRAMShare        *float64 `json:"dram_active_share,omitempty"`
	PowerWatts       *float64 `json:"power_watts,omitempty"` // of a GPU
	EnergyJoules     *float64 `json:"energy_joules,omitempty"`
	SlowdownShare    *float64 `json:"slowdown_share,omitempty"` // of the samples in which the driver held clocks down
}

// StageUse is that of the tasks of a stage.
type StageUse struct {
	Stage    string `json:"stage"`
	Attempts int    `json:"attempts"`
	Use
	LongestSeconds float64  `json:"longest_seconds"`       // of an attempt that was kept
	LimitSeconds   float64  `json:"limit_seconds"`         // the time limit that its tasks ask for; 0 for none
	FLOPs          *float64 `json:"model_flops,omitempty"` // of the policy, as counted from what the stage has sealed
	MFU            *float64 `json:"mfu,omitempty"`         // FLOPs by what the GPUs could have done while they were held
}

// PhaseUse is that of all tasks while they were in a phase.
type PhaseUse struct {
	Phase      string   `json:"phase"`
	Seconds    float64  `json:"seconds"`
	Share      float64  `json:"share"` // of the time of all tasks that say what they do
	CPUShare   *float64 `json:"cpu_share,omitempty"`
	GPUSeconds float64  `json:"gpu_seconds"`
	GPUShare   *float64 `json:"gpu_share,omitempty"`
	PowerWatts *float64 `json:"power_watts,omitempty"`

	LongestSeconds float64 `json:"longest_seconds"` // of an attempt
	LongestTask    string  `json:"longest_task"`
}

// GPU is one device of one host, over all tasks that held it.
type GPU struct {
	Host        string  `json:"host"`
	Index       int     `json:"index"` // the driver's; -1 for an instance under MIG
	UUID        string  `json:"uuid"`
	Name        string  `json:"name"`
	HeldSeconds float64 `json:"held_seconds"`
	Use
	MemoryTotalBytes float64  `json:"memory_total_bytes"`
	TemperatureMax   *float64 `json:"temperature_max_celsius,omitempty"`
	XIDs             []int    `json:"xids,omitempty"`
	ECCUncorrected   *float64 `json:"ecc_uncorrected,omitempty"`

	line []moment // of the utilization
	sm   []moment
}

// Made is what the run has made so far, by its manifests.
type Made struct {
	PolicyUpdates    int     `json:"policy_updates"`
	TrainedResponses float64 `json:"trained_responses"`
	AcceptedSamples  float64 `json:"accepted_samples"` // sampled responses that were right
	LearnedTokens    float64 `json:"learned_tokens"`
}

// Cost is what one of each cost, of all that was sampled: evaluations and what was
// lost are in it.
type Cost struct {
	PerUpdate   *Unit `json:"per_policy_update,omitempty"`
	PerTrained  *Unit `json:"per_trained_response,omitempty"`
	PerAccepted *Unit `json:"per_accepted_sample,omitempty"`
}

// Unit is the cost of one thing.
type Unit struct {
	GPUSeconds   *float64 `json:"gpu_seconds,omitempty"`
	CoreSeconds  float64  `json:"core_seconds"`
	EnergyJoules *float64 `json:"energy_joules,omitempty"`
}

// Loss is time that made nothing, by cause.
type Loss struct {
	To       string  `json:"lost_to"` // preemption, retries, stragglers
	Cause    string  `json:"cause"`   // the disposition of the attempts, or straggler
	Means    string  `json:"means"`
	Attempts int     `json:"attempts"`
	Seconds  float64 `json:"seconds"`
	Unit     string  `json:"unit"`  // GPU-seconds, or core-seconds in a run without GPUs
	Share    float64 `json:"share"` // of all that was held, in that unit
}

// LostTo adds up the shares of the causes.
type LostTo struct {
	Preemption  float64 `json:"preemption"`
	Retries     float64 `json:"retries"`     // what was begun and had to be begun again, for whatever else
	Unexplained float64 `json:"unexplained"` // of retries: stopped or requeued, and nobody says why
	Stragglers  float64 `json:"stragglers"`
}

// Tail is how long an array waited for its slowest task.
type Tail struct {
	Array         string  `json:"array"` // stage and iteration
	Tasks         int     `json:"tasks"`
	MedianSeconds float64 `json:"median_seconds"`
	LastSeconds   float64 `json:"last_seconds"` // of the slowest
	SlowestTask   string  `json:"slowest_task"`
	SlowestHost   string  `json:"slowest_host"`
}

// Note is a remark by the rules of jobstats.
type Note struct {
	Text   string `json:"text"`
	Urgent bool   `json:"urgent"`
}

// Fault is what could not be read, and where.
type Fault struct {
	Text     string `json:"text"`
	Host     string `json:"host"`
	Device   string `json:"device,omitempty"`
	Attempts int    `json:"attempts"`
}

// MonitorCost is what the monitors themselves took.
type MonitorCost struct {
	CPUShare  *float64 `json:"cpu_share_of_a_core,omitempty"`
	MaxBytes  float64  `json:"memory_max_bytes"` // without their program's shared pages
	DiskBytes int64    `json:"disk_bytes"`
	Samples   int64    `json:"samples"`
}

// Attempt is one attempt at a task, with a monitor beside it.
type Attempt struct {
	Task        string    `json:"task"`
	Stage       string    `json:"stage"`
	Number      int       `json:"attempt"` // from 0
	Host        string    `json:"host"`
	Job         string    `json:"job"` // JOB_TASK of Slurm
	Start       time.Time `json:"start"`
	Seconds     float64   `json:"seconds"` // that it was sampled; of one that was lost, that Slurm counts
	Disposition string    `json:"fate"`
	Evidence    string    `json:"evidence,omitempty"` // what the disposition was read from
	Cores       float64   `json:"cores"`
	CPUSeconds  float64   `json:"cpu_seconds"`

	MemoryMaxBytes   float64 `json:"memory_max_bytes"`
	MemoryGivenBytes float64 `json:"memory_given_bytes"`
	MemoryOfHost     bool    `json:"memory_of_host"` // nobody bounds it: it is all that the host has
	GPUs             []GPU   `json:"gpus"`

	parts *parts
}
