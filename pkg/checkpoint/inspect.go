package checkpoint

import (
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// Inspection is what a model folder is, and what it takes to run and to train.
type Inspection struct {
	Folder      string                    `json:"folder"`
	Family      string                    `json:"family"` // Llama, Qwen2, Gemma3, …
	Config      policy.Config             `json:"config"`
	Parameters  int                       `json:"parameters"`
	Files       int                       `json:"files"`        // that the weights are in
	Stored      map[safetensors.DType]int `json:"stored"`       // parameters by the type they are stored in
	WeightBytes int64                     `json:"weight_bytes"` // as stored
	Memory      []policy.Memory           `json:"memory"`       // by the type that the weights are loaded in
	FLOPs       []FLOPs                   `json:"flops"`        // by the length of sequences
	SHA256      string                    `json:"sha256"`       // Digest
}

// FLOPs are the floating-point operations for one token of sequences of a
// length (FLOPsPerToken, DecodeFLOPsPerToken).
type FLOPs struct {
	SequenceTokens int     `json:"sequence_tokens"`
	Train          float64 `json:"train"`
	Forward        float64 `json:"forward"`
	Decode         float64 `json:"decode"` // of the last token
}

// Inspect opens a model folder and says what it is. All weights are read, for
// the digest.
func Inspect(folder string) (Inspection, error) {
	s, err := openFolder(folder)
	if err != nil {
		return Inspection{}, err
	}
	defer s.Close()
	c := s.config
	x := Inspection{
		Folder: folder, Family: strings.TrimSuffix(string(c.Architecture), "ForCausalLM"), Config: c,
		Parameters: policy.ParameterCount(c), Files: len(s.weights.files), Stored: map[safetensors.DType]int{},
	}
	for _, t := range s.tensors {
		x.Stored[t.DType] += t.Elements()
	}
	for _, f := range s.weights.files {
		x.WeightBytes += f.DataBytes()
	}
	for _, d := range []safetensors.DType{safetensors.F32, safetensors.BF16} {
		x.Memory = append(x.Memory, policy.MemoryOf(c, d))
	}
	for _, tokens := range slices.Compact([]int{min(1024, c.MaxPositionEmbeddings), min(4096, c.MaxPositionEmbeddings)}) {
		train := policy.FLOPsPerToken(c, tokens)
		x.FLOPs = append(x.FLOPs, FLOPs{SequenceTokens: tokens, Train: train, Forward: train / 3, Decode: policy.DecodeFLOPsPerToken(c, tokens)})
	}
	x.SHA256, err = Digest(folder)
	return x, err
}
