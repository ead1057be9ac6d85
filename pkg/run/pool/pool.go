// Package pool gathers segments of several runs, to be learned from by
// supervision: rollouts of all of them, or those that a run found worth training
// on (MLE-RL §5.3 and §5.4: data selection, self-distillation).
package pool

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// Selection says which segments are gathered. Those of attempts that we or the
// scheduler failed never are.
type Selection string

// The selections, as the rows of MLE-RL Tab. 4 have them.
const (
	All      Selection = "all"      // every segment, all that the policy said in it
	Valid    Selection = "valid"    // those whose last turn is ok, without their turns that are invalid or ran out of time
	Selected Selection = "selected" // those that the run trained on, as the ledger says, without the turns that it masked
)

// Selections lists them.
var Selections = []Selection{All, Valid, Selected}

// Names lists them as texts.
func Names() (names []string) {
	for _, s := range Selections {
		names = append(names, string(s))
	}
	return names
}

// keeps reports whether a segment is gathered.
func (s Selection) keeps(t credit.Trace, lastTurn int, disposition shard.LedgerRow) bool {
	switch s {
	case Valid:
		return shard.Outcome(t.Turn(lastTurn).Outcome) == shard.OutcomeOK
	case Selected:
		return disposition.Fate == string(shard.FateTrained)
	}
	return true
}

// masks reports whether a turn of a gathered segment is not learned from.
func (s Selection) masks(c credit.Composition, t judged, turn int) bool {
	switch s {
	case Valid:
		return credit.InvalidTurns{}.MaskTurn(t.trace, turn)
	case Selected:
		return c.MasksTurn(t.planned.Env, t.trace, turn)
	}
	return false
}

// Pool is what was gathered.
type Pool struct {
	Rows      []shard.PoolRow
	Tokenizer string // sha256 of the runs' tokenizer.json
	Runs      []RunCount
}

// RunCount is what a run gave.
type RunCount struct {
	RunID    string `json:"run_id"`
	Segments int    `json:"segments"` // that the policy said something in
	Kept     int    `json:"kept"`     // of these
	Tokens   int    `json:"tokens"`   // that are learned from
}

// Gather gathers from the closed iterations of runs, in the order in which they are
// given: the ID of a run is drawn when it is made, so that an order by it would be
// another one, and another policy, whenever the runs are made anew.
func Gather(ctx context.Context, runs []*rundir.Run, which Selection) (Pool, error) {
	if !slices.Contains(Selections, which) {
		return Pool{}, exitcode.Usagef("--select is %q; it must be one of all, valid, selected", which)
	}
	var p Pool
	named := map[string]graph.Dir{}
	for i, r := range runs {
		if other, twice := named[r.Identity.RunID]; twice {
			return Pool{}, exitcode.Usagef("%q and %q are one run, %q: name it once", other, r.Dir, r.Identity.RunID)
		}
		named[r.Identity.RunID] = r.Dir
		digest, err := tokenizerOf(ctx, r)
		if err != nil {
			return Pool{}, err
		}
		if i > 0 && digest != p.Tokenizer {
			return Pool{}, exitcode.Dataf("runs %q and %q have different tokenizers: their tokens do not belong in one pool", runs[0].Dir, r.Dir)
		}
		p.Tokenizer = digest
		g, err := newGatherer(ctx, r, which)
		if err != nil {
			return Pool{}, err
		}
		if err := g.gather(); err != nil {
			return Pool{}, err
		}
		slices.SortStableFunc(g.rows, func(a, b shard.PoolRow) int {
			return cmp.Or(cmp.Compare(a.Iteration, b.Iteration), cmp.Compare(a.IterationSampled, b.IterationSampled),
				cmp.Compare(a.InstanceID, b.InstanceID), cmp.Compare(a.Sample, b.Sample), cmp.Compare(a.Segment, b.Segment),
				cmp.Compare(a.Step, b.Step), cmp.Compare(a.Part, b.Part))
		})
		p.Rows, p.Runs = append(p.Rows, g.rows...), append(p.Runs, g.count)
	}
	if len(p.Rows) == 0 {
		return Pool{}, exitcode.Dataf("the pool would be empty: of the runs' closed iterations no segment is taken by --select %s", which)
	}
	return p, nil
}

