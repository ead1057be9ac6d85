package dataset

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/shard/foreign"
)

// plain names the fields of the corpora in testdata.
func plain() Source {
	return Source{Fields: Fields{Question: "question", Answer: "answer"}}
}

func withFields(change func(*Fields)) Source {
	source := plain()
	change(&source.Fields)
	return source
}

// Each file of testdata/bad gets exactly one message, with exit code 65.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	marked := withFields(func(f *Fields) { f.AnswerMarker = "####" })
	ids := withFields(func(f *Fields) { f.ID = "id" })
	kinds := withFields(func(f *Fields) { f.Kind = "kind" })
	levels := withFields(func(f *Fields) { f.Level = "level" })
	filter := plain()
	filter.Filter = []Filter{{Field: "module", In: []string{"add*"}}}
	noField := plain()
	noField.Filter = []Filter{{Field: "modul", In: []string{"sub"}}}

	tests := []struct {
		file   string
		source Source
		want   string // FILE stands for the file's path
	}{
		{"absent.jsonl", plain(), `data.train.files: there is no file "FILE"; a relative name starts at the recipe's folder`},
		{"", plain(), `data.train.files: "FILE" is a folder, not a regular file: name the files themselves, as in FILE/*.parquet`},
		{"empty.jsonl", plain(), `FILE: the file has no problems: it needs one JSON object a line`},
		{"blank_only.jsonl", plain(), `FILE: the file has no problems: it needs one JSON object a line`},
		{"not_json.jsonl", plain(), `FILE:2: not JSON at byte 1: invalid character 'q' looking for beginning of value`},
		{"cut_off.jsonl", plain(), `FILE:2: the JSON object is cut off: it must be whole, on one line`},
		{"list.jsonl", plain(), `FILE: the file is one JSON list: write one object a line with jq -c '.[]'`},
		{"array_line.jsonl", plain(), `FILE:2: the line is a JSON array: it must be an object`},
		{"string_line.jsonl", plain(), `FILE:2: the line is a JSON string: it must be an object`},
		{"null_line.jsonl", plain(), `FILE:2: the line is null: it must be a JSON object`},
		{"two_objects.jsonl", plain(), `FILE:1: something follows the JSON object at byte 36: write one object a line`},
		{"pretty.jsonl", plain(), "FILE: 4 of 4 lines are bad:\n" +
			"  FILE:1: the JSON object is cut off: it must be whole, on one line\n" +
			"  FILE:2: something follows the JSON object at byte 11: write one object a line\n" +
			"  FILE:3: something follows the JSON object at byte 9: write one object a line\n" +
			"  FILE:4: not JSON at byte 1: invalid character '}' looking for beginning of value"},
		{"no_question.jsonl", plain(), `FILE:2: no field "question"; the line has "answer", "problem": set data.train.fields.question`},
		{"no_answer.jsonl", plain(), `FILE:1: no field "answer"; the line has "question", "source", "target": set data.train.fields.answer`},
		{"no_fields.jsonl", plain(), `FILE:1: no field "question"; the line has no fields: set data.train.fields.question`},
		{"many_fields.jsonl", plain(), `FILE:1: no field "question"; the line has "a", "b", "c", "d", "e", "f", "g", "h" and 4 more: set data.train.fields.question`},
		{"question_number.jsonl", plain(), `FILE:1: field "question" is a number: a question must be a string`},
		{"question_empty.jsonl", plain(), `FILE:1: field "question" is empty: a problem needs a question`},
		{"answer_list.jsonl", plain(), `FILE:1: field "answer" is a list: an answer must be a string, a number, true or false`},
		{"answer_null.jsonl", plain(), `FILE:1: field "answer" is null: an answer must be a string, a number, true or false`},
		{"answer_empty.jsonl", plain(), `FILE:1: field "answer" is empty: a problem needs an answer`},
		{"answer_huge_exponent.jsonl", plain(), `FILE:1: field "answer" is the number 1e999999999: its exponent must be in [-400, 400]`},
		{"answer_long.jsonl", plain(), `FILE:1: field "answer" has 3000 bytes: an answer has at most 2048; a worked solution needs data.train.fields.answer_marker`},
		{"no_marker.jsonl", marked, `FILE:1: field "answer" has no "####": the answer must follow it (data.train.fields.answer_marker)`},
		{"marker_last.jsonl", marked, `FILE:1: field "answer" is empty after the last "####": a problem needs an answer`},
		{"id_twice.jsonl", ids, `FILE:3: the id "id_twice/a" is that of line 1 too: ids must be unique, or leave data.train.fields.id empty to use line numbers`},
		{"id_missing.jsonl", ids, `FILE:2: no field "id"; the line has "answer", "question": set data.train.fields.id`},
		{"id_list.jsonl", ids, `FILE:1: field "id" is a list: an id must be a string that is not empty, or a number`},
		{"kind_object.jsonl", kinds, `FILE:1: field "kind" is an object: a kind must be a string, a number, true or false`},
		{"level_word.jsonl", levels, `FILE:1: field "level" is "hard": a level must be a whole number of 32 bits`},
		{"level_big.jsonl", levels, `FILE:1: field "level" is 3000000000: a level must be a whole number of 32 bits`},
		{"latin1.jsonl", plain(), `FILE:2: byte 18 is not UTF-8: convert the file with iconv -t UTF-8`},
		{"utf16.jsonl", plain(), `FILE: the file is UTF-16: convert it with iconv -f UTF-16 -t UTF-8`},
		{"gzip.jsonl", plain(), `FILE: the file is compressed: unpack it with gunzip`},
		{"parquet.jsonl", plain(), `FILE: the file is Parquet: give it a name that ends in .parquet`},
		{"filtered_out.jsonl", filter, `FILE: none of its 2 lines passes data.train.filter`},
		{"filtered_out.jsonl", noField, `FILE: no line has the field "modul" that data.train.filter[0] asks for`},
		{"many_bad.jsonl", plain(), "FILE: 8 of 9 lines are bad:\n" +
			strings.Join(noAnswerLines(5), "\n") + "\n  and 3 more"},
	}
	used := map[string]bool{}
	for _, test := range tests {
		used[test.file] = true
		path := filepath.Join("testdata", "bad", test.file)
		_, _, err := together(t, path).Read(path, test.source)
		want := strings.ReplaceAll(test.want, "FILE", path)
		if err == nil {
			t.Errorf("%s: no error, want %s", test.file, want)
		} else if err.Error() != want || exitcode.Code(err) != exitcode.Data {
			t.Errorf("%s: error (code %d)\n%v\nwant\n%s", test.file, exitcode.Code(err), err, want)
		}
	}
	entries := must.Get(os.ReadDir(filepath.Join("testdata", "bad")))(t)
	for _, entry := range entries {
		if !used[entry.Name()] {
			t.Errorf("testdata/bad/%s is in no case", entry.Name())
		}
	}
}

