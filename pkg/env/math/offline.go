package math

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// prompted is what is read of a plan to know which problem was asked.
type prompted struct {
	InstanceID string `parquet:"instance_id"`
	TaskID     string `parquet:"task_id"`
}

// Schema is that of the whole row.
func (prompted) Schema() seal.Schema { return shard.Instance{}.Schema() }

// answered is what is read of a rollout to refine its response.
type answered struct {
	InstanceID     string          `parquet:"instance_id"`
	Sample         int32           `parquet:"sample"`
	Outcome        string          `parquet:"outcome"`
	Messages       []shard.Message `parquet:"messages,list"`
	PromptMessages int32           `parquet:"prompt_messages"`
}

// Schema is that of the whole row.
func (answered) Schema() seal.Schema { return shard.Rollout{}.Schema() }

// refineSuffix ends the id of a problem that is asked with a response to refine.
const refineSuffix = "/refine"

// withOffline keeps the training problems that an iteration of another run has
// responses to, and asks each once more: to refine the first of them, by the
// prompt env.prompts.improve. These are the two tasks of step-level GRPO
// (FlipTS App. D).
func withOffline(tasks *env.TaskSet, folder string) error {
	// A recipe's problems are read before there is anything to cancel.
	ctx := context.Background()
	plan, m, err := shard.Read[prompted](ctx, filepath.Join(folder, "plan.parquet"), seal.Options{})
	if err != nil {
		return fmt.Errorf("data.offline: %w", err)
	}
	tasks.AddInputs(env.Input{Path: filepath.Join(folder, "plan.parquet"), SHA256: m.SHA256})
	taskOf := make(map[string]string, len(plan))
	for _, row := range plan {
		taskOf[row.InstanceID] = row.TaskID
	}
	rollouts := filepath.Join(folder, "rollout")
	shards, err := seal.List(rollouts)
	if err != nil {
		return fmt.Errorf("data.offline: %w", err)
	}
	responses := map[string]string{} // by task
	for _, name := range shards {
		path := filepath.Join(rollouts, name)
		rows, m, err := shard.Read[answered](ctx, path, seal.Options{})
		if err != nil {
			return fmt.Errorf("data.offline: %w", err)
		}
		tasks.AddInputs(env.Input{Path: path, SHA256: m.SHA256})
		for _, row := range rows {
			task, ours := taskOf[row.InstanceID]
			said := env.Said(row.Messages, int(row.PromptMessages))
			if _, has := responses[task]; ours && !has && row.Sample == 0 && len(said) > 0 && shard.Outcome(row.Outcome).Policys() {
				responses[task] = row.Messages[said[len(said)-1]].Content
			}
		}
	}
	tasks.Remove(env.Train, func(task env.Task) bool {
		_, has := responses[task.ID]
		return !has
	})
	asked := slices.Clone(tasks.Tasks(env.Train))
	if len(asked) == 0 {
		return exitcode.Dataf("data.offline: %q has no response to a problem of data.train: was it made from the same problems?", folder)
	}
	for _, task := range asked {
		response := responses[task.ID]
		task.ID += refineSuffix
		tasks.Add(task, env.Facts{Split: env.Train, Source: response})
	}
	return nil
}

// checkOffline checks data.offline against the prompts.
func checkOffline(c *config.Checker, s *Settings, d *Data) {
	if d.Offline != "" && s.Prompts.Improve == "" {
		c.Add("data.offline", d.Offline, "needs env.prompts.improve, which asks to refine the responses")
	}
}
