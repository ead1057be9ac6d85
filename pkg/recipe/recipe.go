// Package recipe is the typed form of the one YAML file that says what a run
// trains. A recipe is resolved once, when the run is made: presets, base
// files and command-line settings are folded in, every default is written
// out, and the result is stored in the run as recipe.yaml.
package recipe

import (
	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/loss/preset"
	"github.com/lathe-rl/lathe/pkg/scaffold"
	"github.com/lathe-rl/lathe/pkg/supervised"
)

// Recipe is everything that decides the bytes of a run, and the resources it
// asks for.
type Recipe struct {
	Name        string              `yaml:"name"`        // letters, digits, dots, dashes and underscores; by default the file's name
	Description string              `yaml:"description"` // one line for people
	Seed        uint64              `yaml:"seed"`        // of every random stream of the run
	Preset      string              `yaml:"preset"`      // fills select, advantage, factors, weight and loss; see Presets
	Policy      Policy              `yaml:"policy"`
	Start       Start               `yaml:"start"` // what is taken over of another run
	WarmStart   WarmStart           `yaml:"warm_start"`
	Env         Env                 `yaml:"env"`
	Data        Data                `yaml:"data"`
	Curriculum  Curriculum          `yaml:"curriculum"`
	Scaffold    Scaffold            `yaml:"scaffold"`
	Rollout     Rollout             `yaml:"rollout"`
	Score       Score               `yaml:"score"`
	Segments    credit.SegmentsPick `yaml:"segments"` // what gets one credit
	Reward      Reward              `yaml:"reward"`
	Select      credit.Selection    `yaml:"select"` // what is trained on: names of choices, each with its settings under it; what is not named is off. A list here replaces the preset's and the base's
	Advantage   Advantage           `yaml:"advantage"`
	Factors     credit.FactorPicks  `yaml:"factors"` // what advantages are multiplied by: names of choices, each with its settings under it. A list here replaces the preset's and the base's
	Weight      credit.WeightPick   `yaml:"weight"`  // how much each token counts
	Loss        loss.Loss           `yaml:"loss"`
	Optimizer   loss.Optimizer      `yaml:"optimizer"`
	Schedule    Schedule            `yaml:"schedule"`
	Evaluation  Evaluation          `yaml:"evaluation"`
	Resources   Resources           `yaml:"resources"`
}

// Choices lists the presets.
func (Recipe) Choices(field string) []string {
	if field == "preset" {
		return preset.Axis.Names()
	}
	return nil
}

// Policy says which policy is trained. Exactly one of Path and New is given.
type Policy struct {
	Backend string     `yaml:"backend" choices:"auto,cpu,cuda"`         // auto, cpu or cuda
	DType   string     `yaml:"dtype" choices:"auto,float32,bfloat16"`   // auto, float32 or bfloat16: what weights are rounded to and saved in; auto is what the policy has, float32 for a new one
	Compute string     `yaml:"compute" choices:"auto,float32,bfloat16"` // auto, float32 or bfloat16: what products, those of attention too, round their inputs to on the CPU, with sums in float32. auto is bfloat16 for a policy with bfloat16 weights. bfloat16 reads half the memory, of weights and of keys and values, and has the order of sums of CPUs' matrix units, so that nodes with and without them give the same bytes; backend cuda has no part in it
	Path    string     `yaml:"path" path:"file"`                        // a folder in Hugging Face layout
	New     *NewPolicy `yaml:"new"`                                     // a policy with random weights
	// Critic is what predicts the rewards of advantage.name gae: head, a linear
	// function of the policy's last hidden state, zero at first, trained with the
	// policy and saved in its folder as value_head.safetensors; or model, a copy of
	// the policy with such a head that is trained by itself and saved as
	// vNNNNNN.critic. Presets with a critic set head.
	Critic string `yaml:"critic" choices:"none,head,model"`
	LoRA   *LoRA  `yaml:"lora"` // train a low-rank adapter of the policy, and nothing else, in the warm start too
	Chat   Chat   `yaml:"chat"` // how messages become text; for policies made by New
	// Template sets variables of the chat template of the policy in path, such
	// as enable_thinking: false (chat_template_kwargs elsewhere). A name that
	// the template never reads is an error.
	Template     map[string]config.Scalar `yaml:"template"`
	TemplateDate string                   `yaml:"template_date"` // date that the chat template's strftime_now tells, as 2026-11-21; empty: strftime_now is undefined, so that prompts do not depend on the day
}

