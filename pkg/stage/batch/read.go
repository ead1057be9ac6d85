package batch

import (
	"errors"
	"slices"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// A shard is read twice. First without its text and tokens, of all but which an
// iteration fits into memory; credit and curriculum need no more. Then, once the
// batch is laid out, for the tokens, one shard after the other.

// contextRow is what is first read of a rollout's row.
type contextRow struct {
	InstanceID     string   `parquet:"instance_id"`
	GroupID        string   `parquet:"group_id"`
	Sample         int32    `parquet:"sample"`
	Step           int32    `parquet:"step"`
	Messages       []author `parquet:"messages,list"`
	PromptMessages int32    `parquet:"prompt_messages"`
	LossMask       []bool   `parquet:"loss_mask,list"` // nil once its tokens are counted
	FinishReason   string   `parquet:"finish_reason,dict"`
	Turns          int32    `parquet:"turns"`
	PolicyVersion  int32    `parquet:"policy_version"`
	LogProbSource  string   `parquet:"logprob_source,dict"`
	Wave           int32    `parquet:"wave"`
}

// author is what is read of a message.
type author struct {
	Role string `parquet:"role,dict"`
}

// Schema is that of the whole row.
func (contextRow) Schema() seal.Schema { return shard.Rollout{}.Schema() }

// Name is that of the row's trace.
func (r contextRow) Name() shard.TraceName {
	return shard.TraceName{InstanceID: r.InstanceID, Sample: r.Sample}
}

// tokensRow is what is read of a rollout's row to learn from it.
type tokensRow struct {
	InstanceID string    `parquet:"instance_id"`
	Sample     int32     `parquet:"sample"`
	TokenIDs   []int32   `parquet:"token_ids,list" parquet-element:",delta"`
	LossMask   []bool    `parquet:"loss_mask,list"`
	LogProbs   []float32 `parquet:"logprobs,list"`
	Turns      int32     `parquet:"turns"`
}

// Schema is that of the whole row.
func (tokensRow) Schema() seal.Schema { return shard.Rollout{}.Schema() }

// messagesRow is what is read of a rollout's row for a teacher's prompt.
type messagesRow struct {
	InstanceID string          `parquet:"instance_id"`
	Sample     int32           `parquet:"sample"`
	Messages   []shard.Message `parquet:"messages,list"`
}

// Schema is that of the whole row.
func (messagesRow) Schema() seal.Schema { return shard.Rollout{}.Schema() }

// Name is that of the row's trace.
func (r messagesRow) Name() shard.TraceName {
	return shard.TraceName{InstanceID: r.InstanceID, Sample: r.Sample}
}

// Name is that of the row's trace.
func (r tokensRow) Name() shard.TraceName {
	return shard.TraceName{InstanceID: r.InstanceID, Sample: r.Sample}
}

// scored is a trace with its score.
type scored struct {
	contexts []contextRow
	trace    credit.Trace
	rollout  string // content digest of the file that holds it
}

// readShard files the traces of a shard under their groups: those of its last
// waves, which are whole.
func (r *reduction) readShard(number int, all []group, at map[string]int) error {
	var order []shard.TraceName
	final := map[shard.TraceName]scored{}
	for _, wave := range r.in.Shards[number].waves() {
		traces, err := r.readWave(wave)
		if err != nil {
			return err
		}
		for i, t := range traces {
			name := t.contexts[0].Name()
			if _, known := at[t.contexts[0].GroupID]; !known {
				return exitcode.Dataf("rollout %q, trace %d: group %q is in no plan of this iteration", wave.Rollout, i, t.contexts[0].GroupID)
			}
			if _, before := final[name]; !before {
				order = append(order, name)
			}
			final[name] = t
		}
	}
	for _, name := range order {
		t := final[name]
		g := &all[at[t.contexts[0].GroupID]]
		g.shard = number
		g.add(t)
	}
	return nil
}

// readWave reads the traces of one wave of a shard and their scores.
func (r *reduction) readWave(wave stage.WaveRef) ([]scored, error) {
	traces, citedRollouts, err := r.readRollout(wave.Rollout)
	if err != nil {
		return nil, err
	}
	scores, citedScores, err := stage.ReadTable[shard.Score](r.ctx, r.files, wave.Score)
	if err != nil {
		return nil, err
	}
	if err := r.sameResponses(wave, citedRollouts); err != nil {
		return nil, err
	}
	r.cited = append(r.cited, citedScores)
	if len(scores) != len(traces) {
		return nil, exitcode.Dataf("score %q has %d rows, its rollout %q has %d traces", wave.Score, len(scores), wave.Rollout, len(traces))
	}
	for i := range traces {
		name := traces[i].contexts[0].Name()
		if name != scores[i].Name() {
			return nil, exitcode.Dataf("score %q row %d is of instance %q sample %d, its rollout %q has instance %q sample %d there",
				wave.Score, i, scores[i].InstanceID, scores[i].Sample, wave.Rollout, name.InstanceID, name.Sample)
		}
		traces[i].trace.Score = bounded(scores[i])
	}
	return traces, nil
}

// bounded is a score with rewards that can be learned from: a score task clips
// them, and one of an earlier version may not have.
func bounded(s shard.Score) shard.Score {
	parts := func(parts []shard.RewardPart) {
		for i := range parts {
			parts[i].Value = shard.BoundReward(parts[i].Value)
		}
	}
	s.Reward = shard.BoundReward(s.Reward)
	parts(s.RewardParts)
	for i := range s.Turns {
		s.Turns[i].Reward = shard.BoundReward(s.Turns[i].Reward)
		parts(s.Turns[i].RewardParts)
	}
	return s
}

// readRollout reads and cites the traces of a file, without scores.
func (r *reduction) readRollout(path string) ([]scored, seal.Input, error) {
	rows, cited, err := stage.ReadTable[contextRow](r.ctx, r.files, path)
	if err != nil {
		return nil, cited, err
	}
	if err := r.noteSampler(path); err != nil {
		return nil, cited, err
	}
	r.cited = append(r.cited, cited)
	traces := shard.Traces(rows)
	all := make([]scored, len(traces))
	for i, contexts := range traces {
		all[i] = scored{contexts: contexts, trace: credit.Trace{Contexts: make([]credit.Context, len(contexts))}, rollout: cited.ContentSHA256}
		for j := range contexts {
			c := &contexts[j]
			tokens := make([]int, c.Turns)
			for _, turn := range credit.TokenTurns(c.LossMask, int(c.Turns)) {
				if turn >= len(tokens) {
					return nil, cited, exitcode.Dataf("rollout %q: instance %q sample %d has tokens of the policy's and no message of its", path, c.InstanceID, c.Sample)
				}
				if turn >= 0 {
					tokens[turn]++
				}
			}
			all[i].trace.Contexts[j] = credit.Context{Tokens: len(c.LossMask), TurnTokens: tokens, FinishReason: c.FinishReason}
			c.LossMask = nil
		}
	}
	return all, cited, nil
}

// noteSampler keeps which engine sampled the rollouts of a file.
func (r *reduction) noteSampler(path string) error {
	m, err := seal.Read(r.ctx, path, r.files.Reading)
	if r.files.Plain && errors.Is(err, seal.ErrNotSealed) {
		return nil
	}
	if err != nil {
		return err
	}
	engine, ok, err := stage.EngineOf(m)
	if ok && !slices.Contains(r.samplers, engine) {
		r.samplers = append(r.samplers, engine)
	}
	return err
}

// sameResponses makes sure that a score shard is of the responses that are
// there now. A rollout shard that was lost and sampled again by a server holds
// others.
func (r *reduction) sameResponses(ref stage.WaveRef, rollout seal.Input) error {
	m, err := seal.Read(r.ctx, ref.Score, r.files.Reading)
	if r.files.Plain && errors.Is(err, seal.ErrNotSealed) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, input := range m.Inputs {
		if input.Path == rollout.Path && input.ContentSHA256 != rollout.ContentSHA256 {
			err := exitcode.Dataf("score %q is of responses that rollout %q no longer holds: content sha256 %s, now %s",
				ref.Score, ref.Rollout, input.ContentSHA256, rollout.ContentSHA256)
			return exitcode.WithHint(err, "remove %s and %s: then the responses are scored again", ref.Score, seal.ManifestPath(ref.Score))
		}
	}
	return nil
}

// tokens are those of the shard that was read last.
type tokens struct {
	shard  int // index of the input; -1 for none
	traces map[shard.TraceName][]tokensRow
	// messages are those of each trace, for a teacher that reads another prompt; else nil.
	messages map[shard.TraceName][]shard.Message
}

// tokensOf reads the tokens of a trace, with those of its shard.
func (r *reduction) tokensOf(t *tokens, g group, trace int) ([]tokensRow, error) {
	if t.shard != g.shard {
		t.shard, t.traces, t.messages = g.shard, map[shard.TraceName][]tokensRow{}, map[shard.TraceName][]shard.Message{}
		for _, wave := range r.in.Shards[g.shard].waves() {
			if err := r.readMessages(t, wave); err != nil {
				return nil, err
			}
			rows, cited, err := stage.ReadTable[tokensRow](r.ctx, r.files, wave.Rollout)
			if err != nil {
				return nil, err
			}
			if !r.citedAs(cited) {
				return nil, exitcode.Dataf("rollout %q was replaced while it was read", wave.Rollout)
			}
			for _, contexts := range shard.Traces(rows) {
				t.traces[contexts[0].Name()] = contexts
			}
		}
	}
	rows := t.traces[g.contexts[trace][0].Name()]
	if len(rows) != len(g.contexts[trace]) {
		return nil, exitcode.Dataf("rollout %q was replaced while it was read", r.in.Shards[g.shard].Rollout)
	}
	return rows, nil
}

// readMessages reads the messages of a wave's traces, if a teacher reads another prompt.
func (r *reduction) readMessages(t *tokens, wave stage.WaveRef) error {
	if r.in.TeacherPrompt == nil {
		return nil
	}
	rows, _, err := stage.ReadTable[messagesRow](r.ctx, r.files, wave.Rollout)
	for _, contexts := range shard.Traces(rows) {
		t.messages[contexts[0].Name()] = contexts[0].Messages // traces of one context: the recipe says so
	}
	return err
}

// citedAs reports whether a file was read with this content before.
func (r *reduction) citedAs(now seal.Input) bool {
	for _, before := range r.cited {
		if before.Path == now.Path {
			return before.ContentSHA256 == now.ContentSHA256
		}
	}
	return false
}
