package config

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/plural"
)

// The bounds of a YAML file. They are far above what a recipe needs, and low
// enough that no file makes the parser slow: its time grows with the square
// of the nesting and of the number of keys.
const (
	maxFileBytes = 64 << 10
	maxNesting   = 16
	maxKeys      = 4096
	maxProblems  = 20 // reported at once
)

// Document is one YAML text and the name that messages give it. A setting of
// the command line is a document without lines.
type Document struct {
	name     string
	lines    []string      // empty for a setting
	body     ast.Node      // nil for an empty text
	root     reflect.Value // what the document fills, for hints
	options  Options
	problems []problem
}

// Name is what messages call the document: the path of a file.
func (d *Document) Name() string { return d.name }

// Fill decodes the document into the struct that target points to. What the
// document does not name keeps its value; lists are replaced whole. Everything
// wrong with the text is one usage error that says where.
func (d *Document) Fill(target any, options Options) error {
	d.root, d.options = reflect.ValueOf(target).Elem(), options
	if d.body != nil {
		d.fill(d.root, d.body, "")
	}
	return d.Err()
}

// Node is a place in a document.
type Node struct{ node ast.Node }

// At finds the value at a path of keys.
func (d *Document) At(keys ...string) (Node, bool) {
	node := d.body
	for _, key := range keys {
		var found ast.Node
		switch n := node.(type) {
		case *ast.MappingNode:
			for _, entry := range n.Values {
				if entry.Key.GetToken().Value == key {
					found = entry.Value
					break
				}
			}
		case *ast.MappingValueNode:
			if n.Key.GetToken().Value == key {
				found = n.Value
			}
		}
		if found == nil {
			return Node{}, false
		}
		node = found
	}
	return Node{node}, true
}

// Text is the text at the place; ok is false for anything but text.
func (n Node) Text() (text string, ok bool) {
	if _, isText := n.node.(*ast.StringNode); !isText {
		return "", false
	}
	text, _, ok = scalarText(n.node)
	return text, ok
}

// IsList reports whether a list stands at the place.
func (n Node) IsList() bool {
	_, ok := n.node.(*ast.SequenceNode)
	return ok
}

// String says what stands at the place, in the words of messages.
func (n Node) String() string { return describeNode(n.node) }

// Add notes a problem at a place. [Document.Err] reports it.
func (d *Document) Add(at Node, format string, args ...any) {
	d.add(at.node.GetToken(), format, args...)
}

// problem is one message at a place in a document, counted from 1.
type problem struct {
	line, column int
	message      string
}

func (d *Document) add(tok *token.Token, format string, args ...any) {
	p := problem{line: 1, column: 1, message: fmt.Sprintf(format, args...)}
	if tok != nil && tok.Position != nil {
		p.line, p.column = tok.Position.Line, tok.Position.Column
	}
	d.problems = append(d.problems, p)
}

// Err is every problem in the order of the text, each with its source line
// and a caret, or nil.
func (d *Document) Err() error {
	if len(d.problems) == 0 {
		return nil
	}
	sort.SliceStable(d.problems, func(i, j int) bool {
		a, b := d.problems[i], d.problems[j]
		return a.line < b.line || a.line == b.line && a.column < b.column
	})
	shown := d.problems
	if len(shown) > maxProblems {
		shown = shown[:maxProblems]
	}
	var text []string
	for _, p := range shown {
		text = append(text, d.render(p))
	}
	if more := len(d.problems) - len(shown); more > 0 {
		text = append(text, fmt.Sprintf("%s: and %s", d.name, plural.Count(more, "more problem")))
	}
	return exitcode.Usagef("%s", strings.Join(text, "\n"))
}

func (d *Document) render(p problem) string {
	if len(d.lines) == 0 {
		return fmt.Sprintf("%s: %s", d.name, p.message)
	}
	head := fmt.Sprintf("%s:%d:%d: %s", d.name, p.line, p.column, p.message)
	if p.line < 1 || p.line > len(d.lines) {
		return head
	}
	// Only the surroundings of the place are shown of a long line.
	const before, after = 60, 40
	line := []rune(d.lines[p.line-1])
	for i, r := range line {
		if r == '\t' {
			line[i] = ' '
		} else if !unicode.IsPrint(r) {
			line[i] = unicode.ReplacementChar // a terminal would act on it
		}
	}
	column := min(max(p.column-1, 0), len(line))
	start := max(0, column-before)
	end := min(len(line), column+after)
	number := fmt.Sprintf("%5d | ", p.line)
	return fmt.Sprintf("%s\n%s%s\n%s^", head, number, strings.TrimRight(string(line[start:end]), " "),
		strings.Repeat(" ", len(number)+column-start))
}

