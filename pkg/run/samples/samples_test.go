package samples_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/samples"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
)

// TestRead: of a finished run every planned response is there once, with the text,
// log-probabilities and reward that its shards hold, and the advantages of the batch.
func TestRead(t *testing.T) {
	t.Parallel()
	r := runtest.Finished(t, "select=[constant_group]")
	tasks, kinds := map[string]shard.TaskRow{}, map[string]int{}
	for _, row := range read[shard.TaskRow](t, r.Dir.Tasks()) {
		tasks[row.TaskID] = row
	}
	last := r.Recipe.Schedule.Iterations
	for k := 1; k <= last; k++ {
		groups, err := samples.Read(t.Context(), r, k)
		if err != nil {
			t.Fatal(err)
		}
		plan := read[shard.Instance](t, r.Dir.Plan(k))
		if len(groups) != len(plan) {
			t.Fatalf("iteration %d: %d groups of %d prompts", k, len(groups), len(plan))
		}
		rollouts, rewards := map[shard.TraceName]shard.Rollout{}, map[shard.TraceName]float64{}
		for n := range r.Recipe.Rollout.Shards {
			for _, row := range read[shard.Rollout](t, r.Dir.Rollout(k, n)) {
				rollouts[row.Name()] = row
			}
			for _, row := range read[shard.Score](t, r.Dir.Score(k, n)) {
				rewards[row.Name()] = row.Reward
			}
		}
		dispositions := map[shard.TraceName]string{}
		for _, row := range read[shard.LedgerRow](t, r.Dir.Ledger(k)) {
			name, what := shard.TraceName{InstanceID: row.InstanceID, Sample: row.Sample}, row.Fate
			if row.Reason != "" {
				what = fmt.Sprintf("%s: %s", row.Fate, row.Reason)
			}
			dispositions[name] = what
			kinds[what]++
		}
		learned := 0
		for i, g := range groups {
			if task := tasks[g.TaskID]; g.TaskID != plan[i].TaskID || g.Answer != task.Answer || g.Answer == "" || g.Kind != plan[i].Kind || g.SelectedBy != plan[i].SelectedBy || g.Iteration != k || g.Tokens == 0 {
				t.Errorf("iteration %d, group %d: %+v of %+v", k, i, g, plan[i])
			}
			if g.InstanceID != plan[i].InstanceID || len(g.Responses) != r.Recipe.Rollout.Group || len(g.Prompt) == 0 {
				t.Errorf("iteration %d, group %d: %s with %d responses, %d messages of prompt", k, i, g.InstanceID, len(g.Responses), len(g.Prompt))
			}
			sum := 0.0
			for sample, response := range g.Responses {
				name := shard.TraceName{InstanceID: g.InstanceID, Sample: int32(sample)}
				row := rollouts[name]
				said, logProb := "", 0.0
				for _, p := range response.Contexts[0].Pieces {
					if said += p.Text; p.Learned {
						learned += p.Tokens
					}
					logProb += p.LogProb
				}
				if want := row.Messages[len(row.Messages)-1].Content; !strings.HasPrefix(said, want) {
					t.Errorf("%v says %q, its shard %q", name, said, want)
				}
				want := 0.0
				for _, p := range row.LogProbs {
					want += float64(p)
				}
				if math.Abs(logProb-want) > 1e-9 || response.Reward != rewards[name] || response.Sample != sample || response.Finish != row.FinishReason || response.Outcome == "" || !slices.Equal(response.Dispositions, []string{dispositions[name]}) {
					t.Errorf("%v: log-probability %v and %v, reward %v and %v, dispositions %q", name, logProb, want, response.Reward, rewards[name], response.Dispositions)
				}
				sum += response.Reward
			}
			if math.Abs(sum/float64(len(g.Responses))-g.Reward) > 1e-12 {
				t.Errorf("iteration %d, group %d: mean reward %v of a sum of %v", k, i, g.Reward, sum)
			}
		}
		sequences, _, err := arrowfile.ReadBatch(t.Context(), r.Dir.Batch(k), r.Graph.Reading(0))
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for _, s := range sequences {
			for _, own := range s.LossMask {
				if own {
					want++
				}
			}
		}
		if learned != want || want == 0 {
			t.Errorf("iteration %d: %d tokens are learned from, the batch has %d", k, learned, want)
		}
	}
	if len(kinds) < 2 || kinds["trained"] == 0 {
		t.Errorf("the dispositions are %v: none has a reason", kinds)
	}
	for _, k := range []int{0, last + 1} {
		if _, err := samples.Read(t.Context(), r, k); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("iteration %d: %v", k, err)
		}
	}

	// What is not decided yet is shown without dispositions and advantages; what is damaged
	// is an error.
	for _, path := range []string{r.Dir.Ledger(last), r.Dir.Batch(last), r.Dir.Plan(last), r.Dir.Rollout(last, 0), r.Dir.Tasks()} {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content[:len(content)-1], 0o666); err != nil {
			t.Fatal(err)
		}
		if groups, err := samples.Read(t.Context(), r, last); err == nil {
			t.Errorf("%s was cut short, and %d groups are read", path, len(groups))
		}
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{r.Dir.Ledger(last), r.Dir.Batch(last)} {
		if err := errors.Join(os.Remove(path), os.Remove(seal.ManifestPath(path))); err != nil {
			t.Fatal(err)
		}
	}
	groups, err := samples.Read(t.Context(), r, last)
	if err != nil || len(groups) == 0 {
		t.Fatalf("before the batch: %d groups, %v", len(groups), err)
	}
	for _, response := range groups[0].Responses {
		if _, tokens := response.Learned(); tokens != 0 || response.Dispositions != nil {
			t.Errorf("before the batch: %d tokens are learned from, %q", tokens, response.Dispositions)
		}
	}
	if err := os.Remove(filepath.Join(r.Dir.Policy(0), "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := samples.Read(t.Context(), r, last); err == nil {
		t.Error("without a tokenizer tokens have text")
	}
}

