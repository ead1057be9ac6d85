package shard_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// A table is a sealed Parquet file of typed rows; equal rows give equal bytes.
func ExampleWrite() {
	folder, err := os.MkdirTemp("", "shard-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "metrics.parquet")
	rows := []shard.Metric{
		{Iteration: 1, Stage: "learn", Name: "loss", Value: 0.5},
		{Iteration: 1, Stage: "learn", Name: "kl", Value: 0.01},
	}
	if _, err := shard.Write(path, rows, nil, seal.AttemptFromEnv(), seal.Manifest{Stage: "report", PolicyVersion: -1}); err != nil {
		panic(err)
	}
	read, manifest, err := shard.Read[shard.Metric](context.Background(), path, seal.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Println(manifest.Rows, "rows of", manifest.Schema.Name)
	for _, row := range read {
		fmt.Println(row.Name, row.Value)
	}
	// Output:
	// 2 rows of metrics
	// loss 0.5
	// kl 0.01
}
