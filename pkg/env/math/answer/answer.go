// Package answer verifies short answers: it finds the answer in a response and
// compares it with a problem's reference, exactly ([Exact]) or by the rules of
// package mathverify ([Symbolic]). A [Grader] adds what depends on the form of
// a problem's answer.
package answer

import (
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Verifier scores a response against a reference answer. It is total: no
// response makes it fail, hang or use memory beyond a small multiple of the
// response; and it is a function of its arguments alone.
type Verifier interface {
	Verify(gold, response string) Verification
}

// Verification is what a verifier found.
type Verification struct {
	Extracted string // the answer's text, at most mathverify.MaxExtracted bytes of it, valid UTF-8; empty when there is none
	Readable  bool   // the text is an answer of the reference's form, right or wrong
	Equal     bool   // it is the reference answer; never true without Readable
	Reason    string // of the score, for audits: one of mathverify's reasons
	Why       string // one sentence; it never tells the reference answer
}

// MaxBytes bounds the bytes of a reference answer.
const MaxBytes = 2048

// New makes the verifier that a recipe names.
func New(settings Settings) (Verifier, error) {
	switch settings.Verifier {
	case VerifierExact:
		return NewExact(settings)
	case VerifierMath:
		return NewSymbolic(settings)
	}
	return nil, exitcode.Usagef("env.answer.verifier is %q: it must be %s or %s", settings.Verifier, VerifierMath, VerifierExact)
}

// The names of the verifiers (recipe, env.answer.verifier).
const (
	VerifierMath  = "math"
	VerifierExact = "exact"
)

func checkAnswer(settings Settings) error {
	switch settings.Extract {
	case ExtractWhole, ExtractLast, ExtractBoxed:
	case ExtractMarked:
		if settings.Marker == "" || strings.Contains(settings.Marker, "\n") {
			return exitcode.Usagef("env.answer.marker is %q: extract: marked needs a marker of one line, for example \"####\"", settings.Marker)
		}
	default:
		return exitcode.Usagef("env.answer.extract is %q: it must be whole, last, marked or boxed", settings.Extract)
	}
	if settings.DecimalPlaces < 0 || settings.DecimalPlaces > MaxDigits {
		return exitcode.Usagef("env.answer.decimal_places is %d: it must be in [0, %d]", settings.DecimalPlaces, MaxDigits)
	}
	return nil
}
