package figure

import (
	"bytes"
	"fmt"
	"image/png"
	"strings"
	"testing"

	"gonum.org/v1/plot"
)

func TestTicks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{0, 1, "0 0.2 0.4 0.6 0.8 1.0"},
		{-0.25, 0.3, "-0.2 -0.1 0 0.1 0.2 0.3"},
		{0, 100, "0 20 40 60 80 100"},
		{27, 64, "30 40 50 60"},
		{0, 3e-4, "0 5e-05 0.0001 0.00015 0.0002 0.00025 0.0003"},
	} {
		var labels []string
		for _, tick := range (fewTicks{}).Ticks(c.low, c.high) {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("ticks of %v to %v: %s, want %s", c.low, c.high, got, c.want)
		}
	}
	var labels []string
	for _, tick := range (wholeTicks{}).Ticks(1, 30) {
		labels = append(labels, tick.Label)
	}
	if got := strings.Join(labels, " "); got != "5 10 15 20 25 30" {
		t.Errorf("whole ticks of 1 to 30: %s", got)
	}
}

// The same chart is the same bytes, as a picture too, of 3.35 by 1.95 inches and a legend
// of 13.5 points at 300 dots.
func TestPNG(t *testing.T) {
	t.Parallel()
	chart := LineChart{X: "step", Y: "quality (%)", Lines: []Line{{Name: "one", Points: []Point{{X: 0, Y: 1}, {X: 1, Y: 3}}}}}
	once := chart.PNG()
	if !bytes.Equal(once, chart.PNG()) {
		t.Error("drawn again, it is other bytes")
	}
	drawn, err := png.Decode(bytes.NewReader(once))
	if err != nil {
		t.Fatal(err)
	}
	if size := drawn.Bounds().Size(); size.X != 1005 || size.Y != 641 {
		t.Errorf("the picture has %v dots", size)
	}
}

// A legend stands above the data, whatever its length: a name that is too long takes
// several lines, and twelve lines of a figure do not look alike.
func TestLegend(t *testing.T) {
	t.Parallel()
	var names legend
	const name = "quickstart (optimizer.learning_rate=0.0003, rollout.group=16, schedule.staleness=2)"
	names.add(name, []plot.Thumbnailer{nil})
	names.add("data/"+strings.Repeat("é", 120), []plot.Thumbnailer{nil})
	var texts []string
	for i, e := range names.entries {
		if width := legendStyle.Width(e.text); width > figureWidth-legendLeft-legendThumbnail {
			t.Errorf("%q is %v wide", e.text, width)
		}
		if first := i == 0 || strings.HasPrefix(e.text, "data/"); first != (len(e.thumbs) == 1) {
			t.Errorf("line %d, %q, has %d marks", i, e.text, len(e.thumbs))
		}
		texts = append(texts, e.text)
	}
	if all := strings.Join(texts, " "); !strings.HasPrefix(all, name) || strings.Count(all, "é") != 120 || len(texts) < 4 {
		t.Errorf("lines %q", texts)
	}
	drawn := map[string]int{}
	for line := range 64 {
		l := lookOf(line)
		drawn[fmt.Sprintf("%v %v %T", l.color, l.dashes, l.mark)]++
	}
	if len(drawn) != 64 {
		t.Errorf("64 lines have %d looks", len(drawn))
	}
}
