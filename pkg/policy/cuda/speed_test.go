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

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
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
	Head   []speedCase                `json:"head"`
	Decode []speedCase                `json:"decode"`
}

type speedCase struct {
	What      string `json:"what"`
	By        string `json:"by"`
	Model     string `json:"model"`
	Sequences int    `json:"sequences,omitempty"`
	Batch     int    `json:"batch,omitempty"`
	Prompt    int    `json:"prompt,omitempty"`    // tokens
	Tokens    int    `json:"tokens"`              // of a sequence in training; new ones in decoding
	Responses int    `json:"responses,omitempty"` // sequences in a row that begin with one prompt, of which nothing is learned
	LoRA      int    `json:"lora,omitempty"`      // rank of the adapter that is trained; 0: all weights are
	Steps     int    `json:"steps,omitempty"`
	Quick     bool   `json:"quick,omitempty"`

	TokensPerSecond float64 `json:"tokens_per_second"`
	PeakBytes       int64   `json:"peak_bytes"`       // what the engine holds, and of the head alone its own part
	FLOPsPerSecond  float64 `json:"flops_per_second"` // of the model's arithmetic, what is computed again left out
	DeviceSeconds   float64 `json:"device_seconds"`   // that the fastest step kept the device busy
	BytesPerSecond  float64 `json:"bytes_per_second"` // of weights, keys and values that decoding reads
	How             string  `json:"how"`

	Error string `json:"error,omitempty"`
}

// same says whether two lines are of one case.
func (c speedCase) same(d speedCase) bool {
	return c.What == d.What && c.Model == d.Model && c.Sequences == d.Sequences && c.Batch == d.Batch && c.Prompt == d.Prompt && c.Tokens == d.Tokens &&
		c.Responses == d.Responses && c.LoRA == d.LoRA
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
			config, err := checkpoint.ParseConfig(raw)
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
	for _, c := range cases.Head {
		measure("head", c, measureHead)
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

// A case that fails costs itself alone, says so in its line, and no later run
// makes a success of it.
func TestMeasuringGoesOn(t *testing.T) {
	folder := t.TempDir()
	results, cases := filepath.Join(folder, "results.jsonl"), filepath.Join(folder, "cases.json")
	model := `{"vocab_size": 64, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": %d, "max_position_embeddings": 64, "rope_theta": 1000, "rms_norm_eps": 1e-6, "tie_word_embeddings": true}`
	text := fmt.Sprintf(`{"models": {"refused": `+model+`, "taken": `+model+`},
"train": [{"model": "refused", "sequences": 2, "tokens": 16, "steps": 1}], "decode": [{"model": "taken", "batch": 2, "prompt": 4, "tokens": 4}],
"head": [{"model": "taken", "sequences": 2, "tokens": 16, "steps": 1}]}`, 3, 2)
	if err := os.WriteFile(cases, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	library := policytest.Library(t)
	for _, wantLines := range []int{2, 6, 6} {
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
	if have[1].Error != "it failed: see its log" {
		t.Errorf("%+v", have)
	}
	for _, c := range []speedCase{have[3], have[5]} {
		if c.Error != "" || c.TokensPerSecond <= 0 {
			t.Errorf("%+v", c)
		}
	}
}

// Every kind of training that cases.json has, at a size that takes no time.
func TestTrainingIsMeasured(t *testing.T) {
	if !policytest.Emulated() {
		t.Skipf("%s measures them", speedVariable)
	}
	for name, c := range map[string]speedCase{
		"weights":        {Sequences: 3, Tokens: 17, Steps: 1},
		"an adapter":     {Sequences: 3, Tokens: 17, Steps: 1, LoRA: 2},
		"shared prompts": {Sequences: 4, Tokens: 30, Steps: 1, Prompt: 20, Responses: 2},
	} {
		t.Run(name, func(t *testing.T) {
			config := small(nil)
			measureTraining(t, &c, config)
			if c.TokensPerSecond <= 0 || c.FLOPsPerSecond <= 0 || c.PeakBytes <= 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// Of a batch of whole sequences the work is that of FLOPsPerToken, but for the
// head of first tokens and attention's diagonal; of shared prompts it is that of
// the tokens which there are.
func TestTrainingFLOPs(t *testing.T) {
	config := small(nil)
	head := 6 * float64(config.VocabSize) * float64(config.HiddenSize)
	ofPair := 12 * float64(config.NumHiddenLayers) * float64(config.QueryWidth())
	plain, _ := batchOf(config, &speedCase{Sequences: 2, Tokens: 10})
	if got, want := trainingFLOPs(config, plain, nil), 20*policy.FLOPsPerToken(config, 10)-2*head+10*ofPair; got != want {
		t.Errorf("two sequences of 10 tokens take %g, want %g", got, want)
	}
	// 7 tokens of a prompt, and twice 3 that predict 2 targets: 28 + 2·(3·7+6) pairs.
	shared, workload := batchOf(config, &speedCase{Sequences: 2, Tokens: 10, Prompt: 8, Responses: 2})
	if got, want := trainingFLOPs(config, shared, nil), 13*(policy.FLOPsPerToken(config, 0)-head)+4*head+82*ofPair; got != want {
		t.Errorf("two responses to a prompt take %g, want %g", got, want)
	}
	if workload.Shared != 48 {
		t.Errorf("a prefix group of %d rows, want 48", workload.Shared)
	}
}
