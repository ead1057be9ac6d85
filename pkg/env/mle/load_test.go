package mle

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/devices"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/mlebench/task"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestSubmissionIn: the first of three files, in the papers' order, that is a regular one and not too large.
func TestSubmissionIn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files        []string
		want, refuse string
	}{
		"none":     {nil, "", ""},
		"last":     {[]string{"working/submission.csv"}, "abc", ""},
		"first":    {[]string{"working/submission.csv", "submission.csv", "submission/submission.csv"}, "abcdef", ""},
		"too many": {[]string{"submission.csv", "submission.csv", "submission.csv"}, "", "submission.csv has 9 bytes, and at most 8 are read"},
		"a folder": {[]string{"submission.csv/x"}, "", "submission.csv is not a file"},
		"through":  {[]string{"submission"}, "", "submission/submission.csv cannot be read"},
	} {
		folder := t.TempDir()
		for i, file := range c.files {
			path := filepath.Join(folder, file)
			before, _ := os.ReadFile(path)
			content := append(before, "abc"...)
			if name == "first" && i == 2 {
				content = []byte("abcdef")
			}
			must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)))
		}
		if got, bad := submissionIn(folder, 8); string(got) != c.want || bad != c.refuse {
			t.Errorf("%s: %q, %q", name, got, bad)
		}
	}
	if _, bad := submissionIn(filepath.Join(t.TempDir(), "none"), 8); bad != "its folder is gone" {
		t.Errorf("of no folder: %q", bad)
	}
}

// TestGPUs: a program has devices of the score task's. Alone: the environment names them.
func TestGPUs(t *testing.T) {
	t.Setenv("CUDA_VISIBLE_DEVICES", "0,1 GPU-a")
	r := &runner{gpus: devices.NewPool(givenGPUs())}
	if _, _, err := r.takeGPUs(t.Context(), 4); exitcode.Code(err) != exitcode.Unavailable {
		t.Errorf("four of three: %v", err)
	}
	if all, _, err := r.takeGPUs(t.Context(), 3); err != nil || !slices.Equal(all, []string{"0", "1", "GPU-a"}) {
		t.Errorf("all: %q, %v", all, err)
	}
}

