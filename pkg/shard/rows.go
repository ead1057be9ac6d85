package shard

// The row types of a run. The names of the columns are a contract: they may
// be added to, never renamed or narrowed.
//
// A column tagged lathe:"volatile" may differ between two attempts at the
// same work (a time, a host); the digest of content leaves it out. One tagged
// lathe:"measured" may differ too, but later stages learn from it: it is
// content, and what a replay of its own stage does not compare. One tagged
// lathe:"since=TABLE/MINOR" was added to a table in that minor version: [EarlierDigests].

// Message is one message of a conversation.
type Message struct {
	Role    string `parquet:"role,dict"` // system, user, assistant or tool
	Content string `parquet:"content"`
}

// Kind says what an instance asks the policy to do.
type Kind string

// The kinds of an instance.
const (
	KindInitial Kind = "initial" // answer the task
	KindRefine  Kind = "refine"  // a later turn of one trajectory
	KindImprove Kind = "improve" // improve on an earlier response (ExIt, self-improve step)
	KindDiverge Kind = "diverge" // differ from an earlier response (ExIt, self-diverge step)
	KindDebug   Kind = "debug"   // fix an earlier program that failed (AceGRPO §4.1)

	KindCrossover Kind = "crossover" // join what is best in two earlier responses (OpenMLE, arXiv 2607.28568)
)

// Origin says where an instance of a plan came from.
type Origin string

// The origins of an instance.
const (
	OriginBase   Origin = "base"   // the task set
	OriginBuffer Origin = "buffer" // the curriculum's buffer
)

// Outcome says how an episode ended. It is not a reward: only the policy's
// own outcomes (ok, wrong, invalid, timeout) enter group statistics.
type Outcome string

// The outcomes of an episode.
const (
	OutcomeOK        Outcome = "ok"
	OutcomeWrong     Outcome = "wrong"
	OutcomeInvalid   Outcome = "invalid"   // nothing in the response can be scored
	OutcomeTimeout   Outcome = "timeout"   // the policy's program ran out of time
	OutcomeInfra     Outcome = "infra"     // our failure; retried, then excluded and counted
	OutcomePreempted Outcome = "preempted" // stopped by the scheduler
	OutcomeNoRoom    Outcome = "no_room"   // of evaluations: the prompt filled the policy's context, so there is no answer to measure
)

// Policys reports whether the outcome is the policy's own doing.
func (o Outcome) Policys() bool {
	switch o {
	case OutcomeOK, OutcomeWrong, OutcomeInvalid, OutcomeTimeout:
		return true
	}
	return false
}

// TaskRow is a row of tasks.parquet: one problem of a run's environment.
type TaskRow struct {
	TaskID   string   `parquet:"task_id"`
	Env      string   `parquet:"env,dict"`
	Split    string   `parquet:"split,dict"` // train or test
	Kind     string   `parquet:"kind,dict"`  // for breakdowns in reports
	Level    int32    `parquet:"level"`      // difficulty, where the source says; 0 else
	Question string   `parquet:"question"`
	Answer   string   `parquet:"answer"`       // reference answer; of a multiple-choice problem a letter
	Form     string   `parquet:"form,dict"`    // of the answer, where the source says
	Choices  []string `parquet:"choices,list"` // options of a multiple-choice problem, from A
	Source   string   `parquet:"source"`       // JSON: whatever else the environment needs; empty for nothing
	// Folder is where the task's files lie, of a task that is more than its row. What
	// they hold is content, and stands in the source by digest; where they lie is not.
	Folder string `parquet:"folder" lathe:"volatile"`
}

