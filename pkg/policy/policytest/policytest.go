// Package policytest is what tests of the policy engines share: weights, batches
// and coefficients that are the same wherever they are drawn, and the library of
// the CUDA engine.
package policytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// Weights are random weights with all tensors further from their initial values
// by noise of a standard deviation.
func Weights(t testing.TB, c policy.Config, noise float32) []policy.Tensor {
	t.Helper()
	weights, err := policy.Init(c, 11)
	must(t, err)
	for _, w := range weights {
		stream := rng.New(5, rng.PurposeTest, 0, w.Name, 0)
		for i := range w.Data {
			w.Data[i] += noise * float32(stream.Normal(uint64(i)))
		}
	}
	return weights
}

// LoudWeights are far from their initial values, so that every gradient is well
// above rounding.
func LoudWeights(t testing.TB, c policy.Config) []policy.Tensor {
	t.Helper()
	return Weights(t, c, 0.25)
}

// Batch has sequences of random tokens of the given lengths; about two of three
// tokens are targets.
func Batch(c policy.Config, seed uint64, lengths ...int) policy.Batch {
	stream := rng.New(seed, rng.PurposeTest, 0, "batch", 0)
	batch := policy.Batch{Offsets: []int32{0}}
	for _, n := range lengths {
		for i := range n {
			at := uint64(len(batch.TokenIDs))
			batch.TokenIDs = append(batch.TokenIDs, int32(stream.IntN(2*at, c.VocabSize)))
			batch.Targets = append(batch.Targets, i > 0 && stream.IntN(2*at+1, 3) > 0)
		}
		batch.Offsets = append(batch.Offsets, int32(len(batch.TokenIDs)))
	}
	return batch
}

// Coefficients are random where the batch has targets, and 0 elsewhere.
func Coefficients(batch policy.Batch, seed uint64) []float32 {
	stream := rng.New(seed, rng.PurposeTest, 0, "coefficients", 0)
	c := make([]float32, len(batch.TokenIDs))
	for i := range c {
		if batch.Targets[i] {
			c[i] = float32(stream.Normal(uint64(i)))
		}
	}
	return c
}

// LibraryVariable names the CUDA engine's library, as for package cuda.
const LibraryVariable = "LATHE_CUDA_LIB"

// Emulated says whether the kernels of Library run on the CPU: a test then takes
// small cases alone.
func Emulated() bool {
	named := os.Getenv(LibraryVariable)
	return named == "" || strings.Contains(filepath.Base(named), "_host")
}

// Library is the file of the CUDA engine: the one that LATHE_CUDA_LIB names,
// which may be a GPU's, or else the one whose kernels are emulated on the CPU,
// which make builds of the same sources. A test without the tools for that is
// skipped.
func Library(t testing.TB) string {
	t.Helper()
	path, missing := builtLibrary()
	if strings.HasPrefix(missing, "FAILED") {
		t.Fatal(missing)
	}
	if missing != "" {
		t.Skip(missing)
	}
	return path
}

var builtLibrary = sync.OnceValues(func() (path, missing string) {
	if named := os.Getenv(LibraryVariable); named != "" {
		return named, ""
	}
	folder := sourcetree.Path("cuda")
	for _, tool := range []string{"make", "g++"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", "the emulated library cannot be built: " + err.Error()
		}
	}
	// Tests of several packages may ask at once.
	build := exec.Command("flock", "-o", "Makefile", "make", "-s", "-j2", "build/liblathe_engine_host.so")
	if _, err := exec.LookPath("flock"); err != nil {
		build = exec.Command("make", "-s", "-j2", "build/liblathe_engine_host.so")
	}
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		return "", "FAILED: make -C cuda build/liblathe_engine_host.so: " + err.Error() + "\n" + string(out)
	}
	return filepath.Join(folder, "build", "liblathe_engine_host.so"), ""
})
