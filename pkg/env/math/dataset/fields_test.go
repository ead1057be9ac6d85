package dataset

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env/math/answer"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// object is a line's fields.
func object(t *testing.T, line string) (fields map[string]json.RawMessage) {
	t.Helper()
	must.Do(t, json.Unmarshal([]byte(line), &fields))
	return fields
}

// TestTask: what each field may be, at its bounds, and what is said of one that is something else.
func TestTask(t *testing.T) {
	t.Parallel()
	many := strings.TrimSuffix(strings.Repeat(`"o",`, 27), ",")
	long := strings.Repeat("x", answer.MaxBytes)
	for _, c := range []struct {
		line   string
		fields Fields // the question is q, and the answer a, unless it is said
		want   string // id, kind, level, question, answer, form and options; or a part of the fault
	}{
		{`{"q": " ? ", "a": "1,234"}`, Fields{}, "s/3 s 0 ? 1234"},
		{`{"q": "?", "a": 5, "i": 7, "k": true, "l": 3.0}`, Fields{ID: "i", Kind: "k", Level: "l"}, "s/7 true 3 ? 5"},
		{`{"q": "?", "a": 5, "i": "x"}`, Fields{ID: "i", Kind: "=K", Level: "=-4"}, "s/x K -4 ? 5"},
		{`{"q": "?", "a": 5, "i": " "}`, Fields{ID: "i"}, `field "i" is a string: an id must be`},
		{`{"q": "?", "a": 5, "i": [1]}`, Fields{ID: "i"}, `field "i" is a list: an id must be`},
		{`{"q": "?", "a": 5, "k": [1]}`, Fields{Kind: "k"}, `field "k" is a list: a kind must be`},
		{`{"q": "?", "a": 5, "l": 2147483647}`, Fields{Level: "l"}, "s/3 s 2147483647 ? 5"},
		{`{"q": "?", "a": 5, "l": 2147483648}`, Fields{Level: "l"}, `field "l" is 2147483648: a level must be`},
		{`{"q": "?", "a": 5, "l": [1]}`, Fields{Level: "l"}, `field "l" is [1]: a level must be`},
		{`{"q": "?", "a": 5, "l": "x"}`, Fields{Level: "l"}, `field "l" is "x": a level must be`},
		{`{"a1": 1, "a2": 1, "a3": 1, "a4": 1, "a5": 1, "a6": 1, "a7": 1, "a8": 1}`, Fields{}, `no field "q"; the line has "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8": set data.train.fields.question`},
		{`{"a1": 1, "a2": 1, "a3": 1, "a4": 1, "a5": 1, "a6": 1, "a7": 1, "a8": 1, "a9": 1}`, Fields{}, `"a8" and 1 more: set`},
		{`{}`, Fields{}, `the line has no fields: set`},
		{`{"q": 5, "a": 5}`, Fields{}, `field "q" is a number: a question must be a string`},
		{`{"q": " ", "a": 5}`, Fields{}, `field "q" is empty: a problem needs a question`},
		{`{"q": " x ", "n": 1, "t": true, "a": 5}`, Fields{Question: " {q} {n} {t}{n} "}, "s/3 s 0 x 1 true1 5"},
		{`{"q": [1], "a": 5}`, Fields{Question: "so {q}"}, `field "q" is a list: a question is made of`},
		{`{"{q}": "x", "a": 5}`, Fields{Question: "{q}"}, "s/3 s 0 x 5"},
		{`{"choices": "x", "a": 5}`, Fields{Question: "{choices}"}, "s/3 s 0 x 5"},
		{`{"q": "?", "a": "A", "o": ["A. Lincoln", "C) y"]}`, Fields{Choices: "o", AnswerFrom: fromLetter}, "s/3 s 0 ? A option [A. Lincoln C) y]"}, // not all have their letter
		{`{"q": "?", "a": "(b). ", "o": ["(A) x", "B. y"]}`, Fields{Choices: "o", AnswerFrom: fromLetter}, "s/3 s 0 ? B option [x y]"},
		{`{"q": "?", "a": "A", "o": ["A: x", "B) y", "C)"]}`, Fields{Choices: "o", AnswerFrom: fromLetter}, "s/3 s 0 ? A option [x y C)]"},
		{`{"q": "?", "a": "AB", "o": ["x", "y"]}`, Fields{Choices: "o", AnswerFrom: fromLetter}, `must be the letter of one of 2 options`},
		{`{"q": "?", "a": "", "o": ["x", "y"]}`, Fields{Choices: "o", AnswerFrom: fromLetter}, `must be the letter of`},
		{`{"q": "?", "a": "@", "o": ["x", "y"]}`, Fields{Choices: "o", AnswerFrom: fromLetter}, `must be the letter of`},
		{`{"q": "?", "a": 1, "o": ["x", 2]}`, Fields{Choices: "o", AnswerFrom: fromPosition}, "s/3 s 0 ? B option [x 2]"},
		{`{"q": "?", "a": 2, "o": ["x", "y"]}`, Fields{Choices: "o", AnswerFrom: fromPosition}, `must be the position of`},
		{`{"q": "?", "a": -1, "o": ["x", "y"]}`, Fields{Choices: "o", AnswerFrom: fromPosition}, `must be the position of`},
		{`{"q": "?", "a": 2, "o": ["x", "y"]}`, Fields{Choices: "o", AnswerFrom: fromNumber}, "s/3 s 0 ? B option [x y]"},
		{`{"q": "?", "a": 0, "o": ["x", "y"]}`, Fields{Choices: "o", AnswerFrom: fromNumber}, `must be the number of`},
		{`{"q": "?", "a": 1.0, "o": ["x", "y"]}`, Fields{Choices: "o", AnswerFrom: fromPosition}, "s/3 s 0 ? B option [x y]"},
		{`{"q": "?", "a": 1.5, "o": ["x", "y"]}`, Fields{Choices: "o", AnswerFrom: fromPosition}, `must be the position of`},
		{`{"q": "?", "a": "nan"}`, Fields{}, `field "a" is not a number: a problem needs`},
		{`{"q": "?", "a": "two", "o": ["x", "y"]}`, Fields{Choices: "o", AnswerFrom: fromNumber}, `must be the number of`},
		{`{"q": "?", "a": "z", "o": ["x", "y"]}`, Fields{Choices: "o", AnswerFrom: fromOptionText}, `must be the option text of one of 2 options`},
		{`{"q": "?", "a": "B", "o": {"B": "y", "A": "x"}}`, Fields{Choices: "o", AnswerFrom: fromLetter}, "s/3 s 0 ? B option [x y]"},
		{`{"q": "?", "a": "B", "A": "x", "B": 2}`, Fields{Choices: "A, B", AnswerFrom: fromLetter}, "s/3 s 0 ? B option [x 2]"},
		{`{"q": "?", "a": "B", "A": "x", "B": "y"}`, Fields{Choices: "A,C", AnswerFrom: fromLetter}, `no field "C"; the line has "A", "B", "a", "q": set data.train.fields.choices`},
		{`{"q": "?", "a": "B", "A": "x", "B": " "}`, Fields{Choices: "A,B", AnswerFrom: fromLetter}, `option B of field "A,B" is a string: an option must be`},
		{`{"q": "?", "a": "B", "A,B": ["x", "y"]}`, Fields{Choices: "A,B", AnswerFrom: fromLetter}, "s/3 s 0 ? B option [x y]"},
		{`{"q": "?", "a": "A", "o": {"A": "x", "C": "y"}}`, Fields{Choices: "o", AnswerFrom: fromLetter}, `field "o" is an object of 2: options must be a list of 2 to 26, or an object with the names A, B and so on`},
		{`{"q": "?", "a": "A", "o": "x"}`, Fields{Choices: "o", AnswerFrom: fromLetter}, `field "o" is a string of 0: options must be a list of 2 to 26`},
		{`{"q": "?", "a": "A", "o": [` + many + `]}`, Fields{Choices: "o", AnswerFrom: fromLetter}, `a list of 27: options`},
		{`{"q": "?", "a": "Z", "o": [` + many[4:] + `]}`, Fields{Choices: "o", AnswerFrom: fromLetter}, "s/3 s 0 ? Z option [" + strings.TrimSpace(strings.Repeat("o ", 26)) + "]"},
		{`{"q": "?", "a": "A", "o": ["x", [1]]}`, Fields{Choices: "o", AnswerFrom: fromLetter}, `option B of field "o" is a list: an option`},
		{`{"q": "?", "a": "A", "o": ["x", " "]}`, Fields{Choices: "o", AnswerFrom: fromLetter}, `option B of field "o" is a string: an option`},
		{`{"q": "?", "a": "A", "o": [{"t": "x"}, {"u": "y"}]}`, Fields{Choices: "o", ChoiceText: "t", AnswerFrom: fromLetter}, `option B of field "o" has no "t": set data.train.fields.choice_text`},
		{`{"q": "?", "w": "y"}`, Fields{Wrong: []string{"w"}, AnswerFrom: fromOptionText}, `no field "a"; the line has "q", "w": set data.train.fields.answer`},
		{`{"q": "?", "a": "y"}`, Fields{Wrong: []string{"w"}, AnswerFrom: fromOptionText}, `no field "w"; the line has "a", "q": set data.train.fields.wrong`},
		{`{"q": "?", "a": "y", "w": " "}`, Fields{Wrong: []string{"w"}, AnswerFrom: fromOptionText}, `field "w" is a string: an option must be`},
		{`{"q": "?", "a": "y", "w": [1]}`, Fields{Wrong: []string{"w"}, AnswerFrom: fromOptionText}, `field "w" is a list: an option must be`},
		{`{"q": "?", "a": 5, "f": " INT "}`, Fields{Form: "f"}, "s/3 s 0 ? 5 integer"},
		{`{"q": "?", "a": [1, true, "x", 2e1]}`, Fields{Form: "=list"}, "s/3 s 0 ? 1, True, x, 20 list"},
		{`{"q": "?", "a": []}`, Fields{Form: "=list"}, `field "a" is empty: a problem needs an answer`},
		{`{"q": "?", "a": [[1]]}`, Fields{Form: "=list"}, `field "a" has a list in its list`},
		{`{"q": "?", "a": [1]}`, Fields{}, `field "a" is a list: an answer must be`},
		{`{"q": "?", "a": null}`, Fields{}, `field "a" is null: an answer must be`},
		{`{"q": "?", "a": false}`, Fields{}, "s/3 s 0 ? False"},
		{`{"q": "?", "a": 1e401}`, Fields{}, `field "a" is the number 1e401: its exponent must be in [-400, 400]`},
		{`{"q": "?", "a": " "}`, Fields{}, `field "a" is empty: a problem`},
		{`{"q": "?", "a": "x"}`, Fields{AnswerMarker: "####"}, `field "a" has no "####": the answer must follow it`},
		{`{"q": "?", "a": "1 #### 2 #### 3"}`, Fields{AnswerMarker: "####"}, "s/3 s 0 ? 3"},
		{`{"q": "?", "a": "#### "}`, Fields{AnswerMarker: "####"}, `field "a" is empty after the last "####": a problem`},
		{`{"q": "?", "a": "\\boxed{ }"}`, Fields{AnswerFrom: fromBoxed}, `field "a" has no answer: the last`},
		{`{"q": "?", "a": "` + long + `"}`, Fields{}, "s/3 s 0 ? " + long},
		{`{"q": "?", "a": "` + long + `x"}`, Fields{}, fmt.Sprintf(`field "a" has %d bytes: an answer has at most %d`, answer.MaxBytes+1, answer.MaxBytes)},
	} {
		source := Source{Fields: c.fields}
		if source.Fields.Question == "" {
			source.Fields.Question = "q"
			if c.fields.Choices != "" || c.fields.Wrong != nil {
				source.Fields.Question = "{q}"
			}
		}
		source.Fields.Answer = "a"
		task, fault := (&reader{where: "data.train", stem: "s", source: source}).task(3, object(t, c.line))
		got := strings.TrimSpace(fmt.Sprintf("%s %s %d %s %s %s", task.ID, task.Kind, task.Level, task.Question, task.Answer, task.Form))
		if task.Choices != nil {
			got += fmt.Sprint(" ", task.Choices)
		}
		if fault == "" && got != c.want || fault != "" && !strings.Contains(fault, c.want) {
			t.Errorf("%s: %q, fault %q; want %q", c.line, got, fault, c.want)
		}
	}
	for text, want := range map[string]string{
		"5": "5", "1e3": "1000", "-2.5E-1": "-0.25", "1e400": "1" + strings.Repeat("0", 400), "1e401": "", "1e-401": "", "0e5": "0", "1.50e1": "15", "1e": "", "xe1": "",
		strings.Repeat("1", answer.MaxDigits/2) + "e0": strings.Repeat("1", answer.MaxDigits/2), strings.Repeat("1", answer.MaxDigits/2+1) + "e0": "",
	} {
		if got, ok := plainNumber(text); got != want || ok != (want != "") {
			t.Errorf("%s without an exponent: %q, %v", text, got, ok)
		}
	}
	for path, want := range map[string]string{"a": `{"b": [1, {"c": 2}]}`, "a.b": `[1, {"c": 2}]`, "a.b.0": "1", "a.b.1.c": "2", "a.b.2": "", "a.b.-1": "", "a.b.x": "", "a.c": "", "b": "", "a.b.0.c": "", "d.e": "3", "d": ""} {
		got, ok := Lookup(object(t, `{"a": {"b": [1, {"c": 2}]}, "d.e": 3}`), path)
		if string(got) != want || ok != (want != "") {
			t.Errorf("at %s: %s, %v", path, got, ok)
		}
	}
}

