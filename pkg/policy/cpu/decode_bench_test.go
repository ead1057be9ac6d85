package cpu

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// BenchmarkDecodeFolder measures what analysis/bench_decode.py compares with
// transformers: the policy of the folder LATHE_BENCH_POLICY samples
// LATHE_BENCH_BATCH responses of LATHE_BENCH_TOKENS tokens to as many prompts
// of LATHE_BENCH_PROMPT tokens, with products in LATHE_BENCH_COMPUTE, F32 (also
// if empty) or BF16. The time of prompts and first tokens is taken away. It is
// one measurement: run it with -benchtime 1x, in a process of its own for the
// peak of memory.
func BenchmarkDecodeFolder(b *testing.B) {
	folder := os.Getenv("LATHE_BENCH_POLICY")
	if folder == "" {
		b.Skip("LATHE_BENCH_POLICY is not set")
	}
	number := func(name string) int {
		n, err := strconv.Atoi(os.Getenv("LATHE_BENCH_" + name))
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	batch, threads, tokens, prompt := number("BATCH"), number("THREADS"), number("TOKENS"), number("PROMPT")
	source, err := checkpoint.Open(folder)
	if err != nil {
		b.Fatal(err)
	}
	e, err := New(source, Options{Threads: threads, Compute: safetensors.DType(os.Getenv("LATHE_BENCH_COMPUTE"))})
	if err != nil {
		b.Fatal(err)
	}
	if err := source.Close(); err != nil {
		b.Fatal(err)
	}
	requests := make([]policy.Request, batch)
	for i := range requests {
		ids := make([]int32, prompt)
		for j := range ids {
			ids[j] = int32((i*7919 + j*104729 + 1) % e.config.VocabSize)
		}
		requests[i] = policy.Request{Prompt: ids, Stream: rng.New(1, rng.PurposeTest, 0, "", i), Sampling: policy.Sampling{Temperature: 1}}
	}
	// The best of three: other programs only ever slow things down.
	seconds := func(newTokens int) (wall, cpu float64) {
		wall, cpu = math.Inf(1), math.Inf(1)
		for range 3 {
			for i := range requests {
				requests[i].MaxNewTokens = newTokens
			}
			start, used := time.Now(), cpuSeconds(b)
			if _, err := e.Generate(context.Background(), requests); err != nil {
				b.Fatal(err)
			}
			wall, cpu = min(wall, time.Since(start).Seconds()), min(cpu, cpuSeconds(b)-used)
		}
		return wall, cpu
	}
	for b.Loop() {
		first, firstCPU := seconds(1)
		all, allCPU := seconds(1 + tokens)
		steps := all - first
		b.ReportMetric(float64(batch*tokens)/(allCPU-firstCPU), "tokens/cpu-s")
		b.ReportMetric(float64(batch*tokens)/steps, "tokens/s")
		b.ReportMetric(float64(batch*prompt)/first, "prompt-tokens/s")
		rounds := (batch + e.decoders[0].capacity - 1) / e.decoders[0].capacity
		b.ReportMetric(float64(e.base.bytes())*float64(tokens*rounds)/steps/1e9, "weight-GB/s")
		b.ReportMetric(peakMegabytes(b), "peak-MB")
		b.ReportMetric(readBandwidth(threads), "memory-GB/s")
		b.ReportMetric(0, "ns/op")
	}
}

// readBandwidth is how fast threads read memory that no cache holds.
func readBandwidth(threads int) float64 {
	const size = 64 << 20 // floats of a thread
	data := make([][]float32, threads)
	for i := range data {
		data[i] = make([]float32, size)
		for j := range data[i] {
			data[i][j] = float32(j)
		}
	}
	best := math.Inf(1)
	for range 5 {
		start := time.Now()
		var group sync.WaitGroup
		for _, x := range data {
			group.Go(func() { vec.Max(x) })
		}
		group.Wait()
		best = min(best, time.Since(start).Seconds())
	}
	return 4 * size * float64(threads) / best / 1e9
}

// peakMegabytes is the most memory that the process has had resident.
func peakMegabytes(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			kilobytes, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kilobytes / 1e3
		}
	}
	return 0
}

// BenchmarkTurns measures 8 conversations of 20 turns: 64 tokens come in, 32
// are sampled, and each turn's prompt is all that came before.
func BenchmarkTurns(b *testing.B) {
	c := benchConfig(5)
	c.MaxPositionEmbeddings = 2048
	for _, keep := range []bool{false, true} {
		b.Run(fmt.Sprintf("params=5.2M/keep=%v/threads=1", keep), func(b *testing.B) {
			e := benchEngine(b, c, 1)
			start := cpuSeconds(b)
			for b.Loop() {
				requests := make([]policy.Request, 8)
				for turn := range 20 {
					for i := range requests {
						ids := requests[i].Prompt
						for j := range 64 {
							ids = append(ids, int32((turn*64+i*31+j*7)%c.VocabSize))
						}
						requests[i] = policy.Request{
							Prompt: ids, MaxNewTokens: 32, Stream: rng.New(1, rng.PurposeTest, turn, "", i),
							Sampling: policy.Sampling{Temperature: 1}, Keep: keep,
						}
					}
					for i, completion := range generate(b, e, requests) {
						requests[i].Prompt = append(requests[i].Prompt, completion.TokenIDs...)
					}
				}
			}
			b.ReportMetric(float64(8*20*32*b.N)/(cpuSeconds(b)-start), "tokens/cpu-s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