// NewPolicy is the shape of a policy made by the run. The names are those of
// Hugging Face's config.json.
type NewPolicy struct {
	HiddenSize            int     `yaml:"hidden_size"`                                 // width of the residual stream
	IntermediateSize      int     `yaml:"intermediate_size"`                           // width inside each SwiGLU
	NumHiddenLayers       int     `yaml:"num_hidden_layers"`                           // blocks of attention and SwiGLU
	NumAttentionHeads     int     `yaml:"num_attention_heads"`                         // query heads; divides hidden_size
	NumKeyValueHeads      int     `yaml:"num_key_value_heads"`                         // key and value heads; divides num_attention_heads
	MaxPositionEmbeddings int     `yaml:"max_position_embeddings"`                     // longest sequence in tokens, prompt included
	Rope                  string  `yaml:"rope" choices:"rotary,none"`                  // rotary position embedding, or none: positions then show in the causal mask alone, and the policy is saved as a SmolLM3, whose bias of queries, keys and values goes with one of the output projection
	RopeTheta             float64 `yaml:"rope_theta"`                                  // base of the rotary frequencies
	RMSNormEps            float64 `yaml:"rms_norm_eps"`                                // added to the mean square
	InitializerRange      float64 `yaml:"initializer_range"`                           // standard deviation of random matrices; 1/sqrt(hidden_size) learns sooner than the customary 0.02 where that is larger
	QKVBias               bool    `yaml:"qkv_bias"`                                    // biases of the query, key and value projections, as in Qwen 2
	TieWordEmbeddings     bool    `yaml:"tie_word_embeddings"`                         // the output head is the embedding
	Tokenizer             string  `yaml:"tokenizer" choices:"bytes,bpe,words,numbers"` // bytes; bpe trained on the training problems; words, a bpe trained on what stands between their digits, so that each digit is a token; or numbers, a bpe in which each group of up to three digits is a token
	VocabSize             int     `yaml:"vocab_size"`                                  // for bpe, words and numbers
}

// LoRA is a low-rank adapter in PEFT's form: to the projection y = x·Wᵀ of
// each target it adds (alpha/rank)·(x·Aᵀ)·Bᵀ, with A of rank rows drawn at
// random and B zero at first. The policy versions of the run are adapters of
// the policy that the run starts from, which it keeps as policy/base and which
// is the reference of a KL penalty.
type LoRA struct {
	Rank           int      `yaml:"rank"`                                                                      // r
	Alpha          float64  `yaml:"alpha"`                                                                     // the product is multiplied by alpha/rank
	Targets        []string `yaml:"targets" choices:"q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"` // q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj or down_proj
	RankStabilized bool     `yaml:"rank_stabilized"`                                                           // multiply by alpha/sqrt(rank) instead (rsLoRA)
}

// Chat is the text around each message. A string that is a special token of
// the tokenizer becomes that one token.
type Chat struct {
	SystemPrefix    string `yaml:"system_prefix"`    // before a system message
	SystemSuffix    string `yaml:"system_suffix"`    // after it
	UserPrefix      string `yaml:"user_prefix"`      // before a user message
	UserSuffix      string `yaml:"user_suffix"`      // after it
	AssistantPrefix string `yaml:"assistant_prefix"` // before a response
	AssistantSuffix string `yaml:"assistant_suffix"` // ends with the stop token
}

// Env names the environment. The other fields are the environment's own.
type Env struct {
	Name     string `yaml:"name"` // which environment
	Settings any    `yaml:",inline"`
}

// Choices lists the environments.
func (Env) Choices(field string) []string {
	if field == "name" {
		return env.Axis.Names()
	}
	return nil
}

// Data says where the training and the held-out problems come from. Its fields
// are the environment's own.
type Data struct {
	Settings any `yaml:",inline"`
}

// Demonstrated reports whether the environment's demonstrations are learned from.
func (w WarmStart) Demonstrated() bool { return w.Steps > 0 && w.Pool == "" && w.Data == nil }

