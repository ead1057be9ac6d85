//go:build cgo && linux

package cuda_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/cuda"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// speedVariable names the file for the results of TestSpeed, quickVariable
// set to anything takes the quick cases alone, and casesVariable names other cases.
const (
	speedVariable = "LATHE_GPU_SPEED"
	quickVariable = "LATHE_GPU_QUICK"
	casesVariable = "LATHE_GPU_CASES"
)

// longestSpeed is the time of a case that is of no more use: it ends the program
// then, so that a wait that never ends takes no more than its own time.
const longestSpeed = 3 * time.Minute

// speedCases are those of cuda/peers/cases.json, which PyTorch takes too.
type speedCases struct {
	Models map[string]json.RawMessage `json:"models"`
	Train  []speedCase                `json:"train"`
	Decode []speedCase                `json:"decode"`
}

type speedCase struct {
	What      string `json:"what"`
	By        string `json:"by"`
	Model     string `json:"model"`
	Sequences int    `json:"sequences,omitempty"`
	Batch     int    `json:"batch,omitempty"`
	Prompt    int    `json:"prompt,omitempty"`
	Tokens    int    `json:"tokens"`
	Steps     int    `json:"steps,omitempty"`
	Quick     bool   `json:"quick,omitempty"`

	TokensPerSecond float64 `json:"tokens_per_second"`
	PeakBytes       int64   `json:"peak_bytes"`       // what the engine holds
	FLOPsPerSecond  float64 `json:"flops_per_second"` // of the model's arithmetic, what is computed again left out
	DeviceSeconds   float64 `json:"device_seconds"`   // that the fastest step kept the device busy
	BytesPerSecond  float64 `json:"bytes_per_second"` // of weights, keys and values that decoding reads
	How             string  `json:"how"`

	Error string `json:"error,omitempty"`
}

// same says whether two lines are of one case.
func (c speedCase) same(d speedCase) bool {
	return c.What == d.What && c.Model == d.Model && c.Sequences == d.Sequences && c.Batch == d.Batch && c.Prompt == d.Prompt && c.Tokens == d.Tokens
}

// speedResults is a file of lines of JSON, one or two of each case: the first
// says that the case has ended the program, which holds until the second is there.
type speedResults struct {
	t    *testing.T
	path string
	have []speedCase
}

func openSpeedResults(t *testing.T, path string) *speedResults {
	r := &speedResults{t: t, path: path}
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var c speedCase
		if json.Unmarshal(line, &c) == nil { // it may have been cut off
			r.have = append(r.have, c)
		}
	}
	return r
}

