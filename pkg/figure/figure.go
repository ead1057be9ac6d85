// Package figure draws the line and bar charts of reports, as SVG and PNG. Lines can
// be told apart in print without colour; the same figure is always the same bytes.
package figure

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The size of a figure without its legend: half of the text width of a page.
const (
	figureWidth  = 3.35 * vg.Inch
	figureHeight = 1.95 * vg.Inch
)

// look is how a line is drawn.
type look struct {
	color  color.Color
	dashes []vg.Length
	mark   draw.GlyphDrawer
}

// The looks of the lines, in the order in which a figure uses them. They
// differ in lightness, dash and mark, so that they can be told apart in print
// without colour.
var looks = []look{
	{color.RGBA{R: 0x1b, G: 0x4f, B: 0x8f, A: 0xff}, nil, draw.CircleGlyph{}},
	{color.RGBA{R: 0xd0, G: 0x6a, B: 0x12, A: 0xff}, []vg.Length{4, 2}, draw.BoxGlyph{}},
	{color.RGBA{R: 0x6c, G: 0x8f, B: 0x3d, A: 0xff}, []vg.Length{1.5, 1.5}, draw.PyramidGlyph{}},
	{color.RGBA{R: 0x8a, G: 0x55, B: 0x9c, A: 0xff}, []vg.Length{6, 2, 1, 2}, draw.CrossGlyph{}},
	{color.RGBA{R: 0x77, G: 0x77, B: 0x77, A: 0xff}, []vg.Length{2, 3}, draw.PlusGlyph{}},
	{color.RGBA{R: 0x1a, G: 0x1a, B: 0x1a, A: 0xff}, []vg.Length{8, 3}, draw.RingGlyph{}},
	{color.RGBA{R: 0xb0, G: 0x2e, B: 0x3a, A: 0xff}, []vg.Length{3, 1}, draw.SquareGlyph{}},
	{color.RGBA{R: 0x1d, G: 0x8a, B: 0x86, A: 0xff}, []vg.Length{8, 2, 1, 2, 1, 2}, draw.TriangleGlyph{}},
}

// lookOf is the look of a line. Those of a figure with more lines than there are looks
// take the mark of another, so that no two of 64 are alike.
func lookOf(line int) look {
	l := looks[line%len(looks)]
	l.mark = looks[(line+line/len(looks))%len(looks)].mark
	return l
}

var (
	ink  = color.RGBA{R: 0x33, G: 0x33, B: 0x33, A: 0xff}
	rule = color.RGBA{R: 0xe2, G: 0xe2, B: 0xe2, A: 0xff}
)

// maxMarked is the number of points up to which each gets a mark.
const maxMarked = 20

// Point is one value of a line.
type Point struct {
	X, Y float64
	Err  *float64 // half the length of its error bar; nil for none
}

// Line is one series of a figure.
type Line struct {
	Name   string // in the legend; empty for none
	Points []Point
}

// LineChart draws series over whole numbers.
type LineChart struct {
	X, Y     string // labels of the axes
	Lines    []Line
	FromZero bool      // the y axis begins at 0 at the latest
	Scatter  bool      // points alone, over any numbers: no lines
	Marks    []float64 // places of the x axis with a thin dashed rule, where something happened
}

// WorthDrawing reports whether a line has two points and a value that is not
// zero: an empty buffer or a ratio that is always 1 is said in words.
func (f LineChart) WorthDrawing() bool {
	long, something := false, false
	for _, l := range f.Lines {
		long = long || len(l.Points) >= 2
		for _, p := range l.Points {
			something = something || p.Y != 0
		}
	}
	return long && something
}

// IsCurve reports whether it is worth drawing over a training: two points, before and
// after, are in a table, and the line between them would show what nobody has measured.
func (f LineChart) IsCurve() bool {
	return f.WorthDrawing() && slices.ContainsFunc(f.Lines, func(l Line) bool { return len(l.Points) > 2 })
}

// SVG draws the figure. The bytes depend on the figure alone.
func (f LineChart) SVG() []byte {
	p, l := f.plot()
	return svg(p, l, figureHeight)
}

