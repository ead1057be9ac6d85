package program

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// played is a whole episode of the game, in which the policy counts up.
func played(ctx context.Context, e *Env, task env.Task) ([]shard.Message, error) {
	messages, err := e.Prompt(task, shard.KindInitial, env.Parent{})
	if err != nil {
		return nil, err
	}
	episode, err := e.Begin(ctx, task, messages)
	if err != nil {
		return nil, err
	}
	defer episode.Close()
	for guess := 1; ; guess++ {
		messages = append(messages, shard.Message{Role: "assistant", Content: fmt.Sprint(guess)})
		step, err := episode.Next(ctx, messages, nil)
		if err != nil || step.Over() {
			return messages, err
		}
		messages = append(messages, step.Messages...)
	}
}

// Many episodes at once, in two programs that are killed again and again, come to the
// same conversations and scores as one alone.
func TestEpisodes(t *testing.T) {
	t.Parallel()
	s := settings(t, "game")
	s.Program.MaxTurns, s.Program.Processes, s.Program.Retries = 8, 2, 100
	e := open(t, s)
	want := map[string][]shard.Message{}
	for _, task := range e.Tasks(env.Train) {
		messages := must.Get(played(t.Context(), e, task))(t)
		want[task.ID] = messages
	}
	stop, killed := make(chan struct{}), 0
	var killer, all sync.WaitGroup
	killer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			e.pool.mutex.Lock()
			for _, s := range e.pool.slots {
				if s.process != nil {
					s.process.Kill()
					killed++
				}
			}
			e.pool.mutex.Unlock()
			e.pool.changed.Broadcast()
			for range 50 { // some requests go through in between
				e.pool.generationOf(e.pool.slots[0])
			}
		}
	})
	for range 8 {
		for _, task := range e.Tasks(env.Train) {
			all.Go(func() {
				messages, err := played(t.Context(), e, task)
				if err == nil {
					if diff := cmp.Diff(want[task.ID], messages); diff != "" {
						t.Errorf("%s: %s", task.ID, diff)
					}
				} else if !strings.Contains(err.Error(), "in a row failed") {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	close(stop)
	killer.Wait()
	t.Logf("%d kills", killed)
}

// An episode that is not the same when it is played again is our failure.
func TestEpisodeThatVaries(t *testing.T) {
	t.Parallel()
	s := settings(t, "game", "vary")
	s.Program.MaxTurns, s.Program.Processes = 8, 1
	e := open(t, s)
	task := e.Tasks(env.Train)[4]
	messages, _ := e.Prompt(task, shard.KindInitial, env.Parent{})
	episode, err := e.Begin(t.Context(), task, messages)
	if err != nil {
		t.Fatal(err)
	}
	defer episode.Close()
	messages = append(messages, shard.Message{Role: "assistant", Content: "1"})
	step, err := episode.Next(t.Context(), messages, nil)
	if err != nil {
		t.Fatal(err)
	}
	e.pool.slots[0].process.Kill()
	messages = append(append(messages, step.Messages...), shard.Message{Role: "assistant", Content: "2"})
	if _, err = episode.Next(t.Context(), messages, nil); err == nil || !strings.Contains(err.Error(), "when the episode was replayed") {
		t.Errorf("got %v", err)
	}
}

// With waves a message waits for its score, and the program is told it.
func TestWaves(t *testing.T) {
	t.Parallel()
	s := settings(t, "game")
	s.Program.MaxTurns, s.Program.Waves = 3, true
	e := open(t, s)
	task := e.Tasks(env.Train)[4]
	prompt, _ := e.Prompt(task, shard.KindInitial, env.Parent{})
	conversation := append(prompt, shard.Message{Role: "assistant", Content: "1"})
	for wave := range 2 {
		episode := must.Get(e.Begin(t.Context(), task, conversation))(t)
		if step, err := episode.Next(t.Context(), conversation, nil); err != nil || !step.Wait {
			t.Errorf("wave %d: %+v, %v, want to wait", wave, step, err)
		}
		step, err := episode.Next(t.Context(), conversation, &env.TurnVerdict{Reward: 0.25, Outcome: shard.OutcomeWrong})
		if want := fmt.Sprintf("higher than %d, you have 0.25", wave+1); err != nil || len(step.Messages) != 1 || step.Messages[0].Content != want {
			t.Errorf("wave %d: %+v, %v, want %s", wave, step, err, want)
		}
		if err := episode.Close(); err != nil {
			t.Error(err)
		}
		conversation = append(append(conversation, step.Messages...), shard.Message{Role: "assistant", Content: fmt.Sprint(wave + 2)})
	}
	if traits := e.Traits(); traits.Waves != 3 || !traits.Slow {
		t.Errorf("traits %+v", traits)
	}
}
