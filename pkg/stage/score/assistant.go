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
	engine, err := backend.Open(folder, backend.Options{Backend: spec.Backend, Threads: job.Threads, Workload: policy.Workload{Generate: true}, Log: job.Log})
	if err != nil {
		return nil, nil, fmt.Errorf("score.assistant.policy: %w", err)
	}
	b := batcher{generate: engine.Generate}
	return func(ctx context.Context, messages []shard.Message) (string, bool, error) {
		prompt, err := format.Prompt(messages)
		if err != nil {
			return "", false, err
		}
		room := min(spec.MaxNewTokens, engine.Config().MaxPositionEmbeddings-len(prompt))
		if room < 1 {
			return "", true, nil // no answer fits behind such a prompt
		}
		c, err := b.ask(ctx, policy.Request{Prompt: prompt, MaxNewTokens: room, StopTokens: format.StopTokens()})
		if err != nil {
			return "", false, err
		}
		ids := c.TokenIDs
		if c.FinishReason == policy.FinishStop && len(ids) > 0 {
			ids = ids[:len(ids)-1] // the token that ended it
		}
		return format.Tokenizer().Decode(ids), c.FinishReason == policy.FinishLength, nil
	}, engine.Close, nil
}

// batcher asks an engine, which answers one call at a time, for all that waits at once. No
// answer depends on the company that it is given in.
type batcher struct {
	generate func(context.Context, []policy.Request) ([]policy.Completion, error)
	engine   sync.Mutex
	queue    sync.Mutex
	waiting  []*question
}

// question is a request with what came of it.
type question struct {
	request    policy.Request
	done       bool // guarded by batcher.engine
	completion policy.Completion
	err        error
}

// ask returns the answer to one request.
func (b *batcher) ask(ctx context.Context, r policy.Request) (policy.Completion, error) {
	q := &question{request: r}
	b.queue.Lock()
	b.waiting = append(b.waiting, q)
	b.queue.Unlock()
	b.engine.Lock()
	defer b.engine.Unlock()
	if q.done { // whoever had the engine before has asked for this too
		return q.completion, q.err
	}
	b.queue.Lock()
	batch := b.waiting
	b.waiting = nil
	b.queue.Unlock()
	requests := make([]policy.Request, len(batch))
	for i, other := range batch {
		requests[i] = other.request
	}
	completions, err := b.generate(ctx, requests)
	for i, other := range batch {
		if other.done, other.err = true, err; err == nil {
			other.completion = completions[i]
		}
	}
	return q.completion, q.err
}
