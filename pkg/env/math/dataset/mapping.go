package dataset

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/answer"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/mathverify"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// task reads the fields of a problem.
func (r *reader) task(number int, fields map[string]json.RawMessage) (task env.Task, fault string) {
	names := r.source.Fields
	task = env.Task{ID: r.stem + "/" + strconv.Itoa(number), Kind: r.stem}
	switch {
	case len(names.Wrong) > 0:
		task.Choices, fault = r.shuffled(fields)
	case names.Choices != "":
		task.Choices, fault = r.choices(fields)
	}
	if fault != "" {
		return task, fault
	}
	if task.Question, fault = r.question(fields, task.Choices); fault != "" {
		return task, fault
	}
	if task.Form, fault = r.form(fields); fault != "" {
		return task, fault
	}
	if names.Answer != "" {
		if task.Answer, fault = r.reference(fields, task); fault != "" {
			return task, fault
		}
	}
	if names.ID != "" {
		raw, fault := r.need(fields, names.ID, "id")
		if fault != "" {
			return task, fault
		}
		id, ok := scalarText(raw)
		if !ok || strings.TrimSpace(id) == "" {
			return task, fmt.Sprintf("field %q is %s: an id must be a string that is not empty, or a number", names.ID, jsonType(raw))
		}
		task.ID = r.stem + "/" + id
	}
	if names.Kind != "" {
		raw, constant, fault := r.constant(fields, names.Kind, "kind")
		if fault != "" {
			return task, fault
		}
		text, ok := scalarText(raw)
		if task.Kind = text; !ok && !constant {
			return task, fmt.Sprintf("field %q is %s: a kind must be a string, a number, true or false", names.Kind, jsonType(raw))
		}
	}
	task.Level, fault = r.level(fields)
	return task, fault
}

// level reads the level of a problem; 0 for none.
func (r *reader) level(fields map[string]json.RawMessage) (level int, fault string) {
	name := r.source.Fields.Level
	if name == "" {
		return 0, ""
	}
	if path, counted := sentencesOf(name); counted {
		raw, fault := r.need(fields, path, "level")
		if fault != "" {
			return 0, fault
		}
		text, ok := scalarText(raw)
		if !ok {
			return 0, fmt.Sprintf("field %q is %s: a worked solution must be a string", path, jsonType(raw))
		}
		return sentences(text), ""
	}
	raw, _, fault := r.constant(fields, name, "level")
	if fault != "" {
		return 0, fault
	}
	text, ok := scalarText(raw)
	number, err := strconv.ParseInt(strings.TrimSuffix(text, ".0"), 10, 32) // tables of pandas have floats where one is missing
	if !ok || err != nil {
		return 0, fmt.Sprintf("field %q is %s: a level must be a whole number of 32 bits", name, mathverify.Clip(string(raw)))
	}
	return int(number), ""
}

// sentencesOf is the path of a level sentences(PATH).
func sentencesOf(level string) (path string, is bool) {
	inside, is := strings.CutPrefix(level, "sentences(")
	path, closed := strings.CutSuffix(inside, ")")
	return path, is && closed
}

// sentenceEnd is the end of a sentence: of a line that is not empty, or a stop before a space.
var sentenceEnd = lazyregexp.New(`[.!?]["')$]*(?:\s|$)|[^\s.!?][ \t]*(?:\n|$)`)

// sentences counts those of a worked solution, which stand for its steps (reading
// exit-solution-steps). The stop of a decimal has no space behind it.
func sentences(text string) int { return len(sentenceEnd().FindAllString(strings.TrimSpace(text), -1)) }

// constant is the value of a field, or what stands behind = in its name, as a
// JSON string.
func (r *reader) constant(fields map[string]json.RawMessage, name, use string) (raw json.RawMessage, constant bool, fault string) {
	if text, ok := strings.CutPrefix(name, "="); ok {
		return quoted(text), true, ""
	}
	raw, fault = r.need(fields, name, use)
	return raw, false, fault
}

