package efficiency

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"path/filepath"
	"regexp"

	"github.com/lathe-rl/lathe/pkg/figure"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

//go:embed page.html
var pageTemplate string

// The names of the files in the folder of the report.
const (
	pageName = "gpu.html"
	jsonName = "gpu.json"
)

// mostFigures bounds the time lines of the page; all are in the samples.
const mostFigures = 16

// drawn is a figure of the page.
type drawn struct {
	Caption string
	SVG     template.HTML
}

// bar is one of jobstats' four.
type bar struct {
	Name  string
	Known bool
	Low   bool
	Width float64
	Text  string
}

// Write makes the page and the numbers in the folder of the report, each whole.
func (r *Report) Write(d graph.Dir, attempt seal.Attempt) (page string, err error) {
	content, err := r.page()
	if err != nil {
		return "", err
	}
	page = filepath.Join(d.Report(), pageName)
	if err := seal.Replace(page, content, attempt); err != nil {
		return "", err
	}
	numbers, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encoding the report: %w", err)
	}
	return page, seal.Replace(filepath.Join(d.Report(), jsonName), append(numbers, '\n'), attempt)
}

var declaration = regexp.MustCompile(`(?s)^.*?(<svg)`)

// page is the report as a page that needs nothing else.
func (r *Report) page() ([]byte, error) {
	t, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return nil, err
	}
	charts, left := r.figures()
	data := struct {
		Report  *Report
		Facts   [][2]string
		Bars    []bar
		Figures []drawn
		Left    string
		Tables  []table
		Own     string
	}{Report: r, Facts: r.facts(), Bars: r.bars(), Figures: charts, Left: left, Own: r.own()}
	if r.Sampled {
		data.Tables = r.tables()
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, fmt.Errorf("making the page: %w", err)
	}
	return b.Bytes(), nil
}

func (r *Report) bars() []bar {
	bars := []bar{}
	add := func(name string, share *float64, red float64) {
		b := bar{Name: name, Text: "unknown"}
		if share != nil {
			b.Known, b.Low = true, 100**share < red
			b.Width = math.Round(1000*min(1, *share)) / 10
			b.Text = percent(share) + " %"
		}
		bars = append(bars, b)
	}
	red := 0.0
	if len(r.GPUs) == 0 {
		red = cpuRed
	}
	add("CPU utilization", r.Total.CPUShare, red)
	add("CPU memory", r.Total.MemoryShare, 0)
	if len(r.GPUs) > 0 {
		add("GPU utilization", r.Total.GPUShare, gpuRed)
		add("GPU memory", r.Total.GPUMemoryShare, 0)
	}
	return bars
}

// own says what the monitors took.
func (r *Report) own() string {
	text := fmt.Sprintf("%d samples, %s on disk.", r.Own.Samples, humanBytes(float64(r.Own.DiskBytes)))
	if r.Own.CPUShare != nil {
		text += fmt.Sprintf(" Sampling took %.2f %% of a core beside each task.", 100**r.Own.CPUShare)
	}
	return text
}

// figures draws a time line for each GPU.
func (r *Report) figures() (charts []drawn, left string) {
	for _, g := range r.GPUs {
		chart := figure.LineChart{X: "minutes", Y: "%", FromZero: true, Lines: []figure.Line{
			{Name: "a kernel ran", Points: r.points(g.line)}, {Name: "multiprocessors active", Points: r.points(g.sm)},
		}}
		if !chart.WorthDrawing() {
			continue
		}
		if len(charts) == mostFigures {
			left = fmt.Sprintf("Drawn are %d of %d GPUs; the samples have all.", mostFigures, len(r.GPUs))
			break
		}
		svg := declaration.ReplaceAll(chart.SVG(), []byte("$1"))
		charts = append(charts, drawn{Caption: fmt.Sprintf("%s, GPU %d: %s, %s", g.Host, g.Index, g.Name, g.UUID), SVG: template.HTML(svg)})
	}
	return charts, left
}

// mostPoints is as many as a figure of that width can show.
const mostPoints = 160

// points are a time line in minutes since the run began and percent.
func (r *Report) points(line []moment) []figure.Point {
	for len(line) > mostPoints {
		shorter := halved(append([]moment{}, line...))
		if len(shorter) == len(line) {
			break // gaps between all of them
		}
		line = shorter
	}
	points := make([]figure.Point, len(line))
	for i, m := range line {
		points[i] = figure.Point{X: m.at.Sub(*r.Start).Minutes(), Y: 100 * m.value}
	}
	return points
}
