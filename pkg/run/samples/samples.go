// Package samples shows what an iteration learned from: the groups of responses to one
// prompt side by side, with their rewards, advantages and dispositions, and the
// log-probability of each token.
package samples

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// Group is the responses to one prompt that are compared with each other.
type Group struct {
	InstanceID string          `json:"instance_id"`
	Iteration  int             `json:"iteration"` // whose plan has the prompt
	TaskID     string          `json:"task_id"`
	Kind       string          `json:"kind"`
	SelectedBy string          `json:"selected_by"`
	Answer     string          `json:"answer"` // the task's reference; empty where it has none
	Prompt     []shard.Message `json:"prompt"`
	Reward     float64         `json:"reward"`    // mean
	Deviation  float64         `json:"deviation"` // standard deviation of the rewards, in the population's form
	Tokens     float64         `json:"tokens"`    // mean number that a response has
	Responses  []Response      `json:"responses"`
}

// Response is one sampled trace.
type Response struct {
	Sample    int                `json:"sample"`
	Reward    float64            `json:"reward"`
	Parts     []shard.RewardPart `json:"reward_parts"`
	Outcome   string             `json:"outcome"`
	Extracted string             `json:"extracted"` // the answer that was scored
	Feedback  string             `json:"feedback"`
	Finish    string             `json:"finish_reason"`
	// Dispositions are what the buffer stage did with each segment: trained, or dropped or
	// masked and why. None while the iteration is not decided.
	Dispositions []string  `json:"dispositions"`
	Contexts     []Context `json:"contexts"`
}

// Context is one context of a response, after its prompt.
type Context struct {
	Pieces []Piece `json:"pieces"`
}

// Piece is the text of a token, or of several of which one alone is no text.
type Piece struct {
	Text      string  `json:"text"`
	Tokens    int     `json:"tokens"`
	Own       bool    `json:"own"`       // the policy wrote it; else it read it
	LogProb   float64 `json:"log_prob"`  // natural logarithm at sampling, of all its tokens; 0 if read
	Learned   bool    `json:"learned"`   // it is in the batch
	Advantage float64 `json:"advantage"` // that the batch gives it; 0 where it is not learned from
}

// An Order is how groups are sorted, the worst first.
type Order string

// The orders: by mean reward, by the spread of rewards, by mean length, or as planned.
const (
	ByReward  Order = "reward"
	BySpread  Order = "spread"
	ByLength  Order = "length"
	ByPlanned Order = "planned"
)

// Orders are all of them.
var Orders = []Order{ByReward, BySpread, ByLength, ByPlanned}

// Sort sorts groups. Of rewards the lowest is first, of spreads and lengths the largest.
func Sort(groups []Group, by Order) error {
	key := map[Order]func(g Group) float64{
		ByReward:  func(g Group) float64 { return g.Reward },
		BySpread:  func(g Group) float64 { return -g.Deviation },
		ByLength:  func(g Group) float64 { return -g.Tokens },
		ByPlanned: func(Group) float64 { return 0 },
	}[by]
	if key == nil {
		return exitcode.Usagef("--sort is %q; it must be one of %q", by, Orders)
	}
	slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Compare(key(a), key(b)) })
	return nil
}

// Newest is the newest iteration of a run that is sampled, and 1 where none is.
func Newest(ctx context.Context, r *rundir.Run) int {
	for k := r.Recipe.Schedule.Iterations; k > 1; k-- {
		if _, err := closing.Read(ctx, r.Dir, k, r.Graph.Reading(0)); !errors.Is(err, seal.ErrNotSealed) {
			return k
		}
	}
	return 1
}

