package dataset

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/answer"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// The ways in which a line becomes a problem, in the shapes of real sets.
func TestMapping(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, file, content string
		fields              Fields
		want                env.Task
		fault               string // instead of the task
	}{
		{name: "template", file: "a.json", content: ` [{"Body": "Two and two.", "Question": "How many? ", "Answer": 4.0}]`, fields: Fields{Question: "{Body} {Question}", Answer: "Answer", Kind: "=svamp", Level: "=2"}, want: env.Task{ID: "a/1", Kind: "svamp", Level: 2, Question: "Two and two. How many?", Answer: "4.0"}},
		{
			name: "options", file: "a.jsonl", content: `{"q": "2+2?", "options": ["A)3", "B) 4"], "correct": "B"}`,
			fields: Fields{Question: "{q}\n{choices}", Choices: "options", Answer: "correct", AnswerFrom: fromLetter},
			want:   env.Task{ID: "a/1", Kind: "a", Question: "2+2?\n(A) 3\n(B) 4", Answer: "B", Form: answer.FormOption, Choices: []string{"3", "4"}},
		},
		{
			name: "nested options, position", file: "a.jsonl", content: `{"q": "2+2?", "o": [[{"t": "3"}], [{"t": "4"}]], "k": {"n": [1]}}`,
			fields: Fields{Question: "{q} {choices}", Choices: "o", ChoiceText: "0.t", Answer: "k.n.0", AnswerFrom: fromPosition},
			want:   env.Task{ID: "a/1", Kind: "a", Question: "2+2? (A) 3\n(B) 4", Answer: "B", Form: answer.FormOption, Choices: []string{"3", "4"}},
		},
		{name: "option by its number", file: "a.jsonl", content: `{"q": "?", "o": ["x", "y"], "k": 1}`, fields: Fields{Question: "{q} {choices}", Choices: "o", Answer: "k", AnswerFrom: fromNumber}, want: env.Task{ID: "a/1", Kind: "a", Question: "? (A) x\n(B) y", Answer: "A", Form: answer.FormOption, Choices: []string{"x", "y"}}},
		{name: "option by its text", file: "a.jsonl", content: `{"q": "?", "o": ["x", "y"], "k": "y"}`, fields: Fields{Question: "{q} {choices}", Choices: "o", Answer: "k", AnswerFrom: fromOptionText}, want: env.Task{ID: "a/1", Kind: "a", Question: "? (A) x\n(B) y", Answer: "B", Form: answer.FormOption, Choices: []string{"x", "y"}}},
		{ // an order of the texts, whichever is right
			name: "wrong options in fields of their own", file: "a.csv", content: "Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2\n?, z ,x,y\n",
			fields: Fields{Question: "{Question} {choices}", Answer: "Correct Answer", Wrong: []string{"Incorrect Answer 1", "Incorrect Answer 2"}, AnswerFrom: fromOptionText},
			want:   env.Task{ID: "a/2", Kind: "a", Question: "? (A) y\n(B) z\n(C) x", Answer: "B", Form: answer.FormOption, Choices: []string{"y", "z", "x"}},
		},
		{name: "a wrong option that is the right one", file: "a.jsonl", content: `{"q": "?", "a": "x", "b": "x"}`, fields: Fields{Question: "{q} {choices}", Answer: "a", Wrong: []string{"b"}, AnswerFrom: fromOptionText}, fault: `FILE:1: field "b" is "x", as another option is`},
		{name: "last box of a solution", file: "a.jsonl", content: `{"problem": "?", "solution": "First \\boxed{1}, so \\boxed{\\frac{1}{2}}."}`, fields: Fields{Question: "problem", Answer: "solution", AnswerFrom: fromBoxed}, want: env.Task{ID: "a/1", Kind: "a", Question: "?", Answer: `\frac{1}{2}`}},
		{name: "list with a form", file: "a.jsonl", content: `{"question": "?", "answer": [0, 1.5, -2], "type": "list of float"}`, fields: Fields{Question: "question", Answer: "answer", Form: "type"}, want: env.Task{ID: "a/1", Kind: "a", Question: "?", Answer: "0, 1.5, -2", Form: answer.FormList}},
		{name: "CSV", file: "a.csv", content: "\uFEFFid,q,a\n7,\"what, \"\"now\"\"\nhere\",5\n", fields: Fields{ID: "id", Question: "q", Answer: "a", Form: "=integer"}, want: env.Task{ID: "a/7", Kind: "a", Question: "what, \"now\"\nhere", Answer: "5", Form: answer.FormInteger}},
		{name: "CSV with a mark and a quoted name", file: "a.csv", content: "\uFEFF\"id\",\"q\",\"a\"\r\n7,?,5", fields: Fields{ID: "id", Question: "q", Answer: "a"}, want: env.Task{ID: "a/7", Kind: "a", Question: "?", Answer: "5"}},
		{name: "lines under .json", file: "a.json", content: "{\"question\": \"?\", \"answer\": \"5\"}\n", fields: Fields{Question: "question", Answer: "answer"}, want: env.Task{ID: "a/1", Kind: "a", Question: "?", Answer: "5"}},
		{name: "numbers of Python", file: "a.jsonl", content: "{\"question\": \"NaN \\\"-Infinity\", \"x\": [NaN, -Infinity], \"answer\": Infinity}", fields: Fields{Question: "question", Answer: "answer"}, want: env.Task{ID: "a/1", Kind: "a", Question: "NaN \"-Infinity", Answer: "inf"}},
		{name: "numbers of Python in a list", file: "a.json", content: `[{"question": "?", "x": NaN, "answer": "5"}]`, fields: Fields{Question: "question", Answer: "answer"}, want: env.Task{ID: "a/1", Kind: "a", Question: "?", Answer: "5"}},
		{name: "no numbers of Python", file: "a.jsonl", content: `{"question": "?", "answer": Nan}`, fields: Fields{Question: "question", Answer: "answer"}, fault: `FILE:1: not JSON at byte 29: invalid character 'N' looking for beginning of value`},
		{name: "a field with a dot in its name", file: "a.jsonl", content: `{"a.b": "?", "answer": "5"}`, fields: Fields{Question: "a.b", Answer: "answer"}, want: env.Task{ID: "a/1", Kind: "a", Question: "?", Answer: "5"}},

		{name: "no such path", file: "a.jsonl", content: `{"a": {"b": "?"}, "answer": "5"}`, fields: Fields{Question: "a.c", Answer: "answer"}, fault: `FILE:1: no field "a.c"; the line has "a", "answer": set data.train.fields.question`},
		{name: "no such place in the template", file: "a.jsonl", content: `{"q": "?", "answer": "5"}`, fields: Fields{Question: "{q} {body}", Answer: "answer"}, fault: `FILE:1: no field "body"; the line has "answer", "q": set data.train.fields.question`},
		{name: "no such letter", file: "a.jsonl", content: `{"q": "?", "o": ["x", "y"], "k": "C"}`, fields: Fields{Question: "{q} {choices}", Choices: "o", Answer: "k", AnswerFrom: fromLetter}, fault: `FILE:1: field "k" is "C": it must be the letter of one of 2 options (data.train.fields.answer_from)`},
		{name: "one option", file: "a.jsonl", content: `{"q": "?", "o": ["x"], "k": "A"}`, fields: Fields{Question: "{q} {choices}", Choices: "o", Answer: "k", AnswerFrom: fromLetter}, fault: `FILE:1: field "o" is a list of 1: options must be a list of 2 to 26, or an object with the names A, B and so on`},
		{name: "no box", file: "a.jsonl", content: `{"q": "?", "k": "5"}`, fields: Fields{Question: "q", Answer: "k", AnswerFrom: fromBoxed}, fault: `FILE:1: field "k" has no answer: the response has no \boxed{} (data.train.fields.answer_from)`},
		{name: "no form", file: "a.jsonl", content: `{"q": "?", "k": "5", "f": "matrix"}`, fields: Fields{Question: "q", Answer: "k", Form: "f"}, fault: `FILE:1: field "f" is "matrix": a form must be any, integer, float, bool, list or option`},
		{name: "cut off list", file: "a.json", content: `[{"question": "?", "answer": "5"},`, fields: Fields{Question: "question", Answer: "answer"}, fault: `FILE: the JSON list is cut off after entry 1`},
		{name: "not JSON", file: "a.json", content: `[{"question": "?", "answer": "5"}, {question: "?"}]`, fields: Fields{Question: "question", Answer: "answer"}, fault: `FILE: not JSON at byte 35, after entry 1 of the list: invalid character 'q' looking for beginning of object key string`},
		{name: "one name twice", file: "a.csv", content: "q,a,a\n?,5,6\n", fields: Fields{Question: "q", Answer: "a"}, fault: `FILE:1: two columns are named "a": which one is meant nobody can tell`},
		{name: "short record", file: "a.csv", content: "q,a\n?\n", fields: Fields{Question: "q", Answer: "a"}, fault: `FILE:2: the record has 1 fields, the first one names 2`},
		{name: "open quote", file: "a.csv", content: "q,a\n?,\"5\n!,6\n", fields: Fields{Question: "q", Answer: "a"}, fault: `FILE:2: the quote at byte 3 of the line is never closed: all that follows it is in one field`},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), test.file)
			must.Do(t, os.WriteFile(path, []byte(test.content), 0o600))
			tasks, _, err := together(t, path).Read(path, Source{Fields: test.fields})
			if test.fault != "" {
				want := strings.ReplaceAll(test.fault, "FILE", path)
				if err == nil || err.Error() != want || exitcode.Code(err) != exitcode.Data {
					t.Fatalf("error (code %d)\n%v\nwant\n%s", exitcode.Code(err), err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]env.Task{test.want}, tasks); diff != "" {
				t.Errorf("tasks (-want +got):\n%s", diff)
			}
		})
	}
}

// Bad lines up to max_bad are left out.
func TestMaxBad(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.jsonl")
	if err := os.WriteFile(path, []byte("{\"question\": \"?\", \"answer\": \"5\"}\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	source := plain()
	if _, _, err := together(t, path).Read(path, source); exitcode.Code(err) != exitcode.Data {
		t.Errorf("a bad line: %v", err)
	}
	source.MaxBad = 1
	if tasks, _, err := together(t, path).Read(path, source); err != nil || len(tasks) != 1 {
		t.Errorf("%d problems: %v", len(tasks), err)
	}
}
