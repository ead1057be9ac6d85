package exit

import (
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The draws of one prompt, by position in its stream.
const (
	positionSelect  = 0 // from the buffer, or a base task
	positionEntry   = 1 // which entry
	positionDiverge = 2 // self-diverge, or self-improve
)

// Next selects the n prompts of an iteration, counted from 1. Each comes from
// the buffer with probability p if the buffer holds at least the minimum
// number of entries, and is a base task otherwise (section 4).
//
// Base tasks run through epochs as in the uniform curriculum: prompt i takes
// the task that it has there. The tasks of prompts that come from the buffer
// are passed over, so an epoch lasts as many iterations as without a buffer
// (1280 problems, 128 prompts: ten, section 5.1).
func (e *Exit) Next(state curriculum.State, iteration, n int, taskIDs []string) ([]curriculum.Selection, error) {
	tasks, err := uniform.Tasks(e.seed, iteration, n, taskIDs)
	if err != nil {
		return nil, err
	}
	buffer := state.Instances
	ready := len(buffer) > 0 && len(buffer) >= e.spec.MinBufferSize
	scores := make([]float64, len(buffer))
	for i, entry := range buffer {
		scores[i] = entry.Potential
	}
	probabilities := Probabilities(scores, e.spec.InverseTemperature)

	selections := make([]curriculum.Selection, n)
	for i := range selections {
		stream := rng.New(e.seed, rng.PurposeSelect, iteration, "exit prompt", i)
		if !ready || !stream.Bool(positionSelect, e.spec.SelectProbability) {
			selections[i] = uniform.Selection(tasks[i])
			continue
		}
		entry := buffer[pick(probabilities, stream.Float64(positionEntry))]
		selections[i] = e.selection(entry, stream)
	}
	return selections, nil
}

// selection turns an entry into what is sampled: a self-diverge step with
// probability p_div, else a self-improve step (section 4.2); in the ablation
// without self-iteration the task itself, again.
func (e *Exit) selection(entry shard.Instance, stream rng.Stream) curriculum.Selection {
	selected := curriculum.Selection{
		TaskID:    entry.TaskID,
		Kind:      shard.Kind(entry.Kind),
		Origin:    shard.OriginBuffer,
		ParentID:  entry.InstanceID,
		Depth:     int(entry.Depth),
		Turn:      int(entry.Turn),
		History:   entry.Messages,
		BaseScore: entry.BaseScore,
		Potential: entry.Potential,
	}
	if e.spec.Improve {
		selected.Kind = shard.KindImprove
		if stream.Bool(positionDiverge, e.spec.DivergeProbability) {
			selected.Kind = shard.KindDiverge
		}
	}
	return selected
}
