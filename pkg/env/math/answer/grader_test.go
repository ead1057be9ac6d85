package answer

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/mathverify"
)

// What is an answer to a multiple-choice problem, and to true or false.
func TestGrade(t *testing.T) {
	t.Parallel()
	choice := env.Task{ID: "c", Answer: "B", Form: FormOption, Choices: []string{"32400", "6000", "600", "None of these"}}
	twice := env.Task{ID: "t", Answer: "A", Form: FormOption, Choices: []string{"1/2", "0.5", "3"}}
	truth := env.Task{ID: "b", Answer: "True", Form: FormBool}
	float := env.Task{ID: "f", Answer: "2.5", Form: FormFloat}
	whole := env.Task{ID: "i", Answer: "100", Form: FormInteger}
	list := env.Task{ID: "l", Answer: "10, 20", Form: FormList}
	one := env.Task{ID: "o", Answer: "A", Form: FormOption, Choices: []string{"7"}}
	for _, test := range []struct {
		mode     string
		task     env.Task
		response string
		equal    bool
	}{
		{ExtractLast, choice, "B", true},
		{ExtractLast, choice, "b", true},
		{ExtractLast, choice, "(B)", true},
		{ExtractLast, choice, "(C)", false},
		{ExtractLast, choice, `\boxed{B}`, true},
		{ExtractLast, choice, `\boxed{\text{B}}`, true},
		{ExtractLast, choice, `$\boxed{\text{(B)}}$`, true},
		{ExtractLast, choice, `\boxed{\textbf{(B)} 6000}`, true},
		{ExtractLast, choice, `\boxed{\textbf{(B) }6000}`, true},
		{ExtractLast, choice, `\boxed{\text{\textbf{C}) 600}}`, false},
		{ExtractLast, choice, `\boxed{\textbf{B} \text{or} C}`, false},
		{ExtractLast, choice, `\boxed{B) 6000}`, true},
		{ExtractLast, choice, `\boxed{E}`, false},
		{ExtractWhole, choice, "(B", false},
		{ExtractWhole, choice, "B: 6000", true},
		{ExtractWhole, choice, "b: 6000", false}, // a small letter stands alone
		{ExtractWhole, choice, "b) 6", false},
		{ExtractWhole, choice, "B)", true},
		{ExtractWhole, choice, "B:", true},
		{ExtractWhole, choice, "B}", false},
		{ExtractWhole, choice, `\text{}B`, true},
		{ExtractWhole, choice, "(B) 6", true},
		{ExtractLast, choice, "Not A.\n(B)", true},
		{ExtractLast, one, "7", true},
		{ExtractWhole, one, "a", true},
		{ExtractWhole, one, "@", false}, // before A
		{ExtractWhole, one, "(", false},
		{ExtractLast, choice, "The answer is B.", true},
		{ExtractLast, choice, "The correct answer is option (B).", true},
		{ExtractLast, choice, "The answer is B, since 6 is too few.", true},
		{ExtractLast, choice, "The answer is (B) because A is not.", true},
		{ExtractLast, choice, "The answer is **B**: it fits.", true},
		{ExtractLast, choice, "Answer: \"B\"", true},
		{ExtractLast, choice, "The answer is **Option B**.", true},
		{ExtractLast, choice, "Therefore the correct option is B.", true},
		{ExtractLast, choice, `\boxed{\text{Option B}}`, true},
		{ExtractLast, choice, "The answer is C, since 6000 is too much.", false},
		{ExtractLast, choice, "The answer is B, C", false},
		{ExtractLast, choice, "The answer is B or (C).", false},
		{ExtractLast, choice, "The answer is Because.", false},
		{ExtractLast, choice, "**Answer: B**", true},
		{ExtractLast, choice, "Not A. Not C.\nB) 6000", true},
		{ExtractLast, choice, "The answer is C.", false},
		{ExtractLast, choice, "A bird flies, so the speed is 6000", true},
		{ExtractLast, choice, `\boxed{6000}`, true},
		{ExtractLast, choice, "The answer is 6,000.", true},
		{ExtractLast, choice, `\boxed{600}`, false},
		{ExtractLast, choice, "A B C D", false},
		{ExtractLast, choice, `The answer is B. \boxed{C}`, false},
		{ExtractLast, choice, "", false},
		{ExtractLast, twice, "A", true},
		{ExtractLast, twice, `\boxed{\frac12}`, false}, // the text of two options
		{ExtractWhole, choice, " (B) ", true},
		{ExtractWhole, choice, "6000", true},
		{ExtractWhole, choice, "I think B", false},
		{ExtractMarked, choice, "#### B", true},
		{ExtractMarked, choice, "B", false},
		{ExtractBoxed, choice, `C, but \boxed{B}`, true},
		{ExtractBoxed, choice, "B", false},
		{ExtractLast, truth, "The answer is True.", true},
		{ExtractLast, truth, `\boxed{\text{yes}}`, true},
		{ExtractLast, truth, "The answer is no.", false},
		{ExtractLast, float, "2.45", true},
		{ExtractLast, float, "2.2", false},
		{ExtractLast, whole, "99", false},
		{ExtractWhole, whole, "100", true},
		{ExtractMarked, whole, "3 and 4\n#### 100", true},
		{ExtractMarked, whole, "100", false},
		{ExtractBoxed, whole, `7, so \boxed{100} and 8`, true},
		{ExtractLast, list, `\boxed{20.1, 9.9}`, true},
		{ExtractLast, list, `\boxed{20.1}`, false},
	} {
		grader, err := NewGrader(Settings{Verifier: VerifierMath, Extract: test.mode, Marker: "####", Tolerance: 0.04})
		if err != nil {
			t.Fatal(err)
		}
		if v := grader.Grade(test.task, test.response); v.Equal != test.equal {
			t.Errorf("%s, %s: %q is %v: %+v", test.mode, test.task.ID, test.response, v.Equal, v)
		}
	}
}

