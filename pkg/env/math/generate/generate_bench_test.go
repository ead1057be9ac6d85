package generate

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
)

// BenchmarkGenerateInWords makes what each task of jobs/deepmind-math.yaml
// makes before it does anything else.
func BenchmarkGenerateInWords(b *testing.B) {
	g := Settings{
		Kinds: []string{
			"arithmetic__add_sub_multiple", "comparison__closest", "comparison__kth_biggest", "comparison__pair", "comparison__sort",
			"comparison__closest_composed", "comparison__kth_biggest_composed", "comparison__pair_composed",
		},
		Levels: []int{3, 4, 5, 6, 7, 8}, Count: 64000,
	}
	for b.Loop() {
		tasks, err := Tasks(g, env.Train, 1)
		if err != nil || len(tasks) != g.Count {
			b.Fatal(len(tasks), err)
		}
	}
}