// Instance is a row of plan.parquet: one prompt that is sampled group-size
// times.
type Instance struct {
	InstanceID string    `parquet:"instance_id"`
	TaskID     string    `parquet:"task_id,dict"`
	Env        string    `parquet:"env,dict"`
	Set        string    `parquet:"set,dict"` // of held-out problems, in the plan of an evaluation; empty in training
	Kind       string    `parquet:"kind,dict"`
	ParentID   string    `parquet:"parent_id"` // entry of the curriculum's state that was selected; empty for base
	GroupID    string    `parquet:"group_id"`  // rollouts with one group_id are compared with each other
	Depth      int32     `parquet:"depth"`     // self-iterations so far
	Turn       int32     `parquet:"turn"`      // turns of the history that the prompt continues
	Messages   []Message `parquet:"messages,list"`
	BaseScore  float64   `parquet:"base_score"` // quality in [0, 1] of the response that is iterated on
	Potential  float64   `parquet:"potential"`  // the curriculum's score; for ExIt the learnability var(r)
	Origin     string    `parquet:"origin,dict"`
	// Probability is that with which a prompt of the plan was this selection,
	// before any of them was drawn: this entry, of this kind. Base tasks come in
	// the order of an epoch's permutation, so for one it is the probability that
	// the prompt is a base task at all. 0 where the curriculum states none.
	Probability float64 `parquet:"probability"`
	SelectedBy  string  `parquet:"selected_by,dict"`                         // rule of the curriculum that drew it: base, buffer …
	Seed        int64   `parquet:"seed"`                                     // the run's seed, so that a row can be sampled by itself
	Iteration   int32   `parquet:"iteration"`                                // whose plan the row belongs to
	PartnerID   string  `parquet:"partner_id,dict" lathe:"since=instance/2"` // of kind crossover, the other entry that was selected; empty for none
}

// Rollout is a row of rollout/NNNNN.parquet: one context of a sampled trace.
//
// A trace is all that one sample of an instance came to: one attempt or
// several (steps), each with one context or several (parts). Its rows stand
// next to each other, by step and then by part. Most traces have one row.
//
// TokenIDs, LossMask and LogProbs have one length: the whole context, prompt
// included. LogProbs holds natural logarithms at the sampling temperature over
// the truncated support, 0 where LossMask is false.
type Rollout struct {
	InstanceID      string    `parquet:"instance_id"`
	GroupID         string    `parquet:"group_id"`
	Sample          int32     `parquet:"sample"`    // -1 for the greedy trace of an evaluation
	Step            int32     `parquet:"step"`      // attempt of the trace, from 0
	Part            int32     `parquet:"part"`      // context of the trace, from 0, over all its steps
	Kind            string    `parquet:"kind,dict"` // what the attempt was asked to do
	PolicyVersion   int32     `parquet:"policy_version"`
	Messages        []Message `parquet:"messages,list"`
	PromptMessages  int32     `parquet:"prompt_messages"` // of Messages, those before the policy first speaks in this context
	TokenIDs        []int32   `parquet:"token_ids,list" parquet-element:",delta"`
	LossMask        []bool    `parquet:"loss_mask,list"`
	LogProbs        []float32 `parquet:"logprobs,list"`
	FinishReason    string    `parquet:"finish_reason,dict"` // stop or length, of the last turn
	StopString      string    `parquet:"stop_string,dict"`   // at which the last turn ended; empty for none
	Turns           int32     `parquet:"turns"`              // messages of the policy in this context
	PromptTokens    int32     `parquet:"prompt_tokens"`
	ResponseTokens  int32     `parquet:"response_tokens"`
	GenerateSeconds float64   `parquet:"generate_seconds" lathe:"volatile"`
	Outcome         string    `parquet:"outcome,dict"`        // ok until scored, or infra, or preempted
	LogProbSource   string    `parquet:"logprob_source,dict"` // engine, server or none
	Retokenized     bool      `parquet:"retokenized"`         // the server gave text: the token ids are what our tokenizer makes of it
	Wave            int32     `parquet:"wave"`                // in which the trace came to what the row holds, from 0
	Waits           string    `parquet:"waits,dict"`          // how the trace continues once its score is known: turn, step, or empty when it has ended
	Embedding       []float32 `parquet:"embedding,list"`      // in the last row of a trace that has ended, with score.embedding policy: the mean of the policy's last states over what it wrote in the last attempt
}