// PNG draws the figure, at 300 dots an inch.
func (f LineChart) PNG() []byte {
	p, l := f.plot()
	return picture(p, l, figureHeight)
}

func (f LineChart) plot() (*plot.Plot, *legend) {
	p, names := newPlot(), &legend{}
	p.X.Label.Text, p.Y.Label.Text = f.X, f.Y
	if f.whole() {
		p.X.Tick.Marker = wholeTicks{}
	}
	p.Add(horizontalRules{}, verticalRules(f.Marks))
	for i, l := range f.Lines {
		if len(l.Points) == 0 {
			continue
		}
		look := lookOf(i)
		xys := make(plotter.XYs, len(l.Points))
		for j, pt := range l.Points {
			xys[j] = plotter.XY{X: pt.X, Y: pt.Y}
		}
		path := &plotter.Line{XYs: xys, LineStyle: draw.LineStyle{Color: look.color, Width: vg.Points(1.3), Dashes: look.dashes}}
		var thumbs []plot.Thumbnailer
		if !f.Scatter {
			thumbs = append(thumbs, path)
			p.Add(path)
		}
		if f.Scatter || len(l.Points) <= maxMarked {
			marks := &plotter.Scatter{XYs: xys, GlyphStyle: draw.GlyphStyle{Color: look.color, Radius: vg.Points(1.9), Shape: look.mark}}
			p.Add(marks)
			thumbs = append(thumbs, marks)
		}
		p.Add(errorBars(l.Points, look.color))
		if l.Name != "" {
			names.add(l.Name, thumbs)
		}
	}
	if f.FromZero {
		p.Y.Min = math.Min(p.Y.Min, 0)
	}
	spread(&p.Y)
	if p.X.Min == p.X.Max {
		p.X.Min, p.X.Max = p.X.Min-1, p.X.Max+1
	}
	return p, names
}

// whole reports whether the lines are over whole numbers, such as iterations.
func (f LineChart) whole() bool {
	for _, l := range f.Lines {
		for _, p := range l.Points {
			if p.X != math.Trunc(p.X) {
				return false
			}
		}
	}
	return true
}

// spread makes room for a line whose values are all equal or almost so.
func spread(axis *plot.Axis) {
	if axis.Max-axis.Min >= 1e-9*math.Max(1, math.Abs(axis.Max)) {
		return
	}
	margin := math.Max(0.5*math.Abs(axis.Max), 0.01)
	if axis.Min >= 0 && axis.Min-margin < 0 {
		axis.Max += 2 * margin
	} else {
		axis.Min, axis.Max = axis.Min-margin, axis.Max+margin
	}
}

// The look of a legend.
const (
	legendLeft      = vg.Length(6)
	legendThumbnail = vg.Length(22)
	legendLine      = vg.Length(9.5) // height of a line
)

// legend is the names of lines. It is drawn above the data, in a height of its own.
type legend struct {
	entries []legendEntry
}

type legendEntry struct {
	thumbs []plot.Thumbnailer // none where a name goes on
	text   string
}

// add takes a name, in as many lines as it needs.
func (l *legend) add(name string, thumbs []plot.Thumbnailer) {
	// Whoever looks at an SVG may have no font of these widths, but a wider one.
	room := (figureWidth - legendLeft - legendThumbnail - vg.Points(8)) * 0.84
	line := ""
	flush := func() {
		l.entries = append(l.entries, legendEntry{thumbs, line})
		thumbs, line = nil, ""
	}
	for _, word := range strings.Fields(name) {
		if line != "" && legendStyle.Width(line+" "+word) > room {
			flush()
		}
		for line == "" && legendStyle.Width(word) > room { // a path, or a value without spaces
			cut := len(word)
			for cut > 1 && legendStyle.Width(word[:cut]) > room {
				_, size := utf8.DecodeLastRuneInString(word[:cut])
				cut -= size
			}
			line, word = word[:cut], word[cut:]
			flush()
		}
		line = strings.TrimSpace(line + " " + word)
	}
	flush()
}

// height is that of the legend and the space below it.
func (l *legend) height() vg.Length {
	if len(l.entries) == 0 {
		return 0
	}
	return legendLine*vg.Length(len(l.entries)) + vg.Points(4)
}

