// Package rollout samples responses: a shard of a plan and a policy version
// in, a shard of rollouts out.
package rollout

import (
	"context"
	"fmt"
	"time"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// GreedySample is the sample number of the greedy trace of an evaluation.
const GreedySample = -1

// Inputs are the files that a rollout task reads and the one it makes.
type Inputs struct {
	Plan          string // plan.parquet
	FirstRow      int    // of the plan
	LastRow       int    // exclusive
	PolicyFolder  string
	PolicyVersion int
	Iteration     int // of an evaluation the policy version
	Shard, Of     int
	Output        string

	// Evaluation measures instead of training: samples, temperature, lengths and
	// scaffold are those of recipe.evaluation.
	Evaluation bool
	Wave       int
	Before     *stage.WaveRef // of this shard, the wave before; nil for wave 0
}

// Run lets the policy go on in each trace of a shard: from its prompt in wave
// 0, and in later ones from where it waited for the score of the wave before.
func Run(ctx context.Context, job stage.Job, s Settings, environment env.Env, in Inputs) (seal.Manifest, error) {
	started := time.Now()
	instances, plan, err := stage.ReadPart[shard.Instance](ctx, job.Files, in.Plan, in.FirstRow, in.LastRow)
	if err != nil {
		return seal.Manifest{}, fmt.Errorf("reading the plan of shard %d of %d: %w", in.Shard, in.Of, err)
	}
	cited, err := job.VerifyPolicy(ctx, in.PolicyFolder)
	if err != nil {
		return seal.Manifest{}, err
	}
	cited = append([]seal.Input{plan}, cited...)
	sampler, err := OpenSampler(ctx, s, job.Process, in.PolicyFolder, environment.Traits().Turns)
	if err != nil {
		return seal.Manifest{}, err
	}
	defer sampler.Close()
	batch, err := NewBatch(s, environment, instances, in)
	if err != nil {
		return seal.Manifest{}, err
	}
	readAgain := 0
	if in.Before != nil {
		before, inputs, err := readWave(ctx, job.Files, *in.Before)
		if err != nil {
			return seal.Manifest{}, err
		}
		cited = append(cited, inputs...)
		if err := batch.Resume(sampler, before.rows, before.scores); err != nil {
			return seal.Manifest{}, fmt.Errorf("going on from %q: %w", in.Before.Rollout, err)
		}
		readAgain = batch.tokens()
	}
	if err := batch.Play(ctx, sampler); err != nil {
		return seal.Manifest{}, err
	}
	rows := batch.Rows(in.Wave, in.PolicyVersion)
	if s.Embed && !in.Evaluation {
		if err := sampler.embed(ctx, rows); err != nil {
			return seal.Manifest{}, err
		}
	}
	m := job.Manifest(stageName(in), in.Iteration, in.Shard, in.Of, started, cited...)
	m.PolicyVersion = in.PolicyVersion
	m.Metrics = batch.metrics(rows)
	m.Metrics["tokens_read_again"] = float64(readAgain)
	if s.Rollout.Remote != nil {
		m.Usage = map[string]float64{"requests": requests(batch.all())}
	}
	if err := sampler.Note(&m); err != nil {
		return seal.Manifest{}, err
	}
	job.Log("%s %d shard %d: %s, %.0f tokens, %.1f s", stageName(in), in.Iteration, in.Shard, plural.Count(len(batch.traces), "response"), m.Metrics["response_tokens"], time.Since(started).Seconds())
	return shard.Write(in.Output, rows, nil, job.Attempt, m)
}

func stageName(in Inputs) string {
	if in.Evaluation {
		return "evalrollout"
	}
	return "rollout"
}
