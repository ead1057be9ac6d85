package learn_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
)

// divided seals the rig's policy in files of at most so many bytes.
func divided(r *stagetest.Rig, bytes int64) string {
	r.Helper()
	to := r.Path(fmt.Sprintf("files-%d", bytes))
	if _, err := seal.Read(r.Context(), to, seal.Options{}); err == nil {
		return to
	}
	w, err := seal.CreateFolder(to, r.Job.Attempt)
	r.Check(err)
	r.Check(checkpoint.Convert(r.Policy(), w.Path(), "", bytes))
	_, err = w.Commit(seal.Manifest{})
	r.Check(err)
	return to
}

// from are inputs of the first update of a policy that lies in another folder.
func from(in learn.Inputs, folder string) learn.Inputs {
	in.Policy, in.Start = folder, folder
	if in.Critic != "" {
		in.Critic, in.StartCritic = folder, folder
	}
	if in.Reference != "" {
		in.Reference = folder
	}
	return in
}

// inParts takes the optimizer steps of an iteration by gradient shards and an update in
// parts, and returns the inputs of the last step.
func inParts(r *stagetest.Rig, in learn.Inputs, gradients, parts int) learn.Inputs {
	r.Helper()
	s := learn.SettingsOf(r.Recipe)
	s.GradientShards = gradients
	final, folder := in, in.PolicyOutput
	run := func(count int, name string, task func(n int, path string) error) (paths []string) {
		for n := range count {
			path := fmt.Sprintf("%s-%s-%d", folder, name, n)
			r.Check(task(n, path))
			paths = append(paths, path)
		}
		return paths
	}
	for step := in.FirstStep; step < final.LastStep; step++ {
		in.FirstStep, in.LastStep, in.ReferenceOutput = step, step+1, ""
		in = to(in, fmt.Sprintf("%s-step%d", folder, step))
		if step+1 == final.LastStep {
			in, in.ReferenceOutput = to(in, folder), final.ReferenceOutput
		}
		in.Gradients = nil
		computed := run(gradients, fmt.Sprint("grad", step), func(n int, path string) error {
			_, err := learn.RunGradient(r.Context(), r.Job, s, in, step, n, gradients, path)
			return err
		})
		in.Gradients = computed
		sums := run(parts, fmt.Sprint("sum", step), func(n int, path string) error {
			_, err := learn.RunSum(r.Context(), r.Job, s, in, n, parts, path)
			return err
		})
		in.Gradients = sums
		in.Parts = run(parts, fmt.Sprint("part", step), func(n int, path string) error {
			_, err := learn.RunApply(r.Context(), r.Job, s, in, n, parts, path)
			return err
		})
		_, err := learn.RunGather(r.Context(), r.Job, s, in)
		r.Check(err)
		last := in
		in = after(in, "")
		if step+1 == final.LastStep {
			return last
		}
	}
	return in
}

// state is the optimizer's state in a folder, by name.
func state(r *stagetest.Rig, folder string) (tensors map[string]policy.Tensor, steps int) {
	r.Helper()
	kept, err := checkpoint.OpenState(folder, nil)
	r.Check(err)
	list, err := policy.ReadState(kept)
	r.Check(err)
	r.Check(kept.Close())
	tensors = map[string]policy.Tensor{}
	for _, t := range list {
		tensors[t.Name] = t
	}
	return tensors, kept.Steps
}

// An update in parts gives the bytes of one task, for any number of gradient shards and
// of parts, more than there are files too: of the policy, of a critic and of a refreshed
// reference, and every number of the optimizer's state. The next update goes on from it
// either way.
func TestUpdateInParts(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{
		"float32":        {},
		"bfloat16":       {"policy.dtype=bfloat16"},
		"random":         {"policy.dtype=bfloat16", "optimizer.state=bfloat16"},
		"float32 random": {"optimizer.state=bfloat16"},
		"products":       {"policy.compute=bfloat16"},
		"reference":      {"loss.kl.coef=0.1", "loss.kl.ref_every=1", "loss.kl.ref_alpha=0.25"},
		"value head":     append([]string{"loss.epochs=1"}, critic...),
		"clipped head":   append([]string{"loss.value.learning_rate=1e-2", "loss.value.max_grad_norm=0.01"}, critic...),
		"critic":         append([]string{"policy.critic=model", "loss.value.learning_rate=1e-2", "optimizer.state=bfloat16"}, critic...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := stagetest.New(t, append([]string{"schedule.gradient_units=5", "loss.mini_batches=2", "schedule.micro_batch_tokens=24"}, settings...)...)
			data := batch(r)
			start := divided(r, 3000)
			whole := from(inputs(r, data, "whole"), start)
			if r.Recipe.Loss.KL.Coef != 0 && r.Recipe.Loss.KL.RefEvery > 0 {
				whole.ReferenceOutput = r.Path("whole.ref")
			}
			want := update(r, whole)
			files, err := filepath.Glob(filepath.Join(whole.PolicyOutput, "model-*.safetensors"))
			r.Check(err)
			if len(files) < 4 {
				t.Fatalf("the policy is in %d files: the test shows nothing", len(files))
			}
			for _, cut := range [][2]int{{1, 2}, {3, 40}} {
				in := from(inputs(r, data, fmt.Sprintf("parts-%d-%d", cut[0], cut[1])), start)
				if whole.ReferenceOutput != "" {
					in.ReferenceOutput = in.PolicyOutput + ".ref"
				}
				got := inParts(r, in, cut[0], cut[1])
				sameOutputs(t, r, whole, got)
				m, err := seal.Read(r.Context(), got.PolicyOutput, seal.Options{})
				r.Check(err)
				if m.Metrics["optimizer_steps"] != 1 || !(m.Metrics["grad_norm"] > 0) || m.Metrics["skipped_steps"] != 0 {
					t.Errorf("metrics of the last step %v, of all in one task %v", m.Metrics, want)
				}
				if cut[1] != 2 {
					continue
				}
				one, other := after(whole, r.Path("on-whole")), after(got, r.Path("on-parts"))
				other.FirstStep, other.LastStep, other.Gradients, other.ReferenceOutput = 0, whole.LastStep, nil, ""
				one.ReferenceOutput = ""
				one.Start, other.Start, one.StartCritic, other.StartCritic = one.Policy, other.Policy, one.Critic, other.Critic
				update(r, one)
				update(r, other)
				sameOutputs(t, r, one, other)
			}
		})
	}
}

