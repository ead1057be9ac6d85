package supervised_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/supervised"
)

// read reads rows of a file, with its settings.
func read(t must.TB, folder, name, content string, edit func(*supervised.Settings)) (supervised.Data, error) {
	t.Helper()
	must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o666))
	var s supervised.Settings
	s.SetDefaults()
	s.Files = []string{name}
	if edit != nil {
		edit(&s)
	}
	return supervised.Read(s, folder, 1)
}

// shown is an example as text: the first letter of each role, and the given messages
// before a bar.
func shown(e supervised.Example) string {
	text := ""
	for i, m := range e.Messages {
		if i == e.Given && i > 0 {
			text += "|"
		}
		text += fmt.Sprintf("%c:%s ", m.Role[0], m.Content)
	}
	return strings.TrimSpace(text)
}

// The customary forms of published data sets.
func TestForms(t *testing.T) {
	t.Parallel()
	named := func(s *supervised.Settings) { s.Prompt, s.Completion = "{question} Think.", "answer" }
	system := func(s *supervised.Settings) { s.System = "Be short." }
	for _, c := range []struct {
		name, row, want string
		edit            func(*supervised.Settings)
	}{
		{"messages", `{"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}`, "s:x u:a a:b", nil},
		{"tools that are null", `{"messages": [{"role": "user", "content": "a", "tool_calls": null}, {"role": "assistant", "content": "b", "tool_calls": []}]}`, "u:a a:b", nil},
		{"messages as text", `{"messages": "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]"}`, "u:a a:b", nil},
		{"ShareGPT", `{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}], "prompt": null}`, "u:a a:b", nil},
		{"prompt and completion", `{"prompt": " a", "completion": "b\n"}`, "u: a |a:b", nil},
		{"conversations with roles", `{"conversations": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "from": null}]}`, "u:a a:b", nil},
		{"lists", `{"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}], "completion": [{"role": "assistant", "content": "d"}]}`, "u:a a:b u:c |a:d", nil},
		{"Alpaca", `{"instruction": "a", "input": "b", "output": "c"}`, "u:a\n\nb |a:c", nil},
		{"Alpaca without input", `{"instruction": "a", "input": "", "output": "c"}`, "u:a |a:c", nil},
		{"fields", `{"question": "a?", "answer": 7, "messages": 1}`, "u:a? Think. |a:7", named},
		{"a system message", `{"prompt": "a", "completion": "b"}`, "s:Be short. u:a |a:b", system},
		{"a system message before what is all learned from", `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}`, "s:Be short. u:a a:b", system},
		{"one of its own", `{"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}`, "s:x u:a a:b", system},
	} {
		d, err := read(t, t.TempDir(), "a.jsonl", c.row+"\n", c.edit)
		if err != nil || len(d.Train) != 1 || shown(d.Train[0]) != c.want || len(d.Inputs) != 1 || len(d.Inputs[0].SHA256) != 64 {
			t.Errorf("%s: %v, %v, want %q", c.name, d, err, c.want)
		}
	}
	d, err := read(t, t.TempDir(), "a.csv", "prompt,completion\n\"1,5+1\",2.5\n", nil)
	if err != nil || shown(d.Train[0]) != "u:1,5+1 |a:2.5" {
		t.Errorf("CSV: %v, %v", d.Train, err)
	}
	d, err = read(t, t.TempDir(), "a.json", `[{"prompt": "a", "completion": "b"}, {"prompt": "c", "completion": "d"}]`, nil)
	if err != nil || len(d.Train) != 2 || d.Train[1].Where() == d.Train[0].Where() {
		t.Errorf("JSON: %v, %v", d.Train, err)
	}
}