// Read parses a YAML file, or says which folder it is. The error of a file
// that cannot be opened is that of [os.Open].
func Read(path string) (*Document, error) {
	f, info, err := plainfile.OpenAny(path)
	var other *plainfile.KindError
	if errors.As(err, &other) {
		return nil, exitcode.Usagef("%q is %s, not a YAML file", path, other.Kind)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.IsDir() {
		return nil, exitcode.Usagef("%q is a folder, not a YAML file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// Parse parses one YAML document. Anchors, aliases, tags, merge keys and
// explicit keys are refused: settings are plain data.
func Parse(name string, text []byte) (*Document, error) {
	d := &Document{name: name}
	if len(text) > maxFileBytes {
		return d, exitcode.Usagef("%s: the file has more than %d KiB", name, maxFileBytes>>10)
	}
	d.lines = strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	for i, line := range d.lines {
		if !utf8.ValidString(line) {
			d.problems = append(d.problems, problem{i + 1, 1, "the line is not valid UTF-8"})
		} else if column := strings.IndexFunc(line, forbidden); column >= 0 {
			d.problems = append(d.problems, problem{
				i + 1, utf8.RuneCountInString(line[:column]) + 1, "the line has a control character or a byte-order mark",
			})
		}
	}
	if err := d.Err(); err != nil {
		return d, err
	}
	d.body = d.parse(strings.Join(d.lines, "\n"))
	return d, d.Err()
}

// forbidden reports characters that YAML does not allow, or that no editor
// shows.
func forbidden(r rune) bool {
	return r < ' ' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0xfeff || r == 0x2028 || r == 0x2029
}

func (d *Document) parse(text string) (node ast.Node) {
	// The parser is not ours; whatever it trips over is the file's fault.
	defer func() {
		if recover() != nil {
			d.add(nil, "the file cannot be read as YAML")
			node = nil
		}
	}()
	tokens := lexer.Tokenize(text)
	d.checkTokens(tokens)
	if len(d.problems) > 0 {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var syntax interface {
			GetToken() *token.Token
			GetMessage() string
		}
		if errors.As(err, &syntax) {
			d.add(syntax.GetToken(), "%s", plainer(syntax.GetMessage()))
		} else {
			d.add(nil, "%v", err)
		}
		return nil
	}
	var body ast.Node
	for i, document := range file.Docs {
		if i > 0 {
			d.add(document.Start, "a second document begins here; one file holds one document")
			return nil
		}
		body = document.Body
	}
	if _, comment := body.(*ast.CommentGroupNode); comment {
		return nil
	}
	return body
}

// plainer says the parser's commonest messages in a recipe author's words.
func plainer(message string) string {
	switch {
	case strings.Contains(message, "mapping value is not allowed"):
		return "the indentation is wrong here, or the text holds a colon and must be in quotes"
	case strings.Contains(message, "'\t' that cannot start"), strings.Contains(message, "tab character cannot use"):
		return "a line cannot begin with a tab; indent with spaces"
	}
	return message
}

func (d *Document) checkTokens(tokens token.Tokens) {
	depth, line, onLine, keys := 0, 0, 0, 0
	for _, tok := range tokens {
		if tok.Position.Line != line {
			line, onLine = tok.Position.Line, 0
		}
		switch tok.Type {
		case token.AnchorType, token.AliasType:
			d.add(tok, "anchors and aliases are not supported; use base: to share settings, or quote the text")
		case token.MergeKeyType:
			d.add(tok, "merge keys are not supported; use base: to share settings")
		case token.TagType:
			d.add(tok, "tags are not supported; quote the text if it begins with !")
		case token.MappingKeyType:
			d.add(tok, "explicit keys are not supported; quote the text if it begins with ?")
		case token.DirectiveType:
			d.add(tok, "directives are not supported; quote the text if it begins with %%")
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType:
			onLine++
		case token.MappingValueType:
			if keys++; keys > maxKeys {
				d.add(tok, "more than %d keys", maxKeys)
			}
			if depth == 0 {
				onLine++
			}
		}
		if depth > maxNesting || onLine > maxNesting {
			d.add(tok, "nested more than %d deep", maxNesting)
		}
		if len(d.problems) > 0 {
			return
		}
	}
}
