package slurmenv

import "testing"

// Slurm's numbers are in MiB. Alone: it sets the environment.
func TestMemoryBytes(t *testing.T) {
	for _, c := range []struct {
		perNode, perCore, cores string
		want                    int64
	}{
		{"1", "3", "4", 1 << 20},
		{"", "1", "4", 4 << 20},
		{"", "3", "4", 12 << 20},
		{"0", "3", "4", 12 << 20},
		{"", "0", "4", 0},
		{"", "3", "", 0},
		{"", "-3", "-4", 0},
		{"", "", "4", 0},
		{"", "", "", 0},
		{"all", "", "", 0},
	} {
		t.Setenv("SLURM_MEM_PER_NODE", c.perNode)
		t.Setenv("SLURM_MEM_PER_CPU", c.perCore)
		t.Setenv("SLURM_CPUS_ON_NODE", c.cores)
		if got := MemoryBytes(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
