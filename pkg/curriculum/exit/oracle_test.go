package exit

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
	"pgregory.net/rapid"
)

// The oracle is the curriculum written as plainly as it can be: entries hold
// whole conversations, every entry is looked at for every question.

type plainEntry struct {
	id, taskID, parentID, kind string
	depth, turn                int32
	messages                   []shard.Message
	baseScore, potential       float64
	lastSampled, visits        int32
}

type oracle struct {
	stored archive
	spec   Settings
	seed   uint64
	buffer []plainEntry
}

// plainSelection is what the oracle selects.
type plainSelection struct {
	taskID, kind, parentID string
	depth, turn            int
	history                []shard.Message
	baseScore, potential   float64
	probability            float64
}

func (o *oracle) indexOf(id string) int {
	return slices.IndexFunc(o.buffer, func(e plainEntry) bool { return e.id == id })
}

func (o *oracle) update(iteration int, groups []curriculum.Group) {
	for _, g := range groups {
		i := o.indexOf(g.Instance.ParentID)
		if g.Instance.ParentID == "" || i < 0 {
			continue
		}
		o.buffer[i].visits++
		o.buffer[i].lastSampled = int32(iteration)
		if score, ok := (&Exit{spec: o.spec}).learnability(g); ok {
			o.buffer[i].potential = score
		}
	}
	for _, g := range groups {
		score, ok := (&Exit{spec: o.spec}).learnability(g)
		if !ok {
			continue
		}
		if !o.spec.Improve {
			o.insertTask(g.Instance, score, iteration)
		}
		valid := slices.DeleteFunc(slices.Clone(g.Responses), func(r curriculum.Response) bool { return !r.Valid() })
		if o.spec.Expand == ExpandOne {
			stream := rng.New(o.seed, rng.PurposeSelect, iteration, "expand "+g.Instance.InstanceID, 0)
			valid = []curriculum.Response{valid[stream.IntN(0, len(valid))]}
		}
		for _, r := range valid {
			turn := int32(0)
			messages := o.stored.resolve(r.Ref)
			for i, message := range messages {
				if message.Role != "assistant" {
					continue
				}
				if turn++; i < len(g.Instance.Messages) {
					continue
				}
				if !o.spec.Improve {
					if i > len(g.Instance.Messages) {
						o.insert(plainEntry{
							taskID: g.Instance.TaskID, parentID: g.Instance.InstanceID, id: fmt.Sprintf("%d %s %d %d", iteration, g.Instance.InstanceID, r.Sample, i),
							kind: g.Instance.Kind, depth: g.Instance.Depth, turn: turn - 1, messages: messages[:i], potential: score,
						})
					}
					continue
				}
				sum := sha256.Sum256(fmt.Appendf(nil, "exit\x00%d\x00%s\x00%d\x00%d", iteration, g.Instance.InstanceID, r.Sample, i+1))
				o.insert(plainEntry{
					id: fmt.Sprintf("exit-%06d-%x", iteration, sum[:8]), taskID: g.Instance.TaskID, parentID: g.Instance.InstanceID,
					kind: "improve", depth: g.Instance.Depth + 1, turn: turn, messages: messages[:i+1], baseScore: r.Quality(), potential: score,
				})
			}
		}
	}
}

func (o *oracle) insert(entry plainEntry) {
	if len(o.buffer) >= o.spec.BufferSize {
		lowest := 0
		for i := range o.buffer {
			if o.buffer[i].potential < o.buffer[lowest].potential {
				lowest = i
			}
		}
		if entry.potential < o.buffer[lowest].potential {
			return
		}
		o.buffer = slices.Delete(o.buffer, lowest, lowest+1)
	}
	o.buffer = append(o.buffer, entry)
}

func (o *oracle) insertTask(instance shard.Instance, score float64, iteration int) {
	if instance.ParentID != "" {
		return
	}
	id := "exit-task-" + instance.TaskID
	if i := o.indexOf(id); i >= 0 {
		o.buffer[i].potential = score
		o.buffer[i].visits++
		o.buffer[i].lastSampled = int32(iteration)
		return
	}
	o.insert(plainEntry{
		id: id, taskID: instance.TaskID, parentID: instance.InstanceID, kind: instance.Kind,
		potential: score, lastSampled: int32(iteration), visits: 1,
	})
}

