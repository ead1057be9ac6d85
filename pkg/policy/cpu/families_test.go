package cpu

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
	"github.com/lathe-rl/lathe/pkg/policy"
)

const familiesHead = `# Families of models

Written by a test of ` + "`pkg/policy/cpu`" + ` from models with random weights that transformers %s saved, and from what it
computes of them in float64. Numbers are the largest over all tokens: |Δ log-probability| of Lathe in float32 and, beside
it, of transformers itself in float32 (torch %s); and the largest |Δ gradient| relative to the largest gradient
of its tensor. Differences of 10⁻⁵ are the rounding of float32, which both have.

Every model below but qwq was also trained for three steps, saved and loaded in transformers again, with the same names and files and
log-probabilities within 10⁻⁵ of the largest (` + "`TestTrainedPolicyInTransformers`" + `, which needs a Python with transformers).
The GPU engine takes models that add nothing but "two rotary embeddings", "layers without rotary embedding" or "scaled cosines
and sines" and rejects the others by what it lacks.

| class | model | Lathe | transformers | gradients | what it adds to Llama |
|---|---|---|---|---|---|
`

const familiesTail = `
## Mixtures of experts

Qwen3-MoE and OLMoE sample, score and train on the CPU engine, with the router in float32. A token's numbers do not depend on
what else is in the batch. Adapters may change attention alone; ` + "`output_router_logits`" + `, which asks for the routers' own loss,
is rejected, and so are shared experts (Qwen2-MoE) and Mixtral, whose files have other names.

## Long sequences

A sequence of 65,536 tokens with QwQ-32B's YaRN (` + "`make_families.py --tokens 65536 FOLDER qwq`" + `; one layer, random weights): Lathe
differs from float64 by 2.8·10⁻⁵ at most and 2.3·10⁻⁶ on average, transformers in float32 by 1.8·10⁻⁵ and 8.5·10⁻⁷. With LongRoPE
(Phi-3, Phi-4-mini) the longest sequence is the original length: beyond it transformers changes the frequencies of tokens that
are computed already, so that sampling and scoring would differ.

## Tokenizers and templates

The tokenizer of a folder is read, whatever the family, or rejected with the name of what is missing. Ids, offsets of added tokens
and decoded text are held to those of tokenizers 0.23.3 on more than 10,000 odd texts.

| pipeline | as in | test |
|---|---|---|
| byte-level with GPT-2's pattern | GPT-2 | ` + "`TestAgainstPeer`" + ` |
| byte-level with patterns like that of cl100k | Llama 3, Qwen 2 and 3 | ` + "`TestAgainstPeer`" + ` |
| byte-level after Digits | SmolLM and SmolLM2 | ` + "`TestKinds`" + ` "digits" |
| byte-level without all bytes | OLMo, GPT-NeoX | ` + "`TestKinds`" + ` "unknown byte" |
| byte-level with GPT-4o's pattern | GPT-4o, gpt-oss, Phi-4-mini | ` + "`TestKinds`" + ` "o200k" |
| several Splits | DeepSeek | ` + "`TestKinds`" + ` "deepseek" |
| byte fallback with Prepend and Replace | Llama 2, Phi-3, first Mistral | ` + "`TestKinds`" + ` "llama2" |
| byte fallback with Split | Gemma | ` + "`TestKinds`" + ` "gemma" |
| byte fallback with Metaspace | Mistral 0.3 | ` + "`TestKinds`" + ` "metaspace …" |

These are small tokenizers of the same pipelines; ` + "`TestRealFiles`" + ` compares published files where there are any. Chat templates of
Qwen 2.5 and Qwen 3 are rendered in the tests as they were published, those of other families by templates of their shape.
`

// jobs/FAMILIES.md says what the models of transformers give here and there. Its
// numbers are the same on every machine, since the engine's bits are.
func TestFamilies(t *testing.T) {
	t.Parallel()
	var peers struct {
		Torch, Transformers string
		Cases               map[string]struct{ Most, Mean float64 }
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(filepath.Join("..", "testdata", "peers.json")))(t), &peers))
	var page strings.Builder
	fmt.Fprintf(&page, familiesHead, peers.Transformers, peers.Torch)
	for _, folder := range goldenFolders(t) {
		if !strings.HasPrefix(folder, filepath.Join("..", "testdata")) {
			continue // of LATHE_TEST_GOLDEN
		}
		name := filepath.Base(folder)
		g := checkGolden(t, folder)
		peer, there := peers.Cases[name]
		if !there {
			t.Errorf("peers.json has no %s; run measure_peers.py", name)
		}
		if g.most > 4*peer.Most && g.mean > 2*peer.Mean {
			t.Errorf("%s: log-probabilities differ by %.2g at most and %.2g on average, those of transformers in float32 by %.2g and %.2g",
				name, g.most, g.mean, peer.Most, peer.Mean)
		}
		var parts []string
		for _, part := range g.config.Parts() {
			parts = append(parts, string(part))
		}
		fmt.Fprintf(&page, "| %s | %s | %.1e | %.1e | %.1e | %s |\n", strings.TrimSuffix(string(g.config.Architecture), "ForCausalLM"), name,
			g.most, peer.Most, g.gradients, strings.Join(parts, ", "))
	}
	page.WriteString(familiesTail)
	golden.Check(t, sourcetree.Path("jobs", "FAMILIES.md"), page.String())
}

// goldenResult is how far a model's numbers are from those of transformers in float64.
type goldenResult struct {
	config     policy.Config
	most, mean float64 // of log-probabilities
	gradients  float64 // relative to the largest of their tensor; 0 if there are none
}

// apart are the largest difference and the mean one.
func apart(got []float32, want []float64) (most, mean float64) {
	for i, x := range got {
		d := math.Abs(float64(x) - want[i])
		most, mean = max(most, d), mean+d/float64(len(got))
	}
	return most, mean
}
