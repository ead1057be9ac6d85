package batch

import "testing"

// A trace of two attempts. The first is a context of three messages with one turn; the
// second has the contexts user, assistant, tool, assistant, of which the first answer is the
// prompt's, and user, assistant. Its conversation has six messages, and turns of its own
// are messages 4 and 6.
func TestTurnsBetween(t *testing.T) {
	t.Parallel()
	messages := func(roles ...string) (all []author) {
		for _, role := range roles {
			all = append(all, author{role})
		}
		return all
	}
	contexts := []contextRow{
		{Step: 0, Messages: messages("system", "user", "assistant"), PromptMessages: 2, Turns: 1},
		{Step: 1, Messages: messages("user", "assistant", "tool", "assistant"), PromptMessages: 3, Turns: 1},
		{Step: 1, Messages: messages("user", "assistant"), PromptMessages: 1, Turns: 1},
	}
	for _, c := range []struct {
		step, after, within int32
		first, last         int
	}{
		{1, 0, 6, 1, 2},
		{1, 0, 4, 1, 1},
		{1, 4, 6, 2, 2},
		{1, 0, 3, 0, -1}, // before the policy has said anything
		{1, 4, 5, 0, -1},
		{0, 0, 3, 0, 0},
		{2, 0, 9, 0, -1},
	} {
		if first, last := turnsBetween(contexts, c.step, c.after, c.within); first != c.first || last != c.last {
			t.Errorf("%+v: turns %d to %d", c, first, last)
		}
	}
}
