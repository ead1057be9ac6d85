package tooluse

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/env"
)

func TestRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		said  string
		end   ending
		calls string
	}{
		{"<reasoning>so</reasoning>\n<tool>[1]</tool>\n", endsCalls, "[1]"},
		{"<tool>a</tool> and <tool>b</tool>", endsCalls, "b"},
		{"no opening</tool>", endsCalls, ""},
		{"<TASK_FINISHED>", endsFinished, ""},
		{"<reasoning>never closed <TASK_FINISHED> ", endsFinished, ""},
		{"<tool>[]</tool><TASK_ERROR>", endsGivenUp, ""},
		{"<tool>[1]", endsOpen, ""},
		{"<TASK_FINISHED> or not", endsOpen, ""},
		{"<task_finished>", endsOpen, ""},
		{"", endsOpen, ""},
	} {
		if end, calls := read(c.said); end != c.end || calls != c.calls {
			t.Errorf("%q ends %d with %q, want %d with %q", c.said, end, calls, c.end, c.calls)
		}
	}
}

func TestParseList(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                       notAList,
		"x":                      notAList,
		`{"name": "f"}`:          notAList,
		`[1`:                     notAList,
		`[1] [2]`:                notAList,
		"null":                   notAList,
		"[\"\xff\"]":             notAList,
		" [ ] ":                  noCalls,
		"[1, {}]":                "",
		strings.Repeat("[", 1e6): notAList,
	} {
		if _, why := parseList(text); why != want {
			t.Errorf("%.20q: %q, want %q", text, why, want)
		}
	}
}

// The forms of calls that env.tooluse.calls any takes: ExIt App. D's one object with
// parameters, one with args, and lists of either. Nothing else becomes a call.
func TestAsList(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		` {"name": "f", "parameters": {"unlock": false}} `:                   `[{"args":{"unlock":false},"name":"f"}]`,
		`{"name": "f", "args": {"a": 1}}`:                                    `[{"args":{"a":1},"name":"f"}]`,
		`[{"name": "f", "parameters": {}}, {"name": "g", "args": {"a": 1}}]`: `[{"args":{},"name":"f"},{"args":{"a":1},"name":"g"}]`,
		`{"name": "f", "args": {}, "parameters": {"a": 1}}`:                  `[{"args":{},"name":"f","parameters":{"a":1}}]`,
		`{"name": "f", "arguments": {"a": 1}}`:                               `[{"args":{"a":1},"name":"f"}]`,
		`"name": "f", "parameters": {}`:                                      `"name": "f", "parameters": {}`,
		`[1]`:                                                                `[1]`,
		`{"name": "f"`:                                                       `{"name": "f"`,
		"":                                                                   "",
	} {
		if got := asList(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestParseCall(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		`{"name": "f", "args": {"a": [1, 2.0], "b": "<&"}}`: `f {"a":[1,2.0],"b":"<&"}`,
		`{"args": {}, "name": "", "more": 1}`:               ` {}`,
		`{"name": "f", "name": "g", "args": {}}`:            `g {}`,
		`{"Name": "f", "args": {}}`:                         "",
		`{"name": 1, "args": {}}`:                           "",
		`{"name": null, "args": {}}`:                        "",
		`{"name": "f", "args": []}`:                         "",
		`{"name": "f", "args": null}`:                       "",
		`{"name": "f"}`:                                     "",
		`"f()"`:                                             "",
		`null`:                                              "",
	} {
		call, ok := parseCall(json.RawMessage(entry))
		if got := call.Name + " " + string(call.Arguments); ok != (want != "") || ok && got != want {
			t.Errorf("%s is %q, %v; want %q", entry, got, ok, want)
		}
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"abcd": "abcd", "abcde": "abcd … (1 bytes more)", "abcéd": "abc … (3 bytes more)", "a\xffd": "a\uFFFD … (1 bytes more)"} {
		if got := clip(text, 4); got != want {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text, most := rapid.String().Draw(t, "text"), rapid.IntRange(4, 40).Draw(t, "most")
		got := clip(text, most)
		if !utf8.ValidString(got) {
			t.Fatalf("%q is cut to %q", text, got)
		}
		if len(text) <= most && got != text {
			t.Fatalf("%q is short enough, and became %q", text, got)
		}
		if kept, _, cut := strings.Cut(got, " … ("); cut && len(text) > most && (len(kept) > most || !strings.HasPrefix(text, kept)) {
			t.Fatalf("%q is cut to %q", text, got)
		}
	})
}

// FuzzEpisode: whatever a policy says, an episode goes on or ends, its
// messages are texts, and playing it again gives the same score.
func FuzzEpisode(f *testing.F) {
	for _, seed := range []string{
		`<tool>[{"name": "mkdir", "args": {"dir_name": "a"}}]</tool>`, `<tool>[{"name": "cd", "args": {"folder": {}}}, 3]</tool>`,
		taskFinished, taskError, "<tool>[1e999]</tool>", `<tool>[{"name": "echo", "args": {"content": "\ud800"}}]</tool>`, "\xff</tool>",
	} {
		f.Add(seed, seed)
	}
	e := newEnv(f, settings(small, ""))
	f.Fuzz(func(t *testing.T, first, second string) {
		for _, task := range e.Tasks("test")[:3] {
			said := []string{first, second, taskError}
			p := play(t, e, task.ID, opening(t, e, task.ID), lines(append(said, said...)...))
			for _, m := range p.conversation {
				if m.Role != roleAssistant && !utf8.ValidString(m.Content) {
					t.Errorf("message %q", m.Content)
				}
			}
			again, err := e.Score(t.Context(), env.Attempt{Task: task, Messages: p.conversation, Own: env.Said(p.conversation, 0), Finish: "stop"})
			if err != nil || again.Reward != p.verdict.Reward || again.Extracted != p.verdict.Extracted {
				t.Errorf("played again: %+v, %v; was %+v", again, err, p.verdict)
			}
		}
	})
}

// TestSolutionSteps: two reference calls in the first turn and one in the second, of which
// training plays one turn, or all.
func TestSolutionSteps(t *testing.T) {
	t.Parallel()
	const answer = `[[{"name":"f","args":{}},{"name":"g","args":{}}],[{"name":"h","args":{}}]]`
	for played, want := range map[int]int{1: 2, 2: 3, 5: 3, 0: 3} {
		s := DefaultSettings()
		s.ToolUse.Train.UserTurns = played
		if got := s.solutionSteps(answer); got != want {
			t.Errorf("%d turns: %d steps, want %d", played, got, want)
		}
	}
	for _, none := range []string{"", "42", "[1]"} {
		if got := DefaultSettings().solutionSteps(none); got != 0 {
			t.Errorf("%q has %d steps", none, got)
		}
	}
}