// TestRow: a row may lack all but its question, which may be messages; its answer may be anything; a slip in a name is
// said.
func TestRow(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"question": "?", "answer": "x", "id": 1, "kind": "k", "level": 2}`: `a/1 k 2 "?" "x"  []`,
		`{"question": "?"}`:                     `a/3 a 0 "?" ""  []`,
		`{"question": "?", "answer": {"x": 1}}`: `a/3 a 0 "?" "" {"x": 1} []`,
		`{"question": "?", "answers": "x"}`:     `a/3 a 0 "?" ""  []`,
		`{"question": "?", "anwser": "x"}`:      `there is no field "answer", and "anwser" is too like it`,
		`{"question": "?", "idd": "x"}`:         `a/3 a 0 "?" ""  []`,
		`[1]`:                                   "a task must be a JSON object",
		`null`:                                  "a task must be a JSON object",
		`{"question": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!", "tool_calls": null}]}`: `a/3 a 0 "?" ""  [{user ?} {assistant !}]`,
		`{"question": [{"role": "user", "content": "?", "name": "x"}]}`:                                               `field "question", message 1 has "name"`,
		`{"question": [{"role": "robot", "content": "?"}]}`:                                                           `message 1: the role is "robot"`,
		`{"question": [{"role": "user", "content": 5}]}`:                                                              `message 1: the role is "user"`,
		`{"question": [{"role": "assistant", "content": "?"}]}`:                                                       `field "question" asks nothing`,
		`{"question": [5]}`: `field "question" is no list of messages`,
	} {
		source := DefaultSource()
		source.Fields.ID, source.Fields.Kind, source.Fields.Level = "id", "kind", "level"
		row, fault := NewRowReader("a", "data.train", source).Row(3, json.RawMessage(line))
		var messages []string
		for _, m := range row.Messages {
			messages = append(messages, fmt.Sprintf("{%s %s}", m.Role, m.Content))
		}
		got := fmt.Sprintf("%s %s %d %q %q %s %v", row.Task.ID, row.Task.Kind, row.Task.Level, row.Task.Question, row.Task.Answer, row.Answer, messages)
		if fault == "" && got != want || fault != "" && !strings.Contains(fault, want) {
			t.Errorf("%s: %q, fault %q; want %q", line, got, fault, want)
		}
	}
}

