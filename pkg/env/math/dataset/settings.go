package dataset

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env/math/answer"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/rng"
)

//go:embed settings.go
var source string

var _ = config.Docs[Source](source)

// Source is a set of problems that is read from files.
type Source struct {
	Files        []string `yaml:"files" path:"file"` // JSONL; or .json, a list of objects; or .csv with a first line of names; or .parquet or .arrow; or a folder saved by Hugging Face datasets; or a pattern, such as train-*.parquet, for all that match, in the order of their names; relative to the recipe's folder unless absolute; $NAME is taken from the environment
	Fields       Fields   `yaml:"fields"`            // how a line becomes a problem
	Filter       []Filter `yaml:"filter"`            // keep lines whose field matches; all must match
	Limit        int      `yaml:"limit"`             // keep this many, chosen by the seed; 0 keeps all
	MaxBad       int      `yaml:"max_bad"`           // lines of a file that may be bad, and are left out; more are an error
	TestShare    float64  `yaml:"test_share"`        // data.train only: share of the problems of these files to hold out as data.test, read with the same fields; drawn by what a problem asks, so the split depends on no other line; 0 holds nothing out
	SplitSeed    uint64   `yaml:"split_seed"`        // data.train only: seed of that draw; the run's seed does not matter
	SkipRepeated bool     `yaml:"skip_repeated"`     // of what is held out: leave out problems whose question training has too, where else they are an error
}

// Fields says how a line becomes a problem. A path is the name of a field, or
// names and positions in lists with dots between: a.b, options.0.text.
type Fields struct {
	ID           string   `yaml:"id"`                                                                  // path; empty: the line's number
	Question     string   `yaml:"question"`                                                            // path to what {question} stands for; or a text with paths in braces, such as "{Body} {Question}", in which {choices} stands for the options, one a line, lettered (A), (B) …
	Answer       string   `yaml:"answer"`                                                              // path to the reference answer; the values of a list are joined with commas
	AnswerMarker string   `yaml:"answer_marker"`                                                       // the answer is what follows the last one, for example "####" of GSM8K
	AnswerFrom   string   `yaml:"answer_from" choices:"text,boxed,letter,position,number,option_text"` // what the field holds: text, the answer; boxed, a solution whose last box is the answer; or of the right option its letter, its position (from 0), its number (from 1) or its option_text
	Choices      string   `yaml:"choices"`                                                             // path to the options of a multiple-choice problem: a list, or an object with the names A, B and so on; or paths with commas between, such as A, B, C, D, where each option has its own; letters of their own, as in "A) 5", are dropped if every option has its own
	Wrong        []string `yaml:"wrong"`                                                               // paths to the wrong options of a multiple-choice problem whose right one is the answer's field, in place of choices: they are put in an order that depends on their texts alone; with answer_from option_text
	ChoiceText   string   `yaml:"choice_text"`                                                         // path in an option to its text, where options are no texts
	Form         string   `yaml:"form"`                                                                // path to the answer's form, or =FORM for all lines: any, integer, float, bool, list or option, by TheoremQA's names too
	Kind         string   `yaml:"kind"`                                                                // optional: path, or =TEXT for all lines
	Level        string   `yaml:"level"`                                                               // optional: path to a whole number, =NUMBER for all lines, or sentences(PATH), the number of sentences of a worked solution (ExIt Fig. 6)
}

// Filter keeps the lines whose field has one of the values, where a * at
// the end of a value matches any rest.
type Filter struct {
	Field string   `yaml:"field"` // name of a field of the line
	In    []string `yaml:"in"`    // values that are kept
}

// DefaultSource has no files, of lines with a question and an answer.
func DefaultSource() Source {
	return Source{Fields: Fields{Question: "question", Answer: "answer", AnswerFrom: "text"}}
}

// Open gives the files as paths that can be opened ([config.ResolvePath]), to be read
// together. where is the section of the recipe that names them.
func (s Source) Open(folder, where string) ([]string, *Set, error) {
	paths, err := config.ResolvePaths(s.Files, folder)
	if err != nil {
		return nil, nil, fmt.Errorf("%s.files: %w", where, err)
	}
	set, err := Together(paths, where)
	return paths, set, err
}

