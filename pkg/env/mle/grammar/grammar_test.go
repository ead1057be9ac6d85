package grammar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// every program for a metric without a slip.
func every(metric string) (all []Program) {
	for m := range models {
		for setting := range models[m].settings {
			for f := range features {
				if fits(metric, m) {
					all = append(all, Program{Metric: metric, Model: m, Setting: setting, Features: f})
				}
			}
		}
	}
	return all
}

func TestSource(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, p := range []Program{
		{Metric: "rmse", Model: 4, Setting: 1},
		{Metric: "multi-class-log-loss", Model: 2, Setting: 1, Features: 3},
		{Metric: "log-loss", Model: 1, Setting: 3, Features: 1, Bug: "import"},
		{Metric: "poisson-deviance", Model: 3, Setting: 1, Features: 2, Bug: "column"},
	} {
		fmt.Fprintf(&got, "# %+v\n%s\n", p, p.Source())
	}
	golden.Check(t, "testdata/programs.txt", got.String())
}

// TestSlips: each slip is in every program that has it, and mending takes it out.
func TestSlips(t *testing.T) {
	t.Parallel()
	for metric := range forms {
		for _, whole := range every(metric) {
			for _, name := range Bugs() {
				p := whole
				p.Bug = name
				if p.Source() == whole.Source() {
					t.Fatalf("%+v: the slip changes nothing", p)
				}
				if p.Fixed() != whole {
					t.Fatalf("%+v fixed is %+v", p, p.Fixed())
				}
			}
		}
	}
}

// TestDraw: a draw is a function of its stream, every choice is drawn, about the
// asked share is broken, and a change is one.
func TestDraw(t *testing.T) {
	t.Parallel()
	const n = 4000
	seen, broken := map[Program]bool{}, 0
	stream := rng.New(1, rng.PurposeTest, 0, "", 0)
	for i := range uint64(n) {
		p := Draw("auc-roc", 0.25, stream, 8*i)
		if p.Bug != "" {
			broken++
		}
		seen[p.Fixed()] = true
	}
	if want := len(every("auc-roc")); len(seen) != want {
		t.Errorf("%d programs drawn, want all %d", len(seen), want)
	}
	// Of 4,000 with 0.25: mean 1000, standard deviation 27.4; 4 of them.
	if broken < 890 || broken > 1110 {
		t.Errorf("%d of %d are broken, want about 1000", broken, n)
	}
	metrics := slices.Sorted(maps.Keys(forms))
	rapid.Check(t, func(rt *rapid.T) {
		metric := rapid.SampledFrom(metrics).Draw(rt, "metric")
		stream := rng.New(rapid.Uint64().Draw(rt, "seed"), rng.PurposeTest, 0, "", 0)
		p := Draw(metric, 0.5, stream, 0)
		if again := Draw(metric, 0.5, stream, 0); again != p {
			rt.Fatalf("%+v and then %+v", p, again)
		}
		changed := p.Changed(stream, 8)
		if changed.Bug != "" || changed.Metric != metric || changed.Model != p.Model && changed.Features != p.Features {
			rt.Fatalf("%+v changed is %+v", p, changed)
		}
	})
}

// TestDrawn: what a stream draws never changes, or runs could not be made again. A change draws
// features and keeps the model and setting, or the other way round.
func TestDrawn(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	stream := rng.New(7, rng.PurposeTest, 0, "", 0)
	for i := range uint64(24) {
		p := Draw("rmse", 0.5, stream, 20*i)
		fmt.Fprintf(&got, "%+v\n  changed %+v\n", p, p.Changed(stream, 20*i+8))
	}
	golden.Check(t, "testdata/draws.txt", got.String())
}

// runner runs programs, each in its folder, in one interpreter: to import scikit-learn takes longer than they do. It says
// of each what ended it, if anything, and what it printed.
const runner = `import contextlib, io, json, os, sys
results = []
for folder, source in json.load(sys.stdin):
    os.chdir(folder)
    out, problem = io.StringIO(), ""
    with contextlib.redirect_stdout(out):
        try: exec(compile(source, "solution.py", "exec"), {"__name__": "__main__"})
        except BaseException as e: problem = repr(e)
    results.append([problem, out.getvalue()])
json.dump(results, sys.stdout)`

// TestPrograms runs programs on a small table: those without a slip end well and
// write as many rows as the sample has, and those with one do not. A few of all
// unless LATHE_TEST_PROGRAMS is set.
func TestPrograms(t *testing.T) {
	t.Parallel()
	const python = "/usr/bin/python3"
	if exec.Command(python, "-c", "import sklearn, pandas").Run() != nil {
		t.Skip("/usr/bin/python3 has no scikit-learn and pandas")
	}
	one := 301 // of so many
	if os.Getenv("LATHE_TEST_PROGRAMS") != "" {
		one = 1
	}
	n := 0
	var programs []Program
	var given, said [][2]string
	for _, metric := range slices.Sorted(maps.Keys(forms)) {
		folder := table(t, metric)
		for _, whole := range every(metric) {
			for _, name := range append([]string{""}, Bugs()...) {
				if n++; n%one != 0 {
					continue
				}
				p, dir := whole, t.TempDir()
				p.Bug = name
				must.Do(t, os.Symlink(folder, filepath.Join(dir, "input")))
				programs, given = append(programs, p), append(given, [2]string{dir, p.Source()})
			}
		}
	}
	cmd := exec.Command(python, "-c", runner)
	cmd.Stdin = bytes.NewReader(must.Get(json.Marshal(given))(t))
	must.Do(t, json.Unmarshal(must.Get(cmd.Output())(t), &said))
	for i, p := range programs {
		dir := given[i][0]
		written, err := os.ReadFile(filepath.Join(dir, "submission.csv"))
		sample := must.Get(os.ReadFile(filepath.Join(dir, "input", "sample_submission.csv")))(t)
		header, _, _ := strings.Cut(string(written), "\n")
		wantHeader, _, _ := strings.Cut(string(sample), "\n")
		good := said[i][0] == "" && err == nil && header == wantHeader && bytes.Count(written, []byte("\n")) == bytes.Count(sample, []byte("\n")) && strings.Contains(said[i][1], "validation: ")
		if good != (p.Bug == "") {
			t.Errorf("%+v: %q, %s", p, said[i], header)
		}
	}
}

// table is a folder of data for a metric: numbers, a word, an empty cell.
func table(t *testing.T, metric string) string {
	t.Helper()
	f := forms[metric]
	dir := t.TempDir()
	var train, test, sample strings.Builder
	train.WriteString("id,u,v,w,kind\n")
	test.WriteString("id,u,v,w\n")
	columns := "kind"
	if f.columns != "t" {
		columns = "0,1,2"
	}
	sample.WriteString("id," + columns + "\n")
	for i := range 90 {
		u, v, w := (i*37)%90, (i*i)%17, []string{"red", "green", ""}[i%3]
		target := fmt.Sprint(u/3 + v)
		if f.classifies {
			target = fmt.Sprint(u * 2 / 90)
			if f.columns != "t" {
				target = fmt.Sprint(u * 3 / 90)
			}
		}
		if i < 60 {
			fmt.Fprintf(&train, "%d,%d,%d,%s,%s\n", i, u, v, w, target)
			continue
		}
		fmt.Fprintf(&test, "%d,%d,%d,%s\n", i, u, v, w)
		fmt.Fprintf(&sample, "%d%s\n", i, strings.Repeat(",0", strings.Count(columns, ",")+1))
	}
	for name, text := range map[string]string{"train.csv": train.String(), "test.csv": test.String(), "sample_submission.csv": sample.String()} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}
