package learn

import (
	"math"
	"strings"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
)

// stepStats is what one optimizer step saw. A gradient shard hands it on as
// JSON. Sums are over sequences in batch order; they inform, no result
// depends on them.
type stepStats struct {
	Objective loss.Stats      `json:"objective"`
	Value     loss.ValueStats `json:"value"` // nothing without a critic
	Teacher   teacherStats    `json:"teacher,omitzero"`
	Sequences int             `json:"sequences"`
	Tokens    int             `json:"tokens"`  // all, prompts included
	AgeSum    int             `json:"age_sum"` // updates between the version that sampled a sequence and the one that learns
	GradNorm  float64         `json:"-"`
	HeadNorm  float64         `json:"-"` // of a value head that is clipped by itself
	Skipped   bool            `json:"-"` // nothing was changed
}

func (s *stepStats) merge(o stepStats) {
	s.Objective.Add(o.Objective)
	s.Value.Add(o.Value)
	s.Teacher.merge(o.Teacher)
	s.Sequences += o.Sequences
	s.Tokens += o.Tokens
	s.AgeSum += o.AgeSum
}

// entropy is the mean of the learned tokens.
func (s *stepStats) entropy() float64 {
	return s.Objective.EntropySum / float64(max(1, s.Objective.Tokens))
}

// totals gathers the statistics of an iteration's optimizer steps.
type totals struct {
	steps, skipped int
	gradNorm       float64
	headNorm       float64
	first          stepStats // on policy, its importance ratios are exactly 1
	all            stepStats
}

func (t *totals) add(s stepStats) {
	if t.steps == 0 {
		t.first = s
	}
	t.steps++
	if s.Skipped {
		t.skipped++ // its norm is not finite
	} else {
		t.gradNorm += s.GradNorm
		t.headNorm += s.HeadNorm
	}
	t.all.merge(s)
}

func (t *totals) metrics() map[string]float64 {
	steps := math.Max(1, float64(t.steps))
	taken := math.Max(1, float64(t.steps-t.skipped))
	metrics := map[string]float64{
		"optimizer_steps": float64(t.steps), "skipped_steps": float64(t.skipped),
		"tokens": float64(t.all.Tokens), "trained_tokens": float64(t.all.Objective.Tokens), "sequences": float64(t.all.Sequences),
		"grad_norm": t.gradNorm / taken, "age_mean": float64(t.all.AgeSum) / math.Max(1, float64(t.all.Sequences)),
		"first_step_ratio_deviation_max": t.first.Objective.MaxRatioDeviation,
	}
	if v := t.all.Value; v.Tokens > 0 {
		metrics["value_loss"] = v.Loss / steps
		metrics["value_held_share"] = float64(v.Held) / float64(v.Tokens)
		metrics["explained_variance"] = v.ExplainedVariance()
		if t.headNorm > 0 {
			metrics["value_grad_norm"] = t.headNorm / taken
		}
	}
	t.all.Teacher.note(metrics)
	for _, m := range t.all.Objective.Metrics() {
		if metrics[m.Name] = m.Value; strings.HasSuffix(m.Name, "loss") {
			metrics[m.Name] /= steps
		}
	}
	return metrics
}

// notePreset prints the objective whole into the manifest.
func (s Settings) notePreset(m *seal.Manifest) error {
	noted := map[string]any{
		"preset": s.Preset, "advantage": s.Advantage, "select": s.Select, "loss": s.Loss, "optimizer": s.Optimizer,
	}
	if len(s.SelectOf) > 0 {
		noted["select_of"] = s.SelectOf
	}
	for name, value := range noted {
		if err := m.Note(name, value); err != nil {
			return err
		}
	}
	return nil
}

// teacherStats are sums over learned tokens of what the teacher says.
type teacherStats struct {
	Tokens        int     `json:"tokens"`         // that it scored
	DifferenceSum float64 `json:"difference_sum"` // of the sampler's log-probability less the teacher's
	NoRoom        int     `json:"no_room"`        // tokens of responses that it had no room to score
}

// add adds a sequence.
func (s *teacherStats) add(t credit.Teacher, sequence trainer.Sequence) {
	for i, learned := range sequence.LossMask {
		switch {
		case !learned || !t.Active():
		case sequence.Teacher == nil:
			s.NoRoom++
		default:
			s.Tokens++
			s.DifferenceSum += float64(sequence.OldLogProbs[i]) - float64(sequence.Teacher[i])
		}
	}
}

func (s *teacherStats) merge(o teacherStats) {
	s.Tokens += o.Tokens
	s.DifferenceSum += o.DifferenceSum
	s.NoRoom += o.NoRoom
}

// note adds teacher_kl, the mean of the sampler's log-probability less the teacher's, in
// nats a token, and the share of tokens that the teacher had no room to score.
// Without a teacher there is neither. The first estimates the divergence from a teacher that
// has not read the response; from another it may be below 0.
func (s teacherStats) note(metrics map[string]float64) {
	if s == (teacherStats{}) {
		return
	}
	metrics["teacher_kl"] = s.DifferenceSum / float64(max(1, s.Tokens))
	metrics["teacher_no_room_share"] = float64(s.NoRoom) / float64(s.Tokens+s.NoRoom)
}
