package config

import (
	"slices"
	"sort"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

// Edits change the text of a document. Paths are dotted. What they do not name stays as
// it is written, comments included.
type Edits struct {
	Rename map[string]string // the last key of a path
	Remove []string          // fields; a group is removed with its last field
	Insert []Insertion       // in the order in which they shall stand
}

// Insertion is a field at the top of a document, on one line.
type Insertion struct {
	Line   string // as NAME: VALUE
	At     string // the field at the top beside which it stands
	Before bool   // before it, not after it
}

// Rewritten is the document's text with edits. Comments in what is removed stand above
// what is inserted in its place.
func (d *Document) Rewritten(e Edits) string {
	text := strings.Join(d.lines, "\n")
	root, ok := mappingOf(d.body)
	if !ok {
		return text
	}
	w := rewriter{doc: d, edits: e, source: []rune(text), comments: map[int]*token.Token{}}
	at := 0
	for _, line := range d.lines {
		w.starts = append(w.starts, at)
		at += len([]rune(line)) + 1
	}
	for _, tok := range lexer.Tokenize(text) {
		if tok.Type == token.CommentType {
			w.comments[tok.Position.Line] = tok
		}
	}
	if flow, ok := d.body.(*ast.MappingNode); ok && flow.IsFlowStyle {
		w.flow(flow, "")
		w.insertInFlow(flow)
	} else {
		w.block(root, "", len(d.lines))
	}
	return w.apply()
}

type rewriter struct {
	doc      *Document
	edits    Edits
	source   []rune
	starts   []int                // of lines
	comments map[int]*token.Token // by line, from 1
	patches  []patch
	lost     []string // comments of what is removed from the section at hand
}

// patch replaces a part of the source.
type patch struct {
	start, end int
	text       string
}

func (w *rewriter) offset(tok *token.Token) int {
	return w.starts[tok.Position.Line-1] + tok.Position.Column - 1
}

// lineStart is where a line begins, from 0; that after the last is the text's end.
func (w *rewriter) lineStart(line int) int {
	if line < len(w.starts) {
		return w.starts[line]
	}
	return len(w.source)
}

func (w *rewriter) apply() string {
	sort.SliceStable(w.patches, func(i, j int) bool {
		a, b := w.patches[i], w.patches[j]
		return a.start < b.start || a.start == b.start && a.end == a.start && b.end > b.start
	})
	var b strings.Builder
	at := 0
	for _, p := range w.patches {
		b.WriteString(string(w.source[at:max(at, p.start)]))
		b.WriteString(p.text)
		at = max(at, p.end)
	}
	b.WriteString(string(w.source[at:]))
	return b.String()
}

// gone reports whether nothing of an entry stays.
func (w *rewriter) gone(entry *ast.MappingValueNode, path string) bool {
	if slices.Contains(w.edits.Remove, path) {
		return true
	}
	entries, ok := mappingOf(entry.Value)
	if !ok || len(entries) == 0 {
		return false
	}
	return !slices.ContainsFunc(entries, func(e *ast.MappingValueNode) bool {
		return !w.gone(e, joinPath(path, e.Key.GetToken().Value))
	})
}

// keep renames an entry that stays, and edits what is below it.
func (w *rewriter) keep(entry *ast.MappingValueNode, path string, end int) {
	if name, ok := w.edits.Rename[path]; ok {
		key, start := entry.Key.GetToken(), w.offset(entry.Key.GetToken())
		quotes := 0
		if key.Type == token.SingleQuoteType || key.Type == token.DoubleQuoteType {
			quotes = 2
		}
		w.patches = append(w.patches, patch{start, start + len([]rune(key.Value)) + quotes, name})
	}
	if flow, ok := entry.Value.(*ast.MappingNode); ok && flow.IsFlowStyle {
		w.flow(flow, path)
	} else if entries, ok := mappingOf(entry.Value); ok {
		w.block(entries, path, end)
	}
}

// flow edits a mapping in braces, of which something stays.
func (w *rewriter) flow(mapping *ast.MappingNode, path string) {
	last := -1 // of those that stay
	for i, entry := range mapping.Values {
		own := joinPath(path, entry.Key.GetToken().Value)
		if !w.gone(entry, own) {
			w.keep(entry, own, 0)
			last = i
		}
	}
	for i, entry := range mapping.Values[:last+1] {
		if w.gone(entry, joinPath(path, entry.Key.GetToken().Value)) {
			w.remove(w.offset(entry.Key.GetToken()), w.offset(mapping.Values[i+1].Key.GetToken()))
		}
	}
	if last+1 < len(mapping.Values) {
		start := w.offset(mapping.Values[last+1].Key.GetToken())
		for start > 0 && strings.ContainsRune(" \t\n,", w.source[start-1]) {
			start--
		}
		w.remove(start, w.offset(mapping.End))
	}
}

// remove takes a part of the source out, and keeps its comments.
func (w *rewriter) remove(start, end int) {
	for line := range w.starts {
		if c := w.comments[line+1]; c != nil && w.offset(c) >= start && w.offset(c) < end {
			w.lost = append(w.lost, "#"+strings.TrimRight(c.Value, " "))
		}
	}
	w.patches = append(w.patches, patch{start, end, ""})
}

// block edits a mapping of one entry a line, which ends before a line, from 0.
func (w *rewriter) block(entries []*ast.MappingValueNode, path string, end int) {
	for i, entry := range entries {
		key := entry.Key.GetToken()
		own, first, after := joinPath(path, key.Value), key.Position.Line-1, end
		if i+1 < len(entries) {
			after = entries[i+1].Key.GetToken().Position.Line - 1
		}
		after = w.trimmed(first, after, key.Position.Column-1)
		if path == "" {
			w.lost = nil
		}
		gone := w.gone(entry, own)
		switch {
		case !gone:
			w.keep(entry, own, after)
		case path == "":
			w.remove(w.lineStart(first), w.lineStart(after))
		default:
			for first > 0 && isComment(w.doc.lines[first-1]) && indentOf(w.doc.lines[first-1]) == key.Position.Column-1 {
				first--
			}
			w.remove(w.lineStart(first), w.lineStart(after))
		}
		if path == "" {
			w.insertAround(own, w.lineStart(first), w.lineStart(after))
		}
	}
}

// trimmed is the end of an entry without the empty lines and the comments after it.
func (w *rewriter) trimmed(first, end, indent int) int {
	for end > first+1 {
		line := w.doc.lines[end-1]
		if strings.TrimSpace(line) != "" && !(isComment(line) && indentOf(line) <= indent) {
			break
		}
		end--
	}
	return end
}

func isComment(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "#") }

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// insertAround puts what is inserted beside a section before and after it.
func (w *rewriter) insertAround(section string, start, end int) {
	var before, after []string
	for _, in := range w.edits.Insert {
		switch {
		case in.At != section:
		case in.Before:
			before = append(before, in.Line)
		default:
			after = append(after, in.Line)
		}
	}
	if len(after) > 0 {
		after = append(w.lost, after...)
	} else {
		before = append(w.lost, before...)
	}
	if len(before) > 0 {
		w.patches = append(w.patches, patch{start, start, strings.Join(before, "\n") + "\n"})
	}
	if len(after) > 0 {
		text := strings.Join(after, "\n") + "\n"
		if end == len(w.source) && (end == 0 || w.source[end-1] != '\n') {
			text = "\n" + strings.TrimSuffix(text, "\n")
		}
		w.patches = append(w.patches, patch{end, end, text})
	}
}

