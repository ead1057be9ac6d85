package learn_test

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
)

// Under policy.lora the learner trains an adapter of the policy that it is
// given, or resumes the one that it is given. The reference is the policy
// without it: a new adapter diverges from it by nothing.
func TestLoRA(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "policy.lora={rank: 4, alpha: 8}", "loss.kl.coef=0.1", "loss.kl.ref_every=0")
	in := inputs(r, batch(r), "adapted")
	first := update(r, in)
	if first["reference_kl"] != 0 || first["first_step_ratio_deviation_max"] != 0 {
		t.Errorf("a new adapter changes the policy: %v", first)
	}
	next := inputs(r, in.Batch, "further")
	next.Policy, next.Optimizer, next.Reference = in.PolicyOutput, in.OptimizerOutput, ""
	if second := update(r, next); second["reference_kl"] <= 0 {
		t.Errorf("after a step the policy diverges from its reference by %g", second["reference_kl"])
	}
	m, err := seal.Read(r.Context(), next.PolicyOutput, seal.Options{})
	r.Check(err)
	var cited []string
	for _, input := range m.Inputs {
		cited = append(cited, input.Path)
	}
	if got := strings.Join(cited, " "); got != "batch.arrow adapted policy adapted.optim" {
		t.Errorf("the second adapter was made from %s", got)
	}

	path := r.Path("grad.arrow")
	_, err = learn.RunGradient(r.Context(), r.Job, learn.SettingsOf(r.Recipe), next, 0, 0, 2, path)
	r.Check(err)
	tensors, _, _, err := arrowfile.ReadTensors(r.Context(), path, seal.Options{})
	r.Check(err)
	values := 0
	for _, tensor := range tensors {
		values += len(tensor.Data)
		if !strings.Contains(tensor.Name, "/base_model.model.model.layers.") || !strings.Contains(tensor.Name, ".lora_") {
			t.Errorf("a gradient shard holds %q", tensor.Name)
		}
	}
	// Two layers of seven targets with r·(in+out) each; hidden 32, queries 32,
	// keys and values 16, MLP 64. Units 0 and 1 of 4 are one block.
	want := 2 * 4 * ((32 + 32) + 2*(32+16) + (32 + 32) + 2*(32+64) + (64 + 32))
	if values != want {
		t.Errorf("a gradient shard has %d values, want %d", values, want)
	}

	// What the recipe says is what is trained.
	for name, settings := range map[string][]string{
		"no policy.lora": {},
		"another rank":   {"policy.lora={rank: 8, alpha: 8}", "loss.kl.ref_every=0"},
	} {
		other := stagetest.New(t, settings...)
		r.Recipe = other.Recipe
		if _, err := learn.Run(r.Context(), r.Job, learn.SettingsOf(r.Recipe), next); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The update of an adapter in parts gives the bytes of one task, with a value head and with
// bfloat16 state too, and no task of it reads the weights that are adapted.
func TestAdapterInParts(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{
		"adapter":    {"loss.kl.coef=0.1"},
		"bfloat16":   {"policy.dtype=bfloat16", "optimizer.state=bfloat16", "loss.kl.coef=0"},
		"value head": append([]string{"loss.kl.coef=0"}, critic...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := stagetest.New(t, append([]string{"policy.lora={rank: 4, alpha: 8}", "loss.kl.ref_every=0", "schedule.gradient_units=5", "loss.mini_batches=2"}, settings...)...)
			data := batch(r)
			start := inputs(r, data, "adapted")
			start.Reference = ""
			update(r, start)
			whole := start
			whole.Policy, whole.Start, whole.Optimizer = start.PolicyOutput, start.PolicyOutput, start.OptimizerOutput
			whole = to(whole, r.Path("whole"))
			update(r, whole)
			parts := inParts(r, to(whole, r.Path("parts")), 2, 2)
			sameOutputs(t, r, whole, parts)
			m, err := seal.Read(r.Context(), parts.PolicyOutput, seal.Options{})
			r.Check(err)
			for _, input := range m.Inputs {
				if input.Path == "policy" {
					t.Error("the update has read the weights that are adapted")
				}
			}
		})
	}
	r := stagetest.New(t, "policy.lora={rank: 4, alpha: 8}", "loss.kl.ref_every=0")
	in := inputs(r, batch(r), "learned")
	if _, err := learn.RunSum(r.Context(), r.Job, learn.SettingsOf(r.Recipe), in, 0, 2, r.Path("sum")); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("a whole policy in place of an adapter: %v", err)
	}
}
