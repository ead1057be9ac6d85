package mathverify

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// checkAnswers checks the pairs of a file, each with the result that it wants.
func checkAnswers(t *testing.T, path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var c struct {
			ID, Gold, Prediction string
			Want                 bool
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		r := Verify(c.Gold, c.Prediction, DefaultOptions())
		if r.Equal != c.Want {
			t.Errorf("%s: gold %q, prediction %q: equal %v (%s, read %q); want %v", c.ID, c.Gold, c.Prediction, r.Equal, r.Explain(), r.Extracted, c.Want)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// Numbers beyond the range of a float, exponents, sums, and the ways in which
// an answer is marked, in both directions. The values are Python's integers
// and fractions.
//
// What an id begins with is what its group is about:
//
//	unit           a unit right behind a number is one; other letters make a formula of it
//	announced      what is asked for may be a formula; the value stands behind "is"
//	thousand       a comma with a thin or a negative space separates thousands
//	comma          one between digits is a decimal one, unless it stands before thousands
//	percent        a sign or word for percent may say what is counted
//	approximation  of a value and what it is about equal to, the value is the answer
//	named          a ratio, a length or a function's value may be named, and no sum of unknowns
//	group          between semicolons, what stands between commas belongs together
//	function       each function by an identity, and by one that is off by 10⁻²⁰
func TestAnswers(t *testing.T) {
	t.Parallel()
	checkAnswers(t, filepath.Join("testdata", "answers.jsonl"))
}

// Random pairs whose results mpmath (40,000 bits) and Python's fractions give.
func TestGoldenValues(t *testing.T) {
	t.Parallel()
	checkAnswers(t, filepath.Join("testdata", "golden.jsonl"))
}

// The cases that were made after public reports.
func TestReportedAnswers(t *testing.T) {
	t.Parallel()
	shared := os.Getenv("LATHE_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(shared, "cases", "math", "answers.jsonl")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the reported cases are not here: %v (LATHE_SHARED names the folder that holds cases/math)", err)
	}
	checkAnswers(t, path)
}

// What cannot be told apart within the budget is not equal.
func TestUndecided(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"9^{9^{9^9}}", "9^{9^{9^8}}"},
		{`\sqrt{2}^{2000000}+1`, `2^{1000000}+2^{-5}`},
		{`(10^{30})!`, `(10^{29})!`},
		{`\sum_{k=1}^{\infty}\frac{1}{k}`, `\sum_{k=1}^{\infty}\frac{2}{k}`},
	} {
		if r := Verify("$"+c[0]+"$", `\boxed{`+c[1]+"}", DefaultOptions()); r.Equal {
			t.Errorf("%s equals %s: %s", c[0], c[1], r.Explain())
		}
	}
}

// What stands around an answer and is no part of it.
func TestUnwrap(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"5": "5", " `5` ": "5", "```\n5\n```": "5", "```python\n5\n6\n```": "5\n6", "```5```": "5", "**5**.": "5", `\boxed{5}`: "5", `\boxed {5}.`: "5", `$\boxed{5}$`: "5", `$5$`: "$5$",
		"<answer> **5** </answer>": "5", "5<|im_end|>": "5", `\fbox{\boxed{5}}`: "5", `\boxed{\frac{1}{2}}`: `\frac{1}{2}`, "<answer>4</answer> <answer></answer>": "4", "so 5</answer>": "so 5",
		"**a** and **b**": "**a** and **b**", "`a` `b`": "`a` `b`", `\boxed{a}+\boxed{b}`: `\boxed{a}+\boxed{b}`, `x=\boxed{5}`: `x=\boxed{5}`, `\boxed{5`: `\boxed{5`, "` `": "` `",
		`<answer>4</answer> \boxed{5}`: `<answer>4</answer> \boxed{5}`,
	} {
		if got := Unwrap(answer); got != want {
			t.Errorf("%q is unwrapped to %q, want %q", answer, got, want)
		}
	}
}
