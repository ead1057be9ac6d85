package cpu

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// goldenFolders are models saved by transformers, with what it makes of them
// (../testdata/make_golden.py and make_families.py), and those in the folder that
// LATHE_TEST_GOLDEN names.
func goldenFolders(t testing.TB) []string {
	t.Helper()
	var folders []string
	for _, kind := range []string{"golden", "families"} {
		found, err := filepath.Glob(filepath.Join("..", "testdata", kind, "*"))
		if err != nil || len(found) == 0 {
			t.Fatalf("%d models in %s, %v", len(found), kind, err)
		}
		folders = append(folders, found...)
	}
	if more := os.Getenv("LATHE_TEST_GOLDEN"); more != "" {
		found, err := filepath.Glob(filepath.Join(more, "*"))
		if err != nil || len(found) == 0 {
			t.Fatalf("%d models in %s, %v", len(found), more, err)
		}
		folders = append(folders, found...)
	}
	return folders
}

// goldenFile reads golden.safetensors.
type goldenFile struct {
	t    testing.TB
	file *safetensors.File
}

func openGolden(t testing.TB, folder string) goldenFile {
	t.Helper()
	file, err := safetensors.Open(filepath.Join(folder, "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return goldenFile{t, file}
}

func (g goldenFile) read(name string) (values []float64, shape []int) {
	g.t.Helper()
	info, ok := g.file.Lookup(name)
	if !ok {
		g.t.Fatalf("no %s", name)
	}
	narrow := make([]float32, info.Elements())
	if err := g.file.Float32To(narrow, name); err != nil {
		g.t.Fatal(err)
	}
	return widened(narrow), info.Shape
}

// batch is the sequences, with all tokens but the first as targets.
func (g goldenFile) batch() policy.Batch {
	tokens, shape := g.read("tokens")
	batch := policy.Batch{Offsets: []int32{0}}
	for i, id := range tokens {
		batch.TokenIDs = append(batch.TokenIDs, int32(id))
		batch.Targets = append(batch.Targets, i%shape[1] != 0)
	}
	for s := range shape[0] {
		batch.Offsets = append(batch.Offsets, int32((s+1)*shape[1]))
	}
	return batch
}

// Logits and log-probabilities within 1e-5, and gradients of the mean
// log-probability within 1e-4 of those of transformers, relative to the
// largest of their tensor. Among the models are all families, tied and untied
// heads, all three types of weights, one file and several, both spellings of
// scaled rotary embedding, and sequences of 5,300 tokens.
func TestAgainstTransformers(t *testing.T) {
	t.Parallel()
	for _, folder := range goldenFolders(t) {
		t.Run(filepath.Base(folder), func(t *testing.T) { checkGolden(t, folder) })
	}
}

// checkGolden does it for one model.
func checkGolden(t *testing.T, folder string) goldenResult {
	t.Helper()
	source, err := checkpoint.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	e, err := New(source, Options{Threads: 1, Train: true})
	if err != nil {
		t.Fatal(err)
	}
	golden := openGolden(t, folder)
	batch := golden.batch()
	logProbs, _ := forward(t, e, batch, policy.Sampling{Temperature: 1})
	want, _ := golden.read("logprobs")
	if d := difference(logProbs, want); d > 1e-5 {
		t.Errorf("%s: log-probabilities differ by %.2g", folder, d)
	}
	result := goldenResult{config: e.config}
	result.most, result.mean = apart(logProbs, want)
	t.Logf("log-probabilities differ by %.2g at most, %.2g on average", result.most, result.mean)
	compareLogits(t, e, golden)

	coefficients := make([]float32, len(batch.TokenIDs))
	count := 0
	for _, target := range batch.Targets {
		if target {
			count++
		}
	}
	for i, target := range batch.Targets {
		if target {
			coefficients[i] = 1 / float32(count)
		}
	}
	if len(batch.TokenIDs) > 6000*(len(batch.Offsets)-1) {
		return result // the script leaves the gradients out
	}
	if err := e.Backward(policy.Coefficients{LogProb: coefficients}); err != nil {
		t.Fatal(err)
	}
	for _, g := range e.Gradients() {
		want, _ := golden.read("grad." + g.Name)
		d := difference(g.Data, want)
		if d > 1e-4 {
			t.Errorf("%s: gradient of %s differs by %.2g", folder, g.Name, d)
		}
		result.gradients = max(result.gradients, d)
	}
	return result
}

// compareLogits compares the logits after a forward pass in one chunk.
func compareLogits(t *testing.T, e *Engine, golden goldenFile) {
	t.Helper()
	if len(e.last.chunks) != 1 {
		t.Fatalf("%d chunks; only those of the last can be compared", len(e.last.chunks))
	}
	want, shape := golden.read("logits")
	positions, _ := golden.read("positions")
	vocabulary := e.config.VocabSize
	logits := make([]float32, len(e.head.rows)*vocabulary)
	e.model.head.apply(logits, e.head.normed, len(e.head.rows), 1, nil)
	e.finish(logits, 1)
	_, size := golden.read("tokens")
	for s := range shape[0] {
		for i, p := range positions {
			row := int32(s*size[1] + int(p)) // that predicts the next token
			at := slices.Index(e.head.rows, row)
			if at < 0 { // the last token predicts none
				continue
			}
			wanted := want[(s*len(positions)+i)*vocabulary:][:vocabulary]
			if d := difference(logits[at*vocabulary:(at+1)*vocabulary], wanted); d > 1e-5 {
				t.Errorf("logits after token %g of sequence %d differ by %.2g", p, s, d)
			}
		}
	}
}

// Angles are those of float32 arithmetic: at positions beyond 5,000 they are
// 1e-4 and more off the exact ones, and have to be.
func TestAnglesAreRounded(t *testing.T) {
	t.Parallel()
	c := policy.Config{Architecture: policy.Llama, HeadDim: 64, RopeTheta: 10_000}
	table := newRopeTable(c, policy.RopeGlobal)
	table.extend(5300)
	worst := 0.0
	for p := range 5300 {
		cos, _ := table.at(p)
		for i, f := range table.frequencies {
			if want := math.Cos(float64(float32(p) * f)); float32(want) != cos[i] {
				t.Fatalf("cosine %d at position %d is %g, want %g", i, p, cos[i], want)
			}
			worst = max(worst, math.Abs(math.Cos(float64(p)*frequency(c, i))-float64(cos[i])))
		}
	}
	if worst < 1e-4 || worst > 1e-3 {
		t.Errorf("cosines differ from those of exact angles by %g at most; 1e-4 to 1e-3 was expected", worst)
	}
}

func widened(x []float32) []float64 {
	wide := make([]float64, len(x))
	for i := range x {
		wide[i] = float64(x[i])
	}
	return wide
}

// A policy that was trained from a folder of transformers loads there again,
// and gives there the log-probabilities that it gives here. This needs Python
// with transformers: LATHE_TEST_TRANSFORMERS is the interpreter.
func TestTrainedPolicyInTransformers(t *testing.T) {
	t.Parallel()
	python := os.Getenv("LATHE_TEST_TRANSFORMERS")
	if python == "" {
		t.Skip("LATHE_TEST_TRANSFORMERS is not set")
	}
	for _, folder := range goldenFolders(t) {
		t.Run(filepath.Base(folder), func(t *testing.T) { checkTrained(t, python, folder) })
	}
}

// checkTrained takes three optimizer steps from a golden folder and has
// transformers checks the folder that comes out.
func checkTrained(t *testing.T, python, folder string) {
	source, err := checkpoint.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	e, err := New(source, Options{Threads: 1, Train: true})
	if err != nil {
		t.Fatal(err)
	}
	batch := openGolden(t, folder).batch()
	coefficients := make([]float32, len(batch.TokenIDs))
	for i, target := range batch.Targets {
		if target {
			coefficients[i] = -1 / float32(len(batch.TokenIDs))
		}
	}
	for range 3 {
		forward(t, e, batch, policy.Sampling{Temperature: 1})
		if err := e.Backward(policy.Coefficients{LogProb: coefficients}); err != nil {
			t.Fatal(err)
		}
		stats, err := e.Step(policy.AdamW{LearningRate: 0.01, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8, WeightDecay: 0.1, MaxGradNorm: 1})
		if err != nil || stats.Skipped {
			t.Fatalf("%+v, %v", stats, err)
		}
		e.ZeroGradients()
	}
	trained := t.TempDir()
	if err := checkpoint.SaveLike(trained, folder, e.Weights()); err != nil {
		t.Fatal(err)
	}
	logProbs, entropy := forward(t, e, batch, policy.Sampling{Temperature: 1})
	lines, err := os.Create(filepath.Join(t.TempDir(), "logprobs.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	encoder := json.NewEncoder(lines)
	for s := range len(batch.Offsets) - 1 {
		from, to := batch.Offsets[s], batch.Offsets[s+1]
		if err := encoder.Encode(map[string]any{
			"token_ids": batch.TokenIDs[from:to], "logprobs": logProbs[from:to], "entropy": entropy[from:to],
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := lines.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, filepath.Join("..", "testdata", "check_transformers.py"), trained, folder, lines.Name()).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
