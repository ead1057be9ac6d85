package efficiency

import (
	"encoding/json"
	"io"
	"math"
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
	for _, a := range r.Each {
		if task != "" && a.Task != task {
			continue
		}
		if err := encoder.Encode(a.summary()); err != nil {
			return err
		}
	}
	return nil
}

func tenth(v float64) float64 { return math.Round(10*v) / 10 }

func (a Attempt) summary() jobSummary {
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
	return jobSummary{GPUs: len(a.GPUs), Nodes: map[string]nodeSummary{a.Host: node}, TotalTime: int64(math.Round(a.Seconds))}
}
