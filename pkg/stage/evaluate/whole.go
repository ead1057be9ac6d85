package evaluate

import (
	"context"
	"time"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
)

// WholeInputs say what an evaluation in one task measures.
type WholeInputs struct {
	PolicyFolder  string
	PolicyVersion int
	FirstProblem  int // of the test split
	LastProblem   int // exclusive
	Shard, Of     int
	Output        string
}

// RunWhole measures the problems of one shard in this process and seals every
// response.
func RunWhole(ctx context.Context, job stage.Job, environment env.Env, in WholeInputs) (seal.Manifest, error) {
	started := time.Now()
	cited, err := job.VerifyPolicy(ctx, in.PolicyFolder)
	if err != nil {
		return seal.Manifest{}, err
	}
	sampler, err := rollout.OpenSampler(ctx, job.Recipe, job.Process, in.PolicyFolder, environment.Traits().Turns)
	if err != nil {
		return seal.Manifest{}, err
	}
	defer sampler.Close()
	rows, err := Measure(ctx, job.Recipe, environment, sampler, in.FirstProblem, in.LastProblem, in.PolicyVersion)
	if err != nil {
		return seal.Manifest{}, err
	}
	m := job.Manifest("evaluate", in.PolicyVersion, in.Shard, in.Of, started, cited...)
	m.PolicyVersion = in.PolicyVersion
	m.Metrics = map[string]float64{"responses": float64(len(rows)), "response_tokens": 0, "seconds": time.Since(started).Seconds()}
	for _, row := range rows {
		m.Metrics["response_tokens"] += float64(row.ResponseTokens)
	}
	if err := sampler.Note(&m); err != nil {
		return seal.Manifest{}, err
	}
	return shard.Write(in.Output, rows, nil, job.Attempt, m)
}
