package command_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/command"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// The log-probabilities of an imported model are those that transformers gives for the same
// GGUF file (testdata/gguf/models.py), within 1e-4 in float32.
func TestPolicyImport(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"llama", "qwen2", "qwen3"} {
		file := filepath.Join("testdata", "gguf", name+".gguf")
		folder := filepath.Join(t.TempDir(), name)
		must.Do(t, command.PolicyImport(io.Discard, command.PolicyImportOptions{File: file, DType: "float32", Out: folder, MaxFileMB: 5000}))
		var peer, own struct {
			TokenIDs []int32    `json:"token_ids"`
			LogProbs []*float64 `json:"logprobs"`
		}
		must.Do(t, json.Unmarshal(must.Get(os.ReadFile(filepath.Join("testdata", "gguf", name+".json")))(t), &peer))
		var out bytes.Buffer
		line := must.Get(json.Marshal(map[string]any{"id": 1, "token_ids": peer.TokenIDs}))(t)
		must.Do(t, command.PolicyLogprobs(t.Context(), bytes.NewReader(append(line, '\n')), &out, command.PolicyLogprobsOptions{Model: folder, Threads: 1}))
		must.Do(t, json.Unmarshal(out.Bytes(), &own))
		for i := 1; i < len(peer.LogProbs); i++ {
			if d := math.Abs(*own.LogProbs[i] - *peer.LogProbs[i]); d > 1e-4 {
				t.Errorf("%s: token %d: %g, transformers %g", name, i, *own.LogProbs[i], *peer.LogProbs[i])
			}
		}
		out.Reset()
		must.Do(t, command.PolicyInspect(t.Context(), &out, command.PolicyInspectOptions{Model: folder}))
		if want := "imported from " + name + ".gguf (GGUF v3, " + name + ", Q8_0) as float32\n"; !strings.Contains(out.String(), want) {
			t.Errorf("inspect does not print %q:\n%s", want, out.String())
		}
		// What exists is never written over, and what is refused leaves nothing.
		if err := command.PolicyImport(io.Discard, command.PolicyImportOptions{File: file, Out: folder, MaxFileMB: 1}); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("a folder that exists: %v", err)
		}
		broken := filepath.Join(t.TempDir(), "broken")
		if err := command.PolicyImport(io.Discard, command.PolicyImportOptions{File: file, Pre: "none", Out: broken, MaxFileMB: 1}); exitcode.Code(err) != exitcode.Data {
			t.Errorf("a pre-tokenizer that is not there: %v", err)
		}
		if left := must.Get(os.ReadDir(filepath.Dir(broken)))(t); len(left) > 0 {
			t.Errorf("%v is left of a folder that was refused", left)
		}
	}
}
