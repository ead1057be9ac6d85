package policy

import (
	"strings"

	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// Inspection is what a model folder is, and what it takes to run and to train.
type Inspection struct {
	Folder      string                    `json:"folder"`
	Family      string                    `json:"family"` // Llama, Qwen2 or Qwen3
	Config      Config                    `json:"config"`
	Parameters  int                       `json:"parameters"`
	Files       int                       `json:"files"`        // that the weights are in
	Stored      map[safetensors.DType]int `json:"stored"`       // parameters by the type they are stored in
	WeightBytes int64                     `json:"weight_bytes"` // as stored
	Memory      []Memory                  `json:"memory"`       // by the type that the weights are loaded in
	FLOPs       []FLOPs                   `json:"flops"`        // by the length of sequences
	SHA256      string                    `json:"sha256"`       // Digest
}

// Memory is what a policy takes with its weights in one type: bytes without
// those that a backend adds for its own layout of matrices. Gradients are
// float32; moments and, beside weights in half precision, master weights are
// float32 unless the optimizer's state is chosen to be in half precision.
type Memory struct {
	DType          safetensors.DType `json:"dtype"`
	WeightBytes    int64             `json:"weight_bytes"`
	MasterBytes    int64             `json:"master_bytes"`
	GradientBytes  int64             `json:"gradient_bytes"`
	MomentBytes    int64             `json:"moment_bytes"`
	TrainBytes     int64             `json:"train_bytes"`           // the sum of those above
	KVBytes        int64             `json:"kv_bytes_per_token"`    // with keys and values in this type
	KeptBytes      int64             `json:"activation_bytes"`      // per token, for a backward pass that computes nothing again
	RecomputeBytes int64             `json:"activation_bytes_less"` // per token, when blocks are computed again
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
		Parameters: ParameterCount(c), Files: len(s.weights.files), Stored: map[safetensors.DType]int{},
	}
	for _, t := range s.tensors {
		x.Stored[t.DType] += t.Elements()
	}
	for _, f := range s.weights.files {
		x.WeightBytes += f.DataBytes()
	}
	for _, d := range []safetensors.DType{safetensors.F32, safetensors.BF16} {
		x.Memory = append(x.Memory, MemoryOf(c, d))
	}
	for _, tokens := range []int{1024, 4096} {
		tokens = min(tokens, c.MaxPositionEmbeddings)
		train := FLOPsPerToken(c, tokens)
		x.FLOPs = append(x.FLOPs, FLOPs{SequenceTokens: tokens, Train: train, Forward: train / 3, Decode: DecodeFLOPsPerToken(c, tokens)})
	}
	x.SHA256, err = Digest(folder)
	return x, err
}

// MemoryOf is the memory of a policy with its weights in type d.
func MemoryOf(c Config, d safetensors.DType) Memory {
	n, width := int64(ParameterCount(c)), int64(d.Bytes())
	m := Memory{DType: d, WeightBytes: n * width, GradientBytes: 4 * n, MomentBytes: 8 * n}
	if d != safetensors.F32 {
		m.MasterBytes = 4 * n
	}
	m.TrainBytes = m.WeightBytes + m.MasterBytes + m.GradientBytes + m.MomentBytes
	m.KVBytes = 2 * int64(c.NumHiddenLayers) * int64(c.KeyValueWidth()) * width
	block, stream := c.activations()
	m.KeptBytes = 4 * (int64(c.NumHiddenLayers)*block + stream)
	m.RecomputeBytes = 4 * ((int64(c.NumHiddenLayers)-1)*stream + block + stream)
	return m
}

// activations is the number of values that a block leaves for its backward
// pass, for each token: the residual stream before and inside it, queries,
// keys and values, attention's output with the maximum and sum of each head's
// softmax, gate and up projections, and the norms' factors. stream is the
// width of the residual stream.
func (c Config) activations() (block, stream int64) {
	stream = int64(c.HiddenSize)
	block = 2*stream + 2*int64(c.QueryWidth()) + 2*int64(c.KeyValueWidth()) + 2*int64(c.NumAttentionHeads) + 2*int64(c.IntermediateSize) + 2
	if c.QKNorm() {
		block += int64(c.QueryWidth()+c.KeyValueWidth()) + int64(c.NumAttentionHeads+c.NumKeyValueHeads)
	}
	return block, stream
}

// DecodeFLOPsPerToken is the work of the forward pass of one token behind a
// context of so many tokens: 2·N_mat + 4·L·(Hq·dh)·context, with N_mat as for
// FLOPsPerToken.
func DecodeFLOPsPerToken(c Config, context int) float64 {
	return 2*c.matrices() + 4*float64(c.NumHiddenLayers)*float64(c.QueryWidth())*float64(context)
}