// WarmStart is supervised learning before the first iteration: on correct
// demonstrations of the environment, or on what policies of earlier runs said.
// Zero steps means none.
type WarmStart struct {
	Steps     int                  `yaml:"steps"`            // optimizer steps
	Chunk     int                  `yaml:"chunk"`            // optimizer steps between two sealed checkpoints; changes no result
	StopLoss  float64              `yaml:"stop_loss"`        // stop before the last step once the mean loss of about the last twenty steps is below this many nats per token; 0 takes every step
	Batch     int                  `yaml:"batch"`            // demonstrations per step
	Pool      string               `yaml:"pool" path:"file"` // file of lathe pool to learn from in place of demonstrations, in a new random order each epoch: self-distillation (MLE-RL §5.4); its tokens must be of policy.path's tokenizer; $NAME is taken from the environment
	Data      *supervised.Settings `yaml:"data"`             // rows of files to learn from in place of demonstrations, in a new random order each epoch, but for those that ask a problem of data.test; null for none
	Kinds     []string             `yaml:"kinds"`            // kinds of training tasks that are demonstrated, a * at the end of one matching any rest; empty for all
	Improve   float64              `yaml:"improve"`          // share of demonstrations that answer a self-improve prompt, in [0, 1]
	Diverge   float64              `yaml:"diverge"`          // share that answer a self-diverge prompt
	Optimizer loss.Optimizer       `yaml:"optimizer"`
}

// Curriculum says which instances are sampled next.
type Curriculum struct {
	Name     string          `yaml:"name"`  // which curriculum; its settings stand under its name
	Kinds    []string        `yaml:"kinds"` // kinds of training tasks that are sampled, a * at the end of one matching any rest; empty for all
	Variants config.Variants `yaml:",inline"`
}

// Choices lists the curricula.
func (Curriculum) Choices(field string) []string {
	if field == "name" {
		return curriculum.Axis.Names()
	}
	return nil
}

// Settings are those of the curriculum; nil for one that has none.
func (c Curriculum) Settings() any { return c.Variants.Of(c.Name) }

// New makes the curriculum of a run with a seed.
func (c Curriculum) New(seed uint64) (curriculum.Curriculum, error) {
	return curriculum.New(c.Name, c.Settings(), seed)
}

// Scaffold says what the attempts of a trace after the first start from.
type Scaffold struct {
	Name     string          `yaml:"name"`    // which scaffold; its settings, and those of evaluation.scaffold, stand under their names
	Steps    int             `yaml:"steps"`   // attempts of a trace after the first, where the scaffold makes several; 0 under scaffold.seconds for as many as there is time for
	Seconds  float64         `yaml:"seconds"` // budget of a trace: what the policy takes to generate and its programs to run, checked before each turn; a program that would end after it is stopped; 0 for none
	Variants config.Variants `yaml:",inline"`
}

// Choices lists the scaffolds.
func (Scaffold) Choices(field string) []string {
	if field == "name" {
		return scaffold.Axis.Names()
	}
	return nil
}

// Reward says what a segment is worth. The settings of a choice stand under its name.
type Reward struct {
	Name     string           `yaml:"name"`     // which reward
	Overlong *credit.Overlong `yaml:"overlong"` // soft overlong punishment (DAPO), added to it; null for none
	Variants config.Variants  `yaml:",inline"`
}

// Choices lists the rewards.
func (Reward) Choices(field string) []string {
	if field == "name" {
		return credit.RewardAxis.Names()
	}
	return nil
}

// Advantage says against what a segment's reward is compared. The settings of a
// choice that is not described here stand under its name.
type Advantage struct {
	credit.AdvantageSettings `yaml:",inline"`
	Variants                 config.Variants `yaml:",inline" json:"-"`
}

// Choices lists the registered choices.
func (Advantage) Choices(field string) []string {
	if field == "name" {
		return credit.AdvantageAxis.Names()
	}
	return nil
}