// TestValidate: what no recipe can mean is refused, field by field, and what it can is not.
func TestValidate(t *testing.T) {
	t.Parallel()
	options := func(s *Source) {
		s.Fields.Question, s.Fields.Choices, s.Fields.AnswerFrom = "{q} {choices}", "o", fromLetter
	}
	wrong := func(s *Source) {
		s.Fields.Question, s.Fields.Wrong, s.Fields.AnswerFrom = "{q} {choices}", []string{"w"}, fromOptionText
	}
	both := func(all ...func(*Source)) func(*Source) {
		return func(s *Source) {
			for _, change := range all {
				change(s)
			}
		}
	}
	for _, c := range []struct {
		field  string // and the beginning of what is said
		change func(*Source)
	}{
		{"", func(*Source) {}},
		{"", func(s *Source) { *s = Source{} }},
		{"", func(s *Source) {
			s.TestShare, s.Filter, s.Fields.Form, s.Fields.Level, s.Fields.AnswerMarker = 0.99, []Filter{{"f", []string{"x"}}}, "=any", "=0", "####"
		}},
		{"", options},
		{"", wrong},
		{"data.files.1: must not be empty", func(s *Source) { s.Files = []string{"a", " "} }},
		{"data.fields.question: must not be empty", func(s *Source) { s.Fields.Question = "" }},
		{"data.fields.answer: must not be empty", func(s *Source) { s.Fields.Answer = "" }},
		{"data.fields.answer_from: must be one of", func(s *Source) { s.Fields.AnswerFrom = "x" }},
		{"data.fields.answer_from: needs data.fields.choices", func(s *Source) { s.Fields.AnswerFrom = fromLetter }},
		{"data.fields.choices: needs data.fields.answer_from", func(s *Source) { s.Fields.Choices = "o" }},
		{"data.fields.choices: needs", func(s *Source) { s.Fields.Choices, s.Fields.AnswerFrom = "o", fromBoxed }},
		{"data.fields.choices: must name at most 26 options", both(options, func(s *Source) { s.Fields.Choices = strings.Repeat("o,", 26) + "o" })},
		{"data.fields.question: must contain {choices}", both(options, func(s *Source) { s.Fields.Question = "q" })},
		{"data.fields.question: has {choices}, but", func(s *Source) { s.Fields.Question = "{choices}" }},
		{"data.fields.choice_text: is for problems with", func(s *Source) { s.Fields.ChoiceText = "t" }},
		{"data.fields.answer_marker: is for", func(s *Source) { s.Fields.AnswerMarker, s.Fields.AnswerFrom = "x", fromBoxed }},
		{"data.fields.form: must be a path", func(s *Source) { s.Fields.Form = "=matrix" }},
		{"data.fields.level: must be a path", func(s *Source) { s.Fields.Level = "=x" }},
		{"data.fields.wrong: is for problems without", both(wrong, func(s *Source) { s.Fields.Choices = "o" })},
		{"data.fields.wrong: is for problems without", both(wrong, func(s *Source) { s.Fields.ChoiceText = "o" })},
		{"data.fields.wrong: needs", both(wrong, func(s *Source) { s.Fields.AnswerFrom = fromText })},
		{"data.fields.question: must contain", both(wrong, func(s *Source) { s.Fields.Question = "q" })},
		{"data.fields.wrong.1: must not be empty", both(wrong, func(s *Source) { s.Fields.Wrong = []string{"w", " "} })},
		{"data.filter.0.field: must not be empty", func(s *Source) { s.Filter = []Filter{{"", []string{"x"}}} }},
		{"data.filter.0.in: must name", func(s *Source) { s.Filter = []Filter{{"f", nil}} }},
		{"data.test_share: must be 0 or more", func(s *Source) { s.TestShare = -0.1 }},
		{"data.test_share: must be 0 or more", func(s *Source) { s.TestShare = 1 }},
		{"data.test_share: is for files", func(s *Source) { s.TestShare, s.Files = 0.5, nil }},
		{"data.limit: must be 0", func(s *Source) { s.Limit = -1 }},
		{"data.max_bad: must be 0", func(s *Source) { s.MaxBad = -1 }},
		{"data.test_share: is for data.train", func(s *Source) { s.TestShare = 0.5 }},
		{"data.split_seed: is for data.train", func(s *Source) { s.SplitSeed = 1 }},
	} {
		root := struct {
			Data Source `yaml:"data"`
		}{DefaultSource()}
		root.Data.Files = []string{"a.jsonl"}
		c.change(&root.Data)
		checker := config.NewChecker(&root)
		if strings.HasSuffix(c.field, "data.train") {
			root.Data.NeedsTrain(checker, "data")
		} else {
			root.Data.Validate(checker, "data")
		}
		if err := checker.Err("the recipe"); (err == nil) != (c.field == "") || err != nil && !strings.Contains(err.Error(), c.field) {
			t.Errorf("%q: %v", c.field, err)
		}
	}
	s, held := Source{TestShare: 0.25, SplitSeed: 1}, 0
	for i := range 2000 { // 500, and a standard deviation of 19
		if s.HoldsOut(fmt.Sprint(i)) {
			held++
		}
	}
	if held < 420 || held > 580 || s.HoldsOut("x") != (rng.New(1, rng.PurposeData, 0, "split\x00x", 0).Float64(0) < 0.25) || (Source{}).HoldsOut("x") {
		t.Errorf("of 2000 %d are held out", held)
	}
	for _, c := range []struct {
		share       float64
		train, test int
		ok          bool
	}{{0, 0, 0, true}, {0.5, 1, 1, true}, {0.5, 0, 1, false}, {0.5, 1, 0, false}} {
		if err := (Source{TestShare: c.share}).CheckSplit(c.train, c.test); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestSentences counts by hand: a stop ends a sentence before a space or the end, a line
// that is not empty ends one, and the stop of 3.5 does not.
func TestSentences(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"": 0, "x": 1, "We add. Then 3.5 is it.\nSo $x=4$": 3, "One\n\nTwo \n": 2, "Is it? Yes! (So.)": 3, "Hence $$x = 2.$$\nDone. \n": 2, "He said \"go.\" Then": 2,
	} {
		if got := sentences(text); got != want {
			t.Errorf("%q has %d sentences, want %d", text, got, want)
		}
	}
}
