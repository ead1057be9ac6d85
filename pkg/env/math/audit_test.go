package math

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/answer"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// withoutAudit leaves out what a score says for audits.

// The reason, the reference's form, and what the other verifiers say.
func TestAudit(t *testing.T) {
	t.Parallel()
	settings := answer.Settings{Verifier: answer.VerifierMath, Extract: answer.ExtractLast, Preset: "lathe"}
	grader := must.Get(answer.NewGrader(settings))(t)
	others := must.Get(otherVerifiers(settings))(t)
	e := &Env{grader: grader, others: others, settings: Settings{Answer: settings}}
	for _, test := range []struct {
		task     env.Task
		response string
		want     env.Verdict
	}{
		{env.Task{Answer: "1/2"}, `\boxed{\frac{2}{4}}`, env.Verdict{
			Reason: "equal", Form: "rational", Others: []env.Other{{Name: "exact", Right: true}, {Name: "math-verify-0.8", Right: true}},
		}},
		{env.Task{Answer: "1+2i"}, `\boxed{2 i + 1}`, env.Verdict{Reason: "equal", Form: "constant", Others: []env.Other{{Name: "exact"}, {Name: "math-verify-0.8"}}}},
		{env.Task{Answer: "5"}, "none", env.Verdict{Reason: "no answer", Form: "integer", Others: []env.Other{{Name: "exact"}, {Name: "math-verify-0.8"}}}},
		{env.Task{Answer: "5"}, `\boxed{9^{9^{9^{9}}}}`, env.Verdict{Reason: "budget", Form: "integer", Others: []env.Other{{Name: "exact"}, {Name: "math-verify-0.8"}}}},
		{env.Task{Answer: "A", Form: answer.FormOption, Choices: []string{"1", "2"}}, "(A)", env.Verdict{Reason: "equal", Form: "option"}},
	} {
		got := must.Get(e.Score(t.Context(), env.Attempt{Task: test.task, Messages: []shard.Message{{Role: roleAssistant, Content: test.response}}, Own: env.Said([]shard.Message{{Role: roleAssistant, Content: test.response}}, 0), Finish: "stop"}))(t)
		found := env.Verdict{Reason: got.Reason, Form: got.Form, Others: got.Others}
		if diff := cmp.Diff(test.want, found); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.response, diff)
		}
	}
}