// draw draws the legend from the top of a canvas down.
func (l *legend) draw(c draw.Canvas) {
	for i, e := range l.entries {
		top := c.Max.Y - legendLine*vg.Length(i)
		icon := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: c.Min.X + legendLeft, Y: top - legendLine}, Max: vg.Point{X: c.Min.X + legendLeft + legendThumbnail, Y: top},
		}}
		for _, t := range e.thumbs {
			t.Thumbnail(&icon)
		}
		c.FillText(legendStyle, vg.Point{X: icon.Max.X + vg.Points(4), Y: top - legendLine/2}, e.text)
	}
}

// errorBars draws the error bars that there are.
func errorBars(points []Point, c color.Color) plot.Plotter {
	bars := &plotter.YErrorBars{LineStyle: draw.LineStyle{Color: c, Width: vg.Points(0.7)}, CapWidth: vg.Points(3)}
	for _, pt := range points {
		if pt.Err != nil {
			bars.XYs = append(bars.XYs, plotter.XY{X: pt.X, Y: pt.Y})
			bars.YErrors = append(bars.YErrors, struct{ Low, High float64 }{-*pt.Err, *pt.Err})
		}
	}
	if len(bars.XYs) == 0 {
		return nothing{}
	}
	return bars
}

// nothing draws nothing.
type nothing struct{}

func (nothing) Plot(draw.Canvas, *plot.Plot) {}

// BarChart draws one horizontal bar for each name, from the top down.
type BarChart struct {
	X      string // label of the axis
	Names  []string
	Values []float64
	Labels []string // at the ends of the bars
}

// SVG draws the figure.
func (f BarChart) SVG() []byte { p, height := f.plot(); return svg(p, &legend{}, height) }

// PNG draws the figure, at 300 dots an inch.
func (f BarChart) PNG() []byte { p, height := f.plot(); return picture(p, &legend{}, height) }

func (f BarChart) plot() (*plot.Plot, vg.Length) {
	p := newPlot()
	p.X.Label.Text = f.X
	n := len(f.Names)
	names, values := make([]string, n), make(plotter.Values, n)
	var ends plotter.XYLabels
	for i := range n {
		names[n-1-i], values[n-1-i] = f.Names[i], f.Values[i]
		ends.XYs = append(ends.XYs, plotter.XY{X: f.Values[i], Y: float64(n - 1 - i)})
		ends.Labels = append(ends.Labels, f.Labels[i])
		p.X.Min, p.X.Max = math.Min(p.X.Min, f.Values[i]), math.Max(p.X.Max, f.Values[i])
	}
	bars, err := plotter.NewBarChart(values, vg.Points(9))
	if err != nil {
		return newPlot(), figureHeight // there are no values
	}
	bars.Horizontal, bars.Color, bars.LineStyle.Width = true, looks[0].color, 0
	labels, err := plotter.NewLabels(ends)
	if err != nil {
		return newPlot(), figureHeight
	}
	for i := range labels.TextStyle {
		labels.TextStyle[i] = style(7, draw.XLeft, draw.YCenter)
	}
	labels.Offset.X = vg.Points(3)
	p.Add(bars, labels)
	p.NominalY(names...)
	p.Y.Tick.Label = style(7.5, draw.XRight, draw.YCenter)
	p.Y.LineStyle.Width, p.Y.Padding = 0, vg.Points(6)
	p.X.Min = math.Min(p.X.Min, 0)
	p.X.Max = math.Max(p.X.Max+0.18*(p.X.Max-p.X.Min), 1e-9) // room for the labels
	p.Y.Min, p.Y.Max = -0.6, float64(n)-0.4
	return p, vg.Points(float64(17*n + 38))
}

// newPlot is an empty plot in the report's style.
func newPlot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil // that of the figure
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle = style(8, draw.XCenter, draw.YBottom)
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = ink, ink
		axis.Tick.Length = vg.Points(3)
		axis.Label.Padding = vg.Points(2)
	}
	p.X.Tick.Label = style(7.5, draw.XCenter, draw.YTop)
	p.Y.Tick.Label = style(7.5, draw.XRight, draw.YCenter)
	p.Y.Tick.Marker = fewTicks{}
	p.X.Tick.Marker = fewTicks{}
	p.Y.LineStyle.Width = 0
	p.Y.Tick.Length = 0
	p.Y.Padding = vg.Points(4)
	p.X.Padding = vg.Points(3)
	return p
}

