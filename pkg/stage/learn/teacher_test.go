package learn_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

// alone are the settings of a teacher without a reward.
var alone = []string{"advantage.name=teacher", "advantage.teacher.coef=1", "weight=token_mean", "loss.kl.coef=0"}

// A teacher that is the policy has nothing to teach: all numbers are exactly 0. Another one
// has: as advantages are log p_T - log p, and ratios are 1, the loss of a mean over tokens
// is the divergence from the teacher.
func TestTeacherIsTheAdvantage(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, append(slices.Clone(alone), "advantage.teacher.version=0")...)
	in := inputs(r, batch(r), "same")
	in.Teacher = in.Policy
	same := update(r, in)
	if same["teacher_kl"] != 0 || same["policy_loss"] != 0 || same["grad_norm"] != 0 || same["teacher_no_room_share"] != 0 {
		t.Errorf("the policy learns from itself: %v", same)
	}
	r.Recipe.Advantage.Teacher.Path = "given"
	in = to(in, r.Path("taught"))
	in.Teacher = louder(r)
	taught := update(r, in)
	if taught["teacher_kl"] == 0 || math.Abs(taught["teacher_kl"]-taught["policy_loss"]) > 1e-6 {
		t.Errorf("the loss is %v, the divergence from the teacher %v", taught["policy_loss"], taught["teacher_kl"])
	}
	in = to(in, r.Path("again"))
	in.Policy, in.Optimizer = r.Path("taught"), ""
	in.PolicyOf = func(int) string { return r.Policy() }
	if again := update(r, in); r.Digest(r.Path("again")) == r.Digest(r.Path("taught")) || again["teacher_kl"] != taught["teacher_kl"] {
		t.Errorf("the batch has the divergence %v, and under another policy %v", taught["teacher_kl"], again["teacher_kl"])
	}
}

// louder is the folder of a policy like the rig's, of larger embeddings: not sealed, as
// another project's.
func louder(r *stagetest.Rig) string {
	r.Helper()
	_, weights, err := checkpoint.Load(r.Policy())
	r.Check(err)
	for i := range weights[0].Data {
		weights[0].Data[i] *= 1.25
	}
	r.Check(os.Mkdir(r.Path("given"), 0o755))
	r.Check(checkpoint.SaveLike(r.Path("given"), r.Policy(), weights))
	return r.Path("given")
}

// Self-distillation: the batch holds the improve prompt of each response, and the teacher's
// log-probabilities are those of the same response behind that prompt. Gradient shards give
// the same bytes, also where a later optimizer step has changed the policy.
func TestSelfDistillation(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, append(slices.Clone(alone), "advantage.teacher.context=improve", "loss.mini_batches=2", "schedule.gradient_units=4", "curriculum.name=uniform")...)
	in := inputs(r, batch(r), "want")
	in.Teacher = in.Policy
	metrics := update(r, in)
	if want := divergence(r, in); math.Abs(metrics["teacher_kl"]-want) > 1e-6 || want == 0 {
		t.Errorf("the divergence from the teacher is %v, want %v", metrics["teacher_kl"], want)
	}
	part := inputs(r, in.Batch, "")
	part.Teacher = part.Policy
	for step, name := range []string{"first", "second"} {
		part.FirstStep, part.LastStep, part.Gradients = step, step+1, nil
		for n, half := range []string{"-0.arrow", "-1.arrow"} {
			path := r.Path(name + half)
			_, err := learn.RunGradient(r.Context(), r.Job, learn.SettingsOf(r.Recipe), part, step, n, 2, path)
			r.Check(err)
			part.Gradients = append(part.Gradients, path)
		}
		part = to(part, r.Path(name))
		if got := update(r, part); got["teacher_kl"] == 0 {
			t.Errorf("step %d: gradient shards say nothing of the teacher: %v", step, got)
		}
		part.Policy, part.Optimizer = part.PolicyOutput, part.OptimizerOutput
	}
	if r.Digest(part.Policy) != r.Digest(r.Path("want")) {
		t.Error("gradient shards give another policy")
	}
}

