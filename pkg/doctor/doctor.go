// Package doctor finds out what a run needs to know of a place before it meets it:
// the limits and habits of a Slurm cluster, what its nodes are, and how a folder
// behaves that several of them see. Each finding says what it was deduced from, and
// those that matter to jobs become a site profile.
package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Level is what a finding means for runs.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Note    Level = "note"    // runs go, and this is worth to know
	Problem Level = "problem" // runs fail, or are not safe
	Unknown Level = "unknown" // it could not be found out
)

// Finding is one thing that was looked at.
type Finding struct {
	About string `json:"about"`
	Level Level  `json:"level"`
	Found string `json:"found"`
	From  string `json:"from"`          // what it was deduced from
	Set   string `json:"set,omitempty"` // what it sets in a site profile, a line of YAML
}

// Report is all that was found.
type Report struct {
	Place    string    `json:"place"` // local or slurm
	Findings []Finding `json:"findings"`
}

func (r *Report) add(about string, level Level, found, from string, set ...string) {
	f := Finding{About: about, Level: level, Found: found, From: from}
	if len(set) > 0 {
		f.Set = set[0]
	}
	r.Findings = append(r.Findings, f)
}

// Problems counts the findings with which runs fail.
func (r Report) Problems() int {
	n := 0
	for _, f := range r.Findings {
		if f.Level == Problem {
			n++
		}
	}
	return n
}

// Print writes the findings, each with what it was deduced from below it.
func (r Report) Print(w io.Writer) error {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-7s  %s: %s\n         source: %s\n", f.Level, f.About, oneLine(f.Found), oneLine(f.From))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Profile is a site profile made of the findings: what each line was deduced from
// stands above it.
func (r Report) Profile(name string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Written by lathe doctor. Fields that are missing here are as in jobs/sites/generic.yaml.\nname: %s\nexecutor: %s\n", name, r.Place)
	set := map[string]bool{}
	for _, f := range r.Findings {
		field, _, _ := strings.Cut(f.Set, ":")
		if f.Set == "" || set[field] {
			continue
		}
		set[field] = true
		fmt.Fprintf(&b, "\n# %s: %s\n# source: %s\n%s\n", oneLine(f.About), oneLine(f.Found), oneLine(f.From), f.Set)
	}
	return []byte(b.String())
}

func oneLine(text string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(s string) bool { return strings.TrimSpace(s) == "" }), "; ")
}