// sameOutputs compares what two updates made.
func sameOutputs(t *testing.T, r *stagetest.Rig, want, got learn.Inputs) {
	t.Helper()
	for _, folder := range [][2]string{{want.PolicyOutput, got.PolicyOutput}, {want.CriticOutput, got.CriticOutput}, {want.ReferenceOutput, got.ReferenceOutput}} {
		if folder[0] != "" && r.Digest(folder[0]) != r.Digest(folder[1]) {
			t.Errorf("%s is not the same as %s", folder[1], folder[0])
		}
	}
	for _, folder := range [][2]string{{want.OptimizerOutput, got.OptimizerOutput}, {want.CriticOptimizerOutput, got.CriticOptimizerOutput}} {
		if folder[0] == "" {
			continue
		}
		a, steps := state(r, folder[0])
		b, also := state(r, folder[1])
		if d := cmp.Diff(a, b); d != "" || steps != also {
			t.Errorf("the state in %s, after %d steps, is not that in %s, after %d:\n%.500s", folder[1], also, folder[0], steps, d)
		}
	}
}

// However a policy is cut into files and its update into tasks, and whichever of them
// run twice, its numbers are the same.
func TestAnyPartsGiveTheSameBytes(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "schedule.gradient_units=5", "loss.mini_batches=1", "schedule.micro_batch_tokens=24", "policy.dtype=bfloat16", "optimizer.state=bfloat16")
	data := batch(r)
	whole := inputs(r, data, "whole")
	update(r, whole)
	settings := learn.SettingsOf(r.Recipe)
	var gradients [][]string
	for shards := 1; shards <= 5; shards += 2 {
		settings.GradientShards = shards
		var paths []string
		for n := range shards {
			path := r.Path(fmt.Sprintf("gradient-%d-%d", shards, n))
			_, err := learn.RunGradient(r.Context(), r.Job, settings, whole, 0, n, shards, path)
			r.Check(err)
			paths = append(paths, path)
		}
		gradients = append(gradients, paths)
	}
	want := weights(r, whole.PolicyOutput)
	cuts := rapid.Custom(func(rt *rapid.T) learn.Inputs {
		tried := rapid.Uint64().Draw(rt, "name")
		in := from(inputs(r, data, fmt.Sprint("learned", tried)), divided(r, int64(rapid.IntRange(500, 40000).Draw(rt, "bytes of a file"))))
		in.Gradients = rapid.SampledFrom(gradients).Draw(rt, "gradient shards")
		parts := rapid.IntRange(1, 4).Draw(rt, "parts")
		each := func(name string, task func(n int, path string) error) (paths []string) {
			for n := range parts {
				path := fmt.Sprintf("%s-%s-%d", in.PolicyOutput, name, n)
				r.Check(task(n, path))
				if rapid.Bool().Draw(rt, "killed before its seal was seen") {
					r.Check(task(n, path))
				}
				paths = append(paths, path)
			}
			return paths
		}
		in.Gradients = each("sum", func(n int, path string) error {
			_, err := learn.RunSum(r.Context(), r.Job, settings, in, n, parts, path)
			return err
		})
		in.Parts = each("part", func(n int, path string) error {
			_, err := learn.RunApply(r.Context(), r.Job, settings, in, n, parts, path)
			return err
		})
		_, err := learn.RunGather(r.Context(), r.Job, settings, in)
		r.Check(err)
		if d := cmp.Diff(want, weights(r, in.PolicyOutput)); d != "" {
			t.Errorf("other weights than of one task, in %d parts, of a policy like %s:\n%.500s", parts, in.Policy, d)
		}
		return in
	})
	for i := range 6 { // each some twenty sealed files
		cuts.Example(i)
	}
}

// A task of an update in parts that is stopped seals nothing and is made again.
func TestStoppedPart(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "schedule.gradient_units=2", "loss.mini_batches=1")
	in := from(inputs(r, batch(r), "learned"), divided(r, 3000))
	s := learn.SettingsOf(r.Recipe)
	_, err := learn.RunGradient(r.Context(), r.Job, s, in, 0, 0, 1, r.Path("gradient"))
	r.Check(err)
	in.Gradients = []string{r.Path("gradient")}
	_, err = learn.RunSum(r.Context(), r.Job, s, in, 0, 1, r.Path("sum"))
	r.Check(err)
	in.Gradients = []string{r.Path("sum")}
	stopped, stop := context.WithCancel(r.Context())
	stop()
	if _, err := learn.RunApply(stopped, r.Job, s, in, 0, 1, r.Path("part")); err == nil {
		t.Fatal("a stopped task says that it is done")
	}
	if left, err := filepath.Glob(r.Path("*part*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
