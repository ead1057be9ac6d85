package score_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/score"
)

// answers seals a rollout shard in which each instance is answered with the
// given texts.
func answers(r *stagetest.Rig, instances []shard.Instance, text func(i int) (content string, outcome shard.Outcome)) string {
	r.Helper()
	var rows []shard.Rollout
	for i, instance := range instances {
		content, outcome := text(i)
		rows = append(rows, shard.Rollout{
			InstanceID: instance.InstanceID, GroupID: instance.GroupID, Outcome: string(outcome), FinishReason: "stop", PromptMessages: int32(len(instance.Messages)), Turns: 1,
			Messages: append(append([]shard.Message(nil), instance.Messages...), shard.Message{Role: "assistant", Content: content}),
			TokenIDs: []int32{1}, LossMask: []bool{true}, LogProbs: []float32{-1},
		})
	}
	path := r.Path("rollout.parquet")
	r.Check(stagetest.Write(path, rows))
	return path
}

func run(r *stagetest.Rig, plan, rollouts string) ([]shard.Score, map[string]float64) {
	r.Helper()
	m, err := score.Run(r.Context(), r.Job, r.Recipe.Score, r.Env, score.Inputs{Plan: plan, Rollout: rollouts, Iteration: 1, Of: 1, Output: r.Path("score.parquet")})
	r.Check(err)
	return stagetest.Read[shard.Score](r, r.Path("score.parquet")), m.Metrics
}

// TestOutcomesAreNotRewards: what the policy did wrong is its outcome; what
// we did wrong is infra, after three tries, with the reason beside it.
func TestOutcomesAreNotRewards(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t)
	plan, instances := r.Plan(6)
	right := func(i int) string {
		task, _ := r.Env.Set().Task(instances[i].TaskID)
		return task.Answer
	}
	rollouts := answers(r, instances, func(i int) (string, shard.Outcome) {
		switch i {
		case 0, 4, 5:
			return right(i), shard.OutcomeOK
		case 1:
			return right(i) + "1", shard.OutcomeOK
		case 2:
			return "no idea", shard.OutcomeOK
		}
		return "", shard.OutcomePreempted
	})
	tries := map[string]int{}
	r.Env = stagetest.Failing{Env: r.Env, Fail: func(conversation []shard.Message) error {
		question := conversation[0].Content
		tries[question]++
		switch {
		case question == instances[4].Messages[0].Content:
			return errors.New("the verifier is on fire")
		case question == instances[5].Messages[0].Content && tries[question] < 3:
			return errors.New("the verifier slept")
		}
		return nil
	}}
	rows, metrics := run(r, plan, rollouts)
	for i, want := range []shard.Outcome{
		shard.OutcomeOK, shard.OutcomeWrong, shard.OutcomeInvalid, shard.OutcomePreempted, shard.OutcomeInfra, shard.OutcomeOK,
	} {
		wantReward := 0.0
		if want == shard.OutcomeOK {
			wantReward = 1
		}
		if rows[i].Outcome != string(want) || rows[i].Reward != wantReward || rows[i].InstanceID != instances[i].InstanceID {
			t.Errorf("row %d: outcome %s, reward %g; want %s, %g", i, rows[i].Outcome, rows[i].Reward, want, wantReward)
		}
		if wantEmbedding := want != shard.OutcomePreempted && want != shard.OutcomeInfra; (len(rows[i].Embedding) > 0) != wantEmbedding {
			t.Errorf("row %d, %s: embedding of %d numbers", i, want, len(rows[i].Embedding))
		}
	}
	if rows[4].Feedback != "the verifier is on fire" {
		t.Errorf("the reason of our failure is lost: %q", rows[4].Feedback)
	}
	if n := tries[instances[4].Messages[0].Content]; n != 3 {
		t.Errorf("the failing verifier was asked %d times, want 3", n)
	}
	if n := tries[instances[3].Messages[0].Content]; n != 0 {
		t.Errorf("a preempted response was judged %d times", n)
	}
	if metrics["outcome_ok"] != 2 || metrics["outcome_infra"] != 1 || metrics["reward_sum"] != 2 || metrics["responses"] != 6 {
		t.Errorf("metrics %v", metrics)
	}
}

// A prompt that leaves no room for a response is answered by nobody: that is
// no answer, and no failure of ours.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"smoke", "tooluse-smoke"} {
		r := stagetest.NewOf(t, name, "score.embedding=ngrams")
		plan, instances := r.Plan(1)
		path := r.Path("rollout.parquet")
		r.Check(stagetest.Write(path, []shard.Rollout{{
			InstanceID: instances[0].InstanceID, GroupID: instances[0].GroupID, Outcome: string(shard.OutcomeOK), FinishReason: "length",
			Messages: instances[0].Messages, PromptMessages: int32(len(instances[0].Messages)), TokenIDs: []int32{1}, LossMask: []bool{false}, LogProbs: []float32{0},
		}}))
		rows, metrics := run(r, plan, path)
		if rows[0].Outcome != string(shard.OutcomeInvalid) || rows[0].Reward != 0 || rows[0].Feedback == "" || metrics["reason/no room"] != 1 {
			t.Errorf("%s: %+v, metrics %v", name, rows[0], metrics)
		}
		if want := score.NGrams(""); !slices.Equal(rows[0].Embedding, want) {
			t.Errorf("%s: the embedding is %v, want %v", name, rows[0].Embedding, want)
		}
	}
}

