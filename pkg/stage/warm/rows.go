package warm

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
	"github.com/lathe-rl/lathe/pkg/supervised"
)

// fileRows are the rows of files of the user's own (warm_start.data), as tokens of a policy.
type fileRows struct {
	supervised.Settings
	supervised.Data
	chat chat.Chat
	most int // tokens of a sequence
	skip int // rows that were left out as too long
	held int // rows that were left out since they ask a held-out problem
}

// CheckData reads the rows that a recipe learns from and refuses those that do not fit,
// before anything is made. source is the folder of the policy that the run starts from,
// folder that of the recipe. It returns the files that were read.
func CheckData(s Settings, environment env.Env, source, folder string) ([]env.Input, error) {
	if s.WarmStart.Data == nil {
		return nil, nil
	}
	format, most, err := Chat(s.Policy, environment, source)
	if err != nil {
		return nil, err
	}
	r, err := newFileRows(s, environment, folder, format, most)
	if err != nil {
		return nil, err
	}
	for _, e := range slices.Concat(r.Train, r.Test) {
		if _, _, err := r.tokens(e); err != nil {
			return nil, err
		}
	}
	return r.Inputs, nil
}

// openRows are those of a checkpoint's steps, for the policy of a folder.
func openRows(s Settings, environment env.Env, in Inputs, folder string) (*fileRows, error) {
	format, err := stage.LoadChat(s.Policy, folder)
	if err != nil {
		return nil, err
	}
	var most int
	if s.Policy.New != nil {
		most = s.Policy.New.MaxPositionEmbeddings
	} else {
		config, err := checkpoint.LoadConfig(in.Source)
		if err != nil {
			return nil, err
		}
		most = config.MaxPositionEmbeddings
	}
	r, err := newFileRows(s, environment, in.DataFolder, format, most)
	if err != nil {
		return nil, err
	}
	for i, input := range r.Inputs {
		if i >= len(in.Data) || in.Data[i] != input {
			return nil, exitcode.WithHint(exitcode.Dataf("warm_start.data: %q has changed since the run was made: its sha256 is %s", input.Path, input.SHA256),
				"put the file back, or start a new run with the new file")
		}
	}
	if len(r.Inputs) < len(in.Data) { // of those that match a pattern
		return nil, exitcode.Dataf("warm_start.data: %q is not there any more", in.Data[len(r.Inputs)].Path)
	}
	return r, nil
}

func newFileRows(s Settings, environment env.Env, folder string, format chat.Chat, most int) (*fileRows, error) {
	data, err := supervised.Read(*s.WarmStart.Data, folder, s.Seed)
	if err != nil {
		return nil, err
	}
	r := &fileRows{Settings: *s.WarmStart.Data, Data: data, chat: format, most: most}
	r.leaveOut(environment.Set().Tasks(env.Test))
	if len(r.Train) == 0 {
		return nil, exitcode.Dataf("warm_start.data: every row asks a problem that is held out")
	}
	if r.Overlong != supervised.Skip {
		return r, nil
	}
	for _, rows := range []*[]supervised.Example{&r.Train, &r.Test} {
		kept := (*rows)[:0]
		for _, e := range *rows {
			ids, _, err := r.render(e)
			if err != nil {
				return nil, err
			}
			if len(ids) > r.most {
				r.skip++
				continue
			}
			kept = append(kept, e)
		}
		*rows = kept
	}
	if len(r.Train) == 0 {
		return nil, exitcode.Dataf("warm_start.data: every row has more than the %d tokens that the policy takes", r.most)
	}
	return r, nil
}

// leaveOut leaves out the rows that ask a held-out problem: in what a user says there is
// its question, or, of a question too short to tell, nothing else.
func (r *fileRows) leaveOut(tasks []env.Task) {
	const telling = 40 // bytes
	fold := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	questions := make([]string, len(tasks))
	for i, task := range tasks {
		questions[i] = fold(task.Question)
	}
	r.Train = slices.DeleteFunc(r.Train, func(e supervised.Example) bool {
		asks := slices.ContainsFunc(e.Messages, func(m shard.Message) bool {
			text := fold(m.Content)
			return m.Role == "user" && slices.ContainsFunc(questions, func(question string) bool {
				return text == question || len(question) >= telling && strings.Contains(text, question)
			})
		})
		if asks {
			r.held++
		}
		return asks
	})
}

