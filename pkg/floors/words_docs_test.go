package floors

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// oldWords are what pages and programs said before the glossary in pkg/README.md, with what
// they say instead. A space stands for any space, the end of a line too.
var oldWords = []word{
	{oldWord(`foret(?:el|old)\w*`), "estimate or predict"},
	{oldWord(`trunks?`), "shared prefix"},
	{oldWord(`fates?`), "disposition"},
	{oldWord(`cag(?:e[sd]?|ing)`), "sandbox"},
	{oldWord(`mend(?:s|ed|ing)?`), "fix"},
	{oldWord(`cannot be meant`), "invalid"},
	{oldWord(`(?:go|goes|going|gone|went) on with`), "resume or continue"},
	{oldWord(`carr(?:y|ies|ied|ying)(?: \w+){0,3} out`), "run or execute"},
	{oldWord(`for programs`), "machine-readable"},
	{oldWord(`(?:near memory|memory that is near)`), "NUMA-local memory"},
	{oldWord(`seal(?:s|ed|ing)? anew`), "resealed"},
	{oldWord(`left over`), "remaining, or the rest"},
	{oldWord(`gates?`), "controller job"},
	{oldWord(`kept sets?`), "truncated support (top-k/top-p)"},
	{oldWord(`clocks? that (?:is|are) not there`), "simulated time"},
}

// word is an old word and what is said instead.
type word struct {
	old *regexp.Regexp
	now string
}

func oldWord(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b` + strings.ReplaceAll(pattern, " ", `\s+`) + `\b`)
}

// oldWordsOf lists the old words of a page's prose by their lines.
func oldWordsOf(page string) []string {
	var found []string
	text := prose(page)
	for _, w := range oldWords {
		for _, at := range w.old.FindAllStringIndex(text, -1) {
			line := 1 + strings.Count(text[:at[0]], "\n")
			found = append(found, fmt.Sprintf("%d: %q, write %s", line, strings.Join(strings.Fields(text[at[0]:at[1]]), " "), w.now))
		}
	}
	return found
}

// TestGlossary: the glossary in pkg/README.md has a line for each term, in the order of
// the alphabet.
func TestGlossary(t *testing.T) {
	t.Parallel()
	_, glossary, _ := strings.Cut(markdown(t)["pkg/README.md"], "\n## Glossary\n")
	terms, before := regexp.MustCompile(`(?m)^- \*\*([^*]+)\*\*: .*\.`).FindAllStringSubmatch(glossary, -1), ""
	if lines := strings.Count(glossary, "\n") - 1; len(terms) != lines || len(terms) < 20 {
		t.Errorf("%d terms on %d lines: each has a line `- **term**: sentence.`", len(terms), lines)
	}
	for _, term := range terms {
		if term[1] <= before {
			t.Errorf("%q stands behind %q", term[1], before)
		}
		before = term[1]
	}
}

// TestWordsOfPages: no page written by hand has a word that the glossary replaces.
func TestWordsOfPages(t *testing.T) {
	t.Parallel()
	for name, page := range markdown(t) {
		if slices.Contains(generatedPages, name) {
			continue
		}
		for _, word := range oldWordsOf(page) {
			t.Errorf("%s:%s", name, word)
		}
	}
}

// TestWordsOfPagesCanFail: old words are found across lines and outside of code alone.
func TestWordsOfPagesCanFail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		page string
		want []string
	}{
		{"The run resumes; a controller job submits it. Commend the engaged gateway.", nil},
		{"`cage` and `stages: {gate: {}}` are settings.\n\n    lathe mend --gate\n\n```console\n$ lathe foretell\n```\n<!-- a trunk -->\n[x](#gates)\n", nil},
		{"It foretells\nthe time.\nGo on\nwith it.", []string{`1: "foretells", write estimate or predict`, `3: "Go on with", write resume or continue`}},
		{"A program carries the task out, and is carried out.", []string{`1: "carries the task out", write run or execute`, `1: "carried out", write run or execute`}},
		{"- a list\n    whose gate is prose", []string{`2: "gate", write controller job`}},
		{"The fate of what is left over in a Cage", []string{`1: "fate", write disposition`, `1: "Cage", write sandbox`, `1: "left over", write remaining, or the rest`}},
	} {
		if got := oldWordsOf(c.page); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.page, got, c.want)
		}
	}
}
