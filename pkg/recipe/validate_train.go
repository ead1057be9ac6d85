package recipe

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/stopstring"
)

// minTemperature is the least temperature that engines sample at
// (policy.MinTemperature); temperature 0 is asked for in other ways.
const minTemperature = 1e-4

// maxNodes bounds the iterations of a run, and the chunks of its warm start: all of
// them are in memory where a run is planned.
const maxNodes = 1_000_000

func (r *Recipe) checkRollout(c *config.Checker) {
	o := r.Rollout
	prompts := c.AtLeast("rollout.prompts", o.Prompts, 1)
	if c.AtLeast("rollout.group", o.Group, 1) && prompts {
		c.Product("rollout.prompts × rollout.group", "responses of an iteration", config.MaxWhole, o.Prompts, o.Group)
	}
	if c.AtLeast("rollout.max_new_tokens", o.MaxNewTokens, 1) && r.Policy.New != nil && o.MaxNewTokens >= r.Policy.New.MaxPositionEmbeddings {
		c.Add("rollout.max_new_tokens", o.MaxNewTokens,
			"must be below policy.new.max_position_embeddings %d", r.Policy.New.MaxPositionEmbeddings)
	}
	if c.AtLeast("rollout.max_context_tokens", o.MaxContextTokens, 0) && o.MaxContextTokens > 0 && o.MaxContextTokens <= o.MaxNewTokens {
		c.Add("rollout.max_context_tokens", o.MaxContextTokens, "must be above rollout.max_new_tokens %d, or 0 for as many as the policy takes", o.MaxNewTokens)
	}
	for i, n := range o.MaxNewTokensByTurn {
		c.Between(fmt.Sprintf("rollout.max_new_tokens_by_turn[%d]", i), n, 1, o.MaxNewTokens)
	}
	if _, err := stopstring.New(o.Stop); err != nil {
		c.Add("rollout.stop", nil, "%v", err)
	}
	if !(o.Temperature >= minTemperature) {
		c.Add("rollout.temperature", o.Temperature, "must be %g or more: at 0 all responses of a group are the same", minTemperature)
	}
	r.checkThinking(c)
	c.AtLeast("rollout.top_k", o.TopK, 0)
	if !(float32(o.TopP) > 0 && o.TopP <= 1) { // engines take a float32, of which 0 keeps all
		c.Add("rollout.top_p", o.TopP, "must be above 0 and at most 1, which keeps all")
	}
	if m := r.Schedule.Oversample; c.Between("rollout.shards", o.Shards, 1, 1<<16) && prompts && o.Shards > o.Prompts && float64(o.Shards) > float64(o.Prompts)*m {
		times := ""
		if m > 1 {
			times = fmt.Sprintf(" times schedule.oversample %g", m)
		}
		c.Add("rollout.shards", o.Shards, "must not be above rollout.prompts %d%s", o.Prompts, times)
	}
	if o.Remote != nil {
		r.checkRemote(c, o.Remote)
	}
}

func (r *Recipe) checkScore(c *config.Checker) {
	c.Choice("score.embedding", r.Score.Embedding)
	c.Choice("score.embed", r.Score.Embed)
	if r.Score.Embed == EmbedExtracted && r.Score.Embedding == EmbeddingPolicy {
		c.Add("score.embed", r.Score.Embed, "is for score.embedding ngrams and endpoint: the policy's states are those over all that it wrote")
	}
	r.checkEndpoint(c)
	r.checkAssistant(c)
	if r.Score.Embedding == EmbeddingPolicy && r.Rollout.Remote != nil {
		c.Add("score.embedding", r.Score.Embedding, "needs the policy's states, which no server of rollout.remote shows: use ngrams or endpoint")
	}
	if r.Score.Embedding == EmbeddingPolicy && r.Policy.Backend == "cuda" {
		c.Add("score.embedding", r.Score.Embedding, "is made on CPUs alone so far, not by policy.backend cuda: use ngrams or endpoint")
	}
}

