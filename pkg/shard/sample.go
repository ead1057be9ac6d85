package shard

import "github.com/lathe-rl/lathe/pkg/seal"

// Sample is a row of a segment under gpu/HOST/: one number that a monitor read
// beside a task, in long format. Package monitor lists the names and their units.
// Rows stand together by device and name, and go up by time.
type Sample struct {
	Time   int64   `parquet:"time,timestamp(microsecond),delta"` // since 1970 in UTC, by the clock of the host
	Host   string  `parquet:"host,dict"`
	Device string  `parquet:"device,dict"` // UUID of a GPU or of a MIG instance; empty for the host and the task
	Name   string  `parquet:"name,dict"`
	Value  float64 `parquet:"value"`
	Phase  string  `parquet:"phase,dict"`  // what the task did for most of the time since the sample before; empty where it does not say
	Detail string  `parquet:"detail,dict"` // words for what a number cannot say: a fault, a device's name, a phase

	Task    string `parquet:"task,dict"` // STAGE-ITERATION-SHARD; empty for a monitor that a person started
	Attempt int32  `parquet:"attempt"`   // at the task, from 0
}

// Schema names the table of samples.
func (Sample) Schema() seal.Schema { return seal.Schema{Name: "sample", Major: 1} }
