package recipe

import (
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/loss/preset"
	"github.com/lathe-rl/lathe/pkg/scaffold"
)

// Defaults is the recipe before any file or setting: a run of GRPO with the
// settings of ExIt Tab. 4 where it gives them, without a policy and
// without data, which every recipe has to name.
func Defaults() Recipe {
	filled, err := preset.Lookup(preset.Default)
	if err != nil {
		panic(err) // the package holds its own default
	}
	warm := loss.DefaultOptimizer()
	warm.LearningRate = 1e-3 // of random weights; the other is of a policy that can already answer
	warm.WarmupSteps = 20
	warm.Decay = "cosine"
	return Recipe{
		Seed:   1,
		Preset: preset.Default,
		Policy: Policy{
			Backend: "auto",
			DType:   "auto",
			Compute: "float32",
			Chat: Chat{
				SystemPrefix:    "<|system|>",
				UserPrefix:      "<|user|>",
				AssistantPrefix: "<|assistant|>",
				AssistantSuffix: "<|end|>",
			},
		},
		Start:      Start{Optimizer: StartFresh, Curriculum: StartFresh},
		WarmStart:  WarmStart{Chunk: 100, Batch: 32, Optimizer: warm},
		Env:        defaultEnv(),
		Data:       defaultData(),
		Curriculum: Curriculum{Name: curriculum.Axis.Default(), Variants: curriculum.Axis.Variants()},
		Rollout: Rollout{
			Prompts: 128, Group: 8, MaxNewTokens: 1024,
			Thinking: ThinkingRefuse, Temperature: 1, TopK: 0, TopP: 1, Shards: 1,
		},
		Score:     Score{Embedding: "none", Embed: EmbedResponse},
		Scaffold:  Scaffold{Name: scaffold.Axis.Default(), Variants: scaffold.Axis.Variants()},
		Segments:  credit.SegmentsNamed(credit.SegmentsAxis.Default()),
		Reward:    Reward{Name: credit.RewardAxis.Default(), Variants: credit.RewardAxis.Variants()},
		Select:    filled.Select,
		Advantage: Advantage{AdvantageSettings: filled.Advantage, Variants: credit.AdvantageAxis.Variants()},
		Factors:   filled.Factors,
		Weight:    filled.Weight,
		Loss:      filled.Loss,
		Optimizer: loss.DefaultOptimizer(),
		Schedule: Schedule{
			Iterations: 100, SyncEvery: 1, Oversample: 1, Late: LateCarry, Quorum: 1, GradientUnits: 8, GradientShards: 1, ApplyShards: 1, GradientFanIn: 16,
			KeepEvery: KeepAuto, MaxAttempts: 3,
		},
		Evaluation: Evaluation{
			Role: RoleBenchmark, Problems: 100, Samples: 8, Temperature: 1, TopP: 1, Steps: 4, Scaffold: scaffold.ForEvaluation, Greedy: true, Every: EvaluateAuto, Shards: 1,
		},
		Resources: defaultResources(),
	}
}

// defaultEnv is the default environment; empty in a program without any.
func defaultEnv() Env {
	settings, _, err := env.Defaults(env.Axis.Default())
	if err != nil {
		return Env{}
	}
	return Env{Name: env.Axis.Default(), Settings: settings}
}

func defaultData() Data {
	_, data, err := env.Defaults(env.Axis.Default())
	if err != nil {
		return Data{}
	}
	return Data{Settings: data}
}

// DefaultMemoryGB is what a task asks for whose recipe does not say, in GiB.
const DefaultMemoryGB = 2

func defaultResources() Resources {
	task := Request{CPUs: 1, MemoryGB: DefaultMemoryGB, Minutes: 30}
	gate := Request{CPUs: 1, MemoryGB: 1, Minutes: 10}
	return Resources{Stages: StageRequest{
		Warm: task, Rollout: task, Score: task, Buffer: task,
		Learn: task, Gradient: task, Evaluate: task, Gate: gate,
	}}
}

// SetDefaults fills a new policy of about 0.6 million weights.
func (p *NewPolicy) SetDefaults() {
	*p = NewPolicy{
		HiddenSize: 128, IntermediateSize: 384,
		NumHiddenLayers: 4, NumAttentionHeads: 4, NumKeyValueHeads: 2,
		MaxPositionEmbeddings: 2048, Rope: "rotary", RopeTheta: 10000, RMSNormEps: 1e-6, InitializerRange: 0.02,
		QKVBias: true, TieWordEmbeddings: true, Tokenizer: "bytes",
	}
}

// SetDefaults adapts every projection.
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