// ofFiles are the batches of a checkpoint's steps, and the rows that are held out. Passes
// over the rows end the warm start, and the schedule of its learning rate.
func ofFiles(ctx context.Context, job stage.Job, s *Settings, environment env.Env, in *Inputs, folder string) (batches []batch, held batch, err error) {
	r, err := openRows(*s, environment, *in, folder)
	if err != nil {
		return nil, held, err
	}
	s.WarmStart.Steps = r.steps(s.WarmStart.Steps, s.WarmStart.Batch)
	if in.LastStep = min(in.LastStep, s.WarmStart.Steps); in.LastStep <= in.FirstStep {
		return nil, held, nil
	}
	if in.Chunk == 1 {
		job.Log("warm start: %s to learn from, %d held out, %d left out as too long, %d left out as problems of the evaluation; %s, %.2f epochs",
			plural.Count(len(r.Train), "row"), len(r.Test), r.skip, r.held, plural.Count(s.WarmStart.Steps, "step"), float64(s.WarmStart.Steps*s.WarmStart.Batch)/float64(len(r.Train)))
	}
	if held, err = r.heldOut(); err != nil {
		return nil, held, err
	}
	batches, err = r.batches(ctx, *s, in.FirstStep, in.LastStep)
	return batches, held, err
}

// steps is how many optimizer steps are taken, of at most limit.
func (r *fileRows) steps(limit, batch int) int {
	if r.Epochs == 0 {
		return limit
	}
	return int(min(float64(limit), math.Ceil(r.Epochs*float64(len(r.Train))/float64(batch))))
}

// batches are those of steps [first, last).
func (r *fileRows) batches(ctx context.Context, s Settings, first, last int) ([]batch, error) {
	size := s.WarmStart.Batch
	batches := make([]batch, last-first)
	for slot, at := range poolOrder(s.Seed, len(r.Train), first*size, last*size) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ids, mask, err := r.tokens(r.Train[at])
		if err != nil {
			return nil, err
		}
		batches[slot/size].add(ids, mask)
	}
	return batches, nil
}

// heldOut are the rows that are not learned from.
func (r *fileRows) heldOut() (b batch, err error) {
	for _, e := range r.Test {
		ids, mask, err := r.tokens(e)
		if err != nil {
			return b, err
		}
		b.add(ids, mask)
	}
	return b, nil
}

// tokens are those of an example that fits, and which of them are learned from.
func (r *fileRows) tokens(e supervised.Example) (ids []int32, mask []bool, err error) {
	if ids, mask, err = r.render(e); err != nil {
		return nil, nil, err
	}
	if len(ids) > r.most {
		return nil, nil, exitcode.WithHint(exitcode.Dataf("%s: the row has %d tokens, and the policy takes %d", e.Where(), len(ids), r.most),
			"shorten the row, or leave such rows out with warm_start.data.overlong: skip")
	}
	return ids, mask, nil
}

func (r *fileRows) render(e supervised.Example) (ids []int32, mask []bool, err error) {
	ids, mask, err = r.chat.Demonstrate(e.Messages)
	if err != nil {
		return nil, nil, exitcode.Dataf("%s: %w", e.Where(), err)
	}
	switch {
	case r.Learn == supervised.All:
		for i := range mask {
			mask[i] = i > 0 // nothing comes before the first token
		}
	case r.Learn == supervised.Last:
		err = keepLast(mask, e, len(e.Messages)-1)
	case e.Given > 0:
		err = keepLast(mask, e, e.Given)
	}
	return ids, mask, err
}

// keepLast takes the answers before message first out of a mask. Each answer is one run of
// it, since a chat format puts a token before every answer.
func keepLast(mask []bool, e supervised.Example, first int) error {
	answers := 0
	for i, m := range e.Messages {
		if m.Role == "assistant" && i >= first {
			answers++
		}
	}
	at := len(mask)
	for ; answers > 0 && at > 0; answers-- {
		for at > 0 && !mask[at-1] {
			at--
		}
		for at > 0 && mask[at-1] {
			at--
		}
	}
	if answers > 0 {
		return exitcode.Dataf("%s: the chat format does not tell the answers apart", e.Where())
	}
	clear(mask[:at])
	return nil
}

// loss is the mean negative log-likelihood of a batch's targets, in nats per token.
func (b batch) loss(engine *policy.Engine, s Settings) (nats float64, err error) {
	for _, micro := range trainer.MicroBatches(trainer.Bundles(b.sequences, 0), s.MicroBatchTokens, engine.Room) {
		batch, logProbs, err := forward(engine, micro)
		if err != nil {
			return 0, err
		}
		for i, wanted := range batch.Targets {
			if wanted {
				nats -= float64(logProbs[i]) / float64(b.targets)
			}
		}
	}
	return nats, nil
}

// lossOf measures the rows that are held out, if there are any, and notes it.
func lossOf(engine *policy.Engine, s Settings, b batch, name, when string, metrics map[string]float64, job stage.Job) error {
	if len(b.sequences) == 0 {
		return nil
	}
	nats, err := b.loss(engine, s)
	if err != nil {
		return err
	}
	metrics[name] = nats
	job.Log("warm start, %s: loss %.4f on %s", when, nats, plural.Count(len(b.sequences), "held-out row"))
	return nil
}
