package learn

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
)

// teacherLook computes the teacher's log-probabilities; the policy may be its own teacher.
func (l *learner) teacherLook(ctx context.Context, units []unit) look {
	at := look{name: "log-probabilities of the teacher", folder: l.in.Teacher, as: l.Policy}
	switch {
	case l.in.Teacher == l.in.Policy:
		at.own = &l.engine
	case l.Advantage.Teacher.Path != "":
		at.open = l.openTeacher
	}
	at.pass = func(engine *policy.Engine) error { return l.teach(ctx, engine, units) }
	return at
}

// teach computes the teacher's log-probabilities of the sequences of units.
func (l *learner) teach(ctx context.Context, engine *policy.Engine, units []unit) error {
	format, err := stage.LoadChat(l.Policy, l.in.Policy)
	if err != nil {
		return err
	}
	for _, u := range units {
		read, err := l.rows(u)
		if err != nil {
			return err
		}
		var judged []trainer.Sequence // as the teacher reads them
		from := map[int32]int{}       // by place, the first token of the response in the batch
		for _, s := range read {
			first := slices.Index(s.LossMask, true)
			as, err := l.underTeacher(s, first, format)
			switch {
			case err != nil:
				return fmt.Errorf("instance %q sample %d: %w", s.InstanceID, s.Sample, err)
			case len(as.TokenIDs) > engine.Config().MaxPositionEmbeddings:
				continue // no room: it has no opinion
			}
			judged, from[s.Place] = append(judged, trainer.Sequence{Sequence: as}), first
			l.computed(s.Place).Teacher = make([]float32, len(s.TokenIDs))
		}
		for _, micro := range l.microBatches(engine, judged) {
			if err := ctx.Err(); err != nil {
				return err
			}
			batch := trainer.Pack(micro)
			logProbs, entropy := make([]float32, len(batch.TokenIDs)), make([]float32, len(batch.TokenIDs))
			if err := engine.Forward(batch.Batch, l.Sampling, logProbs, entropy); err != nil {
				return err
			}
			for i, s := range batch.Sequences {
				copy(l.before[s.Place].Teacher[from[s.Place]:], batch.Of(i, logProbs)[slices.Index(s.LossMask, true):])
			}
		}
	}
	return nil
}

// underTeacher is a sequence whose response, from token first on, follows the prompt that
// the teacher reads.
func (l *learner) underTeacher(s shard.Sequence, first int, format chat.Chat) (shard.Sequence, error) {
	if !l.Advantage.Teacher.Rewords() {
		return s, nil
	}
	if s.TeacherPrompt == "" {
		return s, exitcode.WithHint(exitcode.Dataf("batch %q has no teacher_prompt", l.in.Batch), "make it again under this advantage.teacher.context")
	}
	var messages []shard.Message
	if err := json.Unmarshal([]byte(s.TeacherPrompt), &messages); err != nil {
		return s, exitcode.Dataf("batch %q: teacher_prompt: %w", l.in.Batch, err)
	}
	prompt, err := format.Prompt(messages)
	if err != nil {
		return s, fmt.Errorf("teacher's prompt: %w", err)
	}
	s.TokenIDs = append(slices.Clip(prompt), s.TokenIDs[first:]...)
	s.LossMask = append(make([]bool, len(prompt)), s.LossMask[first:]...)
	return s, nil
}

// openTeacher opens a teacher that is not of this run, and cites it.
func (l *learner) openTeacher(ctx context.Context) (*policy.Engine, error) {
	format, err := stage.LoadChat(l.Policy, l.in.Policy)
	if err != nil {
		return nil, err
	}
	content, err := seal.ContentSHA256(ctx, l.in.Teacher)
	if err != nil {
		return nil, err
	}
	if pinned := l.in.TeacherSHA256; pinned != "" && content != pinned {
		return nil, exitcode.WithHint(exitcode.Dataf("teacher %q has changed since the run was made: content sha256 %s, was %s", l.in.Teacher, content, pinned),
			"put it back as it was, or start a new run")
	}
	l.cited = append(l.cited, seal.Input{Path: l.files.Cite(l.in.Teacher), ContentSHA256: content})
	if err := CheckTeacher(format, l.in.Teacher); err != nil {
		return nil, err
	}
	as := l.Policy
	as.DType, as.Critic = "auto", recipe.CriticNone // its weights as they are
	return backend.Open(l.in.Teacher, trainer.EngineOptions(as, l.process, l.Optimizer, false, l.Workload(l.longest())))
}

// CheckTeacher refuses the folder of a teacher with other tokens or end tokens than a
// policy's, and says what differs.
func CheckTeacher(policy chat.Chat, folder string) error {
	teacher, err := chat.Load(folder, time.Time{})
	if err == nil {
		err = chat.SameTokens(policy, teacher)
	}
	if err != nil {
		return fmt.Errorf("advantage.teacher.path: teacher %q: %w", folder, err)
	}
	return nil
}

// longest is the number of tokens of the longest sequence that an engine sees; 0 for as
// many as the policy takes, since a teacher's prompts are not known before.
func (l *learner) longest() int {
	if l.Advantage.Teacher.Rewords() {
		return 0
	}
	return l.batch.Longest()
}

// opensTeacher says whether the teacher is a policy beside the one that is trained.
func opensTeacher(s Settings) bool {
	t := s.Advantage.Teacher
	own := t.Path == "" && t.Version == credit.TeacherCurrent
	return t.Active() && (!own || s.GradientShards > 1)
}