// What a grader says of a response: the reason of its score, whether it could be read, and
// the text that it took for the answer.
func TestGradeSays(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("^", mathverify.MaxExtracted+1)
	number := func(gold string) env.Task { return env.Task{Answer: gold} }
	choice := env.Task{Answer: "A", Choices: []string{"1/2", "0.5", "3"}}
	for _, test := range []struct {
		settings  Settings
		task      env.Task
		response  string
		reason    mathverify.Reason
		judgement string
		extracted string
	}{
		{Settings{Verifier: VerifierExact, Extract: ExtractWhole}, number(" "), "x", mathverify.ReasonNoReference, unreadable, ""},
		{Settings{Verifier: VerifierExact, Extract: ExtractWhole}, number("5"), "", mathverify.ReasonNoAnswer, unreadable, ""},
		{Settings{Verifier: VerifierExact, Extract: ExtractWhole}, number("5"), "five", mathverify.ReasonUnreadable, unreadable, "five"},
		{Settings{Verifier: VerifierExact, Extract: ExtractLast}, number("5"), "5e", mathverify.ReasonEqual, equal, "5"},
		{Settings{Verifier: VerifierExact, Extract: ExtractLast}, number("5"), "5e1", mathverify.ReasonUnreadable, unreadable, "5e1"},
		{Settings{Verifier: VerifierExact, Extract: ExtractLast}, number("-5"), "--5", mathverify.ReasonUnreadable, unreadable, "--5"},
		{Settings{Verifier: VerifierExact, Extract: ExtractLast}, number("5"), "6", mathverify.ReasonUnequal, wrong, "6"},
		{Settings{Verifier: VerifierExact, Extract: ExtractWhole}, number("a"), strings.Repeat("a", MaxBytes), mathverify.ReasonUnequal, wrong, strings.Repeat("a", mathverify.MaxExtracted)},
		{Settings{Verifier: VerifierExact, Extract: ExtractWhole}, number("a"), strings.Repeat("a", MaxBytes+1), mathverify.ReasonUnreadable, unreadable, strings.Repeat("a", mathverify.MaxExtracted)},
		{Settings{Verifier: VerifierMath, Extract: ExtractBoxed}, number("5"), "5", mathverify.ReasonNoAnswer, unreadable, ""},
		{Settings{Verifier: VerifierMath, Extract: ExtractBoxed}, number("5"), `\boxed{6}`, mathverify.ReasonUnequal, wrong, "6"},
		{Settings{Verifier: VerifierMath, Extract: ExtractBoxed}, number("5"), `\boxed{5}`, mathverify.ReasonEqual, equal, "5"},
		{Settings{Verifier: VerifierMath, Extract: ExtractWhole}, number("5"), "^", mathverify.ReasonUnreadable, unreadable, "^"},
		{Settings{Verifier: VerifierMath, Extract: ExtractWhole}, number("^ a"), "^ A.", mathverify.ReasonSameText, equal, "^ A."},
		{Settings{Verifier: VerifierMath, Extract: ExtractWhole}, number(long), long, mathverify.ReasonSameText, equal, long[1:]}, // longer than what is kept of it
		{Settings{Verifier: VerifierMath, Extract: ExtractWhole}, number(long[1:]), long, mathverify.ReasonUnreadable, unreadable, long[1:]},
		{Settings{Verifier: VerifierExact, Extract: ExtractWhole}, number("a"), "a" + strings.Repeat(" ", 2*mathverify.MaxExtracted) + "b", mathverify.ReasonUnequal, wrong, "a" + strings.Repeat(" ", mathverify.MaxExtracted-1)},
		{Settings{Verifier: VerifierMath, Extract: ExtractWhole}, choice, "A", mathverify.ReasonEqual, equal, "A"},
		{Settings{Verifier: VerifierMath, Extract: ExtractWhole}, choice, "C", mathverify.ReasonUnequal, wrong, "C"},
		{Settings{Verifier: VerifierMath, Extract: ExtractWhole}, choice, "D", mathverify.ReasonUnequal, wrong, "D"}, // no option
		{Settings{Verifier: VerifierMath, Extract: ExtractWhole}, choice, "1/2", mathverify.ReasonUnequal, wrong, "1/2"},
		{Settings{Verifier: VerifierMath, Extract: ExtractBoxed}, choice, "A", mathverify.ReasonNoAnswer, unreadable, ""},
		{Settings{Verifier: VerifierExact, Extract: ExtractLast}, choice, "it is 3", mathverify.ReasonUnequal, wrong, "3"},
		{Settings{Verifier: VerifierExact, Extract: ExtractBoxed}, env.Task{Answer: "C", Choices: choice.Choices}, `\boxed{3}`, mathverify.ReasonEqual, equal, "3"},
		{Settings{Verifier: VerifierExact, Extract: ExtractLast}, env.Task{Answer: "False", Form: FormBool}, "No", mathverify.ReasonEqual, equal, "No"},
		{Settings{Verifier: VerifierExact, Extract: ExtractLast}, env.Task{Answer: "no", Form: FormBool}, "False", mathverify.ReasonUnequal, wrong, "False"},
	} {
		grader := must.Get(NewGrader(test.settings))(t)
		if v := grader.Grade(test.task, test.response); v.Reason != string(test.reason) || judgement(v) != test.judgement || v.Extracted != test.extracted || v.Why == "" {
			t.Errorf("%+v: %q is %+v, want %q, %s, of %q", test.task, mathverify.Clip(test.response), v, test.reason, test.judgement, test.extracted)
		}
	}
}

// Letters with another number of bytes in lower case, and bytes that are no
// letters, do not move the answer that is announced behind them.
func TestAnnouncedLetterBehindOddText(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "300 \u212a. ", "\u0130\u0130\u0130\u0130\u0130\u0130\u0130\u0130 ", "\xff\xff\xff "} {
		if got, ok := announcedLetter(before+"The ANSWER is B\nNext", 3); got != "B" || !ok {
			t.Errorf("behind %q: got %q, %v", before, got, ok)
		}
	}
}
