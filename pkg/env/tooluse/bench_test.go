package tooluse

import (
	"syscall"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// BenchmarkSteps plays and scores the reference calls of whole conversations,
// one call to a message: a step is one message of the policy, read, executed
// and answered. It runs on one core.
func BenchmarkSteps(b *testing.B) {
	for _, set := range []struct{ name, folder, halves string }{{"small", small, ""}, {"bfcl", "", "split_100_100.json"}} {
		b.Run(set.name, func(b *testing.B) {
			if set.folder == "" {
				set.folder = shared(b)
			}
			e := newEnv(b, settings(set.folder, set.halves))
			type script struct {
				task         env.Task
				said         []string
				prompt, done []shard.Message
			}
			var scripts []script
			steps := 0
			for _, task := range e.Tasks(env.Test) {
				said := must.Get(e.tasks[task.ID].perfect(true))(b)
				done := play(b, e, task.ID, opening(b, e, task.ID), lines(said...)).conversation
				scripts = append(scripts, script{task, said, opening(b, e, task.ID), done})
				steps += len(said)
			}
			// The second of the processor's own time is the same on a busy machine.
			rate := func(b *testing.B, before time.Duration) {
				done := float64(steps) * float64(b.N)
				b.ReportMetric(done/b.Elapsed().Seconds(), "steps/s")
				b.ReportMetric(done/(processorTime(b)-before).Seconds(), "steps/cpu-s")
			}
			b.Run("play", func(b *testing.B) {
				before := processorTime(b)
				for b.Loop() {
					for _, s := range scripts {
						begun := must.Get(e.Begin(b.Context(), s.task, s.prompt))(b)
						conversation := s.prompt
						for _, said := range s.said {
							conversation = append(conversation, assistant(said))
							answer := must.Get(begun.Next(b.Context(), conversation, nil))(b)
							conversation = append(conversation, answer.Messages...)
						}
						must.Do(b, begun.Close())
					}
				}
				rate(b, before)
			})
			b.Run("score", func(b *testing.B) {
				before := processorTime(b)
				for b.Loop() {
					for _, s := range scripts {
						if _, err := e.Score(b.Context(), env.Attempt{Task: s.task, Messages: s.done, Own: env.Said(s.done, 0), Finish: "stop"}); err != nil {
							b.Fatal(err)
						}
					}
				}
				rate(b, before)
			})
		})
	}
}

// processorTime is what the process has used of all processors.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