func (r *Recipe) checkSchedule(c *config.Checker) {
	s := r.Schedule
	c.Between("schedule.iterations", s.Iterations, 0, maxNodes)
	for i, end := range s.DecayEnds {
		if end < 1 || i > 0 && end <= s.DecayEnds[i-1] {
			c.Add("schedule.decay_ends", s.DecayEnds, "must be iterations, from 1, in ascending order")
			break
		}
	}
	c.AtLeast("schedule.staleness", s.Staleness, 0)
	c.AtLeast("schedule.sync_every", s.SyncEvery, 1)
	if !(s.Oversample >= 1 && s.Oversample <= 16) {
		c.Add("schedule.oversample", s.Oversample, "must be from 1 to 16")
	}
	c.NotNegative("schedule.close_after_seconds", s.CloseAfterSeconds)
	c.Choice("schedule.late", s.Late)
	if s.BatchSegments != BatchFull {
		c.AtLeast("schedule.batch_segments", int(s.BatchSegments), 0)
	}
	if !(s.Quorum > 0 && s.Quorum <= 1) {
		c.Add("schedule.quorum", s.Quorum, "must be above 0 and at most 1")
	}
	units := c.Between("schedule.gradient_units", s.GradientUnits, 1, 1<<16)
	if c.AtLeast("schedule.gradient_shards", s.GradientShards, 1) && units && s.GradientShards > s.GradientUnits {
		c.Add("schedule.gradient_shards", s.GradientShards, "must not be above schedule.gradient_units %d", s.GradientUnits)
	}
	c.AtLeast("schedule.gradient_fan_in", s.GradientFanIn, 2)
	if s.ApplyShards != ApplyAuto && c.Between("schedule.apply_shards", int(s.ApplyShards), 1, 1<<12) && s.ApplyShards > 1 && r.Policy.New != nil {
		c.Add("schedule.apply_shards", s.ApplyShards, "must be 1 with policy.new: such a policy is one small file")
	}
	micro := c.AtLeast("schedule.micro_batch_tokens", s.MicroBatchTokens, 0)
	if c.AtLeast("schedule.shared_prompt_tokens", s.SharedPromptTokens, 0) && micro && s.MicroBatchTokens > 0 && s.SharedPromptTokens > s.MicroBatchTokens {
		c.Add("schedule.shared_prompt_tokens", s.SharedPromptTokens, "must not be above schedule.micro_batch_tokens %d", s.MicroBatchTokens)
	}
	if s.KeepEvery != KeepAuto {
		c.AtLeast("schedule.keep_every", int(s.KeepEvery), 0)
	}
	c.AtLeast("schedule.max_attempts", s.MaxAttempts, 1)
}

func (r *Recipe) checkResources(c *config.Checker) {
	c.AtLeast("resources.threads", r.Resources.Threads, 0)
	s := r.Resources.Stages
	for _, stage := range []struct {
		name   string
		engine bool // runs the policy
		Request
	}{
		{"warm", true, s.Warm},
		{"rollout", true, s.Rollout},
		{"score", false, s.Score},
		{"buffer", false, s.Buffer},
		{"learn", true, s.Learn},
		{"gradient", true, s.Gradient},
		{"evaluate", true, s.Evaluate},
		{"gate", false, s.Gate},
	} {
		field := "resources.stages." + stage.name
		c.AtLeast(field+".cpus", stage.CPUs, 1)
		c.Positive(field+".memory_gb", stage.MemoryGB)
		inParts := r.Schedule.ApplyShards > 1 || r.Schedule.ApplyShards == ApplyAuto && r.mayApplyInParts()
		engine := stage.engine && !(stage.name == "learn" && inParts) // which then runs none
		if c.AtLeast(field+".gpus", stage.GPUs, 0) && engine && r.Policy.Backend == "cuda" && stage.GPUs == 0 {
			c.Add(field+".gpus", stage.GPUs, "must be 1 or more for policy.backend cuda")
		}
		c.AtLeast(field+".minutes", stage.Minutes, 1)
	}
}