// Read reads the groups that closed iteration k of a run, in the order of their plan. An
// iteration that the run does not have is wrong usage; one that is not closed yet, or
// whose files were pruned, is an error of the data.
func Read(ctx context.Context, r *rundir.Run, k int) ([]Group, error) {
	if last := r.Recipe.Schedule.Iterations; k < 1 || k > last {
		return nil, exitcode.Usagef("iteration %d: the run has 1 to %d", k, last)
	}
	closed, err := closing.Read(ctx, r.Dir, k, r.Graph.Reading(0))
	if errors.Is(err, seal.ErrNotSealed) {
		return nil, exitcode.WithHint(exitcode.Dataf("iteration %d is not sampled yet: there is no %s", k, r.Dir.Rel(r.Dir.Close(k))), "resume the run: lathe run --run %s", r.Dir)
	}
	if err != nil {
		return nil, err
	}
	x := reader{ctx: ctx, run: r}
	if err := x.prepare(k); err != nil {
		return nil, err
	}
	for _, ref := range closed.Reads() {
		if err := x.shard(ref); err != nil {
			return nil, err
		}
	}
	for i := range x.groups {
		x.groups[i].summarise()
	}
	return x.groups, nil
}

type reader struct {
	ctx          context.Context
	run          *rundir.Run
	tokenizer    *tokenizer.Tokenizer
	answers      map[string]string // by task
	plans        map[int]map[string]shard.Instance
	dispositions map[closing.TraceName][]string
	batch        map[closing.TraceName][]shard.Sequence

	groups []Group
	at     map[closing.TraceName]int // index of a group, by a name without a sample
}

// prepare reads what the traces of iteration k are joined with. Without a batch yet there
// are no dispositions and no advantages.
func (x *reader) prepare(k int) error {
	x.answers, x.plans, x.at = map[string]string{}, map[int]map[string]shard.Instance{}, map[closing.TraceName]int{}
	x.dispositions, x.batch = map[closing.TraceName][]string{}, map[closing.TraceName][]shard.Sequence{}
	tasks, _, err := shard.Read[shard.TaskRow](x.ctx, x.run.Dir.Tasks(), x.run.Graph.Reading(0))
	if err != nil {
		return err
	}
	for _, task := range tasks {
		x.answers[task.TaskID] = task.Answer
	}
	if x.tokenizer, err = tokenizer.Load(x.run.Dir.Policy(0)); err != nil {
		return err
	}
	ledger, _, err := shard.Read[shard.LedgerRow](x.ctx, x.run.Dir.Ledger(k), x.run.Graph.Reading(0))
	if err != nil && !errors.Is(err, seal.ErrNotSealed) {
		return err
	}
	for _, row := range ledger {
		name := closing.NameOf(row.IterationSampled, row.InstanceID, row.Sample)
		disposition := row.Fate
		if row.Reason != "" {
			disposition += ": " + row.Reason
		}
		x.dispositions[name] = append(x.dispositions[name], disposition)
	}
	sequences, _, err := arrowfile.ReadBatch(x.ctx, x.run.Dir.Batch(k), x.run.Graph.Reading(0))
	if err != nil && !errors.Is(err, seal.ErrNotSealed) {
		return err
	}
	for _, s := range sequences {
		name := closing.NameOf(s.IterationSampled, s.InstanceID, s.Sample)
		x.batch[name] = append(x.batch[name], s)
	}
	return nil
}

// shard adds the traces of a shard to their groups.
func (x *reader) shard(ref closing.Ref) error {
	plan, err := x.plan(ref.Iteration)
	if err != nil {
		return err
	}
	traces, err := closing.Traces(x.ctx, x.run, ref)
	if err != nil {
		return err
	}
	for _, t := range traces {
		row := plan[t.Score.InstanceID]
		group := closing.TraceName{Iteration: ref.Iteration, TraceName: shard.TraceName{InstanceID: t.Score.InstanceID}}
		i, known := x.at[group]
		if !known {
			i = len(x.groups)
			x.at[group] = i
			x.groups = append(x.groups, Group{
				InstanceID: row.InstanceID, Iteration: ref.Iteration, TaskID: row.TaskID, Kind: row.Kind, SelectedBy: row.SelectedBy,
				Answer: x.answers[row.TaskID], Prompt: t.Rows[0].Messages[:t.Rows[0].PromptMessages],
			})
		}
		x.groups[i].Responses = append(x.groups[i].Responses, x.response(ref.Iteration, t))
	}
	return nil
}

