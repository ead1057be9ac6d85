package paper

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/lathe-rl/lathe/pkg/compare"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// source is a run whose sealed rows are read when they are first asked for.
type source struct {
	compare.Run
	label string // of its method

	held     map[int][]answer // by policy version, with attempts that had no room
	planned  []shard.Instance
	verdicts []verdict
	prompts  []string  // distinct ones, kept when the rest is forgotten
	reached  []reached // likewise
	tasks    []shard.TaskRow
	folded   []map[string]float64
}

// forgetting is the run with what queries over all runs need, and no rows.
func (s *source) forgetting() *source {
	return &source{Run: s.Run, label: s.label, prompts: s.prompts, reached: s.reached}
}

// answer is what is read of a row of an evaluation.
type answer struct {
	TaskID         string                 `parquet:"task_id"`
	Set            string                 `parquet:"set,dict"`
	Kind           string                 `parquet:"kind,dict"`
	Sample         int32                  `parquet:"sample"`
	Step           int32                  `parquet:"step"`
	Score          float64                `parquet:"score"`
	Outcome        string                 `parquet:"outcome,dict"`
	Milestones     []string               `parquet:"milestones,list"`
	AttemptKind    string                 `parquet:"attempt_kind,dict"`
	RawScore       float64                `parquet:"raw_score"`
	RewardParts    []shard.RewardPart     `parquet:"reward_parts,list"`
	ExecuteSeconds float64                `parquet:"execute_seconds" lathe:"measured"`
	EarlierTurns   []shard.EvaluationTurn `parquet:"earlier_turns,list"`
}

// Schema is that of the whole row.
func (answer) Schema() seal.Schema { return shard.EvaluationRow{}.Schema() }

func (a answer) right() bool { return a.Outcome == string(shard.OutcomeOK) }

// verdict is what is read of a row of scores: the last wave's of its trace.
type verdict struct {
	InstanceID      string             `parquet:"instance_id"`
	Sample          int32              `parquet:"sample"`
	Outcome         string             `parquet:"outcome,dict"`
	NormalizedScore float64            `parquet:"normalized_score"`
	Reward          float64            `parquet:"reward"`
	RewardParts     []shard.RewardPart `parquet:"reward_parts,list"`
	Turns           []shard.TurnScore  `parquet:"turns,list"`

	instance *shard.Instance // that was answered; its Iteration is the trace's
}

// Schema is that of the whole row.
func (verdict) Schema() seal.Schema { return shard.Score{}.Schema() }

// Name is that of the judged trace.
func (v verdict) Name() shard.TraceName {
	return shard.TraceName{InstanceID: v.InstanceID, Sample: v.Sample}
}

// last is the last policy version.
func (s *source) last() int { return s.Recipe.Schedule.Iterations }

// moment is when held-out problems were answered.
type moment struct {
	name    string
	version int // of the policy
}

// The names of moments.
const (
	beforeTraining = "before training"
	afterTraining  = "after"
)

// moments are before training, as a paper calls it, and after. A run without iterations
// has one alone: after, where it learned from a pool by supervision, which is then all of
// its training, else before.
func (s *source) moments(before string) []moment {
	switch {
	case s.last() > 0:
		return []moment{{before, 0}, {afterTraining, s.last()}}
	case s.Recipe.WarmStart.Pool != "":
		return []moment{{afterTraining, 0}}
	}
	return []moment{{before, 0}}
}

// answers are the sampled answers of a policy version to held-out problems: chain by
// chain, step by step.
func (s *source) answers(ctx context.Context, version int) ([]answer, error) {
	rows, err := s.attempts(ctx, version)
	return slices.DeleteFunc(slices.Clone(rows), func(a answer) bool { return !shard.Outcome(a.Outcome).Policys() }), err
}

// attempts are the answers, and the attempts that had no room for one.
func (s *source) attempts(ctx context.Context, version int) ([]answer, error) {
	if rows, read := s.held[version]; read {
		return rows, nil
	}
	var rows []answer
	for n := range s.Graph.Shards(graph.Node{Stage: graph.StageEvaluate, Iteration: version}) {
		for row, err := range shard.Rows[answer](ctx, s.Dir.Evaluation(version, n), s.Graph.Reading(0)) {
			if err != nil {
				return nil, err
			}
			if row.Sample >= 0 && (shard.Outcome(row.Outcome).Policys() || row.Outcome == string(shard.OutcomeNoRoom)) {
				row.Set = cmp.Or(row.Set, string(env.Test))
				rows = append(rows, row)
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b answer) int {
		return cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(a.TaskID, b.TaskID), cmp.Compare(a.Sample, b.Sample), cmp.Compare(a.Step, b.Step))
	})
	if s.held == nil {
		s.held = map[int][]answer{}
	}
	s.held[version] = rows
	return rows, nil
}

// sets are the sets of held-out problems, test first.
func (s *source) sets() []string {
	var sets []string
	for _, m := range s.Recipe.Evaluation.Measured() {
		sets = append(sets, m.Set)
	}
	return sets
}