// tokenizerOf is the digest of a run's tokenizer, which all its versions share.
func tokenizerOf(ctx context.Context, r *rundir.Run) (string, error) {
	m, err := seal.Read(ctx, r.Dir.Policy(0), r.Graph.Reading(0))
	if err != nil {
		return "", err
	}
	for _, file := range m.Files {
		if file.Name == tokenizer.TokenizerFile {
			return file.SHA256, nil
		}
	}
	return "", exitcode.Dataf("policy %q has no %s", r.Dir.Policy(0), tokenizer.TokenizerFile)
}

// gatherer gathers from one run.
type gatherer struct {
	ctx          context.Context
	run          *rundir.Run
	which        Selection
	composition  credit.Composition
	plans        map[int]map[string]planRow                    // by iteration and instance
	dispositions map[closing.TraceName]map[int]shard.LedgerRow // by segment

	rows  []shard.PoolRow
	count RunCount
}

func newGatherer(ctx context.Context, r *rundir.Run, which Selection) (*gatherer, error) {
	composition, err := credit.New(r.Recipe.CreditSpec())
	return &gatherer{
		ctx: ctx, run: r, which: which, composition: composition, plans: map[int]map[string]planRow{},
		dispositions: map[closing.TraceName]map[int]shard.LedgerRow{}, count: RunCount{RunID: r.Identity.RunID},
	}, err
}

// gather reads the closed iterations, up to the first that is not. The disposition of a
// segment may be in the ledger of a later one than that which it was sampled for.
func (g *gatherer) gather() error {
	closed := 0
	for closed < g.run.Recipe.Schedule.Iterations {
		ledger, _, err := shard.Read[shard.LedgerRow](g.ctx, g.run.Dir.Ledger(closed+1), g.run.Graph.Reading(0))
		if errors.Is(err, seal.ErrNotSealed) {
			break
		}
		if err != nil {
			return err
		}
		closed++
		for _, row := range ledger {
			name := closing.NameOf(row.IterationSampled, row.InstanceID, row.Sample)
			if g.dispositions[name] == nil {
				g.dispositions[name] = map[int]shard.LedgerRow{}
			}
			g.dispositions[name][int(row.Segment)] = row
		}
	}
	for k := 1; k <= closed; k++ {
		if err := g.iteration(k); err != nil {
			return err
		}
	}
	return nil
}

