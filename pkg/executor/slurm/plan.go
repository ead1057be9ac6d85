package slurm

import (
	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Chunk is the part of an array that is submitted as one job array with the
// indices 0 to len(Shards)-1. Index i does shard Shards[i].
//
// MaxArraySize bounds the largest index and not the count, so every chunk
// starts at 0; the flag --array holds at most 4096 bytes, so a sparse list of
// shards stands in the script and not in the flag.
type Chunk struct {
	Number   int // from 0
	Of       int
	Shards   []int
	Throttle int // tasks that run at once; 0 for no bound
	After    int // number of the chunk that this one waits for; -1 for none
}

// Plan splits an array into chunks that the cluster accepts. A throttle, the
// number of tasks of the whole array that may run at once, is shared out
// among the chunks; when there are more chunks than that, later ones wait for
// earlier ones.
func Plan(array executor.Array, limits Limits, throttle int) ([]Chunk, error) {
	if err := array.Validate(); err != nil {
		return nil, err
	}
	size := limits.MaxArraySize
	if limits.MaxArrayTasks > 0 {
		size = min(size, limits.MaxArrayTasks)
	}
	// Three places are left: for the controller job that submits the array, for the one
	// that follows it, and for the one that looks again after a while.
	most := limits.MaxJobCount
	if limits.MaxSubmit > 0 {
		most = min(most, limits.MaxSubmit)
	}
	size = min(size, max(1, most-3))
	if size < 1 || most < 2 {
		return nil, exitcode.Unavailablef("this cluster accepts no array from us: MaxArraySize %d, MaxJobCount %d, max_array_tasks %d, submit limit %d",
			limits.MaxArraySize, limits.MaxJobCount, limits.MaxArrayTasks, limits.MaxSubmit)
	}
	total := len(array.Shards)
	count := (total + size - 1) / size
	at := min(count, total) // chunks that run at once
	if throttle > 0 {
		at = min(at, throttle)
	}
	var chunks []Chunk
	for n := range count {
		chunk := Chunk{Number: n, Of: count, Shards: array.Shards[n*size : min(total, (n+1)*size)], After: -1}
		if throttle > 0 {
			place := n % at
			chunk.Throttle = throttle*(place+1)/at - throttle*place/at
		}
		if n >= at {
			chunk.After = n - at
		}
		chunks = append(chunks, chunk)
	}
	return chunks, nil
}