// Rollout says how responses are sampled.
type Rollout struct {
	Prompts            int      `yaml:"prompts"`                             // B, instances per iteration
	Group              int      `yaml:"group"`                               // G, responses per instance
	MaxNewTokens       int      `yaml:"max_new_tokens"`                      // bound on the tokens of one response
	MaxNewTokensByTurn []int    `yaml:"max_new_tokens_by_turn"`              // bounds for turn 1, 2 and so on, the last one also for all later turns; empty: max_new_tokens for each
	MaxContextTokens   int      `yaml:"max_context_tokens"`                  // bound on the tokens of a context, prompt included, in training and evaluations: a response ends there, and memory to learn from it is planned for no longer ones; 0: as many as the policy takes
	Stop               []string `yaml:"stop"`                                // a response ends with the token that completes one of these strings, as it does with the chat format's stop token
	IncludeStop        bool     `yaml:"include_stop"`                        // whether the response's text has the stop string at its end; its tokens always have it
	Thinking           string   `yaml:"thinking" choices:"refuse,keep,drop"` // what of a turn stays in the policy's context once more messages follow, where the policy thinks before it answers (<think>): keep, all tokens as they were sampled, whatever the chat template would show; drop, the answers: each later turn begins a new context, and is learned from in a row of its own; refuse, as keep, but a run of several turns is not made with a template that takes thinking away, as Qwen3's does
	Temperature        float64  `yaml:"temperature"`                         // what logits are divided by; 0.0001 or more
	TopK               int      `yaml:"top_k"`                               // 0 keeps all
	TopP               float64  `yaml:"top_p"`                               // 1 keeps all
	Shards             int      `yaml:"shards"`                              // array tasks; no number changes the result
	Remote             *Remote  `yaml:"remote"`                              // a server that samples instead of our engine; null for none
}

// NewTokens is the bound on the tokens of each turn's response, where the last
// one holds for all later turns.
func (r Rollout) NewTokens() []int {
	if len(r.MaxNewTokensByTurn) > 0 {
		return r.MaxNewTokensByTurn
	}
	return []int{r.MaxNewTokens}
}

// Context is the bound on the tokens of a context of a policy that takes so many.
func (r Rollout) Context(positions int) int {
	if r.MaxContextTokens == 0 {
		return positions
	}
	return min(positions, r.MaxContextTokens)
}

// Remote is a server that speaks the OpenAI HTTP interface and samples the
// responses of rollouts and evaluations. What it samples is sealed, so all
// later stages can be repeated to the same bytes; the sampling itself cannot.
type Remote struct {
	Server          string   `yaml:"server" choices:"vllm,sglang,llama.cpp,openai"` // vllm, sglang, llama.cpp, or openai for no more than the standard fields
	URL             string   `yaml:"url"`                                           // http://HOST:PORT; $NAME is taken from the environment; file:PATH names a file with the address, which may still be on its way. Empty with serve
	Serve           []string `yaml:"serve"`                                         // command by which each task starts a server of its own, one word to an entry; {policy} is the policy's folder, {version} the folder's name, {port} a free port
	PassEnvironment []string `yaml:"pass_environment"`                              // serve: names of the variables that the server gets of your environment, beside PATH, HOME, LANG and the like and those that say where GPUs, Python and models are; a * at the end stands for any rest
	API             string   `yaml:"api" choices:"completions,chat"`                // completions: token ids go in; chat: messages go in, and the server renders them
	Model           string   `yaml:"model"`                                         // name of the model to ask for, whatever version it is; empty: the server must serve the version that the task samples from
	APIKeyEnv       string   `yaml:"api_key_env"`                                   // environment variable that holds the server's key; empty for none
	LogProbs        string   `yaml:"logprobs" choices:"raw,processed,none"`         // what the server's log-probabilities are of: raw, the logits before temperature, top-k and top-p (used only where that is the same); processed, the distribution sampled from (vLLM: --logprobs-mode processed_logprobs; SGLang: with top_k 0 and top_p 1); none, not used
	Concurrency     int      `yaml:"concurrency"`                                   // requests of a task under way at a time
	TimeoutSeconds  float64  `yaml:"timeout_seconds"`                               // of one try of one request
	TaskSeconds     float64  `yaml:"task_seconds"`                                  // of all requests of a task together; 0 for no bound
	ReadySeconds    float64  `yaml:"ready_seconds"`                                 // how long the server may take until it is up and serves the policy
	Retries         int      `yaml:"retries"`                                       // tries of a request after the first
	BackoffSeconds  float64  `yaml:"backoff_seconds"`                               // wait before the first retry; doubles up to a minute, unless the server asks for more
	MaxFailed       float64  `yaml:"max_failed"`                                    // share of a task's responses that may fail for good and be left out as infra; above, the task fails and is tried again
}