func noAnswerLines(n int) []string {
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf(`  FILE:%d: no field "answer"; the line has "question": set data.train.fields.answer`, i+1))
	}
	return lines
}

// A line that is too long is one bad line, however long it is, and the line
// after it is read.
func TestLongLine(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	fmt.Fprintf(&text, `{"question": "%s", "answer": "2"}`+"\n", strings.Repeat("1", foreign.MaxRowBytes))
	fmt.Fprintln(&text, `{"question": "1+1"}`)
	r := (&Set{where: "data.train"}).reader("long.jsonl", plain(), nil)
	err := r.readStream(&text)
	if err == nil {
		err = r.finish()
	}
	want := "long.jsonl: 2 of 2 lines are bad:\n" +
		"  long.jsonl:1: the line is longer than 16777216 bytes: problems must be shorter\n" +
		`  long.jsonl:2: no field "answer"; the line has "question": set data.train.fields.answer`
	if err == nil || err.Error() != want || r.lines != 2 {
		t.Errorf("error of %d lines\n%v\nwant\n%s", r.lines, err, want)
	}
}

func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root reads every file")
	}
	path := filepath.Join(t.TempDir(), "secret.jsonl")
	must.Do(t, os.WriteFile(path, nil, 0))
	if _, _, err := together(t, path).Read(path, plain()); exitcode.Code(err) != exitcode.IO {
		t.Errorf("error %v has code %d, want %d", err, exitcode.Code(err), exitcode.IO)
	}
}

// A pipe is refused, and not waited for.
func TestPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.jsonl")
	must.Do(t, syscall.Mkfifo(path, 0o666))
	_, _, err := together(t, path).Read(path, plain())
	if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "a pipe") {
		t.Errorf("a pipe: %v", err)
	}
}

