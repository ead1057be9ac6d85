package plan

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// InstanceID is the id of a row, from 0, of the plan that this package makes
// for an iteration, from 1.
func InstanceID(iteration, row int) string { return fmt.Sprintf("i%06d-%06d", iteration, row) }

// IterationOf is the iteration that an id of [InstanceID] names, and 0 for any other text.
func IterationOf(id string) (iteration int) {
	var row int
	if _, err := fmt.Sscanf(id, "i%d-%d", &iteration, &row); err != nil || iteration < 1 || InstanceID(iteration, row) != id {
		return 0
	}
	return iteration
}

// conversation is what is read of a rollout's row to continue from it.
type conversation struct {
	InstanceID     string          `parquet:"instance_id"`
	Sample         int32           `parquet:"sample"`
	Step           int32           `parquet:"step"`
	Messages       []shard.Message `parquet:"messages,list"`
	PromptMessages int32           `parquet:"prompt_messages"`
}

// Schema is that of the whole row.
func (conversation) Schema() seal.Schema { return shard.Rollout{}.Schema() }

// scored is what is read of a score's row.
type scored struct {
	InstanceID string            `parquet:"instance_id"`
	Sample     int32             `parquet:"sample"`
	Turns      []shard.TurnScore `parquet:"turns,list"`
}

// Schema is that of the whole row.
func (scored) Schema() seal.Schema { return shard.Score{}.Schema() }

// attempt names an attempt of a trace inside a file.
type attempt struct {
	instanceID   string
	sample, step int32
}

// taken is an attempt that is read to continue from it.
type taken struct {
	messages []shard.Message
	own      []int // of them, those of the policy's in the attempt
	turns    []shard.TurnScore
}

// parents finds what selections iterate on, by reference, in the rollouts and
// scores that hold it. It cites those that nothing has been read of yet.
func (p *planner) parents(selections []curriculum.Selection) (map[shard.Ref]env.Parent, []seal.Input, error) {
	var waves []stage.WaveRef // in the order in which they are first needed
	refs := map[stage.WaveRef][]shard.Ref{}
	parents := map[shard.Ref]env.Parent{}
	for _, s := range selections {
		for _, ref := range []shard.Ref{s.Ref, s.PartnerRef} {
			if _, known := parents[ref]; known || ref.IsZero() {
				continue
			}
			parents[ref] = env.Parent{}
			wave, err := p.in.WaveOf(ref, p.instanceID(ref))
			if err != nil {
				return nil, nil, err
			}
			if refs[wave] == nil {
				waves = append(waves, wave)
			}
			refs[wave] = append(refs[wave], ref)
		}
	}
	read := map[string]bool{}
	for _, input := range p.in.Cited {
		read[input.Path] = true
	}
	var cited []seal.Input
	for _, wave := range waves {
		attempts := map[attempt]*taken{}
		for _, ref := range refs[wave] {
			attempts[attempt{p.instanceID(ref), ref.Sample, ref.Step}] = &taken{}
		}
		inputs, err := p.take(wave, attempts)
		if err != nil {
			return nil, nil, fmt.Errorf("reading what the plan continues from: %w", p.files.Lost(err))
		}
		for _, input := range inputs {
			if !read[input.Path] {
				cited = append(cited, input)
			}
		}
		for _, ref := range refs[wave] {
			if parents[ref], err = attempts[attempt{p.instanceID(ref), ref.Sample, ref.Step}].until(int(ref.Messages)); err != nil {
				return nil, nil, fmt.Errorf("rollout %q, instance %q, sample %d, step %d: %w", wave.Rollout, p.instanceID(ref), ref.Sample, ref.Step, err)
			}
		}
	}
	return parents, cited, nil
}

// take reads attempts from the files of a wave.
func (p *planner) take(wave stage.WaveRef, attempts map[attempt]*taken) ([]seal.Input, error) {
	rows, cited, err := stage.ReadTable[conversation](p.ctx, p.files, wave.Rollout)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if t := attempts[attempt{row.InstanceID, row.Sample, row.Step}]; t != nil { // contexts one after the other
			for _, at := range env.Said(row.Messages, int(row.PromptMessages)) {
				t.own = append(t.own, len(t.messages)+at)
			}
			t.messages = append(t.messages, row.Messages...)
		}
	}
	if wave.Score == "" {
		return []seal.Input{cited}, nil
	}
	scores, citedScores, err := stage.ReadTable[scored](p.ctx, p.files, wave.Score)
	if err != nil {
		return nil, err
	}
	for _, score := range scores {
		for _, turn := range score.Turns {
			if t := attempts[attempt{score.InstanceID, score.Sample, turn.Step}]; t != nil {
				t.turns = append(t.turns, turn)
			}
		}
	}
	return []seal.Input{cited, citedScores}, nil
}

// until is the attempt's first messages, with the score of the last of them
// that is the policy's.
func (t *taken) until(messages int) (env.Parent, error) {
	if messages < 1 || messages > len(t.messages) {
		return env.Parent{}, exitcode.Dataf("there are %d messages, and the curriculum's state continues from message %d", len(t.messages), messages)
	}
	parent := env.Parent{Messages: t.messages[:messages:messages]}
	last := -1 // turn of the attempt
	for last+1 < len(t.own) && t.own[last+1] < messages {
		last++
	}
	if last >= 0 && last < len(t.turns) {
		verdict := env.TurnVerdictOf(t.turns[last])
		parent.Verdict = &verdict
	}
	return parent, nil
}

// instanceID is the instance that a reference's response is to. The plans of
// this iteration's responses may be a person's own, with other ids than those
// that are made here.
func (p *planner) instanceID(ref shard.Ref) string {
	if plan := p.in.Plans[int(ref.Iteration)]; int(ref.Row) < len(plan) {
		return plan[ref.Row].InstanceID
	}
	return InstanceID(int(ref.Iteration), int(ref.Row))
}