// TestImpossibleResponse: a response that cannot have been had is no score
// and no failure of ours: the file is wrong.
func TestImpossibleResponse(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t)
	plan, instances := r.Plan(2)
	rollouts := answers(r, instances, func(int) (string, shard.Outcome) { return "1", shard.OutcomeOK })
	tries := 0
	r.Env = stagetest.Failing{Env: r.Env, Fail: func(conversation []shard.Message) error {
		if conversation[0].Content != instances[1].Messages[0].Content {
			return nil
		}
		tries++
		return exitcode.Dataf("the calls give something else")
	}}
	_, err := score.Run(r.Context(), r.Job, r.Recipe.Score, r.Env, score.Inputs{Plan: plan, Rollout: rollouts, Of: 1, Output: r.Path("score.parquet")})
	if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "row 1: the calls give something else") || tries != 1 {
		t.Errorf("%d tries, %v", tries, err)
	}
}

func TestRolloutOfAnotherPlanIsRefused(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t)
	plan, instances := r.Plan(2)
	instances[1].InstanceID = "i000009-000001"
	rollouts := answers(r, instances, func(int) (string, shard.Outcome) { return "1", shard.OutcomeOK })
	_, err := score.Run(r.Context(), r.Job, r.Recipe.Score, r.Env, score.Inputs{Plan: plan, Rollout: rollouts, Of: 1, Output: r.Path("score.parquet")})
	if exitcode.Code(err) != exitcode.Data {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"row 1", "i000009-000001", "plan.parquet"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
}

// TestToolUseIsEmbeddedWhole: what tells two episodes of tool use apart is not
// that both finish, but what was called before. What an earlier episode said,
// and this one's prompt shows, is none of it.
func TestToolUseIsEmbeddedWhole(t *testing.T) {
	t.Parallel()
	r := stagetest.NewOf(t, "tooluse-smoke", "score.embedding=ngrams")
	plan, instances := r.Plan(1)
	task, _ := r.Env.Set().Task(instances[0].TaskID)
	said := []string{"<tool>[]</tool>", `<tool>[{"name": "pwd", "args": {}}]</tool>`, "<TASK_FINISHED>"}
	begun, err := r.Env.Begin(r.Context(), task, instances[0].Messages)
	r.Check(err)
	conversation := instances[0].Messages
	for _, message := range said {
		conversation = append(conversation, shard.Message{Role: "assistant", Content: message})
		answer, err := begun.Next(r.Context(), conversation, nil)
		r.Check(err)
		conversation = append(conversation, answer.Messages...)
	}
	r.Check(begun.Close())
	path := r.Path("rollout.parquet")
	r.Check(stagetest.Write(path, []shard.Rollout{{
		InstanceID: instances[0].InstanceID, GroupID: instances[0].GroupID, Outcome: string(shard.OutcomeOK), FinishReason: "stop", Turns: 2,
		Messages: conversation, PromptMessages: int32(len(instances[0].Messages)) + 2, TokenIDs: []int32{1}, LossMask: []bool{true}, LogProbs: []float32{-1},
	}}))
	rows, _ := run(r, plan, path)
	if want := score.NGrams(said[1] + "\n" + said[2]); !slices.Equal(rows[0].Embedding, want) {
		t.Errorf("the embedding is %v, want %v", rows[0].Embedding, want)
	}
}

func cosine(a, b []float32) float64 {
	var sum float64
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// TestNGrams: unit length, or zero; the same text gives the same vector, and
// texts that share more are closer.
func TestNGrams(t *testing.T) {
	t.Parallel()
	if v := score.NGrams(""); cosine(v, v) != 0 || len(v) != 64 {
		t.Errorf("the empty text is %v", v)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		v, again := score.NGrams(text), score.NGrams(text)
		for i := range v {
			if v[i] != again[i] {
				t.Fatalf("%q gives two vectors", text)
			}
		}
		if n := cosine(v, v); n != 0 && math.Abs(n-1) > 1e-6 {
			t.Fatalf("%q has the squared length %g", text, n)
		}
	})
	whole := score.NGrams("the answer is forty-two")
	near, far := score.NGrams("the answer is forty-three"), score.NGrams("zzz qqq xxx")
	if cosine(whole, near) < 0.7 || cosine(whole, far) > 0.3 {
		t.Errorf("near %g, far %g", cosine(whole, near), cosine(whole, far))
	}
	// One letter is one 1-gram: a unit vector with one number, ±1, at the
	// FNV-1a hash of the letter modulo 64. For "a" that hash is
	// 0xaf63dc4c8601ec8c (http://www.isthe.com/chongo/tech/comp/fnv/): its
	// top bit is set, so the sign is -1, and 0x8c mod 64 is 12.
	for i, x := range score.NGrams("a") {
		want := float32(0)
		if i == 12 {
			want = -1
		}
		if x != want {
			t.Errorf("NGrams(a)[%d] is %g, want %g", i, x, want)
		}
	}
}