// Score says how responses are scored. A score shard reads the rollout shard
// of the same number.
type Score struct {
	Embedding string     `yaml:"embedding" choices:"none,ngrams,policy,endpoint"` // of the response (tool use: of all that the policy said in the episode), for the factor diversity: none; ngrams, hashed character n-grams; policy, the mean of the policy's own last states over what it wrote (by rollouts on CPUs); or endpoint, a server's
	Embed     string     `yaml:"embed" choices:"response,extracted"`              // what of a response is embedded by ngrams and endpoint: all of it, or what the environment took from it, such as the program of env mle
	Assistant *Assistant `yaml:"assistant"`                                       // a policy that is never trained, which an environment asks for help with its scores: a folder, or a server; null for none
	Endpoint  *Endpoint  `yaml:"endpoint"`                                        // the server of embeddings, by OpenAI's interface (/v1/embeddings: vLLM, SGLang, llama.cpp, text-embeddings-inference and others)
}

// Choices of Score.Embedding, and of Score.Embed.
const (
	EmbeddingNGrams   = "ngrams"   // scores make it
	EmbeddingPolicy   = "policy"   // rollouts make it
	EmbeddingEndpoint = "endpoint" // a server does
	EmbedResponse     = "response"
	EmbedExtracted    = "extracted"
)

// Endpoint is a server of embeddings. What it says is sealed with the scores; a
// replay of these takes it from there.
type Endpoint struct {
	URL            string  `yaml:"url"`             // http://HOST:PORT; $NAME is taken from the environment
	Model          string  `yaml:"model"`           // name of the model to ask for
	APIKeyEnv      string  `yaml:"api_key_env"`     // environment variable that holds the server's key; empty for none
	Batch          int     `yaml:"batch"`           // texts of one request
	Characters     int     `yaml:"characters"`      // of a text that are sent, its last ones; 0 for all. For models that take few tokens
	Concurrency    int     `yaml:"concurrency"`     // requests of a task under way at a time
	TimeoutSeconds float64 `yaml:"timeout_seconds"` // of one try of one request
	Retries        int     `yaml:"retries"`         // tries of a request after the first
	BackoffSeconds float64 `yaml:"backoff_seconds"` // wait before the first retry; doubles up to a minute, unless the server asks for more
}

// SetDefaults are those of an endpoint that is present.
func (e *Endpoint) SetDefaults() {
	*e = Endpoint{Batch: 32, Concurrency: 4, TimeoutSeconds: 120, Retries: 5, BackoffSeconds: 1}
}

// Assistant is a policy that is never trained: one of ours, run by each score
// task where its resources say, or a server with OpenAI's interface. It gives its most
// probable answer. What comes of it is sealed with the scores.
type Assistant struct {
	Policy         string  `yaml:"policy"`                          // folder in Hugging Face layout: an absolute path, or one that begins with $NAME; empty with url
	Backend        string  `yaml:"backend" choices:"auto,cpu,cuda"` // policy: where it runs; auto takes a GPU of the score task if resources give it one. Answers may differ between the two
	Evaluations    bool    `yaml:"evaluations"`                     // ask it in evaluations too
	URL            string  `yaml:"url"`                             // http://HOST:PORT of a server (/v1/chat/completions); $NAME is taken from the environment
	Model          string  `yaml:"model"`                           // url: name of the model to ask for
	APIKeyEnv      string  `yaml:"api_key_env"`                     // url: environment variable that holds the server's key; empty for none
	MaxNewTokens   int     `yaml:"max_new_tokens"`                  // bound on an answer; a longer one is of no use
	TimeoutSeconds float64 `yaml:"timeout_seconds"`                 // url: of one try of one request
	Retries        int     `yaml:"retries"`                         // url: tries of a request after the first
	BackoffSeconds float64 `yaml:"backoff_seconds"`                 // url: wait before the first retry; doubles up to a minute, unless the server asks for more
}

// SetDefaults are those of an assistant that is present.
func (a *Assistant) SetDefaults() {
	*a = Assistant{Backend: "auto", MaxNewTokens: 4096, TimeoutSeconds: 600, Retries: 5, BackoffSeconds: 1}
}

