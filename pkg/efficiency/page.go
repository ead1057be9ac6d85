package efficiency

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/figure"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/webpage"
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

// bars are jobstats' four, as they lie in a drawing.
type bars struct {
	Height int
	Rows   []bar
}

type bar struct {
	Name, Text string
	Y, TextY   int
	Width      float64 // of 400
	Fill       string
}

// The colours of bars: as figures have them, and what is low.
const (
	barFill = "#1b4f8f"
	lowFill = "#a33a1a"
)

// Write makes the page and the numbers in a folder, each whole.
func (r *Report) Write(folder string, attempt seal.Attempt) (page string, err error) {
	content, err := r.page()
	if err != nil {
		return "", err
	}
	page = filepath.Join(folder, pageName)
	if err := seal.Replace(page, content, attempt); err != nil {
		return "", err
	}
	numbers, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encoding the report: %w", err)
	}
	return page, seal.Replace(filepath.Join(folder, jsonName), append(numbers, '\n'), attempt)
}

// page is the report as a page that needs nothing else.
func (r *Report) page() ([]byte, error) {
	data := struct {
		Report  *Report
		Facts   [][2]string
		Bars    *bars
		Figures []webpage.Figure
		Left    string
		Tables  []table
		Own     string
	}{Report: r, Facts: r.facts(), Own: r.own()}
	if r.Sampled {
		data.Bars = r.bars()
		data.Figures, data.Left = r.figures()
		data.Tables = r.tables()
	}
	return webpage.Render(pageTemplate, data)
}

func (r *Report) bars() *bars {
	const distance = 24
	all := &bars{}
	add := func(name string, share *float64, red float64) {
		b := bar{Name: name, Text: "unknown", Fill: barFill, Y: all.Height + 2, TextY: all.Height + 15}
		if share != nil {
			if 100**share < red {
				b.Fill = lowFill
			}
			b.Width = math.Round(400 * min(1, *share))
			b.Text = percent(share) + " %"
		}
		all.Rows = append(all.Rows, b)
		all.Height += distance
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
	return all
}

// own says what the monitors took.
func (r *Report) own() string {
	text := fmt.Sprintf("%s, %s on disk.", plural.Count(int(r.Own.Samples), "sample"), humanBytes(float64(r.Own.DiskBytes)))
	if r.Own.CPUShare != nil {
		text += fmt.Sprintf(" Sampling took %.2f %% of a core beside each task.", 100**r.Own.CPUShare)
	}
	return text
}

// figures draws a time line for each GPU.
func (r *Report) figures() (charts []webpage.Figure, left string) {
	for _, g := range r.GPUs {
		chart := figure.LineChart{X: "minutes since the run began", Y: "GPU utilization, %", FromZero: true, Lines: []figure.Line{
			{Name: "a kernel ran", Points: r.points(g.line)}, {Name: "multiprocessors active", Points: r.points(g.sm)},
		}}
		if !chart.WorthDrawing() {
			continue
		}
		if len(charts) == mostFigures {
			left = fmt.Sprintf("Drawn are %d of %d GPUs; the samples have all.", mostFigures, len(r.GPUs))
			break
		}
		charts = append(charts, webpage.NewFigure(chart.SVG(), fmt.Sprintf("%s, GPU %d: %s, %s", g.Host, g.Index, g.Name, g.UUID)))
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