// TestLoad: what a row has of its task, which tasks are in which split, and whose demonstrations are shown.
func TestLoad(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for i, name := range []string{"low", "medium", "high", "test"} {
		folder := seeds(t, filepath.Join(root, name))
		split, complexity := "train", name
		if name == "test" {
			split, complexity = name, "low"
		}
		content, err := os.ReadFile(filepath.Join(folder, "task.yaml"))
		answers := fmt.Sprintf("id,kind\n4,%c\n5,b\n6,%c\n", "abab"[i], "abba"[i])
		must.Do(t, errors.Join(err, os.WriteFile(filepath.Join(folder, "task.yaml"), append(content, "split: "+split+"\ncomplexity: "+complexity+"\n"...), 0o644), os.WriteFile(filepath.Join(folder, "private/answers.csv"), []byte(answers), 0o644)))
	}
	lines := strings.Join([]string{
		`{"response": "first"}`, "", `{"task": "l*", "kind": "improve", "parent": "p", "response": "better"}`,
		"{\"kind\": \"debug\", \"parent\": \"```\\nq\\n```\", \"failed\": \"Error\", \"response\": \"fixed\"}", `{"task": "test", "response": "held"}`,
	}, "\n")
	must.Do(t, os.WriteFile(filepath.Join(root, "shown.jsonl"), []byte(lines), 0o644))
	e := must.Get(build(*DefaultSettings(), Data{Tasks: []string{root}, Demonstrations: "shown.jsonl"}, root))(t)
	levels := map[string]int{}
	for _, split := range []env.Split{env.Train, env.Test} {
		for _, of := range e.Tasks(split) {
			levels[string(split)+" "+of.ID] = of.Level
			if got := e.Cost(of.ID); got != 75 || of.Kind != "tabular" || of.Question != "Tell the kind of a seed from its length." {
				t.Errorf("%+v, %v bytes", of, got)
			}
		}
	}
	if want := map[string]int{"train low": 1, "train medium": 2, "train high": 3, "test test": 1}; !maps.Equal(levels, want) || e.LeftOut != 0 || e.Cost("none") != 0 {
		t.Errorf("%v, %d left out", levels, e.LeftOut)
	}
	if got := e.Inputs[len(e.Inputs)-1]; got.Path != filepath.Join(root, "shown.jsonl") || len(got.SHA256) != 64 {
		t.Errorf("the demonstrations are %+v", got)
	}
	if got, want := e.texts(), []string{"", "first", "```\nq\n```", "fixed", "", "first", "p", "better", "```\nq\n```", "fixed", "", "first", "```\nq\n```", "fixed"}; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("texts %q", got)
	}
	shown := map[string]bool{}
	for i := range 40 {
		for _, of := range slices.Concat(e.Tasks(env.Train), e.Tasks(env.Test)) {
			for _, kind := range []shard.Kind{shard.KindInitial, shard.KindImprove, shard.KindDebug, shard.KindDiverge} {
				said, ok := must.Get2(e.Demonstration(of, kind, rng.New(uint64(i), rng.PurposeTest, 0, "", 0)))(t)
				if ok {
					shown[fmt.Sprintf("%s %s %s %v", of.ID, kind, said[len(said)-1].Content, strings.Contains(said[0].Content, "Error"))] = true
				}
			}
		}
	}
	want := map[string]bool{"low improve better false": true}
	for _, name := range []string{"low", "medium", "high"} {
		for _, line := range []string{"initial first false", "improve fixed true", "debug fixed true"} {
			want[name+" "+line] = true
		}
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("demonstrations (-want +got):\n%s", diff)
	}
	for _, bad := range []string{
		`{"kind": "refine", "response": "x"}`, `{"kind": "initial"}`, `{"parent": "p", "response": "x"}`, `{"kind": "improve", "response": "x"}`,
		`{"failed": "f", "response": "x"}`, `{"respond": "x"}`, "x",
	} {
		path := filepath.Join(t.TempDir(), "bad.jsonl")
		must.Do(t, os.WriteFile(path, []byte("\n"+bad), 0o644))
		if _, _, err := readDemonstrations(path, ""); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "line 2:") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, _, err := readDemonstrations("none.jsonl", root); err == nil {
		t.Error("a file that is not there is read")
	}
	for path, change := range map[string]string{"low/public/train.csv": "is not as it was", "low/public/more.csv": "is not as it was"} {
		again := must.Get(rebuild(e.settings, e.Rows()))(t)
		was, _ := os.ReadFile(filepath.Join(root, path))
		must.Do(t, os.WriteFile(filepath.Join(root, path), append(was, "7,8,a\n"...), 0o644))
		if _, err := again.folder(env.Task{ID: "low"}); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), change) {
			t.Errorf("%s: %v", path, err)
		}
		must.Do(t, errors.Join(os.WriteFile(filepath.Join(root, path), was, 0o644)))
		if len(was) == 0 {
			os.Remove(filepath.Join(root, path))
		}
	}
}

// TestGrammarDemonstrations: a response is a program of the grammar, in a fence where the style has them; one that
// follows a program with a slip is the same without.
func TestGrammarDemonstrations(t *testing.T) {
	t.Parallel()
	for style, fenced := range map[string]bool{"ExIt": true, "short": false} {
		for _, buggy := range []float64{0, 1} {
			e, of := over(t, func(s *Settings) {
				s.Style, s.Grammar, s.Prompts.Improve, s.Prompts.Debug = style, &Grammar{Buggy: buggy}, "improve {program}", "debug {program}"
			})
			texts := e.texts()
			if len(texts) != 2*textsOfTask || texts[0] != "seeds accuracy" || strings.HasPrefix(texts[1], "```python\n") != fenced || slices.Equal(texts[:2], texts[2:4]) {
				t.Errorf("%s: %d texts, %q", style, len(texts), texts[:4])
			}
			for _, kind := range []shard.Kind{shard.KindInitial, shard.KindImprove} {
				said, ok, err := e.Demonstration(of, kind, rng.New(1, rng.PurposeTest, 0, "", 0))
				if err != nil || !ok {
					t.Fatal(err)
				}
				prompt, response := said[len(said)-2].Content, said[len(said)-1].Content
				verb, before, _ := strings.Cut(prompt, " ")
				if kind == shard.KindImprove && (verb != map[float64]string{0: "improve", 1: "debug"}[buggy] || strings.Trim(response, "`python\n") == strings.TrimSpace(before)) || strings.HasPrefix(response, "```python\n") != fenced {
					t.Errorf("%s, %v: %q and then %q", style, buggy, prompt, response)
				}
			}
		}
	}
}