func (o *oracle) next(t *rapid.T, iteration, n int, taskIDs []string) []plainSelection {
	base := uniform.Tasks(o.spec.BaseTasks, o.seed, iteration, n, taskIDs)
	probabilities := o.probabilities()
	selections := make([]plainSelection, n)
	for i := range selections {
		stream := rng.New(o.seed, rng.PurposeSelect, iteration, "exit prompt", i)
		if len(o.buffer) == 0 || len(o.buffer) < o.spec.MinBufferSize {
			selections[i] = plainSelection{taskID: base[i], kind: "initial", probability: 1}
			continue
		}
		if !stream.Bool(positionSelect, o.spec.SelectProbability) {
			selections[i] = plainSelection{taskID: base[i], kind: "initial", probability: 1 - o.spec.SelectProbability}
			continue
		}
		u, below, at := stream.Float64(positionEntry), 0.0, 0
		for j, p := range probabilities {
			if p == 0 {
				continue
			}
			below += p
			at = j
			if u < below {
				break
			}
		}
		e := o.buffer[at]
		selections[i] = plainSelection{
			taskID: e.taskID, kind: e.kind, parentID: e.id, depth: int(e.depth), turn: int(e.turn), history: e.messages,
			baseScore: e.baseScore, potential: e.potential, probability: o.spec.SelectProbability * probabilities[at],
		}
		if o.spec.Improve {
			selections[i].kind = "improve"
			ofKind := 1 - o.spec.DivergeProbability
			if stream.Bool(positionDiverge, o.spec.DivergeProbability) {
				selections[i].kind, ofKind = "diverge", o.spec.DivergeProbability
			}
			selections[i].probability *= ofKind
		}
	}
	return selections
}

func (o *oracle) probabilities() []float64 {
	largest, total := math.Inf(-1), 0.0
	for _, e := range o.buffer {
		largest = math.Max(largest, e.potential*o.spec.InverseTemperature)
	}
	probabilities := make([]float64, len(o.buffer))
	for i, e := range o.buffer {
		probabilities[i] = math.Exp(e.potential*o.spec.InverseTemperature - largest)
		total += probabilities[i]
	}
	for i := range probabilities {
		probabilities[i] /= total
	}
	return probabilities
}

// archive keeps the conversations that references name.
type archive map[shard.Ref][]shard.Message

// keep files a conversation under its reference.
func (a archive) keep(ref shard.Ref, messages []shard.Message) {
	ref.Messages = 0
	a[ref] = messages
}

func (a archive) resolve(ref shard.Ref) []shard.Message {
	if ref.IsZero() {
		return nil
	}
	n := ref.Messages
	ref.Messages = 0
	return a[ref][:n]
}

// Over runs of any settings the curriculum does what the oracle does, to the
// bit: the same entries in the same order, and the same selections with the
// same probabilities. Scores are few, so that ties are many, and buffers small,
// so that entries come and go.
func TestOracle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec, seed := drawSettings(t), rapid.Uint64().Draw(t, "seed")
		e := New(spec, seed)
		stored := archive{}
		plain := &oracle{spec: spec, seed: seed, stored: stored}
		var state curriculum.State
		for iteration := 1; iteration <= 8; iteration++ {
			const prompts = 5
			selections, err := e.Next(state, iteration, prompts, tasks)
			if err != nil {
				t.Fatal(err)
			}
			want := plain.next(t, iteration, prompts, tasks)
			groups, wanted := make([]curriculum.Group, prompts), make([]curriculum.Group, prompts)
			for i, s := range selections {
				got := plainSelection{
					taskID: s.TaskID, kind: string(s.Kind), parentID: want[i].parentID, depth: s.Depth, turn: s.Turn,
					history: stored.resolve(s.Ref), baseScore: s.BaseScore, potential: s.Potential, probability: s.Probability,
				}
				if diff := cmp.Diff(want[i], got, cmp.AllowUnexported(plainSelection{})); diff != "" {
					t.Fatalf("iteration %d, prompt %d (-oracle +got):\n%s", iteration, i, diff)
				}
				groups[i] = drawGroup(t, iteration, i, got, s.ParentID, stored)
				wanted[i] = groups[i]
				wanted[i].Instance.ParentID = want[i].parentID
			}
			if state, err = e.Update(state, iteration, groups, nil); err != nil {
				t.Fatal(err)
			}
			plain.update(iteration, wanted)
			if diff := cmp.Diff(plain.buffer, inFull(state.Entries, plain.buffer, stored), cmp.AllowUnexported(plainEntry{})); diff != "" {
				t.Fatalf("buffer after iteration %d (-oracle +got):\n%s", iteration, diff)
			}
		}
	})
}

