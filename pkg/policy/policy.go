// Package policy says what a decoder-only transformer policy is: its
// configuration, the names and shapes of its weights and adapters, and the
// interfaces that every backend of the engine implements. Package checkpoint
// reads and writes its folders.
//
// The engine knows no reinforcement learning: a [Scorer] gives the log-probability
// and the entropy of each token, the caller computes one coefficient per token, and
// a [Trainer] takes the coefficients.
//
// There is one log-probability for all: the sampler's, the learner's and the reference's come from the same code, in
// the same order of reduction, whatever the batch around a sequence, at the
// sampling temperature and over the truncated support of top-k and top-p.
package policy

import (
	"context"
	"strings"

	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// Sampling says how logits become a distribution. The zero value samples
// greedily.
type Sampling struct {
	Temperature float32 // 0 means greedy: the argmax, ties to the lowest id; log-probabilities are then at temperature 1
	TopK        int     // keep the k most probable tokens; 0 or less keeps all
	TopP        float32 // keep the smallest set with at least this mass; 0 or 1 keeps all
}

// RowTokens is what a sequence's tokens are rounded up to where the size of a
// pass is counted: a GPU's engine gives each a multiple of so many rows.
const RowTokens = 16

// RowsOf is the tokens of a sequence, rounded up to RowTokens.
func RowsOf(tokens int) int { return (tokens + RowTokens - 1) / RowTokens * RowTokens }

// Batch is a set of sequences packed without padding.
type Batch struct {
	TokenIDs []int32 // (N) all sequences, one after the other
	Offsets  []int32 // (S+1) sequence s is TokenIDs[Offsets[s]:Offsets[s+1]]
	// Targets marks the tokens whose log-probability is wanted (N). The first
	// token of a sequence has no predecessor and is never a target.
	Targets []bool
	// Prefixes lets sequences share their beginning (S): sequence s goes on where
	// sequence Prefixes[s] ends, or begins by itself if that is -1. A shared prefix begins
	// by itself, and those that go on from it come right after it. What predicts
	// the first token of a sequence is not in it, so that is never a target: to
	// learn the first token of several responses to a prompt, the shared prefix is the
	// prompt without its last token. Nil: no sequence has a shared prefix. What is computed
	// for a token is what would be in a sequence that spells the shared prefix out, to the
	// last bit; gradients of weights are the same sums in another order.
	Prefixes []int32
}

// Prefix returns the sequence that sequence s continues (its shared prefix), or -1.
func (b Batch) Prefix(s int) int {
	if b.Prefixes == nil {
		return -1
	}
	return int(b.Prefixes[s])
}

// PrefixGroupEnd returns the first sequence after the prefix group that begins with sequence
// s, which has no shared prefix itself: s and the sequences that continue it.
func (b Batch) PrefixGroupEnd(s int) int {
	for s++; s < len(b.Offsets)-1 && b.Prefix(s) >= 0; s++ {
	}
	return s
}

// Arithmetic is what an engine's numbers depend on beside the weights: engines
// of one policy that say the same compute the same bits, whatever their
// threads, instructions or memory. Those that say something else need not, and
// the ratio of what one sampled and another learns is not exactly 1.
type Arithmetic struct {
	Backend  string `json:"backend"`            // cpu or cuda
	Device   string `json:"device,omitempty"`   // the GPU's name
	Products string `json:"products,omitempty"` // the path of bfloat16 products: mma or wgmma on a GPU, bfloat16 on a CPU
	// Library is the SHA-256 of the GPU engine's library, hexadecimal: another compiler, or
	// other sources, may round otherwise. Empty on a CPU, where every build has the same bits.
	Library string `json:"library,omitempty"`
}

// String names it for people.
func (a Arithmetic) String() string {
	words := strings.Fields(a.Backend + " " + a.Device + " " + a.Products)
	if a.Library != "" {
		words = append(words, "library "+a.Library[:min(12, len(a.Library))])
	}
	return strings.Join(words, " ")
}

// Coefficients are the derivatives of a loss L by what the engine computes for
// the target tokens of a batch, each of length N and read where Targets is
// true. A nil member is a derivative of zero everywhere.
type Coefficients struct {
	LogProb []float32 // dL/dlogp of token i
	Entropy []float32 // dL/dH of the distribution that token i was drawn from
	Value   []float32 // dL/dV of the value head's output where token i was predicted
}

// Stream addresses the random numbers of one response: the token at absolute
// position p of the sequence is drawn with Stream.Float64(p).
type Stream = rng.Stream

// Request asks for one continuation.
type Request struct {
	Prompt       []int32 // at least one token
	MaxNewTokens int
	StopTokens   []int32 // generation ends after any of these; the stop token is part of the response
	Stream       Stream
	Sampling     Sampling

	// Keep says that a later request may begin with this prompt and response:
	// what they left in the engine is kept, as memory allows. It changes speed
	// only.
	Keep bool

	// Watch, if there is one, is called after every sampled token with the
	// response so far, which it must not keep or change; true ends the response
	// with FinishStop. What it decides is to follow from the response alone.
	// Calls for one request come one after the other; those for different
	// requests may come at once, from any goroutine of the engine.
	Watch func(response []int32) (stop bool)
}

// FinishReason says why a response ended.
type FinishReason string

// The reasons.
const (
	FinishStop   FinishReason = "stop"   // a stop token, or Watch
	FinishLength FinishReason = "length" // MaxNewTokens or the model's maximum length
)

// Completion is the answer to a request.
type Completion struct {
	TokenIDs     []int32   // the response without the prompt
	LogProbs     []float32 // of each response token, natural logarithm
	FinishReason FinishReason
}

// AdamW holds the settings of one optimizer step (Loshchilov and Hutter,
// Decoupled Weight Decay Regularization, ICLR 2019, Algorithm 2).
type AdamW struct {
	LearningRate float64
	Beta1        float64
	Beta2        float64
	Epsilon      float64
	WeightDecay  float64 // decoupled; applied to matrices, not to norms and biases
	MaxGradNorm  float64 // global L2 norm to clip to; 0 does not clip
	// ValueHead is what the value head has of its own.
	ValueHead HeadAdamW
	// Rounding draws the numbers of this step that round bfloat16 state. Steps
	// need streams of their own, or their errors add up.
	Rounding Stream
}

// HeadAdamW is what of a step's settings a value head has of its own, as a critic
// that is a model of its own would.
type HeadAdamW struct {
	LearningRate float64 // 0 for that of all
	MaxGradNorm  float64 // L2 norm of the head's gradient to clip to, which then is in no other norm; 0 for one norm of all
}

// StepStats says what an optimizer step saw.
type StepStats struct {
	GradNorm float64 // global L2 norm before clipping, without what is clipped by itself
	Scale    float64 // what the gradient was multiplied by: 1 when not clipped
	// HeadNorm and HeadScale are those of a value head that is clipped by itself;
	// else 0.
	HeadNorm, HeadScale float64
	Skipped             bool // the gradient was not finite: nothing was changed
}

// Tensor is a named tensor in row-major order.
type Tensor struct {
	Name  string
	Shape []int
	// DType is what the tensor is stored in, and what the weights that
	// everything computes with are rounded to. Empty means F32.
	DType safetensors.DType
	Data  []float32 // shares memory with the engine
}

// Engine is a policy that is open on one backend, by what can be done with it: each
// backend's engine implements all of these interfaces, and a function takes the
// smallest that it uses. One goroutine at a time uses any of them; an engine uses its
// own threads inside.
type Engine struct {
	Model
	Sampler
	Scorer
	Trainer
	Sums

	Embedder Embedder    // nil where the backend does not show its states
	Meter    DeviceMeter // nil without a device of its own
}

// Model is what an engine is of.
type Model interface {
	Config() Config
	Arithmetic() Arithmetic
	// Unit is what of a CPU computes products with weights: amx, avx512, avx2 or go;
	// empty on a GPU. No result depends on it.
	Unit() string

	// Adapter returns the shape of the policy's low-rank adapter, nil for none.
	// With an adapter, its tensors and the value head are all that is trained.
	Adapter() *LoRA

	Close() error
}

// Sampler continues prompts.
type Sampler interface {
	// Generate samples one continuation for each request. A result depends on
	// its request and the weights alone, never on the other requests.
	Generate(ctx context.Context, requests []Request) ([]Completion, error)
}

// Scorer computes what a policy makes of given sequences.
type Scorer interface {
	// Room returns how many prefix groups, from the first on, fit one Forward without
	// recomputation beyond the minimum in its Backward; at least 1. A prefix group is
	// the lengths of a shared prefix and of its continuations, or of one sequence. However
	// a batch is divided at the ends of prefix groups, no bit of any result changes.
	Room(groups [][]int) int

	// Forward computes the log-probability of every target token given its
	// predecessors, and the entropy of the distribution it was drawn from
	// (nats); both have length N and are 0 where Targets is false. The
	// activations are kept for one Backward, until which the caller leaves the
	// batch's slices as they are. For a target outside the truncated support, the
	// support is extended by the target.
	Forward(batch Batch, sampling Sampling, logProbs, entropy []float32) error

	// Values fills dst (N) with the value head's output for the targets of the
	// last Forward, at the state that each is predicted from; 0 elsewhere. It
	// is for a policy with a value head.
	Values(dst []float32) error

	// SetAdapter switches the adapter on, as it is at first, or off, which
	// makes the engine that of the policy that is adapted: the reference of a
	// penalty needs no second copy. It drops the last Forward. It does nothing
	// without an adapter.
	SetAdapter(on bool)
}

// Trainer changes the weights of a policy: the trained tensors, in the order of their
// layout and by their Hugging Face names (an adapter's by PEFT's), with the value head,
// if there is one, last.
type Trainer interface {
	// Backward adds to the gradients of a loss, given its derivatives, for the
	// batch of the last Forward. It may be called once for a Forward.
	Backward(coefficients Coefficients) error

	// Gradients lists the accumulated gradients, to be looked at before anything
	// else happens to them.
	Gradients() []Tensor
	ZeroGradients()

	// Step applies the accumulated gradients. The optimizer's moments start
	// at zero unless LoadOptimizerState was called.
	Step(settings AdamW) (StepStats, error)

	// Weights lists the trained tensors, rounded to their types as everything
	// computes with them: what is saved. They are a copy.
	Weights() []Tensor

	// OptimizerState lists first and second moments of the trained tensors
	// (exp_avg.NAME, exp_avg_sq.NAME), then the float32 masters that half-precision weights
	// are rounded from (master.NAME), and the number of steps taken. An engine
	// that is given the saved weights and this state goes on to the same bits. The state is
	// read from the engine, as it is at that time.
	OptimizerState() (state State, steps int)
	LoadOptimizerState(state State, steps int) error

	// Err is the first failure of a method that returns no error itself, as a
	// device that breaks down may cause; nil if there was none. What such
	// methods have returned since then is worthless, so that whoever seals it
	// asks first.
	Err() error
}

// Sums adds up the gradients of a batch's parts in an order of the caller's. Partial
// sums are numbered from 0 and stay where the gradients are.
type Sums interface {
	// Trained lists the trained tensors without their numbers.
	Trained() []Tensor

	// WriteGradient sets the elements from.. of the accumulated gradient of
	// tensor index of Trained.
	WriteGradient(index, from int, values []float32) error

	// HoldGradients moves the accumulated gradients to a sum, whose old numbers
	// are lost, and leaves zeros.
	HoldGradients(sum int) error
	// AddGradients adds a sum, which stays as it is, to the accumulated gradients.
	AddGradients(sum int) error
	// ReadSum fills dst with the elements from.. of a sum's tensor index.
	ReadSum(sum, index, from int, dst []float32) error
}

// Embedder shows the states of its policy.
type Embedder interface {
	// Embed gives each sequence of a batch the mean of its policy's last states
	// (hidden size), after the last norm and before the head, over the tokens that
	// own (N) marks: sums in float64, in the order of the tokens. A sequence
	// without such a token has zeros. It depends on the sequence and the weights
	// alone, and drops the last Forward; targets and shared prefixes are not looked at.
	Embed(batch Batch, own []bool) ([][]float32, error)
}
