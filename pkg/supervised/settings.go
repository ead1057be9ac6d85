package supervised

import (
	_ "embed"

	"github.com/lathe-rl/lathe/pkg/config"
)

//go:embed settings.go
var source string

var _ = config.Docs[Settings](source)

// Settings name files of conversations, prompts with completions, or instructions with
// outputs. A row takes the first form whose columns it has: messages (role and content);
// conversations (from and value); prompt and completion, both texts or both lists of
// messages; instruction, input and output.
type Settings struct {
	Files      []string `yaml:"files" path:"file"`                   // JSONL, .json, .csv, .parquet or .arrow files, or folders saved by Hugging Face datasets, or patterns, such as train-*.parquet; they must stay until the warm start is done; relative to the recipe's folder unless absolute; $NAME is taken from the environment
	Prompt     string   `yaml:"prompt"`                              // path to the prompt in a row, or a text with paths in braces such as "{question} Think."; empty where a row has messages, conversations, prompt and completion, or instruction, input and output
	Completion string   `yaml:"completion"`                          // the same for the completion, such as answer for the worked solutions of GSM8K; set with prompt
	System     string   `yaml:"system"`                              // system message of rows that have none; empty for none
	Learn      string   `yaml:"learn" choices:"completion,last,all"` // tokens that the loss is of: completion, the completion or every message of the assistant in a conversation; last, the last message of the assistant; all, every token but the first
	Overlong   string   `yaml:"overlong" choices:"refuse,skip"`      // what to do with a row that has more tokens than the policy takes
	Epochs     float64  `yaml:"epochs"`                              // passes over the rows, after which the warm start and the schedule of its learning rate end; warm_start.steps is the most; 0 takes every step
	TestFiles  []string `yaml:"test_files" path:"file"`              // files whose rows are held out: their loss is measured before the first step and after every chunk
	TestShare  float64  `yaml:"test_share"`                          // share of the rows of files to hold out so, drawn by the recipe's seed
}

// SetDefaults are those of data that is present.
func (s *Settings) SetDefaults() { *s = Settings{Learn: Completion, Overlong: Refuse} }

// The choices of Learn and Overlong.
const (
	Completion = "completion"
	Last       = "last"
	All        = "all"
	Refuse     = "refuse"
	Skip       = "skip"
)

// Validate checks the settings that stand at a field.
func (s Settings) Validate(c *config.Checker, field string) {
	if len(s.Files) == 0 {
		c.Add(field+".files", nil, "must name at least one file")
	}
	if (s.Prompt == "") != (s.Completion == "") {
		c.Add(field+".completion", s.Completion, "and %s.prompt %q: set both, or neither", field, s.Prompt)
	}
	c.Choice(field+".learn", s.Learn)
	c.Choice(field+".overlong", s.Overlong)
	c.NotNegative(field+".epochs", s.Epochs)
	if s.TestShare < 0 || s.TestShare >= 1 {
		c.Add(field+".test_share", s.TestShare, "must be 0 or more and below 1")
	} else if s.TestShare > 0 && len(s.TestFiles) > 0 {
		c.Add(field+".test_share", s.TestShare, "and %s.test_files: set one of them", field)
	}
}