// Rows of Parquet: testdata/chats.parquet, made by pyarrow.
func TestParquet(t *testing.T) {
	t.Parallel()
	d := must.Get(supervised.Read(supervised.Settings{Files: []string{"testdata/chats.parquet"}}, ".", 1))(t)
	var got []string
	for _, e := range d.Train {
		got = append(got, shown(e))
	}
	if want := []string{"u:1+1= a:2", "u:a a:b u:c a:d", "u:é\n a:ü"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A row that cannot be learned from is one error with the file and the row.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ row, says string }{
		{`{"text": "a"}`, `the row has the columns ["text"], and needs messages`},
		{`{"prompt": "a"}`, "needs messages"},
		{`{"prompt": "a", "completion": null}`, "needs messages"},
		{`{"messages": []}`, `no list of messages`},
		{`{"messages": "hello"}`, `no list of messages`},
		{`{"messages": [{"role": "user", "content": "a"}]}`, "must end with one of the assistant"},
		{`{"messages": [{"role": "assistant", "content": "a"}]}`, "must begin with a question"},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": " "}]}`, "message 2, of the assistant, is empty"},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "s"}, {"role": "assistant", "content": "b"}]}`, "may speak only first"},
		{`{"messages": [{"role": "critic", "content": "a"}, {"role": "assistant", "content": "b"}]}`, `the role is "critic"`},
		{`{"messages": [{"role": "user", "content": [1]}, {"role": "assistant", "content": "b"}]}`, "message 1: it needs the texts"},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "tool_calls": [{}]}]}`, "tool_calls"},
		{`{"prompt": "a", "completion": [{"role": "assistant", "content": "b"}]}`, "both must be texts, or both lists"},
		{`{"instruction": "a", "output": ["b"]}`, `column "output" is no text`},
		{`[1]`, "2"},
	} {
		_, err := read(t, t.TempDir(), "a.jsonl", `{"prompt": "fine", "completion": "fine"}`+"\n"+c.row+"\n", nil)
		if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "a.jsonl:2: ") {
			t.Errorf("%s: %v, want %q", c.row, err, c.says)
		}
	}
	named := func(s *supervised.Settings) { s.Prompt, s.Completion = "q", "a" }
	if _, err := read(t, t.TempDir(), "a.jsonl", `{"q": "1", "b": "2"}`, named); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), `completion: there is no column "a": the row has ["b" "q"]`) {
		t.Errorf("a column that is not there: %v", err)
	}
}

// What is held out is a share of the rows, drawn by the seed; together the two parts are all
// rows, each once and in their order.
func TestHeldOut(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		n, share := rapid.IntRange(4, 40).Draw(t, "rows"), rapid.Float64Range(0.2, 0.8).Draw(t, "share")
		var content strings.Builder
		for i := range n {
			fmt.Fprintf(&content, `{"prompt": "%d", "completion": "x"}`+"\n", i)
		}
		d := must.Get(read(t, folder, "a.jsonl", content.String(), func(s *supervised.Settings) { s.TestShare = share }))(t)
		var rows []int
		for _, part := range [][]supervised.Example{d.Train, d.Test} {
			if !slices.IsSortedFunc(part, func(a, b supervised.Example) int { return a.Row - b.Row }) {
				t.Fatal("out of order")
			}
			for _, e := range part {
				rows = append(rows, e.Row)
			}
		}
		slices.Sort(rows)
		if len(slices.Compact(rows)) != n || rows[0] != 1 || rows[n-1] != n {
			t.Fatalf("rows %v", rows)
		}
		if got, want := float64(len(d.Test)), share*float64(n); got < want-0.5001 || got > want+0.5001 {
			t.Fatalf("%v of %d rows are held out, want %v", got, n, want)
		}
	})
	if _, err := read(t, folder, "a.jsonl", `{"prompt": "a", "completion": "b"}`, func(s *supervised.Settings) { s.TestShare = 0.5 }); exitcode.Code(err) != exitcode.Data {
		t.Errorf("one row cannot be in both parts: %v", err)
	}
	must.Do(t, os.WriteFile(filepath.Join(folder, "b.jsonl"), []byte(`{"prompt": "c", "completion": "d"}`), 0o666))
	d := must.Get(read(t, folder, "a.jsonl", `{"prompt": "a", "completion": "b"}`, func(s *supervised.Settings) { s.TestFiles = []string{"b.jsonl"} }))(t)
	if len(d.Train) != 1 || len(d.Test) != 1 || shown(d.Test[0]) != "u:c |a:d" || len(d.Inputs) != 2 {
		t.Errorf("held out are %+v of %+v", d.Test, d)
	}
}

// Each setting that is refused, by its field, and those at its bounds that are not.
func TestValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want  string // the field; empty for none
		spoil func(*supervised.Settings)
	}{
		{"", func(*supervised.Settings) {}},
		{"", func(s *supervised.Settings) { s.Prompt, s.Completion = "q", "a" }},
		{"", func(s *supervised.Settings) { s.TestShare, s.Epochs = .99, .5 }},
		{"", func(s *supervised.Settings) { s.TestFiles = []string{"b"} }},
		{"data.files", func(s *supervised.Settings) { s.Files = nil }},
		{"data.completion", func(s *supervised.Settings) { s.Prompt = "q" }},
		{"data.completion", func(s *supervised.Settings) { s.Completion = "a" }},
		{"data.learn", func(s *supervised.Settings) { s.Learn = "none" }},
		{"data.overlong", func(s *supervised.Settings) { s.Overlong = "cut" }},
		{"data.epochs", func(s *supervised.Settings) { s.Epochs = -1 }},
		{"data.test_share", func(s *supervised.Settings) { s.TestShare = 1 }},
		{"data.test_share", func(s *supervised.Settings) { s.TestShare = -.1 }},
		{"data.test_share", func(s *supervised.Settings) { s.TestShare, s.TestFiles = .1, []string{"b"} }},
	} {
		var recipe struct {
			Data supervised.Settings `yaml:"data"`
		}
		recipe.Data.SetDefaults()
		recipe.Data.Files = []string{"a"}
		c.spoil(&recipe.Data)
		checker := config.NewChecker(&recipe)
		recipe.Data.Validate(checker, "data")
		if err := checker.Err("recipe"); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want+":") {
			t.Errorf("%q: %v", c.want, err)
		}
	}
}
