package recipe

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/credit"
)

// TestOldRunsRead: the recipe of a run that version 8f3c564 made, which said
// not_improved: {enabled: false} and dropped 239 segments as not_improved all the same.
// What is read is what ran.
func TestOldRunsRead(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/old/all-valid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	want := credit.Named(credit.ReasonInvalidTurns, credit.ReasonNoSubmission).With(credit.ReasonNotImproved, &credit.NotImproved{Threshold: 0.01})
	if diff := cmp.Diff(want, r.Select); diff != "" {
		t.Errorf("select (-want +got):\n%s", diff)
	}
	back, err := Parse(Write(r))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Errorf("written in the new form (-want +got):\n%s", diff)
	}
	for old, ran := range map[string]string{
		"    enabled: false\n    threshold: 0.01": "[invalid_turns, no_submission, not_improved]",
		"    enabled: true\n    threshold: 0":     "[invalid_turns, no_submission, {not_improved: {threshold: 0}}]",
		"    enabled: false\n    threshold: 0":    "[invalid_turns, no_submission]",
	} {
		changed := strings.Replace(string(text), "    enabled: false\n    threshold: 0.01", old, 1)
		if r, err = Parse([]byte(changed)); err != nil {
			t.Fatal(err)
		}
		if got := r.Select.String(); got != ran {
			t.Errorf("%q ran as %s, want %s", old, got, ran)
		}
	}
	if _, err := Parse([]byte(strings.Replace(string(text), "  no_submission:", "  somebodys-own: {n: 1}\n  no_submission:", 1))); err == nil {
		t.Error("a filter that nobody knows is left out in silence")
	}
}

// TestMaskedMoves: filters.masked is a setting of each choice now.
func TestMaskedMoves(t *testing.T) {
	t.Parallel()
	s := credit.Filters{Invalid: true, Overlong: true, MinGroup: 1, Masked: []string{"invalid"}}.Meant()
	if got, want := s.String(), "[overlong, {invalid: {mask: true}}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if diff := cmp.Diff(s, s.OldForm().Meant()); diff != "" {
		t.Error(diff)
	}
}
