package cpu

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// peerVariable names a Python with torch and transformers; `make bench-peers`
// sets it.
const peerVariable = "LATHE_PEER_PYTHON"

// A peerCase is one measurement, in a process of its own so that its peak
// memory is its own.
type peerCase struct {
	Config    map[string]any `json:"config"` // for transformers
	Millions  int            `json:"millions"`
	Sequences int            `json:"sequences"`
	Tokens    int            `json:"tokens"` // of a sequence
	Threads   int            `json:"threads"`
	Warmup    int            `json:"warmup"` // steps before those that count
	Steps     int            `json:"steps"`  // of which the fastest counts
	Mode      string         `json:"mode"`   // one of ourModes or theirModes
}

// What the two are measured in. In autocast products alone are in bfloat16, as with
// policy.compute bfloat16; in bfloat16 weights and optimizer state are too. The compiled
// ones go through torch.compile.
var (
	ourModes   = []string{"float32", "compute bfloat16", "bfloat16"}
	theirModes = []string{"float32", "autocast", "bfloat16", "compiled float32", "compiled autocast"}
)

// peerResult is what a process prints.
type peerResult struct {
	TokensPerSecond    float64 `json:"tokens_per_second"`
	TokensPerCPUSecond float64 `json:"tokens_per_cpu_second"` // what counts on a machine with other work
	PeakBytes          int64   `json:"peak_bytes"`
}

// childVariable holds the case that a child process measures.
const childVariable = "LATHE_PEER_CASE"

// TestPeerChild measures one case and prints the result.
func TestPeerChild(t *testing.T) {
	text := os.Getenv(childVariable)
	if text == "" {
		t.Skip("a helper of TestAgainstPyTorch")
	}
	var c peerCase
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	options := Options{Threads: c.Threads, Train: true}
	if c.Mode != "float32" {
		options.Compute = safetensors.BF16
	}
	if c.Mode == "bfloat16" {
		options.DType, options.State = safetensors.BF16, safetensors.BF16
	}
	e, err := New(&randomSource{config: benchConfig(c.Millions)}, options)
	if err != nil {
		t.Fatal(err)
	}
	step := trainer(t, e, c.Sequences, c.Tokens)
	var result peerResult
	tokens := float64(c.Sequences * c.Tokens)
	for i := range c.Warmup + c.Steps {
		start, cpu := time.Now(), cpuSeconds(t)
		step()
		if i >= c.Warmup {
			result.merge(peerResult{tokens / time.Since(start).Seconds(), tokens / (cpuSeconds(t) - cpu), 0})
		}
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	result.PeakBytes = usage.Maxrss << 10
	out, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\n%s\n", out)
}

// randomSource gives random weights without holding them.
type randomSource struct{ config policy.Config }

func (s *randomSource) Config() policy.Config    { return s.config }
func (s *randomSource) Tensors() []policy.Tensor { return policy.Layout(s.config) }
func (s *randomSource) Close() error             { return nil }

func (s *randomSource) Float32To(dst []float32, index, from int) error {
	stream := rng.New(1, rng.PurposeTest, index, "weights", 0)
	for i := range dst {
		dst[i] = 0.07 * (stream.Float32(uint64(from+i)) - 0.5)
	}
	return nil
}

// TestAgainstPyTorch trains the same shapes on as many tokens with this engine
// and with PyTorch on transformers' model, in turns and in each one's modes, and prints
// tokens per second and peak memory, beside each of ours the ratio to PyTorch's fastest.
// The ratio by CPU time is the one to read on a machine with other work.
//
// Alone: it measures.
func TestAgainstPyTorch(t *testing.T) {
	python := os.Getenv(peerVariable)
	if python == "" {
		t.Skipf("%s names no Python with torch and transformers", peerVariable)
	}
	fmt.Printf("%-8s %-8s %-26s %12s %10s %10s %10s\n", "params", "threads", "what", "tokens/s", "GB at peak", "of fastest", "by CPU")
	for _, c := range []peerCase{
		{Millions: 5, Sequences: 8, Tokens: 256, Warmup: 2, Steps: 8},
		{Millions: 27, Sequences: 8, Tokens: 256, Warmup: 1, Steps: 4},
		{Millions: 494, Sequences: 2, Tokens: 256, Warmup: 1, Steps: 2},
	} {
		shape := benchConfig(c.Millions)
		c.Config = map[string]any{
			"vocab_size": shape.VocabSize, "hidden_size": shape.HiddenSize, "intermediate_size": shape.IntermediateSize,
			"num_hidden_layers": shape.NumHiddenLayers, "num_attention_heads": shape.NumAttentionHeads,
			"num_key_value_heads": shape.NumKeyValueHeads, "max_position_embeddings": shape.MaxPositionEmbeddings,
			"tie_word_embeddings": shape.TieWordEmbeddings,
		}
		for _, threads := range []int{1, 2} {
			t.Run(fmt.Sprintf("%dM-%d", c.Millions, threads), func(t *testing.T) {
				c.Threads = threads
				var ours, theirs [8]peerResult // by mode
				for range 2 {
					for i, mode := range theirModes {
						c.Mode = mode
						theirs[i].merge(measure(t, c, python, "testdata/train_torch.py"))
					}
					for i, mode := range ourModes {
						c.Mode = mode
						ours[i].merge(measure(t, c, os.Args[0], "-test.run=^TestPeerChild$"))
					}
				}
				var fastest peerResult
				for _, r := range theirs {
					fastest.merge(r)
				}
				row := func(who, mode string, r peerResult) {
					fmt.Printf("%-8s %-8d %-26s %12.1f %10.2f %10.2f %10.2f\n", fmt.Sprintf("%.1fM", float64(policy.ParameterCount(shape))/1e6), threads, who+", "+mode,
						r.TokensPerSecond, float64(r.PeakBytes)/1e9, r.TokensPerSecond/fastest.TokensPerSecond, r.TokensPerCPUSecond/fastest.TokensPerCPUSecond)
				}
				for i, mode := range theirModes {
					row("PyTorch", mode, theirs[i])
				}
				for i, mode := range ourModes {
					row("Lathe", mode, ours[i])
				}
			})
		}
	}
}

// merge keeps the faster of two measurements.
func (r *peerResult) merge(other peerResult) {
	r.TokensPerSecond = max(r.TokensPerSecond, other.TokensPerSecond)
	r.TokensPerCPUSecond = max(r.TokensPerCPUSecond, other.TokensPerCPUSecond)
	r.PeakBytes = max(r.PeakBytes, other.PeakBytes)
}

// measure runs a case in a process, which prints its result in a line of its
// own.
func measure(t *testing.T, c peerCase, program string, arguments ...string) peerResult {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, arguments...)
	command.Env = append(os.Environ(), childVariable+"="+string(text), "GOMAXPROCS="+strconv.Itoa(c.Threads))
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
	var r peerResult
	for line := range bytes.Lines(out) {
		if json.Unmarshal(line, &r) == nil && r.TokensPerSecond > 0 {
			return r
		}
	}
	t.Fatalf("%s printed no result:\n%s", program, out)
	return r
}