// Validate checks the source that stands at a field.
func (s Source) Validate(c *config.Checker, field string) {
	for i, file := range s.Files {
		if strings.TrimSpace(file) == "" {
			c.Add(fmt.Sprintf("%s.files.%d", field, i), file, "must not be empty")
		}
	}
	if len(s.Files) > 0 {
		checkFields(c, field+".fields", s.Fields)
	}
	for i, f := range s.Filter {
		place := fmt.Sprintf("%s.filter.%d", field, i)
		if f.Field == "" {
			c.Add(place+".field", nil, "must not be empty")
		}
		if len(f.In) == 0 {
			c.Add(place+".in", nil, "must name at least one value, or no line is kept")
		}
	}
	if s.TestShare < 0 || s.TestShare >= 1 {
		c.Add(field+".test_share", s.TestShare, "must be 0 or more and below 1")
	} else if s.TestShare > 0 && len(s.Files) == 0 {
		c.Add(field+".test_share", s.TestShare, "is for files: %s.files is empty", field)
	}
	c.AtLeast(field+".limit", s.Limit, 0)
	c.AtLeast(field+".max_bad", s.MaxBad, 0)
}

// NeedsTrain rejects settings of data.train in another source.
func (s Source) NeedsTrain(c *config.Checker, field string) {
	if s.TestShare != 0 {
		c.Add(field+".test_share", s.TestShare, "is for data.train")
	}
	if s.SplitSeed != 0 {
		c.Add(field+".split_seed", s.SplitSeed, "is for data.train")
	}
}

// HoldsOut reports whether a problem that asks this is held out.
func (s Source) HoldsOut(asked string) bool {
	return s.TestShare > 0 && rng.New(s.SplitSeed, rng.PurposeData, 0, "split\x00"+asked, 0).Float64(0) < s.TestShare
}

// CheckSplit rejects a share that leaves one side without problems.
func (s Source) CheckSplit(train, test int) error {
	if s.TestShare > 0 && (train == 0 || test == 0) {
		return exitcode.Dataf("data.train.test_share %v leaves %s to train on and %d held out: change it or data.train.split_seed", s.TestShare, plural.Count(train, "problem"), test)
	}
	return nil
}

// checkWrong checks the wrong options of a problem.
func checkWrong(c *config.Checker, field string, f Fields) {
	switch {
	case f.Choices != "" || f.ChoiceText != "":
		c.Add(field+".wrong", f.Wrong, "is for problems without %s.choices", field)
	case f.AnswerFrom != "option_text":
		c.Add(field+".wrong", f.Wrong, "needs %s.answer_from option_text: the answer's field is the right option", field)
	case !strings.Contains(f.Question, "{choices}"):
		c.Add(field+".question", f.Question, "must contain {choices}, or the options are not shown")
	}
	for i, path := range f.Wrong {
		if strings.TrimSpace(path) == "" {
			c.Add(fmt.Sprintf("%s.wrong.%d", field, i), path, "must not be empty")
		}
	}
}

// Forms are the forms of answers that a recipe may name for all lines.
var Forms = []string{"any", "integer", "float", "bool", "list", "option"}

// checkFields checks how lines become problems.
func checkFields(c *config.Checker, field string, f Fields) {
	if f.Question == "" {
		c.Add(field+".question", nil, "must not be empty")
	}
	if f.Answer == "" {
		c.Add(field+".answer", nil, "must not be empty")
	}
	if !c.Choice(field+".answer_from", f.AnswerFrom) {
		return
	}
	ofOption := f.AnswerFrom != "text" && f.AnswerFrom != "boxed"
	listed := strings.Contains(f.Question, "{choices}")
	switch {
	case len(f.Wrong) > 0:
		checkWrong(c, field, f)
	case ofOption && f.Choices == "":
		c.Add(field+".answer_from", f.AnswerFrom, "needs %s.choices, the path to the options", field)
	case f.Choices != "" && !ofOption:
		c.Add(field+".choices", f.Choices, "needs %s.answer_from letter, position, number or option_text", field)
	case strings.Count(f.Choices, ",") >= answer.MaxChoices:
		c.Add(field+".choices", f.Choices, "must name at most %d options", answer.MaxChoices)
	case f.Choices != "" && !listed:
		c.Add(field+".question", f.Question, "must contain {choices}, or the options are not shown")
	case f.Choices == "" && listed:
		c.Add(field+".question", f.Question, "has {choices}, but %s.choices is empty", field)
	case f.Choices == "" && f.ChoiceText != "":
		c.Add(field+".choice_text", f.ChoiceText, "is for problems with %s.choices", field)
	case f.AnswerMarker != "" && f.AnswerFrom != "text":
		c.Add(field+".answer_marker", f.AnswerMarker, "is for %s.answer_from text", field)
	}
	if constant, ok := strings.CutPrefix(f.Form, "="); ok && !slices.Contains(Forms, constant) {
		c.Add(field+".form", f.Form, "must be a path, or = and one of %s", strings.Join(Forms, ", "))
	}
	if constant, ok := strings.CutPrefix(f.Level, "="); ok {
		if _, err := strconv.Atoi(constant); err != nil {
			c.Add(field+".level", f.Level, "must be a path, or = and a whole number")
		}
	}
}