// Schedule says how many iterations run and how they overlap.
type Schedule struct {
	// Iterations of rollout, score, buffer and learn. 0 makes the policy of the
	// warm start and measures it: supervised learning alone.
	Iterations int `yaml:"iterations"`
	// DecayEnds are iterations: up to the first the learning rate is that of a run
	// of so many, then that of a run as long as the second, and so on; after the
	// last it stays. Empty for schedule.iterations.
	DecayEnds []int `yaml:"decay_ends"`
	// Staleness s: the rollouts of iteration k are sampled by policy
	// v(max(0, k-1-s)), so s+1 iterations may be under way at once.
	Staleness int `yaml:"staleness"`
	// SyncEvery n: rollouts take a new policy version every n updates, which
	// saves the loading of versions where sampling is a server's
	// (MLE-RL §5.1: 5). 1 takes each. What is learned from is older for it, which
	// age_mean of a learn task says, in updates.
	SyncEvery int `yaml:"sync_every"`
	// Oversample m >= 1: m·B instances are sampled, and the iteration closes when
	// B are done.
	Oversample float64 `yaml:"oversample"`
	// CloseAfterSeconds closes an iteration once so many seconds have passed since
	// its first rollout began, with the shards that are done then and at least one;
	// or before, when all are done. 0 waits for them. Which are done depends on how
	// fast they are, and is sealed. Actions that run long are seen less often for
	// it, which late: carry makes good in time.
	CloseAfterSeconds float64 `yaml:"close_after_seconds"`
	// Late says what becomes of shards that are not done when their iteration is
	// closed: carry folds each into the first iteration that is closed after it is
	// done; drop stops it.
	Late string `yaml:"late" choices:"carry,drop"`
	// BatchSegments B closes a batch once B segments are retained by credit and
	// select, which may take several iterations (MLE-RL §5.1: 64). Until
	// then they wait with their credit, and the policy is not updated; then all
	// that wait are learned from, oldest first. Those that wait at the end of the
	// run are dropped. 0 makes a batch of each iteration; full is rollout.prompts ×
	// rollout.group (dynamic sampling of DAPO, where select drops constant groups).
	BatchSegments BatchSegments `yaml:"batch_segments"`
	// Quorum is the share of an iteration's shards that must be done, the
	// rest having failed for good, for the run to go on without them.
	Quorum float64 `yaml:"quorum"`
	// GradientUnits is the number of parts, fixed by the recipe, into which
	// an optimizer step's batch is cut; gradients are summed over the parts
	// in one fixed tree, so any number of gradient shards gives the same bytes.
	// A task has the sequences of one part in memory at a time, some 30 bytes a
	// token: batches of 10^8 tokens want hundreds of parts.
	GradientUnits int `yaml:"gradient_units"`
	// GradientShards is the number of array tasks that share an optimizer
	// step; 1 computes and applies it in one task.
	GradientShards int `yaml:"gradient_shards"`
	// GradientFanIn is the number of gradient shards that one task adds up at
	// most. Where there are more, tasks of their own add up so many each before
	// the step is applied. No number changes a result.
	GradientFanIn int `yaml:"gradient_fan_in"`
	// ApplyShards is the number of array tasks that apply the gradients of an optimizer
	// step, each to whole files of the policy, with their part of the optimizer's state:
	// a task reads and writes them piece by piece and needs no GPU. 1 applies them in the task
	// that learns; auto is 1 where weights, gradients and optimizer state fit the learn task,
	// in its memory or into 60 GiB of its GPU, and else a task for each file, 16 at most, found
	// when the run is made and written into its recipe. A policy in one file is not divided
	// (lathe policy convert --max-file-mb divides it); with an adapter, which is one file, 2
	// has none of these tasks open the policy that it adapts. No number changes a result.
	ApplyShards ApplyShards `yaml:"apply_shards"`
	// MicroBatchTokens bounds the tokens of one forward and backward pass,
	// but for a sequence that is longer; 0 leaves them to the engine, which on
	// a GPU plans them with its memory. No split changes a result in float32; with
	// policy.compute bfloat16 a pass begins a gradient's blocks of 32 tokens anew,
	// and each split has last digits of its own, the same on every machine.
	MicroBatchTokens int `yaml:"micro_batch_tokens"`
	// SharedPromptTokens lets responses to one prompt be learned with one copy
	// of it, in pieces of at most so many tokens, where the prompt and each
	// response count as multiples of 16; 0 learns each by itself. It saves the
	// work on the prompt's tokens, and changes gradients by rounding alone.
	SharedPromptTokens int `yaml:"shared_prompt_tokens"`
	// KeepEvery n keeps the policy versions 0, n, 2n … and the last, with their
	// optimizer states, and removes those of others, and what lies between
	// optimizer steps, once nothing that is still to do reads them. What is
	// wanted later is made again from the kept version before it, to the same
	// bytes. 0 keeps everything; auto keeps 21 versions at most, and all of a run
	// of up to 20 iterations.
	KeepEvery KeepEvery `yaml:"keep_every"`
	// MaxAttempts bounds the tries of a shard that fails for a reason of its
	// own. Preemptions and node failures do not count.
	MaxAttempts int `yaml:"max_attempts"`
}

