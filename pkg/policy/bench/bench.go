// Package bench measures how fast an engine does each kind of work, and how much of what
// the machine could do that is: so that a user knows before a night's run.
package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// Options say what is measured.
type Options struct {
	PromptTokens int
	NewTokens    int           // of a response; at least 2
	Batches      []int         // responses at a time, for decoding
	PassTokens   int           // that are learned from in one pass
	For          time.Duration // each kind of work is repeated for at least so long
}

// Rate is how fast one kind of work is.
type Rate struct {
	Work            string  `json:"work"` // prefill, decode, train or update
	Batch           int     `json:"batch"`
	TokensPerSecond float64 `json:"tokens_per_second"` // 0 for an update
	Seconds         float64 `json:"seconds"`           // of one time: a batch of prompts, one token of each response, a pass, an update
	GFLOPs          float64 `json:"gflop_per_second"`  // of products alone; 0 for an update
	GBs             float64 `json:"gb_per_second"`     // of weights that must be read, and for an update of all that it reads and writes
	// Share is the larger of the two as a share of the machine's ceiling; 0 where that
	// is not known.
	Share float64 `json:"share_of_ceiling"`
}

// The kinds of work.
const (
	Prefill = "prefill" // prompts are read
	Decode  = "decode"  // responses go on, a token each at a time
	Train   = "train"   // forward and backward
	Update  = "update"  // the optimizer's step
)

// Sample measures an engine that generates.
func Sample(ctx context.Context, e *policy.Engine, o Options) ([]Rate, error) {
	c := e.Config()
	if o.PromptTokens < 1 || o.NewTokens < 2 || o.PromptTokens+o.NewTokens > c.MaxPositionEmbeddings {
		return nil, exitcode.Usagef("got a prompt of %d tokens and a response of %d, want at most %d together and a response of 2 or more", o.PromptTokens, o.NewTokens, c.MaxPositionEmbeddings)
	}
	var rates []Rate
	for i, batch := range o.Batches {
		// A response of one token is a prompt that is read; one of n is n-1 more.
		read, err := repeat(o.For, func(round int) error { return generate(ctx, e, o, batch, 1, round) })
		if err != nil {
			return nil, err
		}
		if i == len(o.Batches)-1 {
			tokens := float64(batch * o.PromptTokens)
			flops := tokens * policy.FLOPsPerToken(c, o.PromptTokens) / 3
			rates = append([]Rate{rateOf(Prefill, batch, tokens, read, flops, weightBytes(e))}, rates...)
		}
		all, err := repeat(o.For, func(round int) error { return generate(ctx, e, o, batch, o.NewTokens, round) })
		if err != nil {
			return nil, err
		}
		step := max(1e-9, (all-read)/float64(o.NewTokens-1))
		flops := float64(batch) * policy.DecodeFLOPsPerToken(c, o.PromptTokens+o.NewTokens/2)
		rates = append(rates, rateOf(Decode, batch, float64(batch), step, flops, weightBytes(e)))
	}
	return rates, e.Err()
}

// Learn measures an engine that trains.
func Learn(ctx context.Context, e *policy.Engine, o Options) ([]Rate, error) {
	c := e.Config()
	length := min(o.PromptTokens+o.NewTokens, c.MaxPositionEmbeddings)
	sequences := max(1, o.PassTokens/length)
	batch := policy.Batch{Offsets: []int32{0}}
	for s := range sequences {
		batch.TokenIDs = append(batch.TokenIDs, tokens(c, length, s)...)
		batch.Offsets = append(batch.Offsets, int32(len(batch.TokenIDs)))
	}
	n := len(batch.TokenIDs)
	batch.Targets = make([]bool, n)
	coefficients := policy.Coefficients{LogProb: make([]float32, n)}
	for i := range batch.Targets {
		batch.Targets[i] = i%length > 0
		coefficients.LogProb[i] = -1 / float32(n)
	}
	logProbs, entropy := make([]float32, n), make([]float32, n)
	pass, err := repeat(o.For, func(int) error {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := e.Forward(batch, policy.Sampling{Temperature: 1}, logProbs, entropy); err != nil {
			return err
		}
		return e.Backward(coefficients)
	})
	if err != nil {
		return nil, err
	}
	update, err := repeat(o.For, func(round int) error {
		_, err := e.Step(policy.AdamW{LearningRate: 1e-9, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Rounding: rng.New(1, rng.PurposeSample, round, "bench", 0)})
		return err
	})
	if err != nil {
		return nil, err
	}
	flops := float64(n) * policy.FLOPsPerToken(c, length)
	// AdamW reads weight, gradient and two moments and writes all but the gradient.
	moved := 7 * 4 * float64(policy.ParameterCount(c))
	return []Rate{
		rateOf(Train, sequences, float64(n), pass, flops, 0),
		rateOf(Update, 1, 0, update, 0, moved),
	}, e.Err()
}

// rateOf is a kind of work of which one time takes so long.
func rateOf(work string, batch int, tokens, seconds, flops, bytes float64) Rate {
	return Rate{Work: work, Batch: batch, TokensPerSecond: tokens / seconds, Seconds: seconds, GFLOPs: flops / seconds / 1e9, GBs: bytes / seconds / 1e9}
}

// weightBytes is what a pass reads of the weights.
func weightBytes(e *policy.Engine) float64 {
	bytes := 4
	if trained := e.Trained(); len(trained) > 0 && trained[0].DType != "" {
		bytes = trained[0].DType.Bytes()
	}
	if a := e.Arithmetic(); a.Backend == "cpu" && a.Products != "" { // they are packed in bfloat16
		bytes = 2
	}
	return float64(bytes * policy.ParameterCount(e.Config()))
}

// tokens are the ids of a sequence, other ones for each number, so that no prefix is
// shared.
func tokens(c policy.Config, n, number int) []int32 {
	stream := rng.New(1, rng.PurposeSample, number, "bench", 0)
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(stream.IntN(uint64(i), c.VocabSize))
	}
	return ids
}

func generate(ctx context.Context, e *policy.Engine, o Options, batch, newTokens, round int) error {
	requests := make([]policy.Request, batch)
	for i := range requests {
		requests[i] = policy.Request{
			Prompt: tokens(e.Config(), o.PromptTokens, round*batch+i), MaxNewTokens: newTokens,
			Stream: rng.New(1, rng.PurposeSample, round, "bench", i), Sampling: policy.Sampling{Temperature: 1},
		}
	}
	completions, err := e.Generate(ctx, requests)
	if err != nil {
		return err
	}
	for _, c := range completions {
		if len(c.TokenIDs) != newTokens {
			return exitcode.Bugf("a response has %d tokens, want %d", len(c.TokenIDs), newTokens)
		}
	}
	return nil
}

// repeat does something once to warm up, and then at least twice and for a time. It
// returns the seconds of the fastest time: whatever else a machine does only adds.
func repeat(atLeast time.Duration, do func(round int) error) (seconds float64, err error) {
	began := time.Now()
	for round := 0; round < 3 || time.Since(began) < atLeast; round++ {
		started := time.Now()
		if err := do(round); err != nil {
			return 0, fmt.Errorf("measuring: %w", err)
		}
		if took := time.Since(started).Seconds(); round == 1 || round > 1 && took < seconds {
			seconds = took
		}
	}
	return max(seconds, 1e-9), nil
}
