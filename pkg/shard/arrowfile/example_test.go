package arrowfile_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
)

// Tensors are for what the learner loads: Arrow, uncompressed.
func ExampleWriteTensors() {
	folder, err := os.MkdirTemp("", "arrowfile-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "gradient.arrow")
	tensors := []arrowfile.Tensor{{Name: "head", Shape: []int{2, 3}, Data: []float32{1, 2, 3, 4, 5, 6}}}
	if _, err := arrowfile.WriteTensors(path, tensors, nil, seal.AttemptFromEnv(), seal.Manifest{Stage: "learn", PolicyVersion: -1}); err != nil {
		panic(err)
	}
	read, _, _, err := arrowfile.ReadTensors(context.Background(), path, seal.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Println(read[0].Name, read[0].Shape, read[0].Data)
	// Output: head [2 3] [1 2 3 4 5 6]
}