func (r *speedResults) add(c speedCase) {
	r.t.Helper()
	line, err := json.Marshal(c)
	if err != nil {
		r.t.Fatal(err)
	}
	f, err := os.OpenFile(r.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(f, "%s\n", line); err != nil {
		r.t.Error(err)
	}
	if err := f.Close(); err != nil {
		r.t.Error(err)
	}
}

// plainSource gives random weights in bfloat16 quickly: speed asks for no more
// of them than that they are not zero.
type plainSource struct{ config policy.Config }

func (s plainSource) Config() policy.Config { return s.config }
func (s plainSource) Close() error          { return nil }

func (s plainSource) Tensors() []policy.Tensor {
	all := policy.Layout(s.config)
	for i := range all {
		all[i].DType = safetensors.BF16
	}
	return all
}

func (s plainSource) Float32To(dst []float32, index, from int) error {
	state := uint64(index)<<40 + uint64(from) + 1
	for i := range dst {
		state = state*6364136223846793005 + 1442695040888963407
		dst[i] = (float32(state>>40)/(1<<24) - 0.5) * 0.06
	}
	return nil
}

// TestSpeed measures training and decoding on the cases that
// cuda/peers/speed.py gives PyTorch, and adds a line of JSON for each. Cases that
// the file has are left out, so that a run goes on where another was ended; and
// after one that fails the test ends, because the device may be of no more use
// to this process.
func TestSpeed(t *testing.T) {
	path := os.Getenv(speedVariable)
	if path == "" {
		t.Skipf("%s names no file for the results", speedVariable)
	}
	casesPath := filepath.Join("..", "..", "..", "cuda", "peers", "cases.json")
	if named := os.Getenv(casesVariable); named != "" {
		casesPath = named
	}
	raw, err := os.ReadFile(casesPath)
	if err != nil {
		t.Fatal(err)
	}
	var cases speedCases
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	results := openSpeedResults(t, path)
	measure := func(what string, c speedCase, run func(t *testing.T, c *speedCase, config policy.Config)) {
		c.What, c.By = what, "Lathe"
		if os.Getenv(quickVariable) != "" && !c.Quick || slices.ContainsFunc(results.have, c.same) || t.Failed() {
			return
		}
		begun := c
		begun.Error = "it ended the test, or was ended with it: see its log"
		results.add(begun)
		t.Run(fmt.Sprintf("%s %s %d", what, c.Model, max(c.Batch, c.Tokens)), func(t *testing.T) {
			// What fails is told in place of what it was when it began.
			c.Error = "it failed: see its log"
			defer func() { results.add(c) }()
			var fields map[string]any
			if err := json.Unmarshal(cases.Models[c.Model], &fields); err != nil {
				t.Fatal(err)
			}
			fields["architectures"], fields["model_type"] = []string{string(policy.Qwen2)}, "qwen2"
			raw, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			config, err := policy.ParseConfig(raw)
			if err != nil {
				t.Fatal(err)
			}
			late := time.AfterFunc(longestSpeed, func() {
				fmt.Fprintf(os.Stderr, "%s: more than %v\n", t.Name(), longestSpeed)
				os.Exit(3)
			})
			defer late.Stop()
			run(t, &c, config)
			c.Error = ""
		})
	}
	for _, c := range cases.Train {
		measure("train", c, measureTraining)
	}
	for _, c := range cases.Decode {
		measure("decode", c, measureDecoding)
	}
	// What failed before is not measured again, and is no success.
	for i, c := range results.have {
		if c.Error != "" && !slices.ContainsFunc(results.have[i+1:], c.same) {
			t.Errorf("%s %s %d failed before: %s", c.What, c.Model, max(c.Batch, c.Tokens), c.Error)
		}
	}
}

func openSpeed(t *testing.T, config policy.Config, options cuda.Options) *cuda.Engine {
	options.Library = policytest.Library(t)
	e, err := cuda.New(plainSource{config}, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// total is what the engine says it holds.
func total(t *testing.T, e *cuda.Engine) int64 {
	stats, err := e.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return cuda.Footprint{
		WeightBytes: stats.WeightBytes, GradientBytes: stats.GradientBytes, SumBytes: stats.SumBytes, StateBytes: stats.StateBytes,
		ActivationBytes: stats.ActivationBytes, HeadBytes: stats.HeadBytes, CacheBytes: stats.CacheBytes, OtherBytes: stats.OtherBytes,
	}.Total()
}

// measureTraining takes steps of maximum likelihood, of which the fastest
// counts: forward, backward and AdamW.
func measureTraining(t *testing.T, c *speedCase, config policy.Config) {
	tokens := c.Sequences * c.Tokens
	e := openSpeed(t, config, cuda.Options{Train: true, Workload: cuda.Workload{Longest: c.Tokens, PassTokens: tokens}})
	lengths := make([]int, c.Sequences)
	for i := range lengths {
		lengths[i] = c.Tokens
	}
	batch := policytest.Batch(config, 1, lengths...)
	for i := range batch.Targets {
		batch.Targets[i] = i%c.Tokens != 0
	}
	given := policy.Coefficients{LogProb: mean(batch)}
	settings := adamW
	settings.LearningRate = 1e-6
	best := 0.0
	for step := range 2 + c.Steps {
		if _, err := e.Stats(); err != nil { // starts its clock anew
			t.Fatal(err)
		}
		start := time.Now()
		forward(t, e, batch, policy.Sampling{Temperature: 1})
		e.ZeroGradients()
		backward(t, e, given)
		if _, err := e.Step(settings); err != nil {
			t.Fatal(err)
		}
		seconds := time.Since(start).Seconds()
		if step < 2 || best != 0 && seconds >= best {
			continue
		}
		stats, err := e.Stats()
		if err != nil {
			t.Fatal(err)
		}
		best, c.DeviceSeconds = seconds, stats.DeviceSeconds
	}
	c.TokensPerSecond = float64(tokens) / best
	c.FLOPsPerSecond = c.TokensPerSecond * policy.FLOPsPerToken(config, c.Tokens)
	c.PeakBytes = total(t, e)
	c.How = "bfloat16, float32 masters and moments"
}

// measureDecoding samples a response for each of the same number of prompts.
func measureDecoding(t *testing.T, c *speedCase, config policy.Config) {
	e := openSpeed(t, config, cuda.Options{Workload: cuda.Workload{Generate: true, Responses: c.Batch, Longest: c.Prompt + c.Tokens}})
	requests := make([]policy.Request, c.Batch)
	for i := range requests {
		one := policytest.Batch(config, uint64(i), c.Prompt)
		requests[i] = policy.Request{
			Prompt: one.TokenIDs, MaxNewTokens: c.Tokens, Stream: rng.New(1, rng.PurposeSample, 0, "speed", i), Sampling: policy.Sampling{Temperature: 1},
		}
	}
	best := 0.0
	for range 2 {
		start := time.Now()
		generate(t, e, requests)
		best = time.Since(start).Seconds() // the first has the graphs to make
	}
	c.TokensPerSecond = float64(c.Batch*c.Tokens) / best
	// Each step reads the weights once, and the keys and values so far.
	context := float64(c.Prompt) + float64(c.Tokens)/2
	memory := policy.MemoryOf(config, safetensors.BF16)
	c.BytesPerSecond = c.TokensPerSecond / float64(c.Batch) * (float64(memory.WeightBytes) + float64(c.Batch)*context*float64(memory.KVBytes))
	c.PeakBytes = total(t, e)
	c.How = "bfloat16, prompts included"
}

// A case that fails costs itself alone, says so in its line, and no later run
// makes a success of it.
func TestMeasuringGoesOn(t *testing.T) {
	folder := t.TempDir()
	results, cases := filepath.Join(folder, "results.jsonl"), filepath.Join(folder, "cases.json")
	model := `{"vocab_size": 64, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": %d, "max_position_embeddings": 64, "rope_theta": 1000, "rms_norm_eps": 1e-6, "tie_word_embeddings": true}`
	text := fmt.Sprintf(`{"models": {"refused": `+model+`, "taken": `+model+`},
"train": [{"model": "refused", "sequences": 2, "tokens": 16, "steps": 1}], "decode": [{"model": "taken", "batch": 2, "prompt": 4, "tokens": 4}]}`, 3, 2)
	if err := os.WriteFile(cases, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	library := policytest.Library(t)
	for _, wantLines := range []int{2, 4, 4} {
		command := exec.Command(os.Args[0], "-test.run", "^TestSpeed$")
		command.Env = append(os.Environ(), policytest.LibraryVariable+"="+library, speedVariable+"="+results, casesVariable+"="+cases, quickVariable+"=")
		out, err := command.CombinedOutput()
		if err == nil {
			t.Errorf("a case failed, and the test did not:\n%s", out)
		}
		if have := openSpeedResults(t, results).have; len(have) != wantLines {
			t.Fatalf("%d lines, want %d: %+v\n%s", len(have), wantLines, have, out)
		}
	}
	have := openSpeedResults(t, results).have
	if have[1].Error != "it failed: see its log" || have[3].Error != "" || have[3].TokensPerSecond <= 0 {
		t.Errorf("%+v", have)
	}
}
