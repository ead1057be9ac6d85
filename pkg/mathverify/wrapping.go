package mathverify

import (
	"strings"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

var (
	// endMarks are the names that chat templates give to the ends of turns and
	// texts, which a response keeps when its tokens are decoded as they are, and
	// the tags that only change the type.
	endMarks = lazyregexp.New(`</?(?:b|i|strong|em)>|<\|[A-Za-z_]{2,40}\|>|<｜[^｜<>\n]{1,40}｜>|</?s>|<(?:eos|bos|pad|end_of_turn|start_of_turn)>`)
	// answerTags are the tags that prompts ask for around an answer.
	answerTags = lazyregexp.New(`(?i)<(/?)(?:final[_ ]?)?answer>`)
	// worded is a command with words as its argument, or the name of one.
	worded = lazyregexp.New(`\\[a-zA-Z]+\s*\{[^{}\\]*\}`)
	// anyBox finds a box of one of its names.
	anyBox = lazyregexp.New(`\\(?:boxed|fbox|framebox)\b`)
)

// withoutMarks puts blanks in the place of end marks and of what a policy
// thinks before it answers, as many bytes.
func withoutMarks(text string) string {
	if !strings.Contains(text, "<") {
		return text
	}
	text = endMarks().ReplaceAllStringFunc(text, func(mark string) string { return strings.Repeat(" ", len(mark)) })
	const thought = "</think>"
	if at := strings.LastIndex(text, thought); at >= 0 && strings.TrimSpace(text[at+len(thought):]) != "" {
		at += len(thought)
		text = strings.Repeat(" ", at) + text[at:]
	}
	return text
}

// Answered is the part of a response behind its thinking, without end marks: all
// of it where nothing stands there.
func Answered(response string) string { return strings.TrimSpace(withoutMarks(response)) }

// tagged finds the content of the last answer tag that has one. A tag may be
// closed by a stop string that was cut off, or opened by the prompt. A box
// behind the tag goes before it.
func tagged(text string) (from, to int, ok bool) {
	if !strings.Contains(text, "<") {
		return 0, 0, false
	}
	tags := answerTags().FindAllStringSubmatchIndex(text, -1)
	end := len(text)
	for i := len(tags) - 1; i >= 0; i-- {
		closing := tags[i][2] < tags[i][3]
		if closing {
			end = tags[i][0]
		}
		if from, first := tags[i][1], i == 0; !closing || first {
			if closing {
				from = 0
			}
			if strings.TrimSpace(text[from:end]) != "" {
				return from, end, !anyBox().MatchString(text[end:])
			}
			end = tags[i][0]
		}
	}
	return 0, 0, false
}

// Tagged is the part of a response that it gives as its answer by a tag, and
// the whole response when it has no tag; its thinking and end marks are left out.
func Tagged(response string) string {
	response = withoutMarks(response)
	if from, to, ok := tagged(response); ok {
		response = response[from:to]
	}
	return strings.TrimSpace(response)
}

// Unwrap takes from an answer what is around it and no part of it: answer
// tags, end marks, backticks, bold type and boxes.
func Unwrap(answer string) string {
	text := Tagged(answer)
	for {
		inner := unwrapOnce(text)
		if inner == text {
			return text
		}
		text = inner
	}
}

func unwrapOnce(text string) string {
	text = strings.TrimSpace(text)
	for _, mark := range []string{"```", "`", "**"} {
		inner, ok := between(strings.TrimSuffix(text, "."), mark)
		if ok && mark == "```" {
			if _, code, ok := strings.Cut(inner, "\n"); ok { // the first line names the language
				inner = code
			}
		}
		if ok && !strings.Contains(inner, mark) {
			return strings.TrimSpace(inner)
		}
	}
	bare := strings.TrimSuffix(text, ".")
	if inner, ok := between(bare, "$"); ok && anyBox().MatchString(inner) {
		bare = strings.TrimSpace(inner)
	}
	if at := anyBox().FindStringIndex(bare); at != nil && at[0] == 0 {
		open := at[1] + len(bare[at[1]:]) - len(strings.TrimLeft(bare[at[1]:], " "))
		if open < len(bare) && bare[open] == '{' && closingBrace(bare, open) == len(bare)-1 {
			return strings.TrimSpace(bare[open+1 : len(bare)-1])
		}
	}
	return text
}

// between cuts a mark from both ends.
func between(text, mark string) (string, bool) {
	inner, ok1 := strings.CutPrefix(text, mark)
	inner, ok2 := strings.CutSuffix(inner, mark)
	return inner, ok1 && ok2 && strings.TrimSpace(inner) != ""
}

// prose reports whether a text has words that are no names of functions.
func prose(text string) bool {
	const longestSymbol = 2 // letters side by side that may be factors
	for at := 0; at < len(text); at++ {
		if !letterAt(text, at) {
			continue
		}
		end := at
		for letterAt(text, end) {
			end++
		}
		word := strings.ToLower(text[at:end])
		if end-at > longestSymbol && !mathWord(word) && (at == 0 || text[at-1] != '\\') {
			return true
		}
		at = end
	}
	return false
}

// inTag lists the candidates in an answer tag: its whole content, if that is
// a formula or number without signs around, else what is found in it.
func inTag(response string, from, to int, options Options) []candidate {
	content := strings.TrimSpace(response[from:to])
	bare := strings.ReplaceAll(content, `\$`, "")
	if !strings.ContainsAny(bare, "$`\n") && !strings.Contains(content, `\(`) && !strings.Contains(content, `\[`) && !prose(worded().ReplaceAllString(bare, "")) &&
		!anyBox().MatchString(content) && options.Targets.has(TargetExpression) {
		start := from + strings.Index(response[from:to], content)
		return []candidate{{text: strings.Trim(content, "*"), start: start, end: start + len(content), priority: priorityTag}}
	}
	found := search(strings.Repeat(" ", from)+response[from:to], options, false)
	for i := range found {
		if found[i].priority == priorityAny {
			found[i].priority = priorityTag
		}
	}
	return found
}
