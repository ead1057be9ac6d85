package measure

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Rows are the sealed rows of a run that measures read. Each file is read when it is first
// asked for. Training rows and the evaluations of the first and the last policy version
// are kept; those of other versions are read again each time.
type Rows struct {
	*rundir.Run
	Embed      Embed            // by which starts of instances are compared; nil for hashed n-grams
	held       map[int][]Answer // by policy version
	planned    []shard.Instance
	traces     []Trace
	prompts    []string // distinct ones
	tasks      []shard.TaskRow
	reductions []map[string]float64
	sums       map[int]map[string]float64 // of metrics, by iteration and STAGE/NAME
	summary    *Summary
	keys       map[string]any // of the summary, as JSON
}

// Of are the rows of a run.
func Of(r *rundir.Run) *Rows { return &Rows{Run: r} }

// Forget drops the rows that were read, and keeps what measures over several runs need.
func (r *Rows) Forget() { *r = Rows{Run: r.Run, Embed: r.Embed, prompts: r.prompts} }

// Answer is a row of an evaluation without its texts.
type Answer struct {
	TaskID         string                 `parquet:"task_id"`
	Set            string                 `parquet:"set,dict"`
	Kind           string                 `parquet:"kind,dict"`
	Level          int32                  `parquet:"level"`
	Sample         int32                  `parquet:"sample"` // from 0; -1 for the greedy chain
	Step           int32                  `parquet:"step"`
	Score          float64                `parquet:"score"`
	Outcome        string                 `parquet:"outcome,dict"`
	Milestones     []string               `parquet:"milestones,list"`
	ResponseTokens int32                  `parquet:"response_tokens"`
	AttemptKind    string                 `parquet:"attempt_kind,dict"`
	RawScore       float64                `parquet:"raw_score"`
	RewardParts    []shard.RewardPart     `parquet:"reward_parts,list"`
	ExecuteSeconds float64                `parquet:"execute_seconds" lathe:"measured"`
	EarlierTurns   []shard.EvaluationTurn `parquet:"earlier_turns,list"`

	GenerateSeconds float64 `parquet:"generate_seconds" lathe:"measured"`
}

// Schema is that of the whole row.
func (Answer) Schema() seal.Schema { return shard.EvaluationRow{}.Schema() }

// Counts reports whether the outcome is the policy's own.
func (a Answer) Counts() bool { return shard.Outcome(a.Outcome).Policys() }

// Right reports whether the answer is right.
func (a Answer) Right() bool { return a.Outcome == string(shard.OutcomeOK) }

func (a Answer) chain() chainKey { return chainKey{a.Set, a.TaskID, a.Sample} }

// chainKey names one line of answers to one problem.
type chainKey struct {
	set, task string
	sample    int32
}

// Trace is a row of scores, with the instance that was answered: the last wave's of its
// trace.
type Trace struct {
	InstanceID      string             `parquet:"instance_id"`
	Sample          int32              `parquet:"sample"`
	Outcome         string             `parquet:"outcome,dict"`
	NormalizedScore float64            `parquet:"normalized_score"`
	Reward          float64            `parquet:"reward"`
	RewardParts     []shard.RewardPart `parquet:"reward_parts,list"`
	Turns           []shard.TurnScore  `parquet:"turns,list"`
	Extracted       string             `parquet:"extracted"`

	instance *shard.Instance // its Iteration is the trace's
}

// Schema is that of the whole row.
func (Trace) Schema() seal.Schema { return shard.Score{}.Schema() }

// Name is that of the scored trace.
func (t Trace) Name() shard.TraceName {
	return shard.TraceName{InstanceID: t.InstanceID, Sample: t.Sample}
}

// Last is the last policy version.
func (r *Rows) Last() int { return r.Recipe.Schedule.Iterations }

// Sealed counts the shards of an evaluation that are sealed, of all.
type Sealed struct{ Version, Sealed, Shards int }

