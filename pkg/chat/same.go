package chat

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// shownDifferences bounds the tokens that an error names.
const shownDifferences = 3

// SameTokens refuses another policy whose token ids or end tokens mean something else than
// those of the first, and names the first of them that differ. How their templates put
// conversations together may differ.
func SameTokens(first, other Chat) error {
	a, b := first.Tokenizer(), other.Tokenizer()
	var differ []string
	for id := range int32(max(a.Size(), b.Size())) {
		if x, y := a.Piece(id), b.Piece(id); x != y || a.IsSpecial(id) != b.IsSpecial(id) {
			if len(differ) == shownDifferences {
				differ = append(differ, "…")
				break
			}
			differ = append(differ, fmt.Sprintf("id %d is %q and %q", id, x, y))
		}
	}
	if len(differ) > 0 || a.Size() != b.Size() {
		return exitcode.Usagef("its tokens are not the policy's (the policy's first, %d and %d of them): %s; a teacher needs the policy's vocabulary",
			a.Size(), b.Size(), strings.Join(differ, "; "))
	}
	name := func(c Chat) string {
		ends := slices.Sorted(slices.Values(c.StopTokens()))
		names := make([]string, len(ends))
		for i, id := range ends {
			names[i] = fmt.Sprintf("%d %q", id, c.Tokenizer().Piece(id))
		}
		return strings.Join(names, ", ")
	}
	if x, y := name(first), name(other); x != y {
		return exitcode.WithHint(exitcode.Usagef("its end tokens are %s, and the policy's are %s: it would score the end of each response by another token", y, x),
			"give both folders the same eos_token_id in generation_config.json, and templates that end a turn alike")
	}
	return nil
}