// need finds a field, or says how to name the right one.
func (r *reader) need(fields map[string]json.RawMessage, name, use string) (json.RawMessage, string) {
	if raw, ok := lookup(fields, name); ok {
		return raw, ""
	}
	var have []string
	for field := range fields {
		have = append(have, strconv.Quote(mathverify.Clip(field)))
	}
	slices.Sort(have)
	const shown = 8
	more := ""
	if len(have) > shown {
		more = fmt.Sprintf(" and %d more", len(have)-shown)
		have = have[:shown]
	}
	list := "no fields"
	if len(have) > 0 {
		list = strings.Join(have, ", ") + more
	}
	return nil, fmt.Sprintf("no field %q; the line has %s: set %s.fields.%s", name, list, r.where, use)
}

// placeholder is a path in braces.
var placeholder = lazyregexp.New(`\{[^{}]+\}`)

// question reads the field, or fills the template, of the question.
func (r *reader) question(fields map[string]json.RawMessage, choices []string) (text, fault string) {
	name := r.source.Fields.Question
	if _, ok := lookup(fields, name); ok || !placeholder().MatchString(name) {
		raw, fault := r.need(fields, name, "question")
		if fault != "" {
			return "", fault
		}
		if text, ok = stringText(raw); !ok {
			return "", fmt.Sprintf("field %q is %s: a question must be a string", name, jsonType(raw))
		}
		if text = strings.TrimSpace(text); text == "" {
			return "", fmt.Sprintf("field %q is empty: a problem needs a question", name)
		}
		return text, ""
	}
	text = placeholder().ReplaceAllStringFunc(name, func(braced string) string {
		path := braced[1 : len(braced)-1]
		if path == "choices" && choices != nil {
			return lettered(choices)
		}
		raw, missing := r.need(fields, path, "question")
		if missing != "" {
			fault = missing
			return ""
		}
		value, ok := scalarText(raw)
		if !ok {
			fault = fmt.Sprintf("field %q is %s: a question is made of strings, numbers, true and false", path, jsonType(raw))
		}
		return strings.TrimSpace(value)
	})
	return strings.TrimSpace(text), fault
}

// lettered lists options, one a line.
func lettered(choices []string) string {
	lines := make([]string, len(choices))
	for i, text := range choices {
		lines[i] = "(" + answer.Letter(i) + ") " + text
	}
	return strings.Join(lines, "\n")
}

// choices reads the options of a problem, without letters of their own.
func (r *reader) choices(fields map[string]json.RawMessage) ([]string, string) {
	names := r.source.Fields
	items, fault := r.optionsOf(fields)
	if fault != "" {
		return nil, fault
	}
	choices := make([]string, len(items))
	for i, item := range items {
		if names.ChoiceText != "" {
			found, ok := inside(item, names.ChoiceText)
			if !ok {
				return nil, fmt.Sprintf("option %s of field %q has no %q: set %s.fields.choice_text", answer.Letter(i), names.Choices, names.ChoiceText, r.where)
			}
			item = found
		}
		text, ok := scalarText(item)
		if text = strings.TrimSpace(text); !ok || text == "" {
			return nil, fmt.Sprintf("option %s of field %q is %s: an option must be a string that is not empty, or a number", answer.Letter(i), names.Choices, jsonType(item))
		}
		choices[i] = text
	}
	return withoutLetters(choices), ""
}

// optionsOf finds the options of a problem in one field, or each in its own.
func (r *reader) optionsOf(fields map[string]json.RawMessage) (items []json.RawMessage, fault string) {
	name := r.source.Fields.Choices
	if _, ok := lookup(fields, name); !ok && strings.Contains(name, ",") {
		for path := range strings.SplitSeq(name, ",") {
			item, fault := r.need(fields, strings.TrimSpace(path), "choices")
			if fault != "" {
				return nil, fault
			}
			items = append(items, item)
		}
		return items, ""
	}
	raw, fault := r.need(fields, name, "choices")
	if fault != "" {
		return nil, fault
	}
	var byLetter map[string]json.RawMessage // {"A": "one", "B": "two"}
	if json.Unmarshal(raw, &byLetter) == nil {
		for i := 0; byLetter[answer.Letter(i)] != nil; i++ {
			items = append(items, byLetter[answer.Letter(i)])
		}
	} else {
		_ = json.Unmarshal(raw, &items) // what is no list has none
	}
	if len(items) < 2 || len(items) > answer.MaxChoices || len(byLetter) > len(items) {
		return nil, fmt.Sprintf("field %q is %s of %d: options must be a list of 2 to %d, or an object with the names A, B and so on", name, jsonType(raw), max(len(items), len(byLetter)), answer.MaxChoices)
	}
	return items, ""
}

