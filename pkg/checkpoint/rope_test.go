package checkpoint

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// Frequencies within two units in the last place of transformers' own, for the
// settings of published models and for all settings that change them
// (../policy/testdata/make_rope.py).
func TestRopeAgainstTransformers(t *testing.T) {
	t.Parallel()
	var cases []struct {
		Name        string
		Config      json.RawMessage
		Frequencies []float32
		Factor      float64
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(filepath.Join("..", "policy", "testdata", "rope.json")))(t), &cases))
	for _, test := range cases {
		c, err := ParseConfig(test.Config)
		if err != nil {
			t.Errorf("%s: %v", test.Name, err)
			continue
		}
		frequencies, factor := c.RopeFrequencies(policy.RopeGlobal)
		if len(frequencies) != len(test.Frequencies) || factor != float32(test.Factor) {
			t.Errorf("%s: %d frequencies and the factor %g, want %d and %g", test.Name, len(frequencies), factor, len(test.Frequencies), test.Factor)
			continue
		}
		for i, want := range test.Frequencies {
			if apart := int64(math.Float32bits(frequencies[i])) - int64(math.Float32bits(want)); apart < -2 || apart > 2 {
				t.Errorf("%s: frequency %d is %g, want %g", test.Name, i, frequencies[i], want)
			}
		}
	}
}

// YaRN's factor lengthens what it is applied to, as its authors use it; LongRoPE
// and dynamic scaling end where frequencies would change.
func TestLongestSequence(t *testing.T) {
	t.Parallel()
	const shape = `{"architectures":["Qwen2ForCausalLM"],"vocab_size":11,"hidden_size":8,"intermediate_size":12,"num_hidden_layers":1,"num_attention_heads":4,
		"rms_norm_eps":1e-6,"max_position_embeddings":40960,"rope_scaling":`
	for rope, want := range map[string]int{
		`null}`: 40960,
		`{"type":"yarn","factor":4.0,"original_max_position_embeddings":32768}}`:                            131072,
		`{"type":"dynamic","factor":4.0}}`:                                                                  40960,
		`{"type":"longrope","short_factor":[1],"long_factor":[2]},"original_max_position_embeddings":4096}`: 4096,
	} {
		c, err := ParseConfig([]byte(shape + rope))
		if err != nil || c.MaxPositionEmbeddings != want {
			t.Errorf("%s: sequences of %d tokens, %v; want %d", rope, c.MaxPositionEmbeddings, err, want)
		}
	}
}