// Wait says how a trace continues once its score is known.
type Wait string

// How a trace continues after a score.
const (
	WaitNone Wait = ""     // it has ended
	WaitTurn Wait = "turn" // the next turn of its last attempt
	WaitStep Wait = "step" // its next attempt
)

// TraceName names a trace inside an iteration.
type TraceName struct {
	InstanceID string
	Sample     int32
}

// Name is that of the row's trace.
func (r Rollout) Name() TraceName { return TraceName{r.InstanceID, r.Sample} }

// Name is that of the scored trace.
func (s Score) Name() TraceName { return TraceName{s.InstanceID, s.Sample} }

// Traces cuts the rows of a shard into traces: runs of rows with one instance
// and sample.
func Traces[R interface{ Name() TraceName }](rows []R) [][]R {
	var traces [][]R
	for first := 0; first < len(rows); {
		last := first + 1
		for last < len(rows) && rows[last].Name() == rows[first].Name() {
			last++
		}
		traces = append(traces, rows[first:last])
		first = last
	}
	return traces
}

// MetricWaiting is, in the manifest of a score shard, how many of its traces go
// on in the next wave. A shard in which none does has ended.
const MetricWaiting = "waiting"

// GoesOn reports whether a trace goes on in the next wave: it waits, and could
// be scored.
func GoesOn(trace []Rollout, score Score) bool {
	return Wait(trace[len(trace)-1].Waits) != WaitNone && Outcome(score.Outcome).Policys()
}

// LogProbSource says where the log-probabilities of a rollout are from.
type LogProbSource string

// The sources of log-probabilities.
const (
	// LogProbsEngine are our engine's: the learner's are the same to the bit.
	LogProbsEngine LogProbSource = "engine"
	// LogProbsServer are those of another program with the same weights. The
	// learner computes its own, and measures the gap.
	LogProbsServer LogProbSource = "server"
	// LogProbsNone are unknown, and 0 throughout.
	LogProbsNone LogProbSource = "none"
)

// MaxReward bounds rewards, their parts and advantages from both sides: so much can
// be squared and summed in float32.
const MaxReward = 1e9

// BoundReward is a reward, or the bound that is nearest to it.
func BoundReward(reward float64) float64 { return max(-MaxReward, min(MaxReward, reward)) }

// RewardPart is one named part of a reward.
type RewardPart struct {
	Name  string  `parquet:"name,dict"`
	Value float64 `parquet:"value"`
}

// TurnScore is the score of one message of the policy.
type TurnScore struct {
	Step            int32        `parquet:"step"` // attempt of the trace
	Part            int32        `parquet:"part"` // context of the trace
	Outcome         string       `parquet:"outcome,dict"`
	RawScore        float64      `parquet:"raw_score"`        // in the task's own unit
	NormalizedScore float64      `parquet:"normalized_score"` // in [0, 1]
	Reward          float64      `parquet:"reward"`
	RewardParts     []RewardPart `parquet:"reward_parts,list"`
	Milestones      []string     `parquet:"milestones,list"`
	ExecuteSeconds  float64      `parquet:"execute_seconds" lathe:"measured"` // of the policy's program; 0 in environments that run none
	ValidationScore float64      `parquet:"validation_score"`
	Feedback        string       `parquet:"feedback"`
	Extracted       string       `parquet:"extracted"`
	CPUSeconds      float64      `parquet:"cpu_seconds" lathe:"measured"`                    // of the policy's program, on all cores
	Fingerprint     string       `parquet:"fingerprint"`                                     // of the policy's program, by which programs are compared; empty unless the recipe asks
	GenerateSeconds float64      `parquet:"generate_seconds" lathe:"measured,since=score/3"` // that the policy took for the message; 0 unless the trace has a budget
}

// Seconds are those that count against a budget.
func (t TurnScore) Seconds() float64 { return t.ExecuteSeconds + t.GenerateSeconds }

