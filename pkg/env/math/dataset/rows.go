package dataset

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/mathverify"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Row is a line of a data file with all that it holds, for environments whose
// questions may be messages and whose answers may be anything.
type Row struct {
	Task     env.Task        // its answer is the text of an answer that is one, and else empty
	Messages []shard.Message // where the question is a list of messages
	Answer   json.RawMessage // where the answer is no text
	Columns  map[string]json.RawMessage
}

// Lookup finds the value at a path of a line: the name of a field, or names and
// positions in lists with dots between.
func Lookup(columns map[string]json.RawMessage, path string) (json.RawMessage, bool) {
	return lookup(columns, path)
}

// ReadRows reads a file, or a folder that Hugging Face datasets has saved, as [Read]
// does, and keeps the lines whole. A question may be a list of messages, of which
// those of the assistant at the end are left out; an answer may be of any type, or
// missing where the source names none. inputs are the files that were read.
func ReadRows(path, where string, source Source) (rows []Row, inputs []env.Input, err error) {
	set, err := Together([]string{path}, where)
	if err != nil {
		return nil, nil, err
	}
	return set.ReadRows(path, source)
}

// RowReader reads rows that come from elsewhere than a file.
type RowReader struct{ reader reader }

// NewRowReader reads rows whose ids begin with a stem. where is the place in a recipe
// that an error names.
func NewRowReader(stem, where string, source Source) *RowReader {
	return &RowReader{reader{where: where, stem: stem, source: source, lineOf: map[string]int{}, filtered: map[string]bool{}, rows: &[]Row{}}}
}

// Row reads one row, or says what is wrong with it. An id, a kind and a level may be
// missing.
func (r *RowReader) Row(number int, line json.RawMessage) (Row, string) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil || fields == nil {
		return Row{}, "a task must be a JSON object"
	}
	one := r.reader
	for name, field := range map[string]*string{"id": &one.source.Fields.ID, "kind": &one.source.Fields.Kind, "level": &one.source.Fields.Level, "answer": &one.source.Fields.Answer} {
		if _, ok := lookup(fields, *field); !ok && name == *field {
			*field = ""
		}
	}
	*one.rows = (*one.rows)[:0]
	if fault := one.problem(number, fields); fault != "" {
		return Row{}, fault
	}
	return (*one.rows)[0], ""
}

// keep makes a row of the fields of one line, or says what is wrong.
func (r *reader) keep(number int, fields map[string]json.RawMessage) (Row, string) {
	row := Row{Columns: maps.Clone(fields)}
	names := r.source.Fields
	raw, ok := lookup(fields, names.Question)
	if ok && jsonType(raw) == "a list" {
		var fault string
		if row.Messages, fault = messagesOf(raw, names.Question); fault != "" {
			return row, fault
		}
		fields = maps.Clone(fields)
		fields[names.Question] = quoted(lastAsked(row.Messages))
	}
	plain := names.Choices == "" && len(names.Wrong) == 0 && names.AnswerMarker == "" && names.AnswerFrom == fromText && names.Form == ""
	if plain {
		_, answered := lookup(fields, names.Answer)
		if names.Answer != "" && (answered || r.set == nil || !r.set.AnswerOptional) {
			raw, fault := r.need(fields, names.Answer, "answer")
			if fault != "" {
				return row, fault
			}
			row.Answer = slices.Clone(raw)
		}
		r = &reader{where: r.where, path: r.path, stem: r.stem, source: r.source}
		r.source.Fields.Answer = ""
	}
	var fault string
	if row.Task, fault = r.task(number, fields); fault != "" {
		return row, fault
	}
	if text, ok := stringText(row.Answer); ok {
		row.Task.Answer, row.Answer = text, nil
	}
	return row, ""
}

// messagesOf reads a question that is a list of messages.
func messagesOf(raw json.RawMessage, name string) ([]shard.Message, string) {
	var listed []struct {
		Role    string  `json:"role"`
		Content *string `json:"content"`
	}
	if err := json.Unmarshal(raw, &listed); err != nil {
		return nil, fmt.Sprintf(`field %q is no list of messages {"role", "content"}, both texts`, name)
	}
	var messages []shard.Message
	for i, m := range listed {
		if !slices.Contains([]string{"system", "user", "assistant", "tool"}, m.Role) || m.Content == nil {
			return nil, fmt.Sprintf("field %q, message %d: the role is %q and must be system, user, assistant or tool, with a text as its content", name, i+1, mathverify.Clip(m.Role))
		}
		messages = append(messages, shard.Message{Role: m.Role, Content: *m.Content})
	}
	for len(messages) > 0 && messages[len(messages)-1].Role == "assistant" {
		messages = messages[:len(messages)-1]
	}
	if len(messages) == 0 || strings.TrimSpace(lastAsked(messages)) == "" {
		return nil, fmt.Sprintf("field %q asks nothing: it needs a message that is not the assistant's", name)
	}
	return messages, ""
}

func lastAsked(messages []shard.Message) string { return messages[len(messages)-1].Content }

// stemOf is what ids of a file's problems begin with: its name without the extension.
func stemOf(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}
