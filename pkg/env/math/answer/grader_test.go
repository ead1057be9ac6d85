package answer

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
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
		{ExtractLast, choice, "The answer is B.", true},
		{ExtractLast, choice, "The correct answer is option (B).", true},
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
