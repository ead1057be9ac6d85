package dataset

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
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
			if slip, ok := misspelt(name, fields); ok {
				return Row{}, fmt.Sprintf("there is no field %q, and %q is too like it: rename one that means something else", name, slip)
			}
			*field = ""
		}
	}
	*one.rows = (*one.rows)[:0]
	if fault := one.problem(number, fields); fault != "" {
		return Row{}, fault
	}
	return (*one.rows)[0], ""
}

// misspelt finds a field that looks like a slip for a name. One that goes on
// behind the name, as answers, is a name of its own.
func misspelt(name string, fields map[string]json.RawMessage) (slip string, found bool) {
	const shortest = 5 // letters: of fewer, every other word is near
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if _, near := config.Nearest(field, []string{name}); near && len(name) >= shortest && !strings.HasPrefix(field, name) {
			return field, true
		}
	}
	return "", false
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
	var listed []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &listed); err != nil {
		return nil, fmt.Sprintf(`field %q is no list of messages {"role", "content"}, both texts`, name)
	}
	var messages []shard.Message
	for i, m := range listed {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if key != "role" && key != "content" && jsonType(m[key]) != "null" {
				return nil, fmt.Sprintf(`field %q, message %d has %q: a message of a prompt has "role" and "content" alone; put all else into the text of its content`, name, i+1, mathverify.Clip(key))
			}
		}
		role, _ := stringText(m["role"])
		content, ok := stringText(m["content"])
		if !slices.Contains([]string{"system", "user", "assistant", "tool"}, role) || !ok {
			return nil, fmt.Sprintf("field %q, message %d: the role is %q and must be system, user, assistant or tool, with a text as its content", name, i+1, mathverify.Clip(role))
		}
		messages = append(messages, shard.Message{Role: role, Content: content})
	}
	if strings.TrimSpace(lastAsked(messages)) == "" {
		return nil, fmt.Sprintf("field %q asks nothing: it needs a message that is not the assistant's", name)
	}
	return messages, ""
}

// lastAsked is the text of the last message that is not the assistant's.
func lastAsked(messages []shard.Message) string {
	for _, m := range slices.Backward(messages) {
		if m.Role != "assistant" {
			return m.Content
		}
	}
	return ""
}

// stemOf is what ids of a file's problems begin with: its name without the extension.
func stemOf(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}
