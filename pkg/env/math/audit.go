package math

import (
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/answer"
	"github.com/lathe-rl/lathe/pkg/mathverify"
)

// namedVerifier is a verifier that a run's own is compared with.
type namedVerifier struct {
	name     string
	verifier answer.Verifier
}

// otherVerifiers are the exact one, Math-Verify's rules as published and, for
// a run with other settings, ours, all with the run's way of extraction.
func otherVerifiers(settings answer.Settings) ([]namedVerifier, error) {
	plain := answer.Settings{Extract: settings.Extract, Marker: settings.Marker}
	var others []namedVerifier
	for _, other := range []struct{ name, verifier, preset string }{
		{"exact", answer.VerifierExact, ""}, {"lathe", answer.VerifierMath, "lathe"}, {"math-verify-0.8", answer.VerifierMath, "math-verify-0.8"},
	} {
		changed := plain
		changed.Verifier, changed.Preset = other.verifier, other.preset
		verifier, err := answer.New(changed)
		if err != nil {
			return nil, err
		}
		others = append(others, namedVerifier{other.name, verifier})
	}
	return others, nil
}

// audit is the form of the reference, and what other verifiers say. Problems
// with options or a form of their own have no other score.
func (e *Env) audit(task env.Task, response string) (form string, others []env.Other) {
	if task.Form != "" && task.Form != answer.FormInteger {
		return task.Form, nil
	}
	for _, other := range e.others {
		if other.verifier != e.grader.Verifier {
			others = append(others, env.Other{Name: other.name, Right: other.verifier.Verify(task.Answer, response).Equal})
		}
	}
	return mathverify.NewReference(task.Answer).Kind(), others
}
