// Package rollout samples responses: a shard of a plan and a policy version
// in, a shard of rollouts out.
package rollout

import (
	"context"
	"fmt"
	"time"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/remote"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stopstring"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// Inputs are the files that a rollout task reads and the one it makes.
type Inputs struct {
	Plan          string // plan.parquet
	FirstRow      int    // of the plan
	LastRow       int    // exclusive
	PolicyFolder  string
	PolicyVersion int
	Iteration     int
	Shard, Of     int
	Output        string
}

// Run samples group-size responses to each of the shard's instances.
func Run(ctx context.Context, job stage.Job, world env.Env, in Inputs) (seal.Manifest, error) {
	started := time.Now()
	instances, plan, err := stage.ReadTable[shard.Instance](ctx, job, in.Plan)
	if err != nil {
		return seal.Manifest{}, err
	}
	if in.LastRow > len(instances) || in.FirstRow > in.LastRow {
		return seal.Manifest{}, exitcode.Dataf("plan %q has %d rows, shard %d of %d wants rows %d to %d",
			in.Plan, len(instances), in.Shard, in.Of, in.FirstRow, in.LastRow)
	}
	instances = instances[in.FirstRow:in.LastRow]
	cited, err := job.VerifyPolicy(ctx, in.PolicyFolder)
	if err != nil {
		return seal.Manifest{}, err
	}
	sampler, err := OpenSampler(ctx, job, in.PolicyFolder)
	if err != nil {
		return seal.Manifest{}, err
	}
	defer sampler.Close()

	group := job.Recipe.Rollout.Group
	episodes := make([]*Episode, 0, len(instances)*group)
	for i := range instances {
		task, ok := world.Task(instances[i].TaskID)
		if !ok {
			return seal.Manifest{}, exitcode.Dataf("plan %q row %d names task %q, which environment %q does not have",
				in.Plan, in.FirstRow+i, instances[i].TaskID, world.Name())
		}
		for sample := range group {
			episodes = append(episodes, &Episode{
				Task: task, Conversation: instances[i].Messages,
				Stream: rng.New(job.Recipe.Seed, rng.PurposeSample, in.Iteration, instances[i].InstanceID, sample),
			})
		}
	}
	settings := policy.Sampling{
		Temperature: float32(job.Recipe.Rollout.Temperature),
		TopK:        job.Recipe.Rollout.TopK, TopP: float32(job.Recipe.Rollout.TopP),
	}
	if err := sampler.Play(ctx, world, episodes, settings, job.Recipe.Rollout.NewTokens()); err != nil {
		return seal.Manifest{}, err
	}
	if err := tooManyFailed(job.Recipe, episodes); err != nil {
		return seal.Manifest{}, err
	}

	rows := make([]shard.Rollout, len(episodes))
	var promptTokens, responseTokens, cutOff int
	for i, e := range episodes {
		instance := instances[i/group]
		rows[i] = e.row()
		rows[i].InstanceID, rows[i].GroupID = instance.InstanceID, instance.GroupID
		rows[i].Sample, rows[i].PolicyVersion = int32(i%group), int32(in.PolicyVersion)
		promptTokens += int(rows[i].PromptTokens)
		responseTokens += int(rows[i].ResponseTokens)
		if rows[i].FinishReason == string(policy.FinishLength) {
			cutOff++
		}
	}
	m := job.Manifest("rollout", in.Iteration, in.Shard, in.Of, started,
		append([]seal.Input{plan}, cited...)...)
	m.PolicyVersion = in.PolicyVersion
	seconds := time.Since(started).Seconds()
	m.Metrics = map[string]float64{
		"prompt_tokens": float64(promptTokens), "response_tokens": float64(responseTokens),
		"responses": float64(len(rows)), "cut_off": float64(cutOff), "seconds": seconds,
	}
	if failed := infra(episodes); failed > 0 {
		m.Metrics["infra"] = float64(failed)
	}
	if job.Recipe.Rollout.Remote != nil {
		addRemoteMetrics(m.Metrics, episodes)
	}
	if err := sampler.Note(&m); err != nil {
		return seal.Manifest{}, err
	}
	job.Log("rollout %d shard %d: %d responses, %d tokens, %.1f s", in.Iteration, in.Shard, len(rows), responseTokens, seconds)
	return shard.Write(in.Output, rows, nil, job.Attempt, m)
}

// Episode is one conversation that a policy takes part in.
type Episode struct {
	Task         env.Task
	Conversation []shard.Message // grows by the policy's messages and the environment's
	Stream       rng.Stream

	tokens       []int32
	mask         []bool
	logProbs     []float32
	promptTokens int // of the first turn
	turns        int
	drafted      int // tokens of messages that were improved on
	tries        int // requests made for it
	finish       policy.FinishReason
	stop         string // at which the last turn ended; empty for none
	closed       bool   // the last turn ended in a stop token
	source       shard.LogProbSource
	retokenized  bool
	failed       error // why a turn has no answer, or the environment none to it, by no fault of the policy
	side         env.Episode
	seconds      float64
}

// infra counts the episodes that could not be played.
func infra(episodes []*Episode) (failed int) {
	for _, e := range episodes {
		if e.failed != nil {
			failed++
		}
	}
	return failed
}

// Failed says why the episode could not be played, if it could not: a failure
// of the server that the policy speaks through, or of the environment.
func (e *Episode) Failed() error { return e.failed }

// Response is the policy's last message.
func (e *Episode) Response() string {
	if n := len(e.Conversation); n > 0 && e.Conversation[n-1].Role == "assistant" {
		return e.Conversation[n-1].Content
	}
	return ""
}

// Spoke reports whether the policy has said anything: a prompt may leave it no
// room.
func (e *Episode) Spoke() bool { return e.turns > 0 }

// Finish is the finish reason of the last turn.
func (e *Episode) Finish() string { return string(e.finish) }

// ResponseTokens is the number of tokens that the policy wrote.
func (e *Episode) ResponseTokens() int {
	n := e.drafted
	for _, m := range e.mask {
		if m {
			n++
		}
	}
	return n
}

func (e *Episode) row() shard.Rollout {
	outcome := shard.OutcomeOK
	if e.failed != nil {
		outcome = shard.OutcomeInfra
	}
	if e.source == shard.LogProbsNone {
		clear(e.logProbs) // what is known of some turns is of no use without the others
	}
	return shard.Rollout{
		Messages: e.Conversation, TokenIDs: e.tokens, LossMask: e.mask, LogProbs: e.logProbs,
		FinishReason: string(e.finish), StopString: e.stop, Turns: int32(e.turns),
		PromptTokens: int32(e.promptTokens), ResponseTokens: int32(e.ResponseTokens()),
		GenerateSeconds: e.seconds, Outcome: string(outcome),
		LogProbSource: string(e.source), Retokenized: e.retokenized,
	}
}

// Sampler is a policy that speaks: an engine or a server, its tokenizer and
// its chat format.
type Sampler struct {
	Chat  chat.Chat
	voice voice
	own   shard.LogProbSource // of the log-probabilities that the voice gives

	stops       *stopstring.Set
	includeStop bool
	maxTurns    int // of an episode
}

// OpenSampler opens a policy folder for sampling with what the recipe names.
func OpenSampler(ctx context.Context, job stage.Job, folder string) (*Sampler, error) {
	format, err := chat.Load(folder, time.Time{})
	if err != nil {
		return nil, err
	}
	voice, err := openVoice(ctx, job, folder, format.Tokenizer())
	if err != nil {
		return nil, err
	}
	own := shard.LogProbsEngine
	if job.Recipe.Rollout.Remote != nil {
		own = shard.LogProbsServer
	}
	stops, err := stopstring.New(job.Recipe.Rollout.Stop)
	if err != nil {
		return nil, err
	}
	return &Sampler{
		Chat: format, voice: voice, own: own,
		stops: stops, includeStop: job.Recipe.Rollout.IncludeStop, maxTurns: job.Recipe.Env.Turns(),
	}, nil
}

// Note adds to a manifest what sampled, unless that is a server.
func (s *Sampler) Note(m *seal.Manifest) error {
	if v, ok := s.voice.(engineVoice); ok {
		return stage.NoteEngine(m, v.Engine)
	}
	return nil
}

// Close frees the engine, or ends the server.
func (s *Sampler) Close() error { return s.voice.Close() }

// Play lets the policy finish all episodes, turn by turn. Sequences are
// batched freely: no result depends on the company it was sampled in. The
// response of turn t has at most maxNewTokens[t-1] tokens, and those after
// have as many as the last.
func (s *Sampler) Play(ctx context.Context, world env.Env, episodes []*Episode, settings policy.Sampling, maxNewTokens []int) error {
	defer closeAll(episodes)
	active, err := begin(ctx, world, episodes)
	if err != nil {
		return err
	}
	for turn := 1; len(active) > 0; turn++ {
		answered, err := s.generate(ctx, active, turn, settings, maxNewTokens)
		if err != nil {
			return err
		}
		if active, err = react(ctx, answered); err != nil {
			return err
		}
	}
	return nil
}

// generate lets the policy speak once in each episode, and lists those in which
// it has said all it wanted.
func (s *Sampler) generate(ctx context.Context, active []*Episode, turn int, settings policy.Sampling, maxNewTokens []int) ([]*Episode, error) {
	stops := s.Chat.StopTokens()
	turns := make([]remote.Turn, 0, len(active))
	speaking := make([]*Episode, 0, len(active))
	for _, e := range active {
		room, err := s.listen(e)
		if err != nil {
			return nil, err
		}
		if !room {
			continue
		}
		speaking = append(speaking, e)
		turns = append(turns, remote.Turn{
			Request: policy.Request{
				Prompt: e.tokens, MaxNewTokens: maxNewTokens[min(turn, len(maxNewTokens))-1], StopTokens: stops,
				Stream: e.Stream, Sampling: settings, Keep: turn < s.maxTurns, Watch: s.watch(),
			},
			Messages: e.Conversation, StopStrings: s.stops.Strings(),
		})
	}
	began := time.Now()
	replies, err := s.voice.Generate(ctx, turns)
	if err != nil {
		return nil, fmt.Errorf("sampling turn %d: %w", turn, err)
	}
	seconds := time.Since(began).Seconds() / float64(max(1, len(turns)))
	var answered []*Episode
	for i, e := range speaking {
		e.seconds += seconds
		e.tries += replies[i].Tries
		if e.failed = replies[i].Failed; e.failed != nil {
			continue
		}
		s.speak(e, replies[i])
		if e.finish == policy.FinishStop { // else cut off: there is nothing to go on from
			answered = append(answered, e)
		}
	}
	return answered, nil
}

// listen appends the tokens that the conversation has gained since the
// policy last spoke, and the opening of its own message. Where they leave no
// room for an answer the episode is over: it ends with what the policy said
// last, or, before it has spoken, with a prompt that is too long.
func (s *Sampler) listen(e *Episode) (room bool, err error) {
	var ids []int32
	if e.turns == 0 {
		ids, err = s.Chat.Prompt(e.Conversation)
	} else {
		ids, err = s.Chat.Continue(e.Conversation, e.closed)
	}
	if err != nil {
		return false, fmt.Errorf("prompt of task %q: %w", e.Task.ID, err)
	}
	if len(ids) == 0 {
		return false, exitcode.Dataf("task %q: the prompt renders to no tokens", e.Task.ID)
	}
	if room = len(e.tokens)+len(ids) < s.voice.Longest(); !room {
		e.finish = policy.FinishLength
		if e.turns > 0 {
			e.unhear()
			return false, nil
		}
	}
	if e.turns == 0 {
		e.promptTokens, e.source = len(ids), s.own
		e.Conversation = append([]shard.Message(nil), e.Conversation...) // the plan's messages are shared by the group
	}
	e.tokens = append(e.tokens, ids...)
	e.mask = append(e.mask, make([]bool, len(ids))...)
	e.logProbs = append(e.logProbs, make([]float32, len(ids))...)
	return room, nil
}

// unhear takes back what the conversation has gained since the policy last
// spoke.
func (e *Episode) unhear() {
	n := len(e.Conversation)
	for n > 0 && e.Conversation[n-1].Role != "assistant" {
		n--
	}
	e.Conversation = e.Conversation[:n:n]
}

// speak appends what the policy said.
func (s *Sampler) speak(e *Episode, r remote.Reply) {
	e.turns++
	content := s.end(e, &r)
	e.finish = r.FinishReason
	e.tokens = append(e.tokens, r.TokenIDs...)
	e.retokenized = e.retokenized || r.Retokenized
	if r.LogProbs == nil {
		e.source = shard.LogProbsNone
		e.logProbs = append(e.logProbs, make([]float32, len(r.TokenIDs))...)
	} else {
		e.logProbs = append(e.logProbs, r.LogProbs...)
	}
	for range r.TokenIDs {
		e.mask = append(e.mask, true)
	}
	// What is kept as text is UTF-8; what was sampled is in the token ids.
	e.Conversation = append(e.Conversation, shard.Message{Role: "assistant", Content: tokenizer.ValidText(content)})
}