// Choices of Schedule.Late.
const (
	LateCarry = "carry"
	LateDrop  = "drop"
)

// Evaluation measures policies on held-out problems: those of the test split, and
// those of other sets that the environment has.
type Evaluation struct {
	Role         string        `yaml:"role"`           // of the test split: benchmark, validation, ood or train, as of a set
	Problems     int           `yaml:"problems"`       // of the test split, in order
	Samples      int           `yaml:"samples"`        // n of avg@n
	Temperature  float64       `yaml:"temperature"`    // of the n samples
	TopK         int           `yaml:"top_k"`          // of the n samples: sample from the k most probable tokens; 0 for all
	TopP         float64       `yaml:"top_p"`          // of the n samples: sample from the smallest set of this mass; 1 for all
	Steps        int           `yaml:"steps"`          // K attempts after the first: revisions of a chain; where the environment answers message by message, the k-th is an attempt in which each message was improved on k times before it counted
	Scaffold     string        `yaml:"scaffold"`       // what the next attempt starts from; its settings stand in the section scaffold
	Seconds      float64       `yaml:"seconds"`        // budget of a trace, as scaffold.seconds; with steps 0 it makes as many attempts as there is time for; 0 for none
	Greedy       bool          `yaml:"greedy"`         // one greedy chain beside the samples
	Every        EvaluateEvery `yaml:"every"`          // also after every n-th iteration; 0: only before and after the run; auto: so that a run of 10 iterations or more has a curve of three to six points, and 0 where scores take minutes
	MaxNewTokens int           `yaml:"max_new_tokens"` // 0: as in rollout
	Shards       int           `yaml:"shards"`         // array tasks; no number changes the result

	Sets []EvaluationSet `yaml:"sets"` // measured beside the test split
}

// EvaluationSet is a named set of held-out problems. What is null is as in
// evaluation.
type EvaluationSet struct {
	Name         string   `yaml:"name"`           // that the environment knows it by: of data.held_out, or validation; train is the training split itself
	Role         string   `yaml:"role"`           // benchmark: means over sets are over these alone; validation: policy versions are chosen by these alone; ood: another kind of problem than the training's; train: problems that are trained on
	Problems     *int     `yaml:"problems"`       // of the set, in order
	Samples      *int     `yaml:"samples"`        // n of avg@n
	Temperature  *float64 `yaml:"temperature"`    // of the n samples
	TopK         *int     `yaml:"top_k"`          // of the n samples
	TopP         *float64 `yaml:"top_p"`          // of the n samples
	Steps        *int     `yaml:"steps"`          // K attempts after the first
	Greedy       *bool    `yaml:"greedy"`         // one greedy chain beside the samples
	MaxNewTokens *int     `yaml:"max_new_tokens"` // 0: as in rollout
}

// Resources are what each stage's tasks ask for. They never change results.
type Resources struct {
	Threads int          `yaml:"threads"` // engine threads of a task; 0: as many as the task's cores; lathe run on one machine adds idle ones
	Stages  StageRequest `yaml:"stages"`
}

// StageRequest holds one request per stage.
type StageRequest struct {
	Warm     Request `yaml:"warm"`
	Rollout  Request `yaml:"rollout"`
	Score    Request `yaml:"score"`
	Buffer   Request `yaml:"buffer"`
	Learn    Request `yaml:"learn"`
	Gradient Request `yaml:"gradient"`
	Evaluate Request `yaml:"evaluate"`
	Gate     Request `yaml:"gate"`
}

// Request is what one task of a stage asks for.
type Request struct {
	CPUs     int     `yaml:"cpus"`      // cores
	MemoryGB float64 `yaml:"memory_gb"` // memory in GiB
	GPUs     int     `yaml:"gpus"`      // GPUs
	Minutes  int     `yaml:"minutes"`   // time limit
}