// iteration gathers the segments that an iteration was closed with.
func (g *gatherer) iteration(k int) error {
	closed, err := closing.Read(g.ctx, g.run.Dir, k, g.run.Graph.Reading(0))
	if err != nil {
		return err
	}
	for _, ref := range closed.Reads() {
		traces, err := closing.Traces(g.ctx, g.run, ref)
		if err != nil {
			return err
		}
		plan, err := g.planOf(ref.Iteration)
		if err != nil {
			return err
		}
		for _, scored := range traces {
			name := closing.TraceName{Iteration: ref.Iteration, TraceName: scored.Rows[0].Name()}
			if err := g.trace(judge(scored, plan[name.InstanceID]), g.dispositions[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// planRow is what is read of a plan.
type planRow struct {
	InstanceID string `parquet:"instance_id"`
	TaskID     string `parquet:"task_id,dict"`
	Env        string `parquet:"env,dict"`
}

// Schema is that of the whole row.
func (planRow) Schema() seal.Schema { return shard.Instance{}.Schema() }

// planOf gives the instances of an iteration's plan.
func (g *gatherer) planOf(k int) (map[string]planRow, error) {
	if plan, read := g.plans[k]; read {
		return plan, nil
	}
	plan, _, err := shard.Read[planRow](g.ctx, g.run.Dir.Plan(k), g.run.Graph.Reading(0))
	if err != nil {
		return nil, err
	}
	g.plans[k] = make(map[string]planRow, len(plan))
	for _, row := range plan {
		g.plans[k][row.InstanceID] = row
	}
	return g.plans[k], nil
}

// judged is a trace as what is cut into segments.
type judged struct {
	rows    []shard.Rollout
	trace   credit.Trace
	planned planRow
}

func judge(t closing.Scored, planned planRow) judged {
	j := judged{rows: t.Rows, trace: credit.Trace{Score: t.Score}, planned: planned}
	for _, row := range t.Rows {
		tokens := make([]int, row.Turns)
		for _, turn := range credit.TokenTurns(row.LossMask, int(row.Turns)) {
			if turn >= 0 && turn < len(tokens) {
				tokens[turn]++
			}
		}
		j.trace.Contexts = append(j.trace.Contexts, credit.Context{Tokens: len(row.LossMask), TurnTokens: tokens, FinishReason: row.FinishReason})
	}
	return j
}

// trace gathers the segments of a trace. One without a disposition waits for a batch.
func (g *gatherer) trace(t judged, dispositions map[int]shard.LedgerRow) error {
	if !t.trace.Valid() {
		return nil
	}
	cuts := g.composition.Segments.Cut(t.trace)
	for segment := range dispositions {
		if segment >= len(cuts) {
			return exitcode.Dataf("run %q: instance %q sample %d has %d segments, its ledger knows of segment %d: the ledger was made by other binaries",
				g.run.Dir, t.rows[0].InstanceID, t.rows[0].Sample, len(cuts), segment)
		}
	}
	for i, cut := range cuts {
		disposition, decided := dispositions[i]
		if !decided {
			continue
		}
		if credit.Tokens(t.trace, credit.Segment{First: cut[0], Last: cut[1]}) == 0 {
			continue
		}
		g.count.Segments++
		if !g.which.keeps(t.trace, cut[1], disposition) {
			continue
		}
		rows := g.segment(t, cut, disposition)
		if len(rows) > 0 {
			g.count.Kept++
		}
		g.rows = append(g.rows, rows...)
	}
	return nil
}

// segment makes a row for each context of a segment in which something is learned
// from.
func (g *gatherer) segment(t judged, cut [2]int, disposition shard.LedgerRow) []shard.PoolRow {
	verdict := t.trace.Turn(cut[1])
	var rows []shard.PoolRow
	before := 0 // turns of earlier contexts
	for _, context := range t.rows {
		mask, tokens, turns := g.learned(t, context, before, cut)
		before += int(context.Turns)
		if tokens == 0 {
			continue
		}
		g.count.Tokens += tokens
		rows = append(rows, shard.PoolRow{
			RunID: g.run.Identity.RunID, Iteration: disposition.Iteration, IterationSampled: disposition.IterationSampled,
			InstanceID: context.InstanceID, Sample: context.Sample, Segment: disposition.Segment, Step: context.Step, Part: context.Part,
			TaskID: t.planned.TaskID, Kind: context.Kind, PolicyVersion: context.PolicyVersion, Fate: disposition.Fate, Reason: disposition.Reason,
			Outcome: verdict.Outcome, RawScore: verdict.RawScore, NormalizedScore: verdict.NormalizedScore,
			Messages: upTo(context, turns), TokenIDs: context.TokenIDs[:len(mask)], LossMask: mask,
		})
	}
	return rows
}

// learned is the mask of a context up to the last of its tokens that are learned
// from, their number, and that of the policy's messages up to there. before is
// the number of turns of the trace's earlier contexts.
func (g *gatherer) learned(t judged, context shard.Rollout, before int, cut [2]int) (mask []bool, tokens, turns int) {
	mask = make([]bool, len(context.LossMask))
	end := 0
	for i, turn := range credit.TokenTurns(context.LossMask, int(context.Turns)) {
		number := before + turn
		if turn < 0 || number < cut[0] || number > cut[1] || g.which.masks(g.composition, t, number) {
			continue
		}
		mask[i] = true
		tokens++
		end, turns = i+1, turn+1
	}
	return mask[:end], tokens, turns
}

// upTo are the messages of a context up to the policy's n-th in it.
func upTo(context shard.Rollout, n int) []shard.Message {
	for i := int(context.PromptMessages); i < len(context.Messages); i++ {
		if context.Messages[i].Role == "assistant" {
			if n--; n == 0 {
				return context.Messages[:i+1]
			}
		}
	}
	return context.Messages
}