// shuffled reads the right option and the wrong ones, and puts them into an order
// that says nothing of which is which: it depends on the texts, and on no seed, so
// that a data set is the same in every run.
func (r *reader) shuffled(fields map[string]json.RawMessage) ([]string, string) {
	names := r.source.Fields
	var options []string
	for i, path := range append([]string{names.Answer}, names.Wrong...) {
		use := "wrong"
		if i == 0 {
			use = "answer"
		}
		raw, fault := r.need(fields, path, use)
		if fault != "" {
			return nil, fault
		}
		text, ok := scalarText(raw)
		if text = strings.TrimSpace(text); !ok || text == "" {
			return nil, fmt.Sprintf("field %q is %s: an option must be a string that is not empty, or a number", path, jsonType(raw))
		}
		if slices.Contains(options, text) {
			return nil, fmt.Sprintf("field %q is %q, as another option is", path, mathverify.Clip(text))
		}
		options = append(options, text)
	}
	if len(options) > answer.MaxChoices {
		return nil, fmt.Sprintf("there are %d options: at most %d are possible", len(options), answer.MaxChoices)
	}
	key := slices.Clone(options)
	slices.Sort(key)
	shuffled := make([]string, len(options))
	for i, at := range rng.New(0, rng.PurposeData, 0, "options\x00"+strings.Join(key, "\x00"), 0).Permutation(0, len(options)) {
		shuffled[i] = key[at]
	}
	return shuffled, ""
}

// withoutLetters drops "A)", "(A)", "A." or "A:" in front of the first option,
// and so on, if every option has its letter: "A. Lincoln" alone is a name.
func withoutLetters(choices []string) []string {
	bare := slices.Clone(choices)
	for i, text := range choices {
		letter := answer.Letter(i)
		mark := slices.IndexFunc([]string{"(" + letter + ")", letter + ")", letter + ".", letter + ":"}, func(mark string) bool {
			rest, ok := strings.CutPrefix(text, mark)
			if rest = strings.TrimSpace(rest); ok && rest != "" {
				bare[i] = rest
			}
			return ok
		})
		if mark < 0 {
			return choices
		}
	}
	return bare
}

// forms maps what data call the form of an answer.
var forms = map[string]string{
	"": "", "any": "", "integer": answer.FormInteger, "int": answer.FormInteger, "float": answer.FormFloat, "bool": answer.FormBool, "boolean": answer.FormBool, "option": answer.FormOption,
	"list": answer.FormList, "list of integer": answer.FormList, "list of float": answer.FormList,
}

// form reads the form of the answer.
func (r *reader) form(fields map[string]json.RawMessage) (string, string) {
	names := r.source.Fields
	if names.Choices != "" || len(names.Wrong) > 0 {
		return answer.FormOption, ""
	}
	if names.Form == "" {
		return "", ""
	}
	raw, _, fault := r.constant(fields, names.Form, "form")
	if fault != "" {
		return "", fault
	}
	text, _ := scalarText(raw)
	form, ok := forms[strings.ToLower(strings.TrimSpace(text))]
	if !ok {
		return "", fmt.Sprintf("field %q is %s: a form must be any, integer, float, bool, list or option", names.Form, mathverify.Clip(string(raw)))
	}
	return form, ""
}

// The sources of answers (recipe, data.train.fields.answer_from).
const (
	fromText       = "text"
	fromBoxed      = "boxed"
	fromLetter     = "letter"
	fromPosition   = "position"
	fromNumber     = "number"
	fromOptionText = "option_text"
)