// TestSettings: what no recipe can mean is refused, field by field, and the limits of what it can are not.
func TestSettings(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*Settings){
		"": func(s *Settings) {
			s.MaxTurns, s.Program.Threads, s.Limits, s.Feedback.MaxTokens, s.Feedback.History, s.MaxFailed = 1, 1, Limits{ValidateSeconds: 0.1}, 30, 1, 1
			s.Grammar, s.Instrument, s.Milestones = &Grammar{Buggy: 1}, "rules", "terminal"
		},
		"env.max_turns": func(s *Settings) { s.MaxTurns = 0 }, "env.program.threads": func(s *Settings) { s.Program.Threads = 0 },
		"env.limits.memory_mb": func(s *Settings) { s.Limits.MemoryMB = -1 }, "env.limits.wall_seconds": func(s *Settings) { s.Limits.WallSeconds = -1 },
		"env.limits.validate_seconds": func(s *Settings) { s.Limits.ValidateSeconds = 0 }, "env.feedback.max_tokens": func(s *Settings) { s.Feedback.MaxTokens = 29 },
		"env.feedback.history": func(s *Settings) { s.Feedback.History = 0 }, "env.max_failed": func(s *Settings) { s.MaxFailed = 1.5 }, "env.style": func(s *Settings) { s.Style = "none" },
		"env.grammar.crossover": func(s *Settings) { s.Grammar = &Grammar{Crossover: -1} }, "env.prompts.crossover": func(s *Settings) { s.Prompts.Crossover = "{other_progam}" },
		"env.grammar.buggy": func(s *Settings) { s.Grammar = &Grammar{Buggy: 2} }, "env.program.interpreter": func(s *Settings) { s.Program.Interpreter = " " },
		"env.max_submissions": func(s *Settings) { s.MaxSubmissions = -1 }, "env.limits.gpus": func(s *Settings) { s.Limits.GPUs = new(-1) }, "env.program.read": func(s *Settings) { s.Program.Read = []string{"weights"} },
		"env.limits.processes": func(s *Settings) { s.Limits.Processes = -1 }, "env.limits.file_mb": func(s *Settings) { s.Limits.FileMB = -1 }, "env.limits.disk_mb": func(s *Settings) { s.Limits.DiskMB = -1 },
		"env.ranges.0": func(s *Settings) { s.Ranges = []Range{{Range: task.Range{Worst: 0, Best: 1}}} },
		"env.ranges.1": func(s *Settings) {
			s.Ranges = []Range{{Task: "a", Range: task.Range{Worst: 0, Best: 1}}, {Task: "b", Range: task.Range{Worst: 1, Best: 1}}}
		},
		"env.quality": func(s *Settings) { s.Quality = "none" }, "env.boards": func(s *Settings) { s.Boards = "none" }, "env.reward": func(s *Settings) { s.Reward = "none" },
		"env.milestones": func(s *Settings) { s.Milestones = "all" }, "env.feedback.score": func(s *Settings) { s.Feedback.Score = "all" },
		"env.prompts.system": func(s *Settings) { s.Prompts.System = "{metrc}" }, "env.validation: must be": func(s *Settings) { s.Validation = "(x)(y)" },
		"env.program.image": func(s *Settings) { s.Program.Image = "image.sif" }, "env.sandbox.warm": func(s *Settings) { s.Program.Image, s.Sandbox.Warm = "/image.sif", []string{"json"} },
		"env.program.interpreter: must be absolute": func(s *Settings) { s.Program.Image, s.Program.Interpreter = "/image.sif", "bin/python3" },
		"env.sandbox.require":                       func(s *Settings) { s.Sandbox.Require = []string{"none"} }, "env.instrument": func(s *Settings) { s.Instrument = "rules" },
		"env.instrument: needs":          func(s *Settings) { s.Instrument, s.Milestones = "assistant", "terminal" },
		"env.validation":                 func(s *Settings) { s.Validation = "x" },
		"env.validation: must":           func(s *Settings) { s.Validation = "(" },
		"env.max_turns: leaves":          func(s *Settings) { s.Style = "MLE-Dojo" },
		"env.prompts.draft: has {metrc}": func(s *Settings) { s.Prompts.Draft = "{metric} {metrc} {nothing_alike_at_all}" },
		"env.prompts.validation":         func(s *Settings) { s.Prompts.Validation = "{titel}" },
	} {
		root := struct {
			Env *Settings `yaml:"env"`
		}{DefaultSettings()}
		change(root.Env)
		c := config.NewChecker(&root)
		validate(c, root.Env)
		err := c.Err("the recipe")
		if (err == nil) != (field == "") || err != nil && (!strings.Contains(err.Error(), field)) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, change := range []func(*Settings){
		func(s *Settings) { s.Limits.GPUs, s.Program.Read = new(0), []string{"/w", "$WEIGHTS"} },
		func(s *Settings) { s.Program.Image, s.Program.Interpreter = "$IMAGE", "/opt/python3" },
		func(s *Settings) { s.Program.Image, s.Style, s.MaxTurns = "/image.sif", "MLE-Dojo", 2 },
		func(s *Settings) { s.Sandbox.Warm, s.Program.Interpreter = []string{"json"}, "bin/python3" }, // of this machine's
	} {
		s := DefaultSettings()
		change(s)
		c := config.NewChecker(&struct {
			Env *Settings `yaml:"env"`
		}{s})
		if validate(c, s); c.Err("the recipe") != nil {
			t.Error(c.Err("the recipe"))
		}
	}
	s := DefaultSettings() // ExIt App. A.4 and B; the share of failures, the feedback and the memory are ours, 30 seconds MLE-Dojo's
	defaults := &Settings{
		Style: "ExIt", MaxTurns: 1, Prompts: Prompts{Validation: validationFormat}, Limits: Limits{ValidateSeconds: 30}, Sandbox: Sandbox{Require: []string{"files", "network"}},
		Program:  Program{Interpreter: "python3", Threads: 1, Packages: []string{"numpy", "pandas", "scikit-learn"}, Hardware: "one CPU core"},
		Feedback: Feedback{MaxTokens: 500, Score: "validation", History: 3},
		Quality:  "range", Boards: "private", Reward: "quality", Milestones: "none", Instrument: "none", Validation: validationPattern, MaxFailed: 0.1,
	}
	if diff := cmp.Diff(defaults, s); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	s.MaxTurns, s.Program.Threads = 4, 2
	if diff := cmp.Diff(env.Traits{Turns: 4, Waves: 4, Slow: true, Programs: true, Threads: 2, Validated: true, Joins: true, MaxFailed: 0.1, MaxFailedSetting: "env.max_failed"}, s.traits()); diff != "" {
		t.Errorf("traits (-want +got):\n%s", diff)
	}
	own := styleOf(Settings{Style: "ExIt", Prompts: Prompts{System: "1", Draft: "2", Debug: "3", Improve: "4", Diverge: "5", Crossover: "6"}})
	if own.system+own.draft+own.debug+own.improve+own.diverge+own.crossover != "123456" || !own.fenced || !reflect.DeepEqual(styleOf(Settings{Style: "ExIt"}), styles["ExIt"]) {
		t.Errorf("own templates: %+v", own)
	}
	for _, name := range []string{"/nowhere/python", "/bin/echo", "/bin/false"} {
		if got, err := find(name, ""); exitcode.Code(err) != exitcode.Unavailable {
			t.Errorf("%s is an interpreter: %+v, %v", name, got, err)
		}
	}
}