// evaluation reads the sealed answers of a policy version in the order of its shards,
// greedy ones and failures included.
func (r *Rows) evaluation(ctx context.Context, version int) ([]Answer, Sealed, error) {
	s := Sealed{Version: version, Shards: r.Graph.Shards(graph.Node{Stage: graph.StageEvaluate, Iteration: version})}
	if rows, read := r.held[version]; read {
		s.Sealed = s.Shards
		return rows, s, nil
	}
	var rows []Answer
	for n := range s.Shards {
		part, _, err := shard.Read[Answer](ctx, r.Dir.Evaluation(version, n), r.Graph.Reading(0))
		if errors.Is(err, seal.ErrNotSealed) {
			continue
		}
		if err != nil {
			return nil, s, err
		}
		s.Sealed++
		rows = append(rows, part...)
	}
	for i := range rows {
		rows[i].Set = cmp.Or(rows[i].Set, string(env.Test))
	}
	if s.Sealed == s.Shards && (version == 0 || version == r.Last()) {
		if r.held == nil {
			r.held = map[int][]Answer{}
		}
		r.held[version] = rows
	}
	return rows, s, nil
}

// Answers are the sampled answers of a policy version to held-out problems that are the
// policy's own doing, set by set, chain by chain and step by step.
func (r *Rows) Answers(ctx context.Context, version int) ([]Answer, error) {
	rows, err := r.attempts(ctx, version)
	return filtered(rows, Answer.Counts), err
}

// attempts are the answers, and the attempts that had no room for one.
func (r *Rows) attempts(ctx context.Context, version int) ([]Answer, error) {
	rows, sealed, err := r.evaluation(ctx, version)
	if err == nil && sealed.Sealed < sealed.Shards {
		err = Absent(sealed.String())
	}
	rows = filtered(rows, func(a Answer) bool { return a.Sample >= 0 && (a.Counts() || a.Outcome == string(shard.OutcomeNoRoom)) })
	slices.SortStableFunc(rows, func(a, b Answer) int {
		return cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(a.TaskID, b.TaskID), cmp.Compare(a.Sample, b.Sample), cmp.Compare(a.Step, b.Step))
	})
	return rows, err
}

func filtered(rows []Answer, keep func(Answer) bool) []Answer {
	var kept []Answer
	for _, row := range rows {
		if keep(row) {
			kept = append(kept, row)
		}
	}
	return kept
}

// Sets are the sets of held-out problems, test first.
func (r *Rows) Sets() []string {
	var sets []string
	for _, m := range r.Recipe.Evaluation.Measured() {
		sets = append(sets, m.Set)
	}
	return sets
}

// Steps is the number of revisions that a set is measured after, 0 where
// there are none.
func (r *Rows) Steps(set string) int {
	for _, m := range r.Recipe.Evaluation.Measured() {
		if m.Set == set {
			return m.Steps
		}
	}
	return 0
}