// Score is a row of score/NNNNN.parquet: the score of one trace, in the
// order of the rollout shard's traces. The columns beside Turns are those of
// the last turn.
type Score struct {
	InstanceID      string       `parquet:"instance_id"`
	GroupID         string       `parquet:"group_id"`
	Sample          int32        `parquet:"sample"`
	Outcome         string       `parquet:"outcome,dict"`
	RawScore        float64      `parquet:"raw_score"`        // in the task's own unit
	NormalizedScore float64      `parquet:"normalized_score"` // in [0, 1]
	Reward          float64      `parquet:"reward"`
	RewardParts     []RewardPart `parquet:"reward_parts,list"`
	Milestones      []string     `parquet:"milestones,list"`
	ExecuteSeconds  float64      `parquet:"execute_seconds" lathe:"measured"` // of all turns
	Feedback        string       `parquet:"feedback"`                         // tail of what the program printed, or why the answer is wrong
	Extracted       string       `parquet:"extracted"`                        // the answer that was scored
	ValidationScore float64      `parquet:"validation_score"`
	Embedding       []float32    `parquet:"embedding,list"` // empty unless the recipe asks
	Turns           []TurnScore  `parquet:"turns,list"`     // one for each message of the policy
	Attempt         int32        `parquet:"attempt" lathe:"volatile"`
	Node            string       `parquet:"node,dict" lathe:"volatile"`
	Protection      string       `parquet:"protection,dict" lathe:"volatile"` // in force around the policy's last program; empty where none ran
}

// Fate is the disposition of one sampled response.
type Fate string

// The dispositions of a sampled response.
const (
	FateTrained Fate = "trained"
	FateDropped Fate = "dropped" // left out of the batch
	FateMasked  Fate = "masked"  // without a gradient, in the denominators of the loss
)

// Reasons of a ledger that come of the run's end: with more iterations the segment would
// have been kept.
const (
	ReasonRunEnded     = "run_ended"      // it was late, and no iteration is left to carry it into
	ReasonBatchNotFull = "batch_not_full" // it waited for a batch (schedule.batch_segments)
)

// LedgerRow is a row of ledger.parquet: what the buffer stage did with one
// segment of a sampled trace. Over a whole run each planned trace appears with
// its segments, or as one where it was lost, each with exactly one disposition.
type LedgerRow struct {
	InstanceID       string `parquet:"instance_id"`
	GroupID          string `parquet:"group_id"`
	Sample           int32  `parquet:"sample"`
	Segment          int32  `parquet:"segment"`           // of the trace, from 0
	IterationSampled int32  `parquet:"iteration_sampled"` // the iteration whose plan it belongs to
	Iteration        int32  `parquet:"iteration"`         // the iteration that decided its disposition
	Fate             string `parquet:"fate,dict"`
	Reason           string `parquet:"reason,dict"` // why it has no gradient: constant_group, infra, overlong, empty, left_out …
	// Reward is what the recipe gives the segment; 0 of what no iteration has seen, and in
	// older files.
	Reward float64 `parquet:"reward"`
}

// Untrained is the reason as counts name it: apart for what is masked.
func (r LedgerRow) Untrained() string {
	if r.Fate == string(FateMasked) {
		return r.Reason + " (masked)"
	}
	return r.Reason
}

// Sequence is one record of batch.arrow: one context to learn from.
//
// TokenIDs, LossMask, Positions, Turns and OldLogProbs have one length, the
// lists that begin with Turn another: the messages of the policy in the context
// that are learned from. The loss of the batch is the sum over sequences and
// masked-in tokens of the weight of the token's turn times the token's loss, so
// the weights carry the aggregation.
type Sequence struct {
	TokenIDs      []int32
	LossMask      []bool
	Positions     []int32
	Turns         []int32   // index into the lists below; 0 where LossMask is false
	OldLogProbs   []float32 // the sampler's, by LogProbSource; 0 where LossMask is false
	LogProbSource LogProbSource
	PolicyVersion int32 // that sampled it

	TurnSegments   []int32   // segment of the trace, from 0, that the turn is of
	TurnAdvantages []float32 // 0 where a critic makes them
	TurnFactors    []float64 // on the advantages, once they are whitened
	TurnRewards    []float64 // the segment's, on its last turn; 0 on others
	TurnWeights    []float64

	GroupID          string
	InstanceID       string
	Sample           int32
	IterationSampled int32
	OptimizerStep    int32 // the optimizer step of the iteration that trains on it, from 0
	Unit             int32 // the gradient unit inside the step that holds it, from 0
	Place            int32 // among all sequences of the batch, in the order in which they are learned from
	// TeacherPrompt is the prompt under which a teacher scores the response
	// (advantage.teacher.context), as JSON of its messages; empty for the policy's own.
	TeacherPrompt string
}