// steps is the number of self-improvement steps that a set is measured after, 0 where
// there are none.
func (s *source) steps(set string) int {
	for _, m := range s.Recipe.Evaluation.Measured() {
		if m.Set == set {
			return m.Steps
		}
	}
	return 0
}

// plans are the planned instances of all iterations.
func (s *source) plans(ctx context.Context) ([]shard.Instance, error) {
	if s.planned != nil {
		return s.planned, nil
	}
	for k := 1; k <= s.last(); k++ {
		rows, _, err := shard.Read[shard.Instance](ctx, s.Dir.Plan(k), s.Graph.Reading(0))
		if err != nil {
			return nil, err
		}
		s.planned = append(s.planned, rows...)
	}
	return s.planned, nil
}

// traces are the verdicts on all sampled traces, but for those that failed for a
// reason of ours. Of an iteration that was closed without a shard, the rest.
func (s *source) traces(ctx context.Context) ([]verdict, error) {
	if s.verdicts != nil {
		return s.verdicts, nil
	}
	plans, err := s.plans(ctx)
	if err != nil {
		return nil, err
	}
	instances := make(map[string]*shard.Instance, len(plans))
	for i := range plans {
		instances[plans[i].InstanceID] = &plans[i]
	}
	for k := 1; k <= s.last(); k++ {
		node := graph.Node{Stage: graph.StageRollout, Iteration: k}
		for n := range s.Graph.Shards(node) {
			rows, err := s.judged(ctx, node.Judging(), n)
			if err != nil {
				return nil, err
			}
			for _, row := range rows {
				if row.instance = instances[row.InstanceID]; row.instance != nil && shard.Outcome(row.Outcome).Policys() {
					s.verdicts = append(s.verdicts, row)
				}
			}
		}
	}
	return s.verdicts, nil
}

// judged are the verdicts of a shard after its last wave. A later wave has the whole
// traces of those that went on.
func (s *source) judged(ctx context.Context, n graph.Node, number int) ([]verdict, error) {
	var rows []verdict
	at := map[shard.TraceName]int{}
	for wave := range s.Graph.Waves(n.Stage) {
		path := s.Dir.Sampled(n.InWave(wave), number)
		wave, m, err := shard.Read[verdict](ctx, path, s.Graph.Reading(0))
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

// reductions are what the buffer stage of each iteration says of it, from 1.
func (s *source) reductions(ctx context.Context) ([]map[string]float64, error) {
	if s.folded != nil {
		return s.folded, nil
	}
	for k := 1; k <= s.last(); k++ {
		m, err := seal.Read(ctx, s.Dir.Batch(k), s.Graph.Reading(0))
		if err != nil {
			return nil, err
		}
		s.folded = append(s.folded, m.Metrics)
	}
	return s.folded, nil
}

// taskRows are the run's problems.
func (s *source) taskRows(ctx context.Context) ([]shard.TaskRow, error) {
	if s.tasks != nil {
		return s.tasks, nil
	}
	rows, _, err := shard.Read[shard.TaskRow](ctx, s.Dir.Tasks(), s.Graph.Reading(0))
	s.tasks = rows
	return rows, err
}

// distinct are the distinct prompts of all plans in the order in which they came:
// what the last message of each says, which holds the earlier response where a prompt
// has one.
func (s *source) distinct(ctx context.Context) ([]string, error) {
	if s.prompts == nil {
		var err error
		if s.prompts, err = s.promptsOf(ctx, func(shard.Instance) bool { return true }); err != nil {
			return nil, err
		}
	}
	return s.prompts, nil
}

func (s *source) promptsOf(ctx context.Context, which func(shard.Instance) bool) ([]string, error) {
	plans, err := s.plans(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var prompts []string
	for _, p := range plans {
		if len(p.Messages) == 0 || !which(p) {
			continue
		}
		if text := p.Messages[len(p.Messages)-1].Content; !seen[text] {
			seen[text] = true
			prompts = append(prompts, text)
		}
	}
	return prompts, nil
}

// goesOn reports whether an instance goes on from an earlier response.
func goesOn(i shard.Instance) bool { return i.ParentID != "" && i.Turn > 0 }

// mean is that of some values; known is false of none.
func mean(values []float64) (m float64, known bool) {
	for _, v := range values {
		m += v
	}
	return m / float64(max(1, len(values))), len(values) > 0
}

// series is means over a whole number, such as the iteration.
type series map[int][]float64

func (s series) add(x int, y float64) { s[x] = append(s[x], y) }

// values are the means in the order of the number.
func (s series) values(group, measure string) []value {
	var values []value
	var xs []int
	for x := range s {
		xs = append(xs, x)
	}
	slices.Sort(xs)
	for _, x := range xs {
		m, _ := mean(s[x])
		values = append(values, value{group, measure, on(x), m})
	}
	return values
}