// inFull gives the entries as the oracle has them; the ids are the oracle's.
func inFull(entries []shard.Entry, like []plainEntry, stored archive) []plainEntry {
	var out []plainEntry
	for i, e := range entries {
		id := ""
		if i < len(like) {
			id = like[i].id
		}
		out = append(out, plainEntry{
			id: id, taskID: e.TaskID, parentID: e.ParentID, kind: e.Kind, depth: e.Depth, turn: e.Turn, messages: stored.resolve(e.Ref),
			baseScore: e.BaseScore, potential: e.Potential, lastSampled: e.LastSampled, visits: e.Visits,
		})
	}
	return out
}

// roles are those of messages.
func roles(messages []shard.Message) []string {
	var out []string
	for _, m := range messages {
		out = append(out, m.Role)
	}
	return out
}

// drawGroup plays a selection: one turn or two, with drawn outcomes.
func drawGroup(t *rapid.T, iteration, row int, s plainSelection, parentID string, stored archive) curriculum.Group {
	prompt := slices.Clone(s.history)
	if s.kind != "initial" || len(prompt) == 0 {
		prompt = append(prompt, user(fmt.Sprintf("prompt %d of iteration %d", row, iteration)))
	}
	g := curriculum.Group{Instance: shard.Instance{
		InstanceID: fmt.Sprintf("i%06d-%06d", iteration, row), TaskID: s.taskID, Kind: s.kind, ParentID: parentID,
		Depth: int32(s.depth), Turn: int32(s.turn), Messages: prompt,
	}}
	for sample := range 3 {
		score := shard.Score{Outcome: "ok", NormalizedScore: rapid.SampledFrom([]float64{0, .5, 1}).Draw(t, "quality")}
		reward := rapid.SampledFrom([]float64{0, .5, 1}).Draw(t, "reward")
		if rapid.IntRange(0, 4).Draw(t, "infra is 0") == 0 {
			score.Outcome = "infra"
		}
		messages := append(slices.Clone(prompt), assistant(fmt.Sprintf("answer %d", sample)))
		if rapid.Bool().Draw(t, "two turns") {
			messages = append(messages, user("again"), assistant("second"))
		}
		ref := shard.Ref{Iteration: int32(iteration), Row: int32(row), Sample: int32(sample), Messages: int32(len(messages))}
		stored.keep(ref, messages)
		g.Responses = append(g.Responses, curriculum.Response{
			Sample: sample, Ref: ref, Roles: roles(messages), PromptMessages: len(prompt), Turns: (len(messages) - len(prompt) + 1) / 2, Score: score, Reward: reward,
		})
	}
	return g
}

// A binary search in the sums finds the entry that a walk along the
// probabilities does, wherever the number falls.
func TestPickIsTheWalk(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := oracle{spec: Settings{InverseTemperature: rapid.SampledFrom([]float64{0, 8, 500, 1e4, 1e300}).Draw(t, "κ")}}
		scores := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 1e-300, .01, .09, .1875, .2, .25}), 1, 40).Draw(t, "scores")
		for _, score := range scores {
			o.buffer = append(o.buffer, plainEntry{potential: score})
		}
		share, probabilities := newSoftmax(ofScores(scores...), o.spec.InverseTemperature), o.probabilities()
		points := []float64{0, math.Nextafter(1, 0), rapid.Float64Range(0, 1).Draw(t, "u")}
		for _, sum := range share.upTo {
			points = append(points, math.Nextafter(sum, 0), sum, math.Nextafter(sum, 1))
		}
		for _, u := range points {
			if u >= 1 {
				continue
			}
			below, want := 0.0, 0
			for i, p := range probabilities {
				if p == 0 {
					continue
				}
				below += p
				want = i
				if u < below {
					break
				}
			}
			if got := share.pick(u); got != want {
				t.Fatalf("u %v of %v picks %d, the walk %d", u, probabilities, got, want)
			}
		}
	})
}