// Metric is a row of metrics.parquet, in long format.
type Metric struct {
	Iteration int32   `parquet:"iteration"`
	Stage     string  `parquet:"stage,dict"`
	Shard     int32   `parquet:"shard"`
	Name      string  `parquet:"name,dict"`
	Value     float64 `parquet:"value"`
}

// Usage is a row of usage.parquet: what the attempt at a task took that made its
// outputs. Of another attempt it is other.
type Usage struct {
	Iteration int32   `parquet:"iteration"`
	Stage     string  `parquet:"stage,dict"`
	Shard     int32   `parquet:"shard"`
	Name      string  `parquet:"name,dict"`
	Value     float64 `parquet:"value" lathe:"volatile"`
}

// EvaluationRow is a row of eval/vNNNNNN/NNNNN.parquet: one response of one
// chain of revisions on one held-out task.
type EvaluationRow struct {
	TaskID         string  `parquet:"task_id"`
	Set            string  `parquet:"set,dict"`  // of held-out problems: test, or a name of the recipe's evaluation.sets
	Kind           string  `parquet:"kind,dict"` // the task's kind in its environment, for breakdowns; several are joined by KindJoint
	Level          int32   `parquet:"level"`     // the task's difficulty in its environment; 0 when unknown
	PolicyVersion  int32   `parquet:"policy_version"`
	Sample         int32   `parquet:"sample"` // -1 for the greedy response
	Step           int32   `parquet:"step"`   // revisions before this response; 0 is the first answer
	Prompt         string  `parquet:"prompt"`
	Response       string  `parquet:"response"`
	Extracted      string  `parquet:"extracted"`
	Score          float64 `parquet:"score"` // normalised, in [0, 1]
	Outcome        string  `parquet:"outcome,dict"`
	ResponseTokens int32   `parquet:"response_tokens"`

	Milestones []string `parquet:"milestones,list"` // of the task that were reached

	AttemptKind    string       `parquet:"attempt_kind,dict"` // what the attempt was asked for: initial, improve, debug …
	RawScore       float64      `parquet:"raw_score"`         // in the task's own unit
	RewardParts    []RewardPart `parquet:"reward_parts,list"`
	ExecuteSeconds float64      `parquet:"execute_seconds" lathe:"measured"` // of the attempt's programs

	// EarlierTurns are the scores of the attempt's messages before its last,
	// whose score the other columns are.
	EarlierTurns []EvaluationTurn `parquet:"earlier_turns,list"`

	GenerateSeconds float64 `parquet:"generate_seconds" lathe:"measured"` // that the policy took for the attempt's messages; 0 unless the trace has a budget
}

// EvaluationTurn is the score of one message of an attempt.
type EvaluationTurn struct {
	Outcome        string       `parquet:"outcome,dict"`
	Score          float64      `parquet:"score"`     // normalised, in [0, 1]
	RawScore       float64      `parquet:"raw_score"` // in the task's own unit
	RewardParts    []RewardPart `parquet:"reward_parts,list"`
	ExecuteSeconds float64      `parquet:"execute_seconds" lathe:"measured"`

	GenerateSeconds float64 `parquet:"generate_seconds" lathe:"measured"`
}

// KindJoint stands between the kinds of a task that has several.
const KindJoint = " + "