func (x *reader) plan(k int) (map[string]shard.Instance, error) {
	if plan, read := x.plans[k]; read {
		return plan, nil
	}
	rows, _, err := shard.Read[shard.Instance](x.ctx, x.run.Dir.Plan(k), x.run.Graph.Reading(0))
	if err != nil {
		return nil, err
	}
	x.plans[k] = make(map[string]shard.Instance, len(rows))
	for _, row := range rows {
		x.plans[k][row.InstanceID] = row
	}
	return x.plans[k], nil
}

func (x *reader) response(iteration int, t closing.Scored) Response {
	name := closing.TraceName{Iteration: iteration, TraceName: t.Rows[0].Name()}
	s := t.Score
	r := Response{
		Sample: int(s.Sample), Reward: s.Reward, Parts: s.RewardParts, Outcome: s.Outcome, Extracted: s.Extracted, Feedback: s.Feedback,
		Finish: t.Rows[len(t.Rows)-1].FinishReason, Dispositions: x.dispositions[name],
	}
	for _, row := range t.Rows {
		r.Contexts = append(r.Contexts, Context{x.pieces(row, learnedFrom(row, x.batch[name]))})
	}
	return r
}

// credited is what the batch has for a token.
type credited struct {
	learned   bool
	advantage float64
}

// learnedFrom is what the batch has for each token of a context.
func learnedFrom(row shard.Rollout, sequences []shard.Sequence) []credited {
	found := make([]credited, len(row.TokenIDs))
	for _, s := range sequences {
		if !slices.Equal(s.TokenIDs, row.TokenIDs) {
			continue
		}
		for i, learned := range s.LossMask {
			if learned {
				found[i] = credited{true, float64(s.TurnAdvantages[s.Turns[i]])}
			}
		}
	}
	return found
}

// pieces is the text of a context from the policy's first token on. A token that ends
// inside a character is joined with those that complete it.
func (x *reader) pieces(row shard.Rollout, credit []credited) []Piece {
	var pieces []Piece
	decoder := x.tokenizer.NewDecoder()
	var held Piece
	open := false
	for i := max(0, slices.Index(row.LossMask, true)); i < len(row.TokenIDs); i++ {
		if open && held.Own != row.LossMask[i] {
			held.Text = decoder.Flush()
			pieces, held, open = append(pieces, held), Piece{}, false
		}
		text := decoder.Write(row.TokenIDs[i])
		held.Own, held.LogProb = row.LossMask[i], held.LogProb+float64(row.LogProbs[i])
		held.Tokens, held.Learned, held.Advantage = held.Tokens+1, credit[i].learned, credit[i].advantage
		if open = text == ""; !open {
			held.Text = text
			pieces, held = append(pieces, held), Piece{}
		}
	}
	if rest := decoder.Flush(); rest != "" || open {
		held.Text = rest
		pieces = append(pieces, held)
	}
	return pieces
}

// summarise fills what follows from the responses.
func (g *Group) summarise() {
	n := float64(len(g.Responses))
	for _, r := range g.Responses {
		g.Reward += r.Reward / n
		for _, c := range r.Contexts {
			for _, p := range c.Pieces {
				if p.Own {
					g.Tokens += float64(p.Tokens) / n
				}
			}
		}
	}
	for _, r := range g.Responses {
		g.Deviation += (r.Reward - g.Reward) * (r.Reward - g.Reward) / n
	}
	g.Deviation = math.Sqrt(g.Deviation)
	slices.SortFunc(g.Responses, func(a, b Response) int { return cmp.Compare(a.Sample, b.Sample) })
}
