package score

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/policy/remote"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// openAssistant opens the policy that the recipe lends to environments.
func openAssistant(job stage.Job, spec *recipe.Assistant) (assistant env.Assistant, release func() error, err error) {
	if spec.URL != "" {
		url, key, err := spec.Resolve()
		if err != nil {
			return nil, nil, err
		}
		options := remote.Options{
			URL: url, Key: key, Model: spec.Model, Section: "score.assistant",
			Timeout: stage.Seconds(spec.TimeoutSeconds), Retries: spec.Retries, Backoff: stage.Seconds(spec.BackoffSeconds), Log: job.Log,
		}
		return func(ctx context.Context, messages []shard.Message) (string, bool, error) {
			return remote.Message(ctx, options, messages, spec.MaxNewTokens)
		}, func() error { return nil }, nil
	}
	folder, err := spec.Folder()
	if err != nil {
		return nil, nil, fmt.Errorf("score.assistant.policy: %w", err)
	}
	format, err := chat.Load(folder, time.Time{})
	if err != nil {
		return nil, nil, fmt.Errorf("score.assistant.policy: %w", err)
	}
	engine, err := backend.Open(folder, backend.Options{Backend: backend.CPU, Threads: job.Threads, Workload: policy.Workload{Generate: true}, Log: job.Log})
	if err != nil {
		return nil, nil, fmt.Errorf("score.assistant.policy: %w", err)
	}
	var one sync.Mutex // an engine answers one call at a time
	return func(ctx context.Context, messages []shard.Message) (string, bool, error) {
		prompt, err := format.Prompt(messages)
		if err != nil {
			return "", false, err
		}
		room := min(spec.MaxNewTokens, engine.Config().MaxPositionEmbeddings-len(prompt))
		if room < 1 {
			return "", true, nil // no answer fits behind such a prompt
		}
		one.Lock()
		defer one.Unlock()
		completions, err := engine.Generate(ctx, []policy.Request{{Prompt: prompt, MaxNewTokens: room, StopTokens: format.StopTokens()}})
		if err != nil {
			return "", false, err
		}
		c := completions[0]
		ids := c.TokenIDs
		if c.FinishReason == policy.FinishStop && len(ids) > 0 {
			ids = ids[:len(ids)-1] // the token that ended it
		}
		return format.Tokenizer().Decode(ids), c.FinishReason == policy.FinishLength, nil
	}, engine.Close, nil
}