// divergence is the mean of log p - log p_T over the batch's learned tokens, each sequence
// by itself.
func divergence(r *stagetest.Rig, in learn.Inputs) float64 {
	r.Helper()
	sequences, m, err := arrowfile.ReadBatch(r.Context(), in.Batch, seal.Options{})
	r.Check(err)
	if m.Schema.Minor != 1 {
		r.Errorf("a batch with teacher's prompts has schema %s", m.Schema)
	}
	format, err := stage.LoadChat(r.Recipe.Policy, in.Policy)
	r.Check(err)
	engine, err := backend.Open(in.Policy, backend.Options{Backend: "cpu", Threads: 1, DType: "auto", Compute: "float32"})
	r.Check(err)
	defer engine.Close()
	var sum float64
	n := 0
	for _, s := range sequences {
		var messages []shard.Message
		r.Check(json.Unmarshal([]byte(s.TeacherPrompt), &messages))
		first := slices.Index(s.LossMask, true)
		said := strings.TrimSuffix(format.Tokenizer().Decode(s.TokenIDs[first:]), r.Recipe.Policy.Chat.AssistantSuffix)
		if !strings.Contains(messages[len(messages)-1].Content, "="+said+";") { // the prompt of jobs/smoke.yaml
			r.Errorf("sample %d of %s: the teacher reads %q of the response %q", s.Sample, s.InstanceID, messages, said)
		}
		prompt, err := format.Prompt(messages)
		r.Check(err)
		ids := append(prompt, s.TokenIDs[first:]...)
		targets := append(make([]bool, len(prompt)), s.LossMask[first:]...)
		logProbs := make([]float32, len(ids))
		r.Check(engine.Forward(policy.Batch{TokenIDs: ids, Targets: targets, Offsets: []int32{0, int32(len(ids))}}, stage.Sampling(r.Recipe.Rollout), logProbs, make([]float32, len(ids))))
		for i, learned := range s.LossMask[first:] {
			if learned {
				sum += float64(s.OldLogProbs[first+i]) - float64(logProbs[len(prompt)+i])
				n++
			}
		}
	}
	return sum / float64(n)
}

// Where the teacher's prompt leaves no room for the response, the teacher has no part in
// the advantage, and the metrics say so.
func TestTeacherWithoutRoom(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, append(slices.Clone(alone), "advantage.teacher.context=improve")...)
	in := inputs(r, batch(r), "learned")
	in.Teacher = in.Policy
	in.Batch = sampledElsewhere(r, in.Batch, "long.arrow", func(s *shard.Sequence) {
		if s.Sample == 0 {
			s.TeacherPrompt = strings.ReplaceAll(s.TeacherPrompt, "=", strings.Repeat("=", 200))
		}
	})
	none := in
	none.Batch = sampledElsewhere(r, in.Batch, "none.arrow", func(s *shard.Sequence) { s.TeacherPrompt = "" })
	if _, err := learn.Run(r.Context(), r.Job, learn.SettingsOf(r.Recipe), none); err == nil || !strings.Contains(err.Error(), "has no teacher_prompt") {
		t.Errorf("a batch without prompts: %v", err)
	}
	got := update(r, in)
	if share := got["teacher_no_room_share"]; !(share > 0 && share < 0.6) {
		t.Errorf("the teacher has no room for a share of %v, want about a quarter", share)
	}
}

// A teacher with other tokens is refused with what differs; so is one that is no longer
// what it was when the run was made.
func TestTeacherIsRefused(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, append(slices.Clone(alone), "advantage.teacher.path=given")...)
	in := inputs(r, batch(r), "learned")
	other := stagetest.New(t, "policy.chat.assistant_suffix=<|stop|>")
	in.Teacher = other.Path("policy")
	r.Check(os.Mkdir(in.Teacher, 0o755))
	r.Check(warm.InitPolicy(warm.SettingsOf(other.Recipe), other.Env, in.Teacher))
	_, err := learn.Run(r.Context(), r.Job, learn.SettingsOf(r.Recipe), in)
	if err == nil || !strings.Contains(err.Error(), `is "<|end|>" and "<|stop|>"`) {
		t.Errorf("another end token: %v", err)
	}
	in.TeacherSHA256 = "0"
	if _, err = learn.Run(r.Context(), r.Job, learn.SettingsOf(r.Recipe), in); err == nil || !strings.Contains(err.Error(), "has changed since the run was made") {
		t.Errorf("another content: %v", err)
	}
	in.Teacher = louder(r)
	if in.TeacherSHA256, err = seal.ContentSHA256(r.Context(), in.Teacher); err != nil {
		t.Fatal(err)
	}
	m, err := learn.Run(r.Context(), r.Job, learn.SettingsOf(r.Recipe), in)
	r.Check(err)
	if !slices.ContainsFunc(m.Inputs, func(i seal.Input) bool { return i.ContentSHA256 == in.TeacherSHA256 }) {
		t.Errorf("the teacher is not among %+v", m.Inputs)
	}
}
