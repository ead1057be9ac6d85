package samples_test

import (
	"math"
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
	r := runtest.Finished(t)
	for k := 1; k <= r.Recipe.Schedule.Iterations; k++ {
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
		learned := 0
		for i, g := range groups {
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
				if math.Abs(logProb-want) > 1e-9 || response.Reward != rewards[name] || len(response.Dispositions) != 1 {
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
	for k, code := range map[int]int{0: exitcode.Usage, 99: exitcode.Usage} {
		if _, err := samples.Read(t.Context(), r, k); exitcode.Code(err) != code {
			t.Errorf("iteration %d: %v", k, err)
		}
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

// TestPage by hand: two tokens of probability e⁻¹ and e⁻³, one that was read between.
func TestPage(t *testing.T) {
	t.Parallel()
	g := samples.Group{InstanceID: "i1", Kind: "initial", SelectedBy: "base", TaskID: "t", Reward: 0.5, Answer: "4", Responses: []samples.Response{{
		Sample: 2, Reward: 0.5, Parts: []shard.RewardPart{{Name: "correct", Value: 1}, {Name: "long", Value: -0.5}}, Outcome: "ok", Finish: "length",
		Dispositions: []string{"dropped: overlong"}, Feedback: "<too long>",
		Contexts: []samples.Context{{Pieces: []samples.Piece{
			{Text: "2+2", Tokens: 1, Own: true, LogProb: -1, Learned: true, Advantage: 0.25}, {Text: " is ", Tokens: 1}, {Text: "<b>", Tokens: 1, Own: true, LogProb: -3, Learned: true, Advantage: -0.75},
		}}},
	}}}
	if got, want := g.Responses[0].Summary(), "sample 2: reward 0.5 (correct 1, long -0.5), ok, cut off, dropped: overlong, advantage -0.250 over 2 tokens, 2.00 nats a token"; got != want {
		t.Errorf("%q, want %q", got, want)
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