// A byte order mark, CRLF line ends, blank lines, no line feed at the end,
// numbers, thousands and an earlier marker are all read.
func TestGoodFile(t *testing.T) {
	t.Parallel()
	source := Source{Fields: Fields{ID: "id", Question: "question", Answer: "answer", Kind: "kind", Level: "level"}}
	path := filepath.Join("testdata", "good", "good.jsonl")
	tasks, inputs, err := together(t, path).Read(path, source)
	if err != nil {
		t.Fatal(err)
	}
	want := []env.Task{
		{ID: "good/7", Kind: "add", Level: 1, Question: "1+1", Answer: "2"},
		{ID: "good/b", Kind: "add", Level: 2, Question: "{previous_response} €", Answer: "It is\n#### 1 ####  1,234"},
		{ID: "good/c", Kind: "sub", Level: 3, Question: "big", Answer: "-9867630.0"},
		{ID: "good/d", Kind: "add-big", Level: 3, Question: "true?", Answer: "True"},
		{ID: "good/e", Kind: "mul", Level: 3, Question: "exp", Answer: "1250"},
		{ID: "good/f", Kind: "mul", Level: 3, Question: "small", Answer: "0.005"},
	}
	if diff := cmp.Diff(want, tasks); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
	wantInputs := []env.Input{{Path: path, SHA256: "3934e9b63e006f562fbdae9d7f18a7039b2ebad501efc2978fdb74bce6f733b1"}}
	if diff := cmp.Diff(wantInputs, inputs); diff != "" {
		t.Errorf("input (-want +got):\n%s", diff)
	}

	source.Fields.AnswerMarker = "####"
	source.Filter = []Filter{{Field: "kind", In: []string{"nothing", "add"}}, {Field: "level", In: []string{"2", "3"}}}
	tasks, _, err = together(t, path).Read(path, source)
	if err != nil {
		t.Fatal(err)
	}
	want = []env.Task{{ID: "good/b", Kind: "add", Level: 2, Question: "{previous_response} €", Answer: "1234"}}
	if diff := cmp.Diff(want, tasks); diff != "" {
		t.Errorf("filtered tasks (-want +got):\n%s", diff)
	}

	// Without names, ids are line numbers and the kind is the file's.
	tasks, _, err = together(t, path).Read(path, plain())
	if err != nil {
		t.Fatal(err)
	}
	if tasks[1].ID != "good/3" || tasks[1].Kind != "good" {
		t.Errorf("second task is %+v, want id good/3 and kind good", tasks[1])
	}
}

func FuzzReadProblems(f *testing.F) {
	for _, folder := range []string{"bad", "good"} {
		paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.jsonl"))
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, "####", "id", "f.jsonl")
			f.Add(data, "", "", "f.json")
		}
	}
	f.Add([]byte("question,answer,id\n\"1,\n2\",3,4\n"), "", "id", "f.csv")
	f.Add([]byte(`[{"question": "?", "answer": "#### 3", "id": {"a": [5]}}]`), "####", "id.a.0", "f.json")
	f.Fuzz(func(t *testing.T, data []byte, marker, id, name string) {
		if ext := filepath.Ext(name); ext != ".json" && ext != ".csv" || strings.ContainsAny(name, "/\x00") {
			name = "f.jsonl"
		}
		source := withFields(func(fields *Fields) { fields.AnswerMarker, fields.ID = marker, id })
		r := (&Set{where: "data.train"}).reader(name, source, nil)
		err := r.readStream(bytes.NewReader(data))
		if err == nil {
			err = r.finish()
		}
		if err != nil {
			if exitcode.Code(err) != exitcode.Data || !strings.HasPrefix(err.Error(), name+":") {
				t.Fatalf("error with code %d: %v", exitcode.Code(err), err)
			}
			return
		}
		if len(r.tasks) == 0 || len(r.tasks) > r.lines {
			t.Fatalf("%d problems of %d lines", len(r.tasks), r.lines)
		}
		seen := map[string]bool{}
		for _, task := range r.tasks {
			if seen[task.ID] || task.Question == "" || task.Answer == "" {
				t.Fatalf("bad problem %+v", task)
			}
			seen[task.ID] = true
		}
	})
}
