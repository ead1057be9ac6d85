// Package recipe is the typed form of the one YAML file that says what a run
// trains. A recipe is resolved once, when the run is made: presets, base
// files and command-line settings are folded in, every default is written
// out, and the result is stored in the run as recipe.yaml.
package recipe

import (
	"github.com/lathe-rl/lathe/pkg/objective"
	"github.com/lathe-rl/lathe/pkg/preset"
)

// Recipe is everything that decides the bytes of a run, and the resources it
// asks for.
type Recipe struct {
	Name        string              `yaml:"name"`        // letters, digits, dots, dashes and underscores; by default the file's name
	Description string              `yaml:"description"` // one line for people
	Seed        uint64              `yaml:"seed"`        // of every random stream of the run
	Preset      string              `yaml:"preset"`      // fills advantage, filters and loss; see Presets
	Policy      Policy              `yaml:"policy"`
	WarmStart   WarmStart           `yaml:"warm_start"`
	Env         Env                 `yaml:"env"`
	Data        Data                `yaml:"data"`
	Curriculum  Curriculum          `yaml:"curriculum"`
	Rollout     Rollout             `yaml:"rollout"`
	Score       Score               `yaml:"score"`
	Advantage   objective.Advantage `yaml:"advantage"`
	Filters     objective.Filters   `yaml:"filters"`
	Loss        objective.Loss      `yaml:"loss"`
	Optimizer   objective.Optimizer `yaml:"optimizer"`
	Schedule    Schedule            `yaml:"schedule"`
	Evaluation  Evaluation          `yaml:"evaluation"`
	Resources   Resources           `yaml:"resources"`
}

// Choices lists the presets.
func (Recipe) Choices(field string) []string {
	if field == "preset" {
		return preset.Names()
	}
	return nil
}