func read[T shard.Row](t *testing.T, path string) []T {
	t.Helper()
	rows, _, err := shard.Read[T](t.Context(), path, seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestReadTooEarly: an iteration without responses is an error of the data, with the way on.
func TestReadTooEarly(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t)
	if _, err := samples.Read(t.Context(), b.Run(), 1); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "not sampled yet") {
		t.Error(err)
	}
}

func TestSort(t *testing.T) {
	t.Parallel()
	groups := []samples.Group{
		{InstanceID: "a", Reward: 0.5, Deviation: 0.1, Tokens: 9},
		{InstanceID: "b", Reward: 0.25, Deviation: 0.5, Tokens: 7},
		{InstanceID: "c", Reward: 0.75, Deviation: 0, Tokens: 8},
	}
	for by, want := range map[samples.Order]string{samples.ByReward: "bac", samples.BySpread: "bac", samples.ByLength: "acb", samples.ByPlanned: "abc"} {
		sorted := slices.Clone(groups)
		if err := samples.Sort(sorted, by); err != nil {
			t.Fatal(err)
		}
		if got := sorted[0].InstanceID + sorted[1].InstanceID + sorted[2].InstanceID; got != want {
			t.Errorf("by %s: %s, want %s", by, got, want)
		}
	}
	if err := samples.Sort(groups, "luck"); exitcode.Code(err) != exitcode.Usage {
		t.Error(err)
	}
}

// TestPage by hand: a piece of two tokens of probability e⁻¹ together and one of e⁻³, and
// one that was read between. (2 · 0.25 - 0.75) / 3 = -0.083 is learned, (1 + 3) / 3 = 1.33
// nats is the surprise.
func TestPage(t *testing.T) {
	t.Parallel()
	g := samples.Group{InstanceID: "i1", Kind: "initial", SelectedBy: "base", TaskID: "t", Reward: 0.5, Deviation: 0.25, Tokens: 3, Answer: "4", Responses: []samples.Response{{
		Sample: 2, Reward: 0.5, Parts: []shard.RewardPart{{Name: "correct", Value: 1}, {Name: "long", Value: -0.5}}, Outcome: "ok", Finish: "length",
		Dispositions: []string{"dropped: overlong"}, Feedback: "<too long>",
		Contexts: []samples.Context{{Pieces: []samples.Piece{
			{Text: "2+2", Tokens: 2, Own: true, LogProb: -1, Learned: true, Advantage: 0.25}, {Text: " is ", Tokens: 1}, {Text: "<b>", Tokens: 1, Own: true, LogProb: -3, Learned: true, Advantage: -0.75},
		}}, {Pieces: []samples.Piece{{Text: "read", Tokens: 5}}}},
	}, {Outcome: "ok", Finish: "stop", Parts: []shard.RewardPart{{Name: "correct", Value: 1}}}, {
		Outcome: "wrong", Contexts: []samples.Context{{Pieces: []samples.Piece{{Tokens: 1, Own: true, LogProb: -2, Learned: true, Advantage: 0.5}}}},
	}}}
	for i, want := range []string{
		"sample 2: reward 0.5 (correct 1, long -0.5), ok, cut off, dropped: overlong, advantage -0.083 over 3 tokens, 1.33 nats a token",
		"sample 0: reward 0, ok, 0.00 nats a token",
		"sample 0: reward 0, wrong, advantage +0.500 over 1 token, 2.00 nats a token",
	} {
		if got := g.Responses[i].Summary(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got, want := g.Responses[0].Text(), "2+2 is <b>\n— new context —\nread"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	const summary = "i1, task t, initial by base: mean reward 0.5 ± 0.25, 3 tokens"
	without := g
	if without.Answer = ""; g.Summary() != summary+", reference answer 4" || without.Summary() != summary {
		t.Errorf("%q and without an answer %q", g.Summary(), without.Summary())
	}
	darkest := samples.Piece{Own: true, LogProb: -9}
	if darkest.Shade() != "background:rgba(214,96,20,0.75)" || darkest.Tip() != "p = 0.000" || (samples.Piece{}).Shade() != "" {
		t.Errorf("%q, %q; read: %q", darkest.Shade(), darkest.Tip(), samples.Piece{}.Shade())
	}
	for want, s := range map[string]credit.AdvantageSettings{"": {}, "the learner replaces them by the critic's": {Name: "gae"}, "the learner adds the teacher's": {Teacher: credit.Teacher{Coef: 1}}} {
		if got := samples.AdvantageNote(s); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q, want %q", got, want)
		}
	}
	page, err := samples.Page("run, iteration 3", samples.AdvantageNote(credit.AdvantageSettings{Teacher: credit.Teacher{Coef: 1}}), []samples.Group{g})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"run, iteration 3", "Here advantages are those of the batch: the learner adds the teacher&#39;s (advantage.teacher).", `style="background:rgba(214,96,20,0.12)" title="p = 0.368, advantage &#43;0.250">2&#43;2<`, // 0.75 · 1/6
		`title="read by the policy"> is <`, `rgba(214,96,20,0.38)" title="p = 0.050, advantage -0.750">&lt;b&gt;<`, "&lt;too long&gt;", "reference answer 4",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}
