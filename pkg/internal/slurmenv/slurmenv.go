// Package slurmenv reads what Slurm says in a task's environment.
package slurmenv

import (
	"os"
	"strconv"
)

// MemoryBytes is the memory of the task on its node; 0 where Slurm does not bound it.
func MemoryBytes() int64 {
	const mebi = 1 << 20
	if perNode := number("SLURM_MEM_PER_NODE"); perNode > 0 {
		return perNode * mebi
	}
	return max(0, number("SLURM_MEM_PER_CPU")) * max(0, number("SLURM_CPUS_ON_NODE")) * mebi
}

// number is that of a variable; 0 if it has none.
func number(variable string) int64 {
	n, err := strconv.ParseInt(os.Getenv(variable), 10, 32)
	if err != nil {
		return 0
	}
	return n
}