// Policy says which policy is trained. Exactly one of Path and New is given.
type Policy struct {
	Backend string     `yaml:"backend" choices:"auto,cpu,cuda"`       // auto, cpu or cuda
	DType   string     `yaml:"dtype" choices:"auto,float32,bfloat16"` // auto, float32 or bfloat16: what weights are rounded to and saved in; auto is what the policy has, float32 for a new one
	Path    string     `yaml:"path" path:"file"`                      // a folder in Hugging Face layout
	New     *NewPolicy `yaml:"new"`                                   // a policy with random weights
	// ValueHead trains a critic beside the policy: a linear function of its last
	// hidden state, zero at first, saved as value_head.safetensors. The preset
	// ppo sets it.
	ValueHead bool  `yaml:"value_head"`
	LoRA      *LoRA `yaml:"lora"` // train a low-rank adapter of the policy, and nothing else, in the warm start too
	Chat      Chat  `yaml:"chat"` // how messages become text; for policies made by New
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

// WarmStart is supervised learning on correct demonstrations before the first
// iteration. Zero steps means none.
type WarmStart struct {
	Steps     int                 `yaml:"steps"`     // optimizer steps
	Chunk     int                 `yaml:"chunk"`     // optimizer steps between two sealed checkpoints; changes no result
	StopLoss  float64             `yaml:"stop_loss"` // stop before the last step once the mean loss of about the last twenty steps is below this many nats per token; 0 takes every step
	Batch     int                 `yaml:"batch"`     // demonstrations per step
	Kinds     []string            `yaml:"kinds"`     // kinds of training tasks that are demonstrated, a * at the end of one matching any rest; empty for all
	Improve   float64             `yaml:"improve"`   // share of demonstrations that answer a self-improve prompt, in [0, 1]
	Diverge   float64             `yaml:"diverge"`   // share that answer a self-diverge prompt
	Optimizer objective.Optimizer `yaml:"optimizer"`
}

// Env names the environment and its prompts.
type Env struct {
	Name     string   `yaml:"name" choices:"math,tooluse"` // math: questions with short answers; tooluse: requests that are carried out by calling functions
	MaxTurns int      `yaml:"max_turns"`                   // math: turns of one trajectory; later turns refine
	Prompts  Prompts  `yaml:"prompts"`
	Answer   Answer   `yaml:"answer"`
	ToolUse  *ToolUse `yaml:"tooluse"` // the settings of env.name tooluse; null for another one
}

// Turns bounds the messages of the policy in one trajectory.
func (e Env) Turns() int {
	if e.ToolUse != nil {
		return max(e.ToolUse.Train.Steps, e.ToolUse.Test.Steps)
	}
	return e.MaxTurns
}

// ToolUse says which functions there are, how they are shown and how long an
// episode lasts (ExIt, appendix A.3). The functions are BFCL's own, or those of
// a command. A message of the policy ends with a list of calls in <tool> and
// </tool>, or with <TASK_FINISHED> or <TASK_ERROR>.
type ToolUse struct {
	BFCL           string       `yaml:"bfcl" path:"file"`                       // folder of the files of BFCL's multi-turn-base: its 200 tasks and its functions; empty for functions of your own, whose tasks are data.train.files and data.test.files
	Halves         string       `yaml:"halves"`                                 // bfcl: JSON file {"train": [ids], "test": [ids]}, in the folder of bfcl unless absolute; empty: halves stratified by turns and classes, drawn by the seed
	Functions      string       `yaml:"functions" path:"file"`                  // JSON file with the list of your functions, each with name, description and parameters (a JSON schema)
	Command        []string     `yaml:"command"`                                // program that carries out your functions, one word to an entry, in the folder of the recipe; it speaks JSON lines (data/README.md). It runs as it is, with your rights: there is no sandbox
	System         string       `yaml:"system"`                                 // template of the system message; {tools} stands for the functions
	Docs           string       `yaml:"docs" choices:"schema,signature"`        // how {tools} shows a function: schema, its JSON; or signature, one short line
	ResultRole     string       `yaml:"result_role" choices:"system,user,tool"` // role of the message that the results come back in
	Train          EpisodeRules `yaml:"train"`                                  // episodes of the training split
	Test           EpisodeRules `yaml:"test"`                                   // episodes of the test split
	MaxCalls       int          `yaml:"max_calls"`                              // calls of one message that are carried out
	MaxResultBytes int          `yaml:"max_result_bytes"`                       // of one result that are shown
	CallSeconds    float64      `yaml:"call_seconds"`                           // command: how long one answer may take
	Retries        int          `yaml:"retries"`                                // command: how often a program that has crashed or hangs is started again in an episode, which is then played again up to there
	Processes      int          `yaml:"processes"`                              // command: programs of a task alive at a time; an episode whose program was ended is played again by a new one
	MaxFailed      float64      `yaml:"max_failed"`                             // command: share of a task's episodes that may fail by the program's fault and be left out as infra; above, the task fails and is tried again
}

// EpisodeRules say when an episode is over.
type EpisodeRules struct {
	UserTurns int `yaml:"user_turns"` // requests of the user that are played and judged, each after <TASK_FINISHED> of the one before; 0 for all
	Steps     int `yaml:"steps"`      // messages of the policy, in all turns together
}

// Prompts are the templates of an environment. {instruction} stands for the
// task's prompt, {question} for the task's question, {previous_response} for
// the response that is iterated on. The defaults are the papers' own texts.
type Prompts struct {
	System  string `yaml:"system"`  // empty for no system message
	Initial string `yaml:"initial"` // a base task
	Refine  string `yaml:"refine"`  // a later turn of one trajectory
	Improve string `yaml:"improve"` // ExIt, appendix B
	Diverge string `yaml:"diverge"` // ExIt, appendix B
}

// Answer says how the answer is found in a response and compared.
type Answer struct {
	Verifier        string   `yaml:"verifier" choices:"math,exact"`                                                                  // math: the rules of Math-Verify; exact: integers, rationals, decimals, lists of them in order, and words
	Extract         string   `yaml:"extract" choices:"whole,last,marked,boxed"`                                                      // whole: the response is the answer; last: the last number (math: what is boxed or announced, else the last formula or number); marked: after Marker; boxed: in \boxed{}
	Marker          string   `yaml:"marker"`                                                                                         // for marked, for example "####"
	Preset          string   `yaml:"preset" choices:"lathe,math-verify-0.8,math-verify-0.7,math-verify-0.6,math-verify-loose,boxed"` // math only: lathe, Math-Verify 0.8 as mathematics has it; or what papers used: math-verify-0.8, -0.7, -0.6, -loose (strict false and conditions for sets), or boxed. What follows changes it
	Targets         []string `yaml:"targets" choices:"latex,expression,words"`                                                       // math only: forms that are looked for, latex, expression and words; empty: the preset's
	Boxed           string   `yaml:"boxed" choices:"preset,first,among,off"`                                                         // math only: rank of boxed answers: first; among the announced ones; off; or preset
	Match           string   `yaml:"match" choices:"preset,last,first,any"`                                                          // math only: which of several answers of one rank: last, first, any (a list of guesses is rewarded) or preset
	Anchored        bool     `yaml:"anchored"`                                                                                       // math only: take only answers that are boxed or announced
	OnlyBest        bool     `yaml:"only_best"`                                                                                      // math only: give up when the best candidate cannot be read
	Conditions      bool     `yaml:"conditions"`                                                                                     // math only: a condition such as 1<x<2 may stand for a reference that is the set (1,2)
	RenameSymbols   bool     `yaml:"rename_symbols"`                                                                                 // math only: x+1 equals y+1
	AsLibrary       bool     `yaml:"as_library"`                                                                                     // math only: keep Math-Verify's habit of telling i in "2 i" from i in "2i"
	Tolerance       float64  `yaml:"tolerance"`                                                                                      // math only: share of the reference by which answers of form float, or lists of them, may be off
	DecimalPlaces   int      `yaml:"decimal_places"`                                                                                 // digits after the point to which two decimals are compared; 0 compares exactly (math: to 6)
	Worked          []string `yaml:"worked"`                                                                                         // kinds of problems, a * at the end of one matching any rest, whose demonstrations show the steps before the answer where they are known: comparisons and longer expressions in the words of DeepMind's Mathematics Dataset; with extract marked or boxed
	FormatReward    float64  `yaml:"format_reward"`                                                                                  // reward of a wrong answer that could be read; 0 by default
	StepImprovement bool     `yaml:"step_improvement"`                                                                               // reward iteration steps by max(0, Δ/Δmax) instead of by the verification (ExIt, section 4; its math experiments use the verification, appendix A.2)
}

// Data says where the training and the held-out problems come from.
type Data struct {
	Train Source `yaml:"train"`
	Test  Source `yaml:"test"`
}

// Source is one set of problems: read from files, generated, or both.
type Source struct {
	Generate     *Generate `yaml:"generate"`
	Files        []string  `yaml:"files" path:"file"` // JSONL; or .json, a list of objects; or .csv with a first line of names; relative to the recipe's folder unless absolute; $NAME is taken from the environment
	Fields       Fields    `yaml:"fields"`            // how a line becomes a problem
	Filter       []Filter  `yaml:"filter"`            // keep lines whose field matches; all must match
	Limit        int       `yaml:"limit"`             // keep this many, chosen by the seed; 0 keeps all
	MaxBad       int       `yaml:"max_bad"`           // lines of a file that may be bad, and are left out; more are an error
	SkipRepeated bool      `yaml:"skip_repeated"`     // data.test only: leave out problems whose question training has too, where else they are an error
}

// Fields says how a line becomes a problem. A path is the name of a field, or
// names and positions in lists with dots between: a.b, options.0.text.
type Fields struct {
	ID           string `yaml:"id"`                                                                  // path; empty: the line's number
	Question     string `yaml:"question"`                                                            // path to what {question} stands for; or a text with paths in braces, such as "{Body} {Question}", in which {choices} stands for the options, one a line, lettered (A), (B) …
	Answer       string `yaml:"answer"`                                                              // path to the reference answer; the values of a list are joined with commas
	AnswerMarker string `yaml:"answer_marker"`                                                       // the answer is what follows the last one, for example "####" of GSM8K
	AnswerFrom   string `yaml:"answer_from" choices:"text,boxed,letter,position,number,option_text"` // what the field holds: text, the answer; boxed, a solution whose last box is the answer; or of the right option its letter, its position (from 0), its number (from 1) or its option_text
	Choices      string `yaml:"choices"`                                                             // path to the options of a multiple-choice problem, a list; letters of their own, as in "A) 5", are dropped
	ChoiceText   string `yaml:"choice_text"`                                                         // path in an option to its text, where options are no texts
	Form         string `yaml:"form"`                                                                // path to the answer's form, or =FORM for all lines: any, integer, float, bool, list or option, by TheoremQA's names too
	Kind         string `yaml:"kind"`                                                                // optional: path, or =TEXT for all lines
	Level        string `yaml:"level"`                                                               // optional: path to a whole number, or =NUMBER for all lines
}

// Filter keeps the lines whose field has one of the values, where a * at
// the end of a value matches any rest.
type Filter struct {
	Field string   `yaml:"field"` // name of a field of the line
	In    []string `yaml:"in"`    // values that are kept
}

// Generate is our own seeded generator of problems: arithmetic in few
// characters, and the modules of DeepMind's Mathematics Dataset in its words.
// What a file of either split asks is left out.
type Generate struct {
	Kinds  []string `yaml:"kinds" choices:"add,sub,mul,div,compare,mod,chain,linear,fraction,decimal,arithmetic__add_or_sub,arithmetic__add_or_sub_in_base,arithmetic__add_sub_multiple,arithmetic__div,arithmetic__mixed,arithmetic__mul,arithmetic__mul_div_multiple,arithmetic__nearest_integer_root,arithmetic__simplify_surd,comparison__closest,comparison__closest_composed,comparison__kth_biggest,comparison__kth_biggest_composed,comparison__pair,comparison__pair_composed,comparison__sort,comparison__sort_composed"` // families of problems (data/README.md)
	Levels []int    `yaml:"levels"`                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                 // difficulty; for add and sub the number of digits, for DeepMind's modules the entropy, 3 to 9 in its training set and 8 in its test "interpolate"
	Count  int      `yaml:"count"`                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                  // problems, spread evenly over kinds and levels
	// TestShare is the share of the problem space that is held out: a problem
	// is in the test split when a hash of its question falls below it, so the
	// two splits are disjoint whatever their counts.
	TestShare float64 `yaml:"test_share"`
}

// Curriculum says which instances are sampled next.
type Curriculum struct {
	Name  string   `yaml:"name" choices:"uniform,exit"` // uniform or exit
	Kinds []string `yaml:"kinds"`                       // kinds of training tasks that are sampled, a * at the end of one matching any rest; empty for all
	Exit  Exit     `yaml:"exit"`
}

// Exit holds the settings of ExIt (paper 000, section 4 and Tables 4 to 6).
type Exit struct {
	BufferSize         int     `yaml:"buffer_size"`              // N
	MinBufferSize      int     `yaml:"min_buffer_size"`          // select only from a buffer of at least this size
	SelectProbability  float64 `yaml:"select_probability"`       // p, self-iteration probability
	InverseTemperature float64 `yaml:"inverse_temperature"`      // κ
	DivergeProbability float64 `yaml:"diverge_probability"`      // p_div
	Improve            bool    `yaml:"improve"`                  // false: selection re-samples the instance itself (ablation "curriculum")
	Expand             string  `yaml:"expand" choices:"one,all"` // one: a random response of a group enters the buffer; all: each does
	DiversityBonus     bool    `yaml:"diversity_bonus"`          // multiply advantages by d_i, eq. 6; needs embeddings
}

// Rollout says how responses are sampled.
type Rollout struct {
	Prompts            int      `yaml:"prompts"`                // B, instances per iteration
	Group              int      `yaml:"group"`                  // G, responses per instance
	MaxNewTokens       int      `yaml:"max_new_tokens"`         // bound on the tokens of one response
	MaxNewTokensByTurn []int    `yaml:"max_new_tokens_by_turn"` // bounds for turn 1, 2 and so on, the last one also for all later turns; empty: max_new_tokens for each
	Stop               []string `yaml:"stop"`                   // a response ends with the token that completes one of these strings, as it does with the chat format's stop token
	IncludeStop        bool     `yaml:"include_stop"`           // whether the response's text has the stop string at its end; its tokens always have it
	Temperature        float64  `yaml:"temperature"`            // what logits are divided by; 0.0001 or more
	TopK               int      `yaml:"top_k"`                  // 0 keeps all
	TopP               float64  `yaml:"top_p"`                  // 1 keeps all
	Shards             int      `yaml:"shards"`                 // array tasks; no number changes the result
	Remote             *Remote  `yaml:"remote"`                 // a server that samples instead of our engine; null for none
}

// NewTokens is the bound on the tokens of each turn's response, where the last
// one holds for all later turns.
func (r Rollout) NewTokens() []int {
	if len(r.MaxNewTokensByTurn) > 0 {
		return r.MaxNewTokensByTurn
	}
	return []int{r.MaxNewTokens}
}

// Remote is a server that speaks the OpenAI HTTP interface and samples the
// responses of rollouts and evaluations. What it samples is sealed, so all
// later stages can be repeated to the same bytes; the sampling itself cannot.
type Remote struct {
	Server         string   `yaml:"server" choices:"vllm,sglang,llama.cpp,openai"` // vllm, sglang, llama.cpp, or openai for no more than the standard fields
	URL            string   `yaml:"url"`                                           // http://HOST:PORT; $NAME is taken from the environment; file:PATH names a file with the address, which may still be on its way. Empty with serve
	Serve          []string `yaml:"serve"`                                         // command by which each task starts a server of its own, one word to an entry; {policy} is the policy's folder, {version} the folder's name, {port} a free port
	API            string   `yaml:"api" choices:"completions,chat"`                // completions: token ids go in; chat: messages go in, and the server renders them
	Model          string   `yaml:"model"`                                         // name of the model to ask for, whatever version it is; empty: the server must serve the version that the task samples from
	APIKeyEnv      string   `yaml:"api_key_env"`                                   // environment variable that holds the server's key; empty for none
	LogProbs       string   `yaml:"logprobs" choices:"raw,processed,none"`         // what the server's log-probabilities are of: raw, the logits before temperature, top-k and top-p (used only where that is the same); processed, the distribution sampled from (vLLM: --logprobs-mode processed_logprobs; SGLang: with top_k 0 and top_p 1); none, not used
	Concurrency    int      `yaml:"concurrency"`                                   // requests of a task under way at a time
	TimeoutSeconds float64  `yaml:"timeout_seconds"`                               // of one try of one request
	TaskSeconds    float64  `yaml:"task_seconds"`                                  // of all requests of a task together; 0 for no bound
	ReadySeconds   float64  `yaml:"ready_seconds"`                                 // how long the server may take until it is up and serves the policy
	Retries        int      `yaml:"retries"`                                       // tries of a request after the first
	BackoffSeconds float64  `yaml:"backoff_seconds"`                               // wait before the first retry; doubles up to a minute, unless the server asks for more
	MaxFailed      float64  `yaml:"max_failed"`                                    // share of a task's responses that may fail for good and be left out as infra; above, the task fails and is tried again
}

// Score says how responses are judged. A score shard reads the rollout shard
// of the same number.
type Score struct {
	Embedding string `yaml:"embedding" choices:"none,ngrams"` // none, or ngrams: hashed character n-grams of the response (tool use: of all that the policy said in the episode), for ExIt's diversity bonus
}

// Schedule says how many iterations run and how they overlap.
type Schedule struct {
	// Iterations of rollout, score, buffer and learn.
	Iterations int `yaml:"iterations"`
	// Staleness s: the rollouts of iteration k are sampled by policy
	// v(max(0, k-1-s)), so s+1 iterations may be under way at once.
	Staleness int `yaml:"staleness"`
	// Oversample m >= 1: m·B instances are sampled, the iteration closes when
	// B are done, and what is late is carried into a later one.
	Oversample float64 `yaml:"oversample"`
	// Quorum is the share of an iteration's shards that must be done, the
	// rest having failed for good, for the run to go on without them.
	Quorum float64 `yaml:"quorum"`
	// GradientUnits is the number of parts, fixed by the recipe, into which
	// an optimizer step's batch is cut; gradients are summed over the parts
	// in one fixed tree, so any number of gradient shards gives the same bytes.
	GradientUnits int `yaml:"gradient_units"`
	// GradientShards is the number of array tasks that share an optimizer
	// step; 1 computes and applies it in one task.
	GradientShards int `yaml:"gradient_shards"`
	// MicroBatchTokens bounds the tokens of one forward and backward pass,
	// but for a sequence that is longer; 0 leaves them to the engine, which on
	// a GPU plans them with its memory. No split changes a result.
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
	// bytes. 0 keeps everything.
	KeepEvery int `yaml:"keep_every"`
	// MaxAttempts bounds the tries of a shard that fails for a reason of its
	// own. Preemptions and node failures do not count.
	MaxAttempts int `yaml:"max_attempts"`
}

// Evaluation measures policies on held-out problems.
type Evaluation struct {
	Problems     int     `yaml:"problems"`       // of the test split, in order
	Samples      int     `yaml:"samples"`        // n of avg@n
	Temperature  float64 `yaml:"temperature"`    // of the n samples
	Steps        int     `yaml:"steps"`          // K self-improvement steps; for tool use the k-th is an episode in which each message was improved on k times before it counted
	Greedy       bool    `yaml:"greedy"`         // one greedy chain beside the samples
	Every        int     `yaml:"every"`          // also after every n-th iteration; 0: only before and after the run
	MaxNewTokens int     `yaml:"max_new_tokens"` // 0: as in rollout
	Shards       int     `yaml:"shards"`         // array tasks; no number changes the result
}

// Resources are what each stage's tasks ask for. They never change results.
type Resources struct {
	Threads int          `yaml:"threads"` // engine threads of a task; 0: as many as the task's cores
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