// TestChecker: a line is a score on a leaderboard, a submission or a program. By MLE-bench's rules of a board of four,
// the first has gold, and half a place between the second and the third is the median.
func TestChecker(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	folder := seeds(t, filepath.Join(root, "seeds"))
	verify := must.Get(checker.Verifier(&checkSettings{Tasks: root, Interpreter: "/usr/bin/python3"}))(t)
	number := func(x float64) *float64 { return &x }
	board := ranked{ID: 1, GoldThreshold: 1, SilverThreshold: 1, BronzeThreshold: 1, MedianThreshold: 0.5}
	first, second, last := board, board, board
	first.GoldMedal, first.AboveMedian, first.HumanRankPaper, first.HumanRankMLEDojo = true, true, number(0.75), number(1)
	second.AboveMedian, second.HumanRankPaper, second.HumanRankMLEDojo = true, number(0.5), number(0.75)
	last.HumanRankPaper, last.HumanRankMLEDojo = number(0), number(0)
	for _, c := range []struct {
		score *float64
		want  ranked
	}{{number(1), first}, {number(0.7), second}, {number(0), last}, {nil, board}} {
		got, err := verify(&checkLine{ID: 1, Leaderboard: filepath.Join(folder, "leaderboard.csv"), Score: c.score})
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	for _, name := range []string{"seeds", folder} {
		for file, why := range map[string]bool{"public/sample_submission.csv": false, "public/test.csv": true} {
			got, err := verify(&checkLine{ID: 1, Task: name, Submission: filepath.Join(folder, file)})
			if g, ok := got.(graded); err != nil || !ok || (g.Why != "") != why || g.ID != 1 {
				t.Errorf("%s: %+v, %v", file, got, err)
			}
		}
	}
	program := "x"
	for _, bad := range []checkLine{
		{},
		{Leaderboard: "x", Task: "seeds"},
		{Task: "seeds"},
		{Task: "seeds", Submission: "x", Program: &program},
		{Program: &program},
		{Submission: "x"},
		{Task: "none", Submission: "x"},
		{Task: "none", Program: &program},
		{Leaderboard: filepath.Join(folder, "none.csv")},
		{Leaderboard: filepath.Join(folder, "task.yaml")},
	} {
		if got, err := verify(&bad); err == nil {
			t.Errorf("%+v: %+v", bad, got)
		}
	}
	open(t, nil) // skips where no program can run
	for source, want := range map[string]ran{
		"print('validation: 0.5')\nopen('submission.csv','w').write('id,kind\\n4,a\\n5,b\\n6,b\\n')": {ID: 1, Outcome: "ok", Score: number(1), Validation: number(0.5), Feedback: "validation: 0.5"},
		"1/0": {ID: 1, Outcome: "invalid", Milestones: []string{}},
	} {
		got := must.Get(verify(&checkLine{ID: 1, Task: "seeds", Program: &source}))(t)
		g := got.(ran)
		if g.Outcome != want.Outcome || !reflect.DeepEqual(g.Score, want.Score) || !reflect.DeepEqual(g.Validation, want.Validation) || !strings.Contains(g.Feedback, want.Feedback) || g.ExecuteSeconds <= 0 || g.CPUSeconds <= 0 || g.Protection == "" || g.Milestones == nil || g.ID != 1 {
			t.Errorf("%q: %+v", source, g)
		}
	}
}

// TestRanged: a recipe's range stands in the place of the task's own; a score of 0.75 in a
// range from 1.5 to 0 is 0.5, and another task keeps what it has.
func TestRanged(t *testing.T) {
	t.Parallel()
	own := task.Range{Worst: 2, Best: 0}
	s := Settings{Ranges: []Range{{Task: "spooky", Range: task.Range{Worst: 1.5, Best: 0}}}}
	of := func(name string) *task.Task {
		return &task.Task{Config: task.Config{Name: name, ScoreRange: &own}, Range: own}
	}
	for name, want := range map[string]float64{"spooky": .5, "other": .625} {
		before := of(name)
		if got, err := s.ranged(before).Normalised(.75); err != nil || got != want || before.Range != own {
			t.Errorf("%s: %v, %v, want %v; the task itself has %v", name, got, err, want, before.Range)
		}
	}
}
