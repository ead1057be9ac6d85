package tooluse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/plainjson"
)

// ending says how a message of the policy ends.
type ending int

const (
	endsOpen     ending = iota // in no valid way: cut off, or never finished
	endsCalls                  // in </tool>
	endsFinished               // in <TASK_FINISHED>
	endsGivenUp                // in <TASK_ERROR>
)

// The tags of the protocol.
const (
	openTool     = "<tool>"
	closeTool    = "</tool>"
	taskFinished = "<TASK_FINISHED>"
	taskError    = "<TASK_ERROR>"
)

// read finds out how a message ends and, if it calls functions, the text
// between its last <tool> and the </tool> at its end. Whatever comes before,
// reasoning or not, means nothing. A message with </tool> and no <tool> has a
// valid ending and calls that cannot be read.
func read(message string) (end ending, calls string) {
	message = strings.TrimRight(message, " \t\r\n")
	switch {
	case strings.HasSuffix(message, taskFinished):
		return endsFinished, ""
	case strings.HasSuffix(message, taskError):
		return endsGivenUp, ""
	case strings.HasSuffix(message, closeTool):
		inside := strings.TrimSuffix(message, closeTool)
		if at := strings.LastIndex(inside, openTool); at >= 0 {
			return endsCalls, inside[at+len(openTool):]
		}
		return endsCalls, ""
	}
	return endsOpen, ""
}

// What the policy is told of a message that calls nothing.
const (
	notAList = `Error: between <tool> and </tool> there must be one JSON list of calls, such as [{"name": "f", "args": {"x": 1}}].`
	noCalls  = "Error: the list of calls is empty."
	notACall = `Error: a call must be a JSON object with "name", a text, and "args", an object.`
)

// parseList reads the entries of a list of calls. why is what the policy is
// told of a text that is none.
func parseList(text string) (entries []json.RawMessage, why string) {
	text = strings.TrimSpace(text)
	if !utf8.ValidString(text) || !strings.HasPrefix(text, "[") || json.Unmarshal([]byte(text), &entries) != nil {
		return nil, notAList
	}
	if len(entries) == 0 {
		return nil, noCalls
	}
	return entries, ""
}

// The choices of env.tooluse.calls.
const (
	callsList = "list"
	callsAny  = "any"
)

// asList writes calls of the form that ExIt App. D shows as a list: one object that stands
// by itself, with parameters in the place of args (reading exit-call-format), or with
// arguments, as many models are trained to. What is no list of objects then stays as it is.
func asList(text string) string {
	text = strings.TrimSpace(text)
	inside := text
	if strings.HasPrefix(text, "{") {
		inside = "[" + text + "]"
	}
	var entries []map[string]json.RawMessage
	if json.Unmarshal([]byte(inside), &entries) != nil {
		return text
	}
	for _, fields := range entries {
		for _, other := range []string{"parameters", "arguments"} {
			if args, there := fields[other]; there && fields["args"] == nil {
				fields["args"] = args
				delete(fields, other)
			}
		}
	}
	list, err := plainjson.Line(entries)
	if err != nil {
		return text
	}
	return string(list)
}

// parseCall reads one entry of a list of calls. Keys other than name and args
// mean nothing; of a key that comes twice the last one counts.
func parseCall(entry json.RawMessage) (call Call, ok bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(entry, &fields) != nil {
		return Call{}, false
	}
	name, args := fields["name"], bytes.TrimSpace(fields["args"])
	if len(name) == 0 || name[0] != '"' || len(args) == 0 || args[0] != '{' || json.Unmarshal(name, &call.Name) != nil {
		return Call{}, false
	}
	var compact bytes.Buffer
	if json.Compact(&compact, args) != nil {
		return Call{}, false
	}
	call.Arguments = compact.Bytes()
	return call, true
}

// leftOut tells the policy of calls that were not made; nothing when there are
// none.
func leftOut(calls int, why string) []string {
	if calls == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Error: %d more of the calls were not made, %s.", calls, why)}
}

// clip cuts a result that is longer than a number of bytes, between two
// characters.
func clip(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	end := most
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s … (%d bytes more)", text[:end], len(text)-end)
}
