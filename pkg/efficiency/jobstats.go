package efficiency

import (
	"encoding/json"
	"io"
	"math"
	"slices"
	"strconv"
)

// jobSummary is what jobstats keeps of a job, to the letter (jobstats,
// docs/setup/summaries.md): seconds, bytes and percent, by node and by the index of
// a GPU. What is not known is left out.
type jobSummary struct {
	GPUs      int                    `json:"gpus"`
	Nodes     map[string]nodeSummary `json:"nodes"`
	TotalTime int64                  `json:"total_time"`
}

type nodeSummary struct {
	CPUs           int                `json:"cpus"`
	GPUTotalMemory map[string]int64   `json:"gpu_total_memory,omitempty"`
	GPUUsedMemory  map[string]int64   `json:"gpu_used_memory,omitempty"`
	GPUUtilization map[string]float64 `json:"gpu_utilization,omitempty"`
	TotalMemory    int64              `json:"total_memory"`
	TotalTime      float64            `json:"total_time"`
	UsedMemory     int64              `json:"used_memory"`
}

// Jobstats writes a line of JSON for each attempt at a task, as jobstats -j prints
// it of a job: an attempt is a job of Slurm, or an element of an array. task
// chooses one; empty is all.
func (r *Report) Jobstats(out io.Writer, task string) error {
	encoder := json.NewEncoder(out)
	for _, job := range jobsOf(r.Each) {
		if task != "" && job[0].Task != task {
			continue
		}
		if err := encoder.Encode(summaryOf(job)); err != nil {
			return err
		}
	}
	return nil
}

// jobsOf groups what monitors on several nodes saw of one attempt at a task, in the
// order of their first.
func jobsOf(attempts []Attempt) [][]Attempt {
	type name struct {
		task, job string
		number    int
	}
	places := map[name]int{}
	var jobs [][]Attempt
	for _, a := range attempts {
		of := name{a.Task, a.Job, a.Number}
		at, there := places[of]
		if there && slices.ContainsFunc(jobs[at], func(other Attempt) bool { return other.Host == a.Host }) {
			there = false // the same node again: another start, which did not know its number
		}
		if !there {
			at = len(jobs)
			places[of], jobs = at, append(jobs, nil)
		}
		jobs[at] = append(jobs[at], a)
	}
	return jobs
}

func tenth(v float64) float64 { return math.Round(10*v) / 10 }

func summaryOf(job []Attempt) jobSummary {
	s := jobSummary{Nodes: map[string]nodeSummary{}}
	for _, a := range job {
		s.GPUs += len(a.GPUs)
		s.TotalTime = max(s.TotalTime, int64(math.Round(a.Seconds)))
		s.Nodes[a.Host] = a.summary()
	}
	return s
}

func (a Attempt) summary() nodeSummary {
	node := nodeSummary{
		CPUs: int(math.Round(a.Cores)), TotalMemory: int64(a.MemoryGivenBytes), UsedMemory: int64(a.MemoryMaxBytes), TotalTime: tenth(a.CPUSeconds),
	}
	for i, g := range a.GPUs {
		if node.GPUTotalMemory == nil {
			node.GPUTotalMemory, node.GPUUsedMemory = map[string]int64{}, map[string]int64{}
			node.GPUUtilization = map[string]float64{}
		}
		index := strconv.Itoa(g.Index)
		if g.Index < 0 { // an instance under MIG: jobstats has no utilization of one
			index = strconv.Itoa(i)
		}
		node.GPUTotalMemory[index], node.GPUUsedMemory[index] = int64(g.MemoryTotalBytes), int64(g.MemoryMaxBytes)
		if g.GPUShare != nil {
			node.GPUUtilization[index] = tenth(100 * *g.GPUShare)
		}
	}
	return node
}
