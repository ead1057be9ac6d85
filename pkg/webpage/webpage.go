// Package webpage makes the pages of reports: one file each, that runs no script and
// loads nothing, for wide screens and phones, light and dark, and for print.
package webpage

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

//go:embed page.html
var pageTemplate string

//go:embed style.css
var style string

// Table is what the template "table" shows: the first cell of a row is its name. On a
// phone a row of a table with more than six columns becomes a block.
type Table struct {
	Head []string // none for a table of names and numbers
	Rows [][]string
}

// NewTable is a table of rows of which the first is the head.
func NewTable(rows [][]string) *Table { return &Table{Head: rows[0], Rows: rows[1:]} }

// Columns prints rows as text behind an indent, with so many blanks between columns.
func Columns(w io.Writer, indent string, blanks int, rows [][]string) {
	tab := tabwriter.NewWriter(w, 0, 0, blanks, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(tab, indent+strings.Join(row, "\t"))
	}
	_ = tab.Flush() // callers print into memory
}

// Figure is a drawing on a page.
type Figure struct {
	SVG     template.HTML
	Caption string
}

// NewFigure takes an SVG document that package figure drew. On the page it has the
// background of the page.
func NewFigure(svg []byte, caption string) Figure {
	text := string(svg)
	if start := strings.Index(text, "<svg"); start > 0 {
		text = text[start:]
	}
	text = strings.Replace(svgRoot().ReplaceAllString(text, `<svg viewBox="$1" role="img">`), "fill:#FFFFFF", "fill:none", 1)
	return Figure{template.HTML(text), caption}
}

// svgRoot is the start of an SVG document, with its fixed size and the namespaces, which
// a page gives and has by itself.
var svgRoot = lazyregexp.New(`(?s)<svg width="[^"]*" height="[^"]*" viewBox="([^"]*)"[^>]*>`)

// Render fills a template, which defines "title" and "body". These may use the templates
// "table" (of a Table), "facing" (of pairs of texts), "figures" (of several) and "figure".
// Whatever is a string in data is escaped.
func Render(parts string, data any) ([]byte, error) {
	t := template.New("page").Funcs(template.FuncMap{
		"style": func() template.CSS { return template.CSS(style) }, "unbroken": unbroken,
	})
	for _, text := range []string{pageTemplate, parts} {
		if _, err := t.Parse(text); err != nil {
			return nil, fmt.Errorf("parsing the page's template: %w", err)
		}
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, fmt.Errorf("filling the page's template: %w", err)
	}
	return b.Bytes(), nil
}

// unbroken keeps a number in one line with its unit, its error and its interval, but
// for the places at which a line may end where there is no room.
func unbroken(cell string) string {
	const space = "\u00a0"
	cell = strings.ReplaceAll(cell, " ", space)
	for _, part := range []string{"±", "[", "("} {
		cell = strings.ReplaceAll(cell, space+part, " "+part)
	}
	return cell
}
