package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestOwnEqualsGo: a reward in Python that gives the scores of the verifier in Go
// trains the same policy, byte for byte, where a good part of the answers are right.
func TestOwnEqualsGo(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	folder := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var train, test strings.Builder
	for a := range 10 {
		for b := range 10 {
			to := &train
			if (a+3*b)%10 == 0 {
				to = &test
			}
			fmt.Fprintf(to, `{"question": "%d+%d=", "answer": "%d"}`+"\n", a, b, a+b)
		}
	}
	write("train.jsonl", train.String())
	write("test.jsonl", test.String())
	write("exact.py", "def reward(completion, answer):\n    return float(completion.strip() == answer)\n")
	helper, err := filepath.Abs("../../data/program/lathe_env.py")
	if err != nil {
		t.Fatal(err)
	}
	base := `policy: {backend: cpu, new: {hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 64, tokenizer: bytes}}
rollout: {prompts: 16, group: 8, max_new_tokens: 4}
optimizer: {learning_rate: 1e-3}
schedule: {iterations: 3}
evaluation: {problems: 5, steps: 0}
`
	inGo := write("go.yaml", base+`env: {name: math, prompts: {initial: "{question}"}, answer: {verifier: exact, extract: whole}}
data: {train: {files: [train.jsonl]}, test: {files: [test.jsonl]}}
warm_start: {steps: 150, chunk: 150, batch: 32, optimizer: {learning_rate: 5e-3}}
`)
	inPython := write("python.yaml", base+`env: {name: program, program: {command: [python3, `+helper+`, exact.py]}}
data: {train: {files: [train.jsonl], fields: {question: question}}, test: {files: [test.jsonl], fields: {question: question}}}
`)
	first, second := filepath.Join(folder, "go"), filepath.Join(folder, "python")
	lathe(t, exitcode.OK, runArgs(first, inGo)...)
	lathe(t, exitcode.OK, runArgs(second, inPython, from(filepath.Join(first, "policy", "v000000"))...)...)

	policies, right, all := map[string]bool{}, 0, 0
	for _, run := range []string{first, second} {
		weights, err := os.ReadFile(filepath.Join(run, "policy", "v000003", "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		policies[string(weights)] = true
		for iteration := range 3 {
			paths, err := filepath.Glob(filepath.Join(run, "iter", fmt.Sprintf("%06d", iteration+1), "score", "*.parquet"))
			if err != nil || len(paths) == 0 {
				t.Fatalf("no verdicts of iteration %d: %v", iteration+1, err)
			}
			for _, path := range paths {
				rows, _, err := shard.Read[shard.Score](t.Context(), path, seal.Options{})
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range rows {
					if all++; row.Outcome == string(shard.OutcomeOK) {
						right++
					}
				}
			}
		}
	}
	t.Logf("%d of %d answers are right", right, all)
	if right < all/10 || right > all*9/10 {
		t.Errorf("%d of %d answers are right: too few, or too many, to tell rewards apart by", right, all)
	}
	if len(policies) != 1 {
		t.Error("the policies differ")
	}
}
