package math

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/mathverify"
)

// TestCheckOptions: each flag of the checker changes its option of the preset and no other.
func TestCheckOptions(t *testing.T) {
	t.Parallel()
	lathe, boxed := mathverify.DefaultOptions(), must.Get(mathverify.Preset("boxed"))(t)
	changed := func(change func(*mathverify.Options)) mathverify.Options {
		o := lathe
		change(&o)
		return o
	}
	for _, c := range []struct {
		name    string
		set     func(*checkSettings)
		want    mathverify.Options
		refused string
	}{
		{"nothing", func(*checkSettings) {}, lathe, ""},
		{"a preset", func(s *checkSettings) { s.Preset = "boxed" }, boxed, ""}, // OnlyBest and Anchored stay
		{"no such preset", func(s *checkSettings) { s.Preset = "box" }, lathe, "--preset: "},
		{"places", func(s *checkSettings) { s.DecimalPlaces = 0 }, changed(func(o *mathverify.Options) { o.DecimalPlaces = 0 }), ""},
		{"most places", func(s *checkSettings) { s.DecimalPlaces = 30 }, changed(func(o *mathverify.Options) { o.DecimalPlaces = 30 }), ""},
		{"too many places", func(s *checkSettings) { s.DecimalPlaces = 31 }, lathe, "--decimal-places: got 31, want 0 to 30"},
		{"too few places", func(s *checkSettings) { s.DecimalPlaces = -2 }, lathe, "--decimal-places: got -2"},
		{"tolerance", func(s *checkSettings) { s.Tolerance = 0.05 }, changed(func(o *mathverify.Options) { o.Tolerance = 0.05 }), ""},
		{"all is near", func(s *checkSettings) { s.Tolerance = 1 }, lathe, "--tolerance: got 1"},
		{"less than equal", func(s *checkSettings) { s.Tolerance = -0.1 }, lathe, "--tolerance: got -0.1"},
		{"no number", func(s *checkSettings) { s.Tolerance = math.NaN() }, lathe, "--tolerance: got NaN"},
		{"targets", func(s *checkSettings) { s.Target = []string{"words", "latex"} }, changed(func(o *mathverify.Options) { o.Targets = mathverify.TargetWords | mathverify.TargetLaTeX }), ""},
		{"no target", func(s *checkSettings) { s.Target = []string{"word"} }, lathe, "--target: "},
		{"boxes among others", func(s *checkSettings) { s.Boxed = "among" }, changed(func(o *mathverify.Options) { o.Boxed = mathverify.BoxedAmong }), ""},
		{"no rank", func(s *checkSettings) { s.Boxed = "last" }, lathe, "--boxed: "},
		{"any", func(s *checkSettings) { s.Match = "any" }, changed(func(o *mathverify.Options) { o.Match = mathverify.MatchAny }), ""},
		{"no match", func(s *checkSettings) { s.Match = "all" }, lathe, "--match: "},
		{"only the best", func(s *checkSettings) { s.OnlyBest = true }, changed(func(o *mathverify.Options) { o.OnlyBest = true }), ""},
		{"anchored", func(s *checkSettings) { s.Anchored = true }, changed(func(o *mathverify.Options) { o.Anchored = true }), ""},
		{"as the library", func(s *checkSettings) { s.AsLibrary = true }, changed(func(o *mathverify.Options) { o.SplitImaginary = true }), ""},
		{"conditions", func(s *checkSettings) { s.Conditions = true }, changed(func(o *mathverify.Options) { o.SetForRelation = true }), ""},
		{"other symbols", func(s *checkSettings) { s.RenameSymbols = true }, changed(func(o *mathverify.Options) { o.RenameSymbols = true }), ""},
	} {
		settings := checker.Settings().(*checkSettings)
		c.set(settings)
		got, err := settings.options()
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) || exitcode.Code(err) != exitcode.Usage {
				t.Errorf("%s: %v, want %q", c.name, err, c.refused)
			}
			if _, err := checker.Verifier(settings); err == nil {
				t.Errorf("%s: lines would be checked", c.name)
			}
		case err != nil || got != c.want:
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	if (checkSettings{}).Choices("match") != nil || !cmp.Equal((checkSettings{}).Choices("preset"), mathverify.Presets()) {
		t.Error("the presets are the choices of --preset and of no other flag")
	}
}

// TestCheckLines: what a line of the checker scores.
func TestCheckLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, line     string
		explain, whole bool
		want           string // of the row, or of the error
		steps          bool
	}{
		{"a response", `{"id": 7, "gold": "1/2", "prediction": "It is $0.5$."}`, false, false, `{"id":7,"equal":true,"extracted":"0.5","why":"the answer equals the reference"}`, false},
		{"without id", `{"gold": "1/2", "prediction": "It is $0.4$."}`, false, false, `{"id":null,"equal":false,"extracted":"0.4","why":"not equal"}`, false},
		{"an answer", `{"id": "a", "gold": "1/2", "prediction": "\\frac{1}{2}"}`, false, true, `{"id":"a","equal":true,"extracted":"\\frac{1}{2}","why":"the answer equals the reference"}`, false},
		{"no answer", `{"id": "a", "gold": "1/2", "prediction": ""}`, false, false, `{"id":"a","equal":false,"extracted":"","why":"the response has no answer"}`, false},
		{"explained", `{"gold": "1/2", "prediction": "It is $0.5$."}`, true, false, `{"id":null,"equal":true,"extracted":"0.5","why":"the answer equals the reference"}`, true},
		{"an answer explained", `{"gold": "1/2", "prediction": "0.5"}`, true, true, `{"id":null,"equal":true,"extracted":"0.5","why":"the answer equals the reference"}`, true},
		{"no reference", `{"prediction": "1"}`, false, false, `"gold" and "prediction" must both be there, as strings`, false},
		{"no prediction", `{"gold": "1"}`, false, false, `"gold" and "prediction" must both be there, as strings`, false},
	} {
		settings := checker.Settings().(*checkSettings)
		settings.Explain, settings.Whole = c.explain, c.whole
		verify := must.Get(checker.Verifier(settings))(t)
		line := checker.Line()
		must.Do(t, json.Unmarshal([]byte(c.line), line))
		row, err := verify(line)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			verdict := row.(checkVerdict)
			if c.steps != (len(verdict.Steps) > 0) {
				t.Errorf("%s: steps %q", c.name, verdict.Steps)
			}
			verdict.Steps = nil
			got = string(must.Get(json.Marshal(verdict))(t))
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}
