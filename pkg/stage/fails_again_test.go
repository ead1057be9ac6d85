package stage_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// refusal is what a program says of one item.
type refusal string

func (r refusal) Error() string        { return "score: " + string(r) }
func (r refusal) Is(target error) bool { return target == env.ErrOwnProgram }

func TestFailsAgain(t *testing.T) {
	t.Parallel()
	of := func(words ...string) (all []error) {
		for i, w := range words {
			all = append(all, fmt.Errorf("scoring task %q: %w", fmt.Sprint("t", i), refusal(w)))
		}
		return all
	}
	for name, c := range map[string]struct {
		failed []error
		of     int
		want   bool
	}{
		"the same for all":           {of("KeyError: 'answer' (reward.py:7)", "KeyError: 'answer' (reward.py:7)"), 2, true},
		"but for what they quote":    {of("ValueError: could not convert '12a'", "ValueError: could not convert '7'"), 2, true},
		"of items named in words":    {[]error{fmt.Errorf("scoring north: %w", refusal("no")), fmt.Errorf("scoring south: %w", refusal("no"))}, 2, true},
		"one went well":              {of("KeyError: 'answer'", "KeyError: 'answer'"), 3, false},
		"two kinds":                  {of("KeyError: 'answer'", "TypeError: no"), 2, false},
		"one alone says little":      {of("KeyError: 'answer'"), 1, false},
		"a server that is away":      {of("ConnectionError: refused", "ConnectionError: refused"), 2, false},
		"a full node":                {of("OSError: [Errno 28] No space left", "OSError: [Errno 28] No space left"), 2, false},
		"not the program's words":    {[]error{errors.New("no sandbox"), errors.New("no sandbox")}, 2, false},
		"nothing failed, none asked": {nil, 0, false},
	} {
		if got := stage.FailsAgain(c.failed, c.of); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
