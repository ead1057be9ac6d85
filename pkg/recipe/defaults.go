package recipe

import (
	"github.com/lathe-rl/lathe/pkg/objective"
	"github.com/lathe-rl/lathe/pkg/preset"
)

// Defaults is the recipe before any file or setting: a run of GRPO with the
// settings of paper 000 (Table 4) where it gives them, without a policy and
// without data, which every recipe has to name.
func Defaults() Recipe {
	filled, err := preset.Lookup(preset.Default)
	if err != nil {
		panic(err) // the package holds its own default
	}
	warm := objective.DefaultOptimizer()
	warm.LearningRate = 1e-3 // of random weights; the other is of a policy that can already answer
	warm.WarmupSteps = 20
	warm.Decay = "cosine"
	return Recipe{
		Seed:   1,
		Preset: preset.Default,
		Policy: Policy{
			Backend: "auto",
			DType:   "auto",
			Chat: Chat{
				SystemPrefix:    "<|system|>",
				UserPrefix:      "<|user|>",
				AssistantPrefix: "<|assistant|>",
				AssistantSuffix: "<|end|>",
			},
		},
		WarmStart: WarmStart{Chunk: 100, Batch: 32, Optimizer: warm},
		Env: Env{
			Name:     "math",
			MaxTurns: 1,
			Prompts: Prompts{
				Initial: "{question}",
				Refine:  refineTemplate,
				Improve: improveTemplate,
				Diverge: divergeTemplate,
			},
			Answer: Answer{Verifier: "math", Extract: "last", Preset: "lathe", Boxed: "preset", Match: "preset"},
		},
		Data: Data{Train: defaultSource(), Test: defaultSource()},
		Curriculum: Curriculum{
			Name: "uniform",
			Exit: Exit{
				BufferSize:        512,
				MinBufferSize:     128,
				SelectProbability: 0.5,
				// The paper gives no value. The largest variance of rewards in
				// [0, 1] is 0.25, so 10 makes the best instance exp(2.5), about
				// 12, times as likely as one that is always or never solved.
				InverseTemperature: 10,
				DivergeProbability: 0.2,
				Improve:            true,
				Expand:             "one",
			},
		},
		Rollout: Rollout{
			Prompts: 128, Group: 8, MaxNewTokens: 1024,
			Temperature: 1, TopK: 0, TopP: 1, Shards: 1,
		},
		Score:     Score{Embedding: "none"},
		Advantage: filled.Advantage,
		Filters:   filled.Filters,
		Loss:      filled.Loss,
		Optimizer: objective.DefaultOptimizer(),
		Schedule: Schedule{
			Iterations: 100, Oversample: 1, Quorum: 1, GradientUnits: 8, GradientShards: 1,
			MaxAttempts: 3,
		},
		Evaluation: Evaluation{
			Problems: 100, Samples: 8, Temperature: 1, Steps: 4, Greedy: true, Shards: 1,
		},
		Resources: defaultResources(),
	}
}

func defaultSource() Source {
	return Source{Fields: Fields{Question: "question", Answer: "answer", AnswerFrom: "text"}}
}

func defaultResources() Resources {
	task := Request{CPUs: 1, MemoryGB: 2, Minutes: 30}
	gate := Request{CPUs: 1, MemoryGB: 1, Minutes: 10}
	return Resources{Stages: StageRequest{
		Warm: task, Rollout: task, Score: task, Buffer: task,
		Learn: task, Gradient: task, Evaluate: task, Gate: gate,
	}}
}

// setDefaults fills a new policy of about 0.6 million weights.
func (p *NewPolicy) SetDefaults() {
	*p = NewPolicy{
		HiddenSize: 128, IntermediateSize: 384,
		NumHiddenLayers: 4, NumAttentionHeads: 4, NumKeyValueHeads: 2,
		MaxPositionEmbeddings: 2048, RopeTheta: 10000, RMSNormEps: 1e-6, InitializerRange: 0.02,
		QKVBias: true, TieWordEmbeddings: true, Tokenizer: "bytes",
	}
}

// setDefaults adapts every projection.
func (l *LoRA) SetDefaults() {
	*l = LoRA{
		Rank: 16, Alpha: 32,
		Targets: []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
	}
}

func (r *Remote) SetDefaults() {
	*r = Remote{
		Server: "vllm", API: "completions", LogProbs: "raw", Concurrency: 64,
		TimeoutSeconds: 600, ReadySeconds: 900, Retries: 6, BackoffSeconds: 1, MaxFailed: 0.1,
	}
}

// setDefaults takes the rules of paper 000, appendix A.3.
func (u *ToolUse) SetDefaults() {
	*u = ToolUse{
		Halves: "split_100_100.json", System: toolsTemplate, Docs: "schema", ResultRole: "system",
		Train: EpisodeRules{UserTurns: 1, Steps: 10}, Test: EpisodeRules{Steps: 60},
		MaxCalls: 20, MaxResultBytes: 16 << 10, CallSeconds: 10, Retries: 2, Processes: 64, MaxFailed: 0.1,
	}
}

func (g *Generate) SetDefaults() {
	*g = Generate{Kinds: []string{"add", "sub"}, Levels: []int{1, 2}, Count: 1000, TestShare: 0.2}
}

// improveTemplate is the self-improve prompt of paper 000, appendix B.
const improveTemplate = `Improve your current response to this request:

## Request:
{instruction}

## Current response:
{previous_response}`

// divergeTemplate is the self-diverge prompt of paper 000, appendix B.
const divergeTemplate = `Consider your current response to this request, and provide another response that takes an approach that SIGNIFICANTLY DIFFERS from the approach of the current response.

## Request:
{instruction}

## Current response:
{previous_response}

## Your new response format:
- First, provide a brief summary of the approach in the current response above.
- Next, state a meaningfully different approach that can be taken instead.
- Finally, provide your new response using this different approach.`

// refineTemplate is the user message of every turn after the first in paper
// 002, appendix I, whose {candidate_answer} is our {previous_response}.
const refineTemplate = `You are given a math problem and a potential solution.
This attempt may be flawed or partial.
Correct any errors and build upon its ideas to produce an improved, high-quality solution.
If the original attempt is unusable, generate a correct solution from scratch.
End with the final result in \boxed{}.

Problem:
{question}

Candidate solution (may contain mistakes):
-- Candidate --
{previous_response}

Now refine the candidate into an improved solution.
Provide clear reasoning and end with the final answer in \boxed{}.`

// toolsTemplate is our own: paper 000 says what its system prompt asks for
// (appendix A.3) and does not print it.
const toolsTemplate = `You carry out a user's requests by calling functions. These are the functions, each with the JSON schema of its parameters:

{tools}

Begin every message with your thoughts, between <reasoning> and </reasoning>. Then do exactly one of three things:

1. Call functions. Write one JSON list of calls; they are carried out in its order, up to the first one that fails.
<reasoning> why these calls </reasoning>
<tool>
[{"name": "function_name", "args": {"parameter": "value"}}]
</tool>
You get the results back between <tool_result> and </tool_result>, and can go on from there.

2. Once the last request of the user is fulfilled, say so. The user may then make another request.
<reasoning> why it is fulfilled </reasoning>
<TASK_FINISHED>

3. If the request cannot be fulfilled, whatever you call, give up.
<reasoning> why it cannot be </reasoning>
<TASK_ERROR>

Take the values of parameters from what the user says and from earlier results. Leave a parameter out where its default is what is wanted, and call nothing that the request does not need.`