// plans are the planned instances of all iterations.
func (r *Rows) plans(ctx context.Context) ([]shard.Instance, error) {
	if r.planned != nil {
		return r.planned, nil
	}
	var all []shard.Instance
	for k := 1; k <= r.Last(); k++ {
		rows, _, err := shard.Read[shard.Instance](ctx, r.Dir.Plan(k), r.Graph.Reading(0))
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	r.planned = all
	return all, nil
}

// training are all scored traces, but for those that failed for a reason of ours. Of an
// iteration that was closed without a shard, the rest.
func (r *Rows) training(ctx context.Context) ([]Trace, error) {
	if r.traces != nil {
		return r.traces, nil
	}
	plans, err := r.plans(ctx)
	if err != nil {
		return nil, err
	}
	instances := make(map[string]*shard.Instance, len(plans))
	for i := range plans {
		instances[plans[i].InstanceID] = &plans[i]
	}
	var traces []Trace
	for k := 1; k <= r.Last(); k++ {
		node := graph.Node{Stage: graph.StageRollout, Iteration: k}
		for n := range r.Graph.Shards(node) {
			rows, err := r.scored(ctx, node.Judging(), n)
			if err != nil {
				return nil, err
			}
			for _, row := range rows {
				if row.instance = instances[row.InstanceID]; row.instance != nil && shard.Outcome(row.Outcome).Policys() {
					traces = append(traces, row)
				}
			}
		}
	}
	r.traces = traces
	return traces, nil
}

// scored are the scores of a shard after its last wave. A later wave has the whole traces
// of those that went on.
func (r *Rows) scored(ctx context.Context, n graph.Node, number int) ([]Trace, error) {
	var rows []Trace
	at := map[shard.TraceName]int{}
	for wave := range r.Graph.Waves(n.Stage) {
		path := r.Dir.Sampled(n.InWave(wave), number)
		wave, m, err := shard.Read[Trace](ctx, path, r.Graph.Reading(0))
		if errors.Is(err, seal.ErrNotSealed) {
			break // the iteration was closed without it
		}
		if err != nil {
			return nil, err
		}
		for _, row := range wave {
			if i, there := at[row.Name()]; there {
				rows[i] = row
				continue
			}
			at[row.Name()] = len(rows)
			rows = append(rows, row)
		}
		if m.Metrics[shard.MetricWaiting] == 0 {
			break
		}
	}
	return rows, nil
}

// reduced are the metrics of the buffer stage of each iteration, from 1.
func (r *Rows) reduced(ctx context.Context) ([]map[string]float64, error) {
	if r.reductions != nil {
		return r.reductions, nil
	}
	var all []map[string]float64
	for k := 1; k <= r.Last(); k++ {
		m, err := seal.Read(ctx, r.Dir.Batch(k), r.Graph.Reading(0))
		if err != nil {
			return nil, err
		}
		all = append(all, m.Metrics)
	}
	r.reductions = all
	return all, nil
}

// taskRows are the run's problems.
func (r *Rows) taskRows(ctx context.Context) ([]shard.TaskRow, error) {
	if r.tasks != nil {
		return r.tasks, nil
	}
	rows, _, err := shard.Read[shard.TaskRow](ctx, r.Dir.Tasks(), r.Graph.Reading(0))
	r.tasks = rows
	return rows, err
}

// Prompts are the distinct starts of all plans in the order in which they came: the program
// that a prompt starts from, in an environment of programs, which an instance to improve it
// and one to diverge from it share (ExIt Tab. 2), and one for all that start from none; else
// the last message of the prompt, which holds the earlier response where it has one.
func (r *Rows) Prompts(ctx context.Context) ([]string, error) {
	if r.prompts == nil {
		var err error
		if r.prompts, err = r.promptsOf(ctx, func(shard.Instance) bool { return true }); err != nil {
			return nil, err
		}
	}
	return r.prompts, nil
}

func (r *Rows) promptsOf(ctx context.Context, which func(shard.Instance) bool) ([]string, error) {
	plans, err := r.plans(ctx)
	if err != nil {
		return nil, err
	}
	start := func(p shard.Instance) string { return p.Messages[len(p.Messages)-1].Content }
	if traits, err := r.Recipe.Traits(); err == nil && traits.Programs {
		if start, err = r.startingPrograms(ctx); err != nil {
			return nil, err
		}
	}
	seen := map[string]bool{}
	var prompts []string
	for _, p := range plans {
		if len(p.Messages) == 0 || !which(p) {
			continue
		}
		if text := start(p); !seen[text] {
			seen[text] = true
			prompts = append(prompts, text)
		}
	}
	return prompts, nil
}

// entryResponse is the response by which a curriculum names an entry, as INSTANCE/SAMPLE/…
func entryResponse(entry string) (name shard.TraceName, ok bool) {
	instance, rest, _ := strings.Cut(entry, "/")
	sample, _, _ := strings.Cut(rest, "/")
	number, err := strconv.ParseInt(sample, 10, 32)
	return shard.TraceName{InstanceID: instance, Sample: int32(number)}, err == nil
}

// startingPrograms finds the program that an instance starts from, or both one after the
// other: what was extracted from the response of its entry; empty for none.
func (r *Rows) startingPrograms(ctx context.Context) (func(shard.Instance) string, error) {
	traces, err := r.training(ctx)
	programs := map[shard.TraceName]string{}
	for _, t := range traces {
		programs[t.Name()] = t.Extracted
	}
	return func(p shard.Instance) (text string) {
		for _, entry := range []string{p.ParentID, p.PartnerID} {
			if name, ok := entryResponse(entry); ok {
				text += programs[name]
			}
		}
		return text
	}, err
}

// revises reports whether an instance starts from an earlier response.
func revises(i shard.Instance) bool { return i.ParentID != "" && i.Turn > 0 }
