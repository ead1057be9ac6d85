package figure

import (
	"bytes"
	"image/png"
	"strings"
	"testing"
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

// The same chart is the same bytes, as a picture too, of 3.35 by 2.05 inches at 300
// dots.
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
	if size := drawn.Bounds().Size(); size.X != 1005 || size.Y != 615 {
		t.Errorf("the picture has %v dots", size)
	}
}