var legendStyle = style(7.5, draw.XLeft, draw.YCenter)

func style(size vg.Length, x text.XAlignment, y text.YAlignment) text.Style {
	return text.Style{
		Color: ink, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		XAlign: x, YAlign: y, Handler: plot.DefaultTextHandler,
	}
}

// horizontalRules draws a thin rule at each labelled tick of the y axis.
type horizontalRules struct{}

func (horizontalRules) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	for _, tick := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if tick.Label != "" && tick.Value >= p.Y.Min && tick.Value <= p.Y.Max {
			c.StrokeLine2(draw.LineStyle{Color: rule, Width: vg.Points(0.5)}, c.Min.X, y(tick.Value), c.Max.X, y(tick.Value))
		}
	}
}

// verticalRules draws a thin dashed rule at places of the x axis.
type verticalRules []float64

func (v verticalRules) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	for _, at := range v {
		if at >= p.X.Min && at <= p.X.Max {
			c.StrokeLine2(draw.LineStyle{Color: rule, Width: vg.Points(0.8), Dashes: []vg.Length{vg.Points(3), vg.Points(2)}}, x(at), c.Min.Y, x(at), c.Max.Y)
		}
	}
}

// fewTicks labels round numbers, at most seven of them.
type fewTicks struct{}

func (fewTicks) Ticks(low, high float64) []plot.Tick {
	step := roundStep((high - low) / 6.5)
	var ticks []plot.Tick
	for i := math.Ceil(low/step - 1e-9); i*step <= high*(1+1e-12)+1e-300; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: label(i*step, step)})
		if len(ticks) > 20 {
			break
		}
	}
	return ticks
}

// label prints a tick with as many digits as its step needs.
func label(value, step float64) string {
	if math.Abs(value) < step/2 {
		return "0"
	}
	if a := math.Abs(value); a >= 1e5 || a < 1e-3 {
		return strconv.FormatFloat(value, 'g', 2, 64)
	}
	digits := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	return strconv.FormatFloat(value, 'f', digits, 64)
}

// roundStep is the smallest of 1, 2, 5, 10, … times a power of ten that is
// not below x.
func roundStep(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 0) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*power >= x*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// wholeTicks labels whole numbers.
type wholeTicks struct{}

func (wholeTicks) Ticks(low, high float64) []plot.Tick {
	step := math.Max(1, roundStep((high-low)/8))
	var ticks []plot.Tick
	for i := math.Ceil(low / step); i*step <= high; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: strconv.Itoa(int(i * step))})
	}
	return ticks
}

// svg draws a plot as an SVG document. height is that without the legend.
func svg(p *plot.Plot, l *legend, height vg.Length) []byte {
	// Liberation Sans has the widths of Arial and Helvetica.
	return bytes.ReplaceAll(render(p, l, vgsvg.New(figureWidth, height+l.height())), []byte("font-family:Liberation Sans;font-variant:normal"),
		[]byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif"))
}

// picture draws a plot as a picture.
func picture(p *plot.Plot, l *legend, height vg.Length) []byte {
	const dotsPerInch = 300
	canvas := vgimg.NewWith(vgimg.UseWH(figureWidth, height+l.height()), vgimg.UseDPI(dotsPerInch))
	return render(p, l, vgimg.PngCanvas{Canvas: canvas})
}

// canvas is what a plot is drawn on.
type canvas interface {
	vg.CanvasSizer
	io.WriterTo
}

func render(p *plot.Plot, l *legend, c canvas) []byte {
	whole := draw.New(c)
	whole.SetColor(color.White) // also where a page around it is dark
	whole.Fill(whole.Rectangle.Path())
	l.draw(whole)
	// The last labels of the axes reach over the edge of the data.
	p.Draw(draw.Crop(whole, vg.Points(1), -vg.Points(7), vg.Points(1), -vg.Points(4)-l.height()))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		panic(fmt.Sprintf("figure: writing to memory: %v", err))
	}
	return b.Bytes()
}