// reference reads the reference answer: of options the letter of the right one,
// of a solution what is in its last box, else what follows the marker, if
// there is one. A single number loses the commas between its thousands.
func (r *reader) reference(fields map[string]json.RawMessage, task env.Task) (reference, fault string) {
	names := r.source.Fields
	raw, fault := r.need(fields, names.Answer, "answer")
	if fault != "" {
		return "", fault
	}
	text, fault := r.referenceText(raw)
	if fault != "" {
		return "", fault
	}
	if task.Choices != nil {
		at := rightOption(names.AnswerFrom, strings.TrimSpace(text), task.Choices)
		if at < 0 {
			return "", fmt.Sprintf("field %q is %q: it must be the %s of one of %d options (%s.fields.answer_from)", names.Answer, mathverify.Clip(text), strings.ReplaceAll(names.AnswerFrom, "_", " "), len(task.Choices), r.where)
		}
		return answer.Letter(at), ""
	}
	after := ""
	if marker := names.AnswerMarker; marker != "" {
		at := strings.LastIndex(text, marker)
		if at < 0 {
			return "", fmt.Sprintf("field %q has no %q: the answer must follow it (%s.fields.answer_marker)", names.Answer, marker, r.where)
		}
		text, after = text[at+len(marker):], fmt.Sprintf(" after the last %q", marker)
	}
	if names.AnswerFrom == fromBoxed {
		found, err := answer.LastBoxed(text)
		if err != nil {
			return "", fmt.Sprintf("field %q has no answer: %v (%s.fields.answer_from)", names.Answer, err, r.where)
		}
		text, after = found, " in the last box"
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "nan": // as tables have a number that is missing
		return "", fmt.Sprintf("field %q is not a number: a problem needs an answer", names.Answer)
	case text == "":
		return "", fmt.Sprintf("field %q is empty%s: a problem needs an answer", names.Answer, after)
	case len(text) > answer.MaxBytes:
		return "", fmt.Sprintf("field %q has %d bytes%s: an answer has at most %d; a worked solution needs %s.fields.answer_marker", names.Answer, len(text), after, answer.MaxBytes, r.where)
	}
	return answer.WithoutGrouping(text), ""
}

// referenceText is the text of the answer's field; the values of a list of a
// given form are joined with commas.
func (r *reader) referenceText(raw json.RawMessage) (text, fault string) {
	name := r.source.Fields.Answer
	if jsonType(raw) == "a list" && r.source.Fields.Form != "" {
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) != nil || len(items) == 0 {
			return "", fmt.Sprintf("field %q is empty: a problem needs an answer", name)
		}
		parts := make([]string, len(items))
		for i, item := range items {
			part, ok := answerText(item)
			if !ok {
				return "", fmt.Sprintf("field %q has %s in its list: an answer must be a string, a number, true or false", name, jsonType(item))
			}
			parts[i] = part
		}
		return strings.Join(parts, ", "), ""
	}
	text, ok := answerText(raw)
	if !ok && jsonType(raw) == "a number" {
		return "", fmt.Sprintf("field %q is the number %s: its exponent must be in [-%d, %d]", name, mathverify.Clip(string(raw)), maxExponent, maxExponent)
	}
	if !ok {
		return "", fmt.Sprintf("field %q is %s: an answer must be a string, a number, true or false", name, jsonType(raw))
	}
	return text, ""
}

// rightOption is the position of the right option; -1 when there is none.
func rightOption(from, text string, choices []string) int {
	at := -1
	switch from {
	case fromLetter:
		if bare := strings.ToUpper(strings.Trim(text, "(). ")); len(bare) == 1 {
			at = int(bare[0]) - 'A'
		}
	case fromPosition, fromNumber:
		n, err := strconv.Atoi(strings.TrimSuffix(text, ".0")) // as of levels
		if err != nil {
			return -1
		}
		if at = n; from == fromNumber {
			at--
		}
	case fromOptionText:
		at = slices.Index(choices, text)
	}
	if at < 0 || at >= len(choices) {
		return -1
	}
	return at
}
