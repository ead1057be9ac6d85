package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/policy/remote"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// generator continues prompts: our engine, or a server.
type generator interface {
	// Longest is the number of tokens of the longest sequence.
	Longest() int
	// Generate continues each turn. A reply that failed is nobody's answer.
	Generate(ctx context.Context, turns []remote.Turn) ([]remote.Reply, error)
	Close() error
}

// engineGenerator is our engine.
type engineGenerator struct{ *policy.Engine }

func (g engineGenerator) Longest() int { return g.Config().MaxPositionEmbeddings }

func (g engineGenerator) Generate(ctx context.Context, turns []remote.Turn) ([]remote.Reply, error) {
	requests := make([]policy.Request, len(turns))
	for i, turn := range turns {
		requests[i] = turn.Request
	}
	completions, err := g.Engine.Generate(ctx, requests)
	if err != nil {
		return nil, err
	}
	replies := make([]remote.Reply, len(turns))
	for i, c := range completions {
		replies[i] = remote.Reply{Completion: c, Tries: 1}
	}
	return replies, nil
}

// openGenerator opens what the recipe samples with; the engine is nil for a server.
func openGenerator(ctx context.Context, s Settings, process stage.Process, folder string, tokenizer remote.Text) (generator, *policy.Engine, error) {
	spec := s.Rollout.Remote
	if spec == nil {
		engine, err := backend.Open(folder, backend.Options{
			Backend: s.Policy.Backend, Threads: process.Threads, DType: s.Policy.DType, Compute: s.Policy.Compute,
			Workload: policy.Workload{Generate: true}, Log: process.Log,
		})
		if err != nil {
			return nil, nil, err
		}
		return engineGenerator{engine}, engine, nil
	}
	config, err := checkpoint.LoadConfig(folder)
	if err != nil {
		return nil, nil, err
	}
	url, key, err := spec.Resolve()
	if err != nil {
		return nil, nil, err
	}
	options := remote.Options{
		URL: url, Server: spec.Server, API: spec.API, Key: key, Model: spec.Model, Folder: folder,
		Concurrency: spec.Concurrency, Timeout: stage.Seconds(spec.TimeoutSeconds), Deadline: stage.Seconds(spec.TaskSeconds),
		Retries: spec.Retries, Backoff: stage.Seconds(spec.BackoffSeconds), Ready: stage.Seconds(spec.ReadySeconds),
		LogProbs: spec.LogProbs, Config: config, Tokenizer: tokenizer, Log: process.Log, PassEnvironment: spec.PassEnvironment,
	}
	if len(spec.Serve) > 0 {
		server, err := remote.Start(ctx, options, spec.Serve, serverLog(process.LogDir, folder))
		return server, nil, err
	}
	if options.URL, err = address(ctx, url, options.Ready); err != nil {
		return nil, nil, err
	}
	client, err := remote.Open(ctx, options, nil)
	return client, nil, err
}

// serverLog is where the server of a task writes: beside the task's own log.
func serverLog(logs, folder string) string {
	host, _ := os.Hostname()
	return filepath.Join(cmp.Or(logs, os.TempDir()), fmt.Sprintf("server-%s-%s-%d.log", filepath.Base(folder), host, os.Getpid()))
}

// filePrefix begins an address that is the name of a file with the address.
const filePrefix = "file:"

// address reads the address that whoever started the server wrote into a
// file, and waits for it to appear.
func address(ctx context.Context, url string, patience time.Duration) (string, error) {
	path, isFile := strings.CutPrefix(url, filePrefix)
	if !isFile {
		return url, nil
	}
	if !filepath.IsAbs(path) {
		return "", exitcode.Usagef("rollout.remote.url %q: the path must be absolute, for tasks run in folders of their own", url)
	}
	deadline := time.Now().Add(patience)
	for {
		content, err := plainfile.Read(path, plainfile.MaxDocument)
		if text := strings.TrimSpace(string(content)); err == nil && text != "" {
			return text, nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		if time.Now().After(deadline) {
			return "", exitcode.WithHint(exitcode.Unavailablef("no server has written its address into %q within %s", path, patience),
				"is the job that starts the server running? rollout.remote.ready_seconds bounds the wait")
		}
		timer := time.NewTimer(200 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return "", ctx.Err()
		}
	}
}

// requests is how often a server was asked.
func requests(traces []*Trace) float64 {
	n := 0
	for _, t := range traces {
		for _, p := range t.parts {
			n += p.tries
		}
	}
	return float64(n)
}

// addRemoteMetrics counts what came of asking a server.
func addRemoteMetrics(metrics map[string]float64, traces []*Trace) {
	for _, name := range []string{"infra", "retokenized", "without_logprobs"} {
		metrics[name] = 0
	}
	for _, t := range traces {
		if t.failed != nil {
			metrics["infra"]++
		}
		for _, p := range t.parts {
			if p.retokenized {
				metrics["retokenized"]++
			}
			if t.failed == nil && p.source == shard.LogProbsNone {
				metrics["without_logprobs"]++
			}
		}
	}
}