// insertInFlow puts what is inserted before the closing brace of the whole document.
func (w *rewriter) insertInFlow(root *ast.MappingNode) {
	var lines []string
	for _, in := range w.edits.Insert {
		lines = append(lines, in.Line)
	}
	if len(lines) == 0 {
		return
	}
	at := w.offset(root.End)
	text := strings.Join(lines, ", ")
	if slices.ContainsFunc(root.Values, func(e *ast.MappingValueNode) bool { return !w.gone(e, e.Key.GetToken().Value) }) {
		text = ", " + text
	}
	w.patches = append(w.patches, patch{at, at, text})
}

// Source is the document's text.
func (d *Document) Source() string { return strings.Join(d.lines, "\n") }

// Section is the text of a field at the top of the document, its name included.
func (d *Document) Section(name string) (text string, ok bool) {
	root, _ := mappingOf(d.body)
	w := rewriter{doc: d}
	for i, entry := range root {
		key, end := entry.Key.GetToken(), len(d.lines)
		if key.Value != name {
			continue
		}
		if i+1 < len(root) {
			end = root[i+1].Key.GetToken().Position.Line - 1
		}
		first := key.Position.Line - 1
		if end <= first { // all of the document is one line
			return entry.String(), true
		}
		return strings.Join(d.lines[first:w.trimmed(first, end, 0)], "\n"), true
	}
	return "", false
}
